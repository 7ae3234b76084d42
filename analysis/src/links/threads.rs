//! Goroutine to thread, process to thread, thread to what the kernel holds it in.

use super::external;
use crate::case::Case;
use crate::describe;
use crate::diagnosis::{Evidence, Node, NodeId, Source, Trust};
use crate::graph::{Key, Link, Resource};
use crate::kernel::KernelRule;
use crate::native;
use crate::waits::Primitive;
use holdup_parsers::evidence::ThreadStack;
use rustc_hash::FxHashMap;

/// Threads by process.
pub struct Threads {
    by_pid: FxHashMap<(usize, u32), Vec<usize>>,
}

impl Threads {
    /// Indexes `NodeEvidence::threads`.
    pub fn of(case: &Case<'_>) -> Self {
        let mut by_pid: FxHashMap<(usize, u32), Vec<usize>> = FxHashMap::default();
        for (t, thread) in case.evidence.node.threads.iter().enumerate() {
            if let Some(pid) = thread.pid.or(thread.tid) {
                by_pid.entry((case.processes.host_of(thread), pid)).or_default().push(t);
            }
        }
        Threads { by_pid }
    }

    fn of_pid(&self, host: usize, pid: Option<u32>) -> &[usize] {
        pid.and_then(|pid| self.by_pid.get(&(host, pid))).map_or(&[], |list| list)
    }

    /// Whether the kernel holds one of the process's threads, or somebody stopped it.
    pub fn is_stuck(&self, case: &Case<'_>, p: usize) -> bool {
        let process = &case.processes.all[p];
        let row = process.row.map(|n| &case.evidence.node.processes[n]);
        row.is_some_and(|r| is_held(r.state))
            || self.of_pid(process.host, process.pid).iter().any(|&t| is_held(case.evidence.node.threads[t].state))
    }
}

/// Uninterruptible, or stopped by a signal or a tracer.
fn is_held(state: Option<char>) -> bool {
    matches!(state, Some('D' | 'T' | 't'))
}

/// The threads in uninterruptible sleep for a reason that is not everyday.
pub fn stuck(case: &Case<'_>) -> Vec<Key> {
    let threads = case.evidence.node.threads.iter().enumerate();
    threads
        .filter(|(_, thread)| thread.state == Some('D') && !thread.native && !thread.frames.is_empty())
        .filter(|(_, thread)| case.kernel.of_stack(&thread.frames).is_some_and(|(rule, _)| !rule.idle))
        .map(|(t, _)| Key::Thread(t))
        .collect()
}

/// A thread as the contract prints it.
pub fn thread_node(case: &Case<'_>, t: usize) -> Node {
    let thread = &case.evidence.node.threads[t];
    let comm = thread.comm.clone().unwrap_or_else(|| "thread".into());
    let tid = thread.tid.or(thread.pid);
    let name = case.processes.of_thread(thread).map(|p| case.processes.all[p].label());
    let state = match thread.state {
        Some('D') => ", state D: uninterruptible".to_string(),
        Some(c) => format!(", state {c}"),
        None => String::new(),
    };
    let top = telling_function(case, t).map_or(String::new(), |f| format!(" in {f}"));
    let label = match (name, tid) {
        (Some(name), Some(tid)) => format!("{name} thread {tid} ({comm}{state}){top}"),
        (None, Some(tid)) => format!("{comm} {tid}{state}{top}"),
        _ => format!("{comm}{state}{top}"),
    };
    Node {
        kind: "thread".into(),
        snapshot: None,
        id: tid.map_or(NodeId::Name(comm), |t| NodeId::Number(u64::from(t))),
        label,
    }
}

/// The frame that says most: the one that a rule knows, else the innermost outside the scheduler.
pub fn telling_function(case: &Case<'_>, t: usize) -> Option<String> {
    let thread = &case.evidence.node.threads[t];
    if let Some((_, n)) = case.kernel.of_stack(&thread.frames) {
        return thread.frames.get(n).map(|f| f.function.clone());
    }
    if thread.native {
        return native::own_function(thread);
    }
    let scheduler = |f: &str| f.contains("schedule") || f.starts_with("__switch_to");
    let frame = thread.frames.iter().find(|f| !scheduler(&f.function)).or(thread.frames.first());
    frame.map(|f| f.function.clone()).or_else(|| thread.wchan.clone())
}

