//! What a goroutine waits for outside its process: the kernel, a bus, a file.

use crate::case::Case;
use crate::describe;
use crate::diagnosis::{Evidence, Source, Trust};
use crate::graph::{Key, Link, Resource};
use crate::snap::Snap;

/// System calls that work on files and return at once on a healthy disk.
const FILE_CALLS: &[&str] = &[
    "chmod",
    "chown",
    "close",
    "creat",
    "faccessat",
    "fchmodat",
    "fchownat",
    "fdatasync",
    "flock",
    "fstat",
    "fstatat",
    "fstatfs",
    "fsync",
    "ftruncate",
    "getdents",
    "getdents64",
    "getxattr",
    "lchown",
    "lgetxattr",
    "link",
    "linkat",
    "lsetxattr",
    "lstat",
    "mkdir",
    "mkdirat",
    "mount",
    "newfstatat",
    "open",
    "openat",
    "readdirent",
    "readlink",
    "readlinkat",
    "rename",
    "renameat",
    "rmdir",
    "setxattr",
    "stat",
    "statfs",
    "statx",
    "symlink",
    "symlinkat",
    "sync",
    "syncfs",
    "truncate",
    "umount",
    "umount2",
    "unlink",
    "unlinkat",
    "unmount",
    "utimensat",
];

/// Least age in minutes at which a file call counts as stuck: with no disk trouble it takes far less.
const FILE_CALL_MINUTES: u32 = 1;

/// The file system call that goroutine `i` has been in for minutes, if it is.
pub fn file_call(s: &Snap<'_>, i: usize) -> Option<String> {
    let name = describe::syscall_name(s, i)?;
    let old = s.goroutine(i).minutes.is_some_and(|m| m >= FILE_CALL_MINUTES);
    (old && FILE_CALLS.binary_search(&name.as_str()).is_ok()).then_some(name)
}

/// The number of a resource, new or known.
pub fn resource_index(resources: &mut Vec<Resource>, resource: Resource) -> usize {
    match resources.iter().position(|r| r.host == resource.host && r.kind == resource.kind && r.label == resource.label)
    {
        Some(known) => known,
        None => {
            resources.push(resource);
            resources.len() - 1
        }
    }
}

/// What goroutine `i` waits for outside.
pub fn resource(case: &Case<'_>, snap: usize, i: usize, resources: &mut Vec<Resource>) -> Option<(Key, Link)> {
    let s = &case.snaps[snap];
    let g = s.goroutine(i);
    let host = case.processes.all[case.processes.of_snap[snap]].host;
    let (resource, line, text) = if let Some(found) = s.bound.external(s.s, g) {
        let label = match &found.rule.peer {
            Some(peer) => format!("{} ({peer})", found.rule.waits_for),
            None => found.rule.waits_for.clone(),
        };
        let frame = s.s.frames_of(g).get(found.frame)?;
        let name = s.frame_name(i, found.frame);
        let text = format!("{name} waits for {} (rule {})", found.rule.waits_for, found.rule.id);
        (
            Resource { kind: found.rule.resource.clone(), label, remedy: found.rule.remedy.clone(), host },
            frame.line,
            text,
        )
    } else {
        let call = file_call(s, i)?;
        let frame = s.s.frames_of(g).first()?;
        let label = format!("the filesystem that {call} works on");
        let text = format!(
            "has been in {call} for {} minutes at least; on a healthy disk it takes milliseconds",
            g.minutes.unwrap_or(0)
        );
        (Resource { kind: "file".into(), label, remedy: None, host }, frame.line, text)
    };
    let why = match resource.kind.as_str() {
        "dbus" => "bus",
        _ => "syscall",
    };
    let evidence = vec![describe::frame_evidence(s, "frame", text, line)];
    Some((Key::Resource(resource_index(resources, resource)), Link { why, trust: Trust::Strong, evidence }))
}

/// Who should answer on a bus: its owner as `busctl` or `ps` shows it.
pub fn owner(case: &Case<'_>, resource: Option<&Resource>) -> Option<(Key, Link)> {
    let resource = resource.filter(|r| r.kind == "dbus")?;
    let node = &case.evidence.node;
    let by_bus = node
        .bus_names
        .iter()
        .filter(|b| b.place.is_none_or(|place| case.processes.hosts.of_input(place.input) == resource.host))
        .find(|b| b.name == "org.freedesktop.systemd1")
        .and_then(|b| b.pid.map(|pid| (pid, b.place)));
    let process = match by_bus {
        Some((pid, _)) => *case.processes.by_pid.get(&(resource.host, pid))?,
        None => {
            let systemds: Vec<usize> = (0..case.processes.all.len())
                .filter(|&p| case.processes.all[p].role == "systemd")
                .filter(|&p| case.processes.all[p].host == resource.host)
                .collect();
            // Pid 1 owns the system bus's manager; where another systemd is stopped, that one is who does not answer.
            let stopped = |p: &usize| {
                let row = case.processes.all[*p].row.map(|n| &node.processes[n]);
                row.is_some_and(|r| matches!(r.state, Some('T' | 't' | 'D')))
            };
            systemds
                .iter()
                .copied()
                .find(stopped)
                .or_else(|| systemds.iter().copied().find(|&p| case.processes.all[p].pid == Some(1)))?
        }
    };
    let row = case.processes.all[process].row.map(|n| &node.processes[n]);
    let place = by_bus.and_then(|(_, place)| place).or_else(|| row.and_then(|r| r.place));
    let evidence = vec![Evidence {
        kind: if by_bus.is_some() { "bus" } else { "ps" }.into(),
        text: format!("{} answers for {}", case.processes.all[process].label(), resource.label),
        source: place.map(|p| Source {
            input: p.input as usize,
            line_start: Some(p.line),
            line_end: Some(p.line),
            address: None,
        }),
        against: false,
    }];
    Some((Key::Process(process), Link { why: "bus", trust: Trust::Likely, evidence }))
}

#[cfg(test)]
mod tests {
    #[test]
    fn file_calls_are_sorted() {
        assert!(super::FILE_CALLS.is_sorted());
    }
}
