//! Parents that wait for a child process, and what the child waits for.

use super::threads::Threads;
use crate::case::Case;
use crate::describe;
use crate::diagnosis::{Evidence, Source, Trust};
use crate::graph::{Key, Link};
use crate::snap::Snap;

/// How a goroutine waits for a child process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChildWait {
    /// Its pid, if the system call's arguments show it (up to Go 1.22; later a pidfd stands there).
    pub pid: Option<u32>,
    /// Index of the frame that says so.
    pub frame: usize,
}

/// Whether goroutine `i` waits for a child process to end.
pub fn waits_for_child(s: &Snap<'_>, i: usize) -> Option<ChildWait> {
    let g = s.goroutine(i);
    let frames = s.s.frames_of(g);
    let frame = frames.iter().position(|f| {
        let name = s.s.function(f.site);
        matches!(
            name,
            "os.(*Process).wait"
                | "os.(*Process).Wait"
                | "os.(*Process).blockUntilWaitable"
                | "os/exec.(*Cmd).Wait"
                | "os.(*Process).pidfdWait"
                | "os/exec.(*Cmd).Run"
                | "os/exec.(*Cmd).awaitGoroutines"
        )
    })?;
    if frame > 10 || !s.waits[i].primitive.is_blocked() {
        return None;
    }
    let pid = s.waits[i].syscall_frame.and_then(|n| {
        let args: Vec<u64> = s.s.args(g, &frames[n]).iter().take(3).filter(|a| !a.stale).map(|a| a.value).collect();
        match args[..] {
            // waitid(P_PID, pid, …): amd64 0xf7, arm64 0x5f; P_PID is 1, P_PIDFD 3 (linux/wait.h).
            [0xf7 | 0x5f, 1, pid] => u32::try_from(pid).ok(),
            // wait4(pid, …): amd64 0x3d, arm64 0x104.
            [0x3d | 0x104, pid, _] => u32::try_from(pid).ok().filter(|&p| p < 1 << 30),
            _ => None,
        }
    });
    Some(ChildWait { pid, frame })
}

/// The process that a goroutine waits for.
pub fn child(case: &Case<'_>, snap: usize, i: usize) -> Option<(Key, Link)> {
    let s = &case.snaps[snap];
    let g = s.goroutine(i);
    let known = s.bound.external(s.s, g).filter(|found| found.rule.resource == "exec");
    let wait =
        waits_for_child(s, i).or_else(|| known.as_ref().map(|found| ChildWait { pid: None, frame: found.frame }))?;
    let line = s.s.frames_of(g).get(wait.frame).map_or(g.line, |f| f.line);
    if let Some(pid) = wait.pid
        && let Some(&p) = case.processes.by_pid.get(&(case.processes.all[case.processes.of_snap[snap]].host, pid))
    {
        let text = format!("waits for process {pid} to end");
        let mut evidence = vec![describe::frame_evidence(s, "exec", text, line)];
        evidence.extend(row_evidence(case, p));
        return Some((Key::Process(p), Link { why: "exec", trust: Trust::Strong, evidence }));
    }
    let children = possible_children(case, snap);
    let wanted: Vec<usize> = children.iter().copied().filter(|&c| named_in_stack(case, s, i, c)).collect();
    let (pick, trust) = match (wanted.as_slice(), children.as_slice()) {
        ([only], _) => (*only, Trust::Strong),
        ([], [only]) => (*only, Trust::Likely),
        ([first, ..], _) => (*first, Trust::Guess),
        _ => return None,
    };
    let mut evidence = vec![describe::frame_evidence(s, "exec", "waits for a child process to end".into(), line)];
    evidence.extend(row_evidence(case, pick));
    Some((Key::Process(pick), Link { why: "exec", trust, evidence }))
}

/// The processes in `ps` that this one may have started. Where its pid is not known, those whose parent has its role.
fn possible_children(case: &Case<'_>, snap: usize) -> Vec<usize> {
    let own = &case.processes.all[case.processes.of_snap[snap]];
    let is_child = |c: usize| {
        let Some(parent) = case.processes.all[c].ppid.filter(|_| case.processes.all[c].host == own.host) else {
            return false;
        };
        match own.pid {
            Some(pid) => pid == parent,
            None => {
                case.processes.by_pid.get(&(own.host, parent)).is_some_and(|&p| case.processes.all[p].role == own.role)
            }
        }
    };
    (0..case.processes.all.len()).filter(|&c| is_child(c) && !is_service(case, c)).collect()
}

/// Long-lived helpers that a daemon starts are not what a request waits for.
fn is_service(case: &Case<'_>, p: usize) -> bool {
    matches!(case.processes.all[p].role.as_str(), "containerd" | "containerd-shim" | "dockerd" | "systemd")
}

/// Whether the waiting stack speaks of that program: `go-runc.(*Runc).Exec` of `runc exec`, `invoke.ExecPlugin` of a CNI plugin.
fn named_in_stack(case: &Case<'_>, s: &Snap<'_>, i: usize, p: usize) -> bool {
    let process = &case.processes.all[p];
    let frames = s.s.frames_of(s.goroutine(i));
    let mentions = |word: &str| {
        frames.iter().any(|f| {
            let function = s.function(f.site);
            !function.standard && function.family.to_ascii_lowercase().contains(word)
        })
    };
    match process.role.as_str() {
        "cni-plugin" => mentions("cni"),
        _ => process.name.len() >= 3 && mentions(&process.name.to_ascii_lowercase()),
    }
}