/// The thread that runs a goroutine's system call.
pub fn of_goroutine(case: &Case<'_>, threads: &Threads, snap: usize, i: usize) -> Option<(Key, Link)> {
    let s = &case.snaps[snap];
    let g = s.goroutine(i);
    if s.waits[i].primitive != Primitive::Syscall {
        return None;
    }
    let process = &case.processes.all[case.processes.of_snap[snap]];
    let own = threads.of_pid(process.host, process.pid);
    if let Some(tid) = g.tid
        && let Some(&t) = own.iter().find(|&&t| case.evidence.node.threads[t].tid == Some(tid))
    {
        let evidence = vec![thread_evidence(case, t, "the core says that this thread runs it".into())];
        return Some((Key::Thread(t), Link { why: "thread", trust: Trust::Proven, evidence }));
    }
    let words: Vec<u64> = s.waits[i]
        .syscall_frame
        .map(|n| s.s.args(g, &s.s.frames_of(g)[n]))
        .map(|args| if args.iter().any(|a| a.stale) { Vec::new() } else { args.iter().map(|a| a.value).collect() })
        .unwrap_or_default();
    let name = describe::syscall_name(s, i);
    let mut matching: Vec<(usize, bool)> = Vec::new();
    for &t in own {
        let thread = &case.evidence.node.threads[t];
        let Some(number) = thread.syscall else { continue };
        let same_call = match words.first() {
            Some(&trap) => trap == number,
            None => name.as_deref().is_some_and(|n| syscall_number(n) == Some(number)),
        };
        if !same_call {
            continue;
        }
        let same_args = words.len() > 2 && words[1..3].iter().zip(&thread.syscall_args).all(|(a, b)| a == b);
        matching.push((t, same_args));
    }
    matching.sort_by_key(|&(t, same)| (!same, !is_held(case.evidence.node.threads[t].state), t));
    let &(t, same_args) = matching.first()?;
    let exact = matching.iter().filter(|m| m.1).count();
    let trust = match (exact, matching.len(), same_args) {
        (1, _, true) | (0, 1, _) => Trust::Strong,
        _ => Trust::Likely,
    };
    let call = name.unwrap_or_else(|| "the same system call".into());
    let evidence = vec![thread_evidence(case, t, format!("a thread of the process sits in {call}"))];
    Some((Key::Thread(t), Link { why: "thread", trust, evidence }))
}

/// The kernel's numbers of the calls that hang most (`arch/x86/entry/syscalls/syscall_64.tbl`).
fn syscall_number(name: &str) -> Option<u64> {
    Some(match name {
        "read" => 0,
        "write" => 1,
        "open" => 2,
        "stat" => 4,
        "fstat" => 5,
        "lstat" => 6,
        "recvfrom" => 45,
        "recvmsg" => 47,
        "sendto" => 44,
        "sendmsg" => 46,
        "fsync" => 74,
        "fdatasync" => 75,
        "flock" => 73,
        "rename" => 82,
        "mkdir" => 83,
        "unlink" => 87,
        "statfs" => 137,
        "mount" => 165,
        "umount2" | "unmount" => 166,
        "getdents64" | "getdents" => 217,
        "waitid" => 247,
        "wait4" => 61,
        "openat" => 257,
        "mkdirat" => 258,
        "newfstatat" | "fstatat" => 262,
        "unlinkat" => 263,
        "renameat" => 264,
        "statx" => 332,
        "clone" => 56,
        _ => return None,
    })
}

/// What a process without a useful dump waits for, as its threads show it.
pub fn of_process(case: &Case<'_>, threads: &Threads, p: usize, resources: &mut Vec<Resource>) -> Vec<(Key, Link)> {
    let process = &case.processes.all[p];
    let row = process.row.map(|n| &case.evidence.node.processes[n]);
    let held: Vec<usize> = threads
        .of_pid(process.host, process.pid)
        .iter()
        .copied()
        .filter(|&t| case.evidence.node.threads[t].state == Some('D'))
        .collect();
    if let Some(&t) = held.first() {
        let evidence = vec![thread_evidence(case, t, "the kernel holds a thread of it in state D".into())];
        return vec![(Key::Thread(t), Link { why: "kernel", trust: Trust::Strong, evidence })];
    }
    if let Some(row) = row {
        let source = row.place.map(|p| place_source(p.input, p.line, p.line));
        if matches!(row.state, Some('T' | 't')) {
            let resource = Resource {
                kind: "stopped".into(),
                label: format!("{} is stopped by a signal or a tracer (state T)", process.label()),
                remedy: Some(format!("find out who stopped it, then continue it: kill -CONT {}", row.pid)),
                host: process.host,
            };
            let evidence = vec![Evidence {
                kind: "ps".into(),
                text: "ps shows it in state T: it runs nothing and answers nobody".into(),
                source,
                against: false,
            }];
            let link = Link { why: "kernel", trust: Trust::Strong, evidence };
            return vec![(Key::Resource(external::resource_index(resources, resource)), link)];
        }
        if row.state == Some('D')
            && let Some(rule) = row.wchan.as_deref().and_then(|w| case.kernel.of_function(w))
        {
            let evidence = vec![Evidence {
                kind: "ps".into(),
                text: format!("ps shows it in state D, in {}", row.wchan.as_deref().unwrap_or("?")),
                source,
                against: false,
            }];
            let resource = resource_of(case, rule, process.host);
            let link = Link { why: "kernel", trust: Trust::Strong, evidence };
            return vec![(Key::Resource(external::resource_index(resources, resource)), link)];
        }
    }
    Vec::new()
}

