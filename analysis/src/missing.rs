//! Which evidence would settle what is open, and how to get it without hanging.
//!
//! No command here opens a path of a mounted filesystem, and each that might wait has a timeout.

use crate::case::Case;
use crate::diagnosis::{Evidence, HolderStatus, Missing, Trust};
use crate::graph::{Key, Resource, WaitGraph};
use crate::holders::is_whole;
use crate::processes::Process;
use crate::rootcause::Ranked;

/// Findings that evidence is asked for.
const FINDINGS: usize = 3;

/// What a chain lacks where it ends.
pub struct Gap {
    /// What would continue it.
    pub wanted: Missing,
    /// It goes on in another process: what stands last is not the cause, only the last that is known.
    pub elsewhere: bool,
}

impl Gap {
    /// As a reason to believe the finding less.
    pub fn as_evidence(&self) -> Option<Evidence> {
        self.elsewhere.then(|| Evidence {
            kind: "missing".into(),
            text: format!("the chain ends here for lack of evidence: {} would continue it", self.wanted.what),
            source: None,
            against: true,
        })
    }
}

/// What to fetch next.
pub fn missing(case: &Case<'_>, graph: &WaitGraph, findings: &[Ranked]) -> Vec<Missing> {
    let mut wanted: Vec<Missing> = Vec::new();
    for ranked in findings.iter().take(FINDINGS) {
        if let Some(gap) = gap(case, &graph.resources, &ranked.path) {
            add(&mut wanted, gap.wanted);
        }
        if let Some(core) = core_for_holder(case, &ranked.path) {
            add(&mut wanted, core);
        }
        if let Some(mounts) = mounts_for(case, &graph.resources, &ranked.path) {
            add(&mut wanted, mounts);
        }
    }
    for (n, snap) in case.snaps.iter().enumerate() {
        let process = &case.processes.all[case.processes.of_snap[n]];
        if !snap.s.complete && process.primary == Some(n) {
            add(
                &mut wanted,
                Missing {
                    what: format!("the whole dump of {}", process.label()),
                    why: "a part of it is cut off: who holds the locks may be in the part that is missing".into(),
                    command: Some(dump_command(&snap.role, process.pid, &process.name)),
                },
            );
        }
    }
    wanted
}

/// What would continue a chain beyond its last node, if it ends early.
pub fn gap(case: &Case<'_>, resources: &[Resource], path: &[Key]) -> Option<Gap> {
    let &end = path.last()?;
    let last = path.iter().rev().copied().find(|key| !matches!(key, Key::Resource(_)))?;
    match (last, end) {
        (_, Key::Lock(s, l)) => lock_without_holder(case, s, l),
        (_, Key::Process(p)) => Some(Gap { wanted: process_without_dump(case, p), elsewhere: true }),
        (Key::Goroutine(s, i), Key::Goroutine(..)) => call_without_answer(case, s, i),
        (Key::Goroutine(s, i), Key::Resource(r)) => outside(case, resources.get(r)?, s, i),
        (Key::Process(p), Key::Resource(r)) if resources.get(r)?.kind == "dbus" => {
            Some(Gap { wanted: bus_owner(&case.processes.all[p].label()), elsewhere: true })
        }
        _ => None,
    }
}

fn lock_without_holder(case: &Case<'_>, s: usize, l: usize) -> Option<Gap> {
    if case.holdings[s][l].status == HolderStatus::Leaked {
        return None;
    }
    let process = &case.processes.all[case.processes.of_snap[s]];
    let why = format!("it proves who holds {}", case.locks[s][l].label());
    let wanted = if is_whole(&case.snaps[s]) {
        Missing { what: format!("a core of {}", process.label()), why, command: Some(core_command(process)) }
    } else {
        let command = Some(dump_command(&process.role, process.pid, &process.name));
        Missing { what: format!("a complete dump of {}", process.label()), why, command }
    };
    Some(Gap { wanted, elsewhere: false })
}

/// The other side of a call, or a child, that nothing was given of.
fn call_without_answer(case: &Case<'_>, s: usize, i: usize) -> Option<Gap> {
    let snap = &case.snaps[s];
    let g = snap.goroutine(i);
    if let Some(call) = snap.bound.rpc_client(snap.s, g) {
        let role = call.rule.server_role.clone().unwrap_or_else(|| "the server".into());
        let why = format!("it should answer {}", call.name());
        return Some(Gap { wanted: dump_of(case, &role, why), elsewhere: true });
    }
    crate::links::waits_for_child(snap, i)
        .map(|_| Gap { wanted: child_of(case, s, "a child process"), elsewhere: true })
}