fn row_evidence(case: &Case<'_>, p: usize) -> Option<Evidence> {
    let row = &case.evidence.node.processes[case.processes.all[p].row?];
    let place = row.place?;
    let state = row.state.map_or(String::new(), |c| format!(", state {c}"));
    let wchan = row.wchan.as_deref().filter(|w| *w != "-").map_or(String::new(), |w| format!(", in {w}"));
    let command: String = row.command.chars().take(120).collect();
    Some(Evidence {
        kind: "ps".into(),
        text: format!("process {} is still there{state}{wchan}: {command}", row.pid),
        source: Some(Source {
            input: place.input as usize,
            line_start: Some(place.line),
            line_end: Some(place.line),
            address: None,
        }),
        against: false,
    })
}

/// What a process with a dump of its own is stuck in: the goroutine that serves its purpose.
pub fn inside(case: &Case<'_>, p: usize, snap: usize) -> Option<(Key, Link)> {
    let s = &case.snaps[snap];
    // A command's work is done by its main goroutine; what that waits for is what the command waits for.
    let main = *case.by_id[snap].get(&1)?;
    let stuck = |i: usize| s.idle(i).is_none() && s.waits[i].primitive.is_blocked();
    let is_command = matches!(case.processes.all[p].role.as_str(), "runc" | "cni-plugin" | "unknown");
    let pick = if is_command && stuck(main) {
        main
    } else {
        (0..s.s.goroutines.len())
            .filter(|&i| stuck(i))
            .filter(|&i| {
                waits_for_child(s, i).is_some()
                    || s.bound.external(s.s, s.goroutine(i)).is_some()
                    || s.waits[i].primitive.is_exclusive_lock()
            })
            .max_by_key(|&i| (s.goroutine(i).minutes, std::cmp::Reverse(i)))?
    };
    let doing = describe::doing(s, pick);
    let text = format!("its goroutine waits in {}: {}", doing.function, doing.blocked_in);
    let evidence = vec![describe::frame_evidence(s, "frame", text, doing.line)];
    Some((Key::Goroutine(snap, pick), Link { why: "process", trust: Trust::Likely, evidence }))
}

/// A process that only sleeps, whose child the kernel holds or somebody stopped, waits for that child.
pub fn stuck_child(case: &Case<'_>, threads: &Threads, p: usize) -> Option<(Key, Link)> {
    let children = children_of(case, p);
    let pick = children.into_iter().find(|&c| !is_service(case, c) && threads.is_stuck(case, c))?;
    let evidence = row_evidence(case, pick).into_iter().collect();
    Some((Key::Process(pick), Link { why: "exec", trust: Trust::Likely, evidence }))
}

/// A daemon's short-lived command that is still there is what it waits for, whatever that waits for.
pub fn lingering_child(case: &Case<'_>, p: usize) -> Option<(Key, Link)> {
    let children = children_of(case, p);
    let own = case.processes.all[p].role.as_str();
    let command = |c: &usize| matches!(case.processes.all[*c].role.as_str(), "runc" | "cni-plugin");
    let pick = children.into_iter().find(|c| command(c) && case.processes.all[*c].role != own)?;
    let evidence = row_evidence(case, pick).into_iter().collect();
    Some((Key::Process(pick), Link { why: "exec", trust: Trust::Likely, evidence }))
}

fn children_of(case: &Case<'_>, p: usize) -> Vec<usize> {
    let process = &case.processes.all[p];
    process.pid.and_then(|pid| case.processes.children.get(&(process.host, pid))).cloned().unwrap_or_default()
}

/// Whom a process without a dump is known to call. That who should answer is itself stopped or held makes it likely.
pub fn peer(case: &Case<'_>, threads: &Threads, p: usize) -> Option<(Key, Link)> {
    let process = &case.processes.all[p];
    let command = process.row.map_or("", |n| case.evidence.node.processes[n].command.as_str());
    for peer in case.peers.of(&process.name, &process.role, command) {
        let servers: Vec<usize> = (0..case.processes.all.len())
            .filter(|&q| {
                q != p
                    && case.processes.all[q].host == process.host
                    && (case.processes.all[q].name == peer.server || case.processes.all[q].role == peer.server)
            })
            .collect();
        let stuck = servers.iter().copied().find(|&q| threads.is_stuck(case, q));
        let Some(server) = stuck.or(servers.first().copied()) else { continue };
        let trust = if stuck.is_some() { Trust::Likely } else { Trust::Guess };
        let text = format!("{} ({})", peer.why, peer.over);
        let mut evidence: Vec<Evidence> = row_evidence(case, p).map(|e| Evidence { text, ..e }).into_iter().collect();
        evidence.extend(row_evidence(case, server));
        let why = if peer.over == "dbus" { "bus" } else { "rpc" };
        return Some((Key::Process(server), Link { why, trust, evidence }));
    }
    None
}