/// What a thread waits for: a lock of its C library, what its own kernel stack shows, or what the kernel holds it in.
pub fn onward(case: &Case<'_>, threads: &Threads, t: usize, resources: &mut Vec<Resource>) -> Option<(Key, Link)> {
    let thread = &case.evidence.node.threads[t];
    if !thread.native {
        return resource(case, t, resources);
    }
    native::waits(case, t).or_else(|| {
        let same = |&&other: &&usize| {
            let other = &case.evidence.node.threads[other];
            !other.native && other.tid == thread.tid && !other.frames.is_empty()
        };
        let kernel = *threads.of_pid(case.processes.host_of(thread), thread.pid).iter().find(same)?;
        let evidence = vec![thread_evidence(case, kernel, "the kernel's stack of the same thread".into())];
        Some((Key::Thread(kernel), Link { why: "kernel", trust: Trust::Strong, evidence }))
    })
}

/// What the kernel holds a thread in.
pub fn resource(case: &Case<'_>, t: usize, resources: &mut Vec<Resource>) -> Option<(Key, Link)> {
    let thread = &case.evidence.node.threads[t];
    let (rule, n) = match case.kernel.of_stack(&thread.frames) {
        Some(found) => found,
        None => (case.kernel.of_function(thread.wchan.as_deref()?)?, 0),
    };
    let why = if rule.kind == "mount" { "mount" } else { "kernel" };
    let function = thread.frames.get(n).map_or(thread.wchan.clone().unwrap_or_default(), |f| f.function.clone());
    let mut evidence =
        vec![thread_evidence(case, t, format!("its kernel stack has {function}: it waits for {}", rule.waits_for))];
    if let Some(frame) = thread.frames.get(n)
        && let Some(source) = &mut evidence[0].source
    {
        source.line_start = Some(frame.line);
        source.line_end = Some(frame.line);
    }
    let resource = resource_of(case, rule, case.processes.host_of(thread));
    evidence.extend(mount_evidence(case, rule, case.processes.host_of(thread)));
    let trust = if thread.frames.is_empty() { Trust::Likely } else { Trust::Strong };
    Some((Key::Resource(external::resource_index(resources, resource)), Link { why, trust, evidence }))
}

fn resource_of(case: &Case<'_>, rule: &KernelRule, host: usize) -> Resource {
    let mounts = mounts_of(case, rule, host);
    let at = match mounts.as_slice() {
        [] => String::new(),
        [one] => {
            format!(", {} mounted at {}", case.evidence.node.mounts[*one].device, case.evidence.node.mounts[*one].point)
        }
        several => {
            let points: Vec<&str> =
                several.iter().take(4).map(|&m| case.evidence.node.mounts[m].point.as_str()).collect();
            format!(", one of {}", points.join(", "))
        }
    };
    Resource {
        kind: rule.resource.clone(),
        label: format!("{} ({}{at})", rule.waits_for, rule.resource),
        remedy: rule.remedy.clone(),
        host,
    }
}

/// Mounts of the kind that a rule is about.
fn mounts_of(case: &Case<'_>, rule: &KernelRule, host: usize) -> Vec<usize> {
    if rule.kind != "mount" {
        return Vec::new();
    }
    let wanted = rule.resource.as_str();
    let mounts = &case.evidence.node.mounts;
    let fits = |fstype: &str| {
        // fusectl, the control filesystem, serves no files.
        fstype != "fusectl"
            && (fstype == wanted
                || fstype.starts_with(wanted)
                || wanted == "disk" && matches!(fstype, "ext4" | "xfs" | "btrfs"))
    };
    let here = |m: usize| mounts[m].place.is_none_or(|place| case.processes.hosts.of_input(place.input) == host);
    let mut found: Vec<usize> = (0..mounts.len()).filter(|&m| fits(&mounts[m].fstype) && here(m)).collect();
    // The same device bound to many places is one filesystem: its shortest mount point names it.
    found.sort_by_key(|&m| mounts[m].point.len());
    let mut devices = std::collections::HashSet::new();
    found.retain(|&m| devices.insert(mounts[m].device.clone()));
    found
}

fn mount_evidence(case: &Case<'_>, rule: &KernelRule, host: usize) -> Option<Evidence> {
    let mounts = mounts_of(case, rule, host);
    let [only] = mounts[..] else { return None };
    let mount = &case.evidence.node.mounts[only];
    let place = mount.place?;
    Some(Evidence {
        kind: "mount".into(),
        text: format!("the only {} mount is {} at {}", mount.fstype, mount.device, mount.point),
        source: Some(place_source(place.input, place.line, place.line)),
        against: false,
    })
}

fn thread_evidence(case: &Case<'_>, t: usize, text: String) -> Evidence {
    let thread: &ThreadStack = &case.evidence.node.threads[t];
    let source = thread.place.map(|p| place_source(p.input, p.line, thread.last_line.max(p.line)));
    Evidence { kind: "kernel-stack".into(), text, source, against: false }
}

fn place_source(input: u32, first: u32, last: u32) -> Source {
    Source { input: input as usize, line_start: Some(first), line_end: Some(last), address: None }
}