/// What a rule says that a goroutine waits for outside: another process, or the kernel.
fn outside(case: &Case<'_>, resource: &Resource, s: usize, i: usize) -> Option<Gap> {
    let snap = &case.snaps[s];
    let rule = snap.bound.external(snap.s, snap.goroutine(i)).map(|found| found.rule);
    let peer = rule.and_then(|rule| rule.peer.clone());
    match resource.kind.as_str() {
        "exec" | "child-process" => {
            let name = peer.map_or("a child process".into(), |peer| format!("the {peer} process"));
            Some(Gap { wanted: child_of(case, s, &name), elsewhere: true })
        }
        "dbus" => {
            let process = case.processes.all[case.processes.of_snap[s]].label();
            Some(Gap { wanted: bus_owner(&process), elsewhere: true })
        }
        "ttrpc" | "grpc" | "http" | "csi" | "plugin" | "unix-socket" => {
            let peer = peer.unwrap_or_else(|| "the process at the other end of the socket".into());
            let why = format!("{} does not come", resource.label);
            Some(Gap { wanted: dump_of(case, &peer, why), elsewhere: true })
        }
        _ => {
            // The kernel is where it ends, but which device or server it waits for only its own stack tells.
            let process = &case.processes.all[case.processes.of_snap[s]];
            let blocked = snap.waits[i].primitive == crate::waits::Primitive::Syscall;
            blocked.then(|| Gap { wanted: kernel_stacks(process), elsewhere: false })
        }
    }
}

fn kernel_stacks(process: &Process) -> Missing {
    Missing {
        what: format!("the kernel stacks of {}'s threads", process.label()),
        why: "they tell which filesystem, device or server the system call waits for".into(),
        command: Some(proc_command(process.pid, &process.name)),
    }
}

fn process_without_dump(case: &Case<'_>, p: usize) -> Missing {
    let process = &case.processes.all[p];
    let label = process.label();
    if matches!(process.role.as_str(), "systemd" | "dbus-daemon") {
        let pid = process.pid.map_or("1".into(), |pid| pid.to_string());
        return Missing {
            what: format!("what {label} does: its kernel stack and a core, and whether its bus answers"),
            why: "it is alive but does not answer; its stack and its bus's cookie counter tell why".into(),
            command: Some(format!(
                "cat /proc/{pid}/stack /proc/{pid}/wchan; timeout 5 busctl --system --no-pager --timeout=3 list; timeout 5 busctl --timeout=3 call org.freedesktop.systemd1 /org/freedesktop/systemd1 org.freedesktop.DBus.Peer Ping; timeout -s KILL 30 gcore -o /tmp/core {pid}"
            )),
        };
    }
    // A plugin only calls: what it calls is in its daemon.
    let rules = case.rules.rpc_rules().filter(|rule| rule.client_role.as_deref() == Some(process.role.as_str()));
    let daemons: Vec<&str> = rules.filter_map(|rule| rule.server_role.as_deref()).collect();
    if process.role == "cni-plugin" || !daemons.is_empty() {
        let stem = process.name.split(['-', '_']).next().unwrap_or(&process.name);
        return Missing {
            what: format!("a goroutine dump of the daemon that {label} calls, and the kernel stack of {label}"),
            why: format!("{label} waits for an answer, and most plugins ask a daemon of their own ({stem}…)"),
            command: Some(format!(
                "{}; kill -QUIT DAEMON_PID   # ends the daemon; take its debug/pprof/goroutine?debug=2 instead if it serves one",
                proc_command(process.pid, &process.name)
            )),
        };
    }
    Missing {
        what: format!("a stack dump of {label}"),
        why: "the chain goes on in it".into(),
        command: Some(dump_command(&process.role, process.pid, &process.name)),
    }
}

/// The child that somebody waits for: who it is stands in `ps`, what it does in its kernel stack.
fn child_of(case: &Case<'_>, s: usize, child: &str) -> Missing {
    let parent = case.processes.all[case.processes.of_snap[s]].label();
    let of = case.processes.all[case.processes.of_snap[s]].pid.map_or("PPID".into(), |pid| pid.to_string());
    Missing {
        what: format!("{child} that {parent} waits for: its line in ps and its kernel stacks"),
        why: "the chain goes on in it".into(),
        command: Some(format!(
            "timeout 10 ps -eo pid,ppid,stat,wchan:40,lstart,etime,comm,args; for p in $(pgrep -P {of}); do for t in /proc/$p/task/*; do echo \"== $t\"; cat $t/stack $t/wchan $t/syscall; done; done"
        )),
    }
}

fn bus_owner(asks: &str) -> Missing {
    Missing {
        what: "who owns the bus, and whether it still answers".into(),
        why: format!("{asks} waits for an answer over D-Bus"),
        command: Some(
            "timeout 10 ps -eo pid,ppid,stat,wchan:40,lstart,etime,comm,args; timeout 5 busctl --system --no-pager --timeout=3 list; cat /proc/1/stack".into(),
        ),
    }
}

/// A dump of a role; of the process itself where it is known.
fn dump_of(case: &Case<'_>, role: &str, why: String) -> Missing {
    if role.contains(' ') {
        let command = Some("timeout 10 ss -xp   # who is at the other end of the socket".into());
        return Missing { what: format!("a stack dump of {role}"), why, command };
    }
    let mut of_role = case.processes.all.iter().filter(|process| process.role == role || process.name == role);
    let (what, pid) = match (of_role.next(), of_role.next()) {
        (Some(only), None) => (only.label(), only.pid),
        _ => (role.to_string(), None),
    };
    Missing { what: format!("a stack dump of {what}"), why, command: Some(dump_command(role, pid, role)) }
}

/// A core settles who holds the chain's lock where reading the dump does not.
fn core_for_holder(case: &Case<'_>, path: &[Key]) -> Option<Missing> {
    let (s, l) = path.iter().find_map(|key| if let Key::Lock(s, l) = key { Some((*s, *l)) } else { None })?;
    let candidate = case.holdings[s][l].holder.as_ref()?;
    if candidate.trust >= Trust::Strong || case.snaps[s].s.memory.is_some() {
        return None;
    }
    let process = &case.processes.all[case.processes.of_snap[s]];
    Some(Missing {
        what: format!("a core of {}", process.label()),
        why: format!("it proves the holder of {} by its pending Unlock", case.locks[s][l].label()),
        command: Some(core_command(process)),
    })
}

/// A chain that ends in a filesystem, without the table that tells which.
fn mounts_for(case: &Case<'_>, resources: &[Resource], path: &[Key]) -> Option<Missing> {
    let Some(Key::Resource(r)) = path.last() else { return None };
    let mount = path.windows(2).any(|pair| matches!(pair[0], Key::Thread(_) | Key::Process(_)))
        && matches!(
            resources.get(*r)?.kind.as_str(),
            "fuse" | "nfs" | "cifs" | "ceph" | "9p" | "overlay" | "ext4" | "xfs" | "btrfs" | "disk" | "mount"
        );
    (mount && case.evidence.node.mounts.is_empty()).then(|| Missing {
        what: "the table of mounts".into(),
        why: format!("it names the server or device behind {}", resources[*r].label),
        command: Some("cat /proc/self/mountinfo   # not df, which asks every filesystem and would hang".into()),
    })
}

fn add(wanted: &mut Vec<Missing>, missing: Missing) {
    if !wanted.iter().any(|m| m.what == missing.what) {
        wanted.push(missing);
    }
}

fn core_command(process: &Process) -> String {
    let pid = process.pid.map_or_else(|| format!("$(pidof {})", plain(&process.name)), |pid| pid.to_string());
    format!("timeout -s KILL 60 gcore -o /tmp/core {pid}")
}

fn proc_command(pid: Option<u32>, name: &str) -> String {
    let pid = pid.map_or_else(|| format!("$(pidof -s {})", plain(name)), |pid| pid.to_string());
    format!("for t in /proc/{pid}/task/*; do echo \"== $t\"; cat $t/stack $t/wchan $t/syscall; done")
}

/// A process's name as a shell may see it.
fn plain(name: &str) -> String {
    let kept: String = name.chars().take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')).collect();
    if kept.is_empty() { "PROGRAM".into() } else { kept }
}

/// The command that makes a process print its stacks without ending it; else what the kernel says of its threads.
fn dump_command(role: &str, pid: Option<u32>, name: &str) -> String {
    let of = |program: &str| pid.map_or_else(|| format!("$(pidof {program})"), |pid| pid.to_string());
    match role {
        "dockerd" => format!("kill -USR1 {}   # writes goroutine-stacks-*.log under /var/run/docker", of(role)),
        "containerd" => format!("kill -USR1 {}   # writes to its log and to containerd.PID.stacks.log", of(role)),
        "containerd-shim" => {
            let pid = pid.map_or_else(|| "SHIM_PID".into(), |pid| pid.to_string());
            format!("kill -USR1 {pid}   # its dump goes to containerd's log")
        }
        "crio" => format!("kill -USR1 {}   # writes /tmp/crio-goroutine-stacks-*.log", of(role)),
        "kubelet" => "timeout 10 kubectl get --raw \"/api/v1/nodes/NODE/proxy/debug/pprof/goroutine?debug=2\"".into(),
        _ => proc_command(pid, name),
    }
}
