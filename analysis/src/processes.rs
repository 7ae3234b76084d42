//! Which snapshots show the same process, and which processes are known at all.

use crate::hosts::Hosts;
use crate::snap::Snap;
use holdup_parsers::evidence::{Evidence, ProcessRow, ThreadStack};
use rustc_hash::FxHashMap;

/// A process, from snapshots, from `ps`, or both.
#[derive(Debug, Clone, Default)]
pub struct Process {
    /// Node that it runs on, by number.
    pub host: usize,
    #[allow(missing_docs)]
    pub pid: Option<u32>,
    /// Program name.
    pub name: String,
    /// Role, or `unknown`.
    pub role: String,
    /// Its snapshots, in order of time where that is known.
    pub snaps: Vec<usize>,
    /// The snapshot that the graph is built on.
    pub primary: Option<usize>,
    /// Index of its row in `NodeEvidence::processes`.
    pub row: Option<usize>,
    /// Parent.
    pub ppid: Option<u32>,
}

impl Process {
    /// `runc 30694`: a label begins with the name.
    pub fn label(&self) -> String {
        match self.pid {
            Some(pid) => format!("{} {pid}", self.name),
            None => self.name.clone(),
        }
    }
}

/// All processes, and how to find them.
#[derive(Debug, Default)]
pub struct Processes {
    /// The table.
    pub all: Vec<Process>,
    /// Process of each snapshot.
    pub of_snap: Vec<usize>,
    /// Node of each input.
    pub hosts: Hosts,
    /// By node and pid.
    pub by_pid: FxHashMap<(usize, u32), usize>,
    /// Children by node and parent's pid.
    pub children: FxHashMap<(usize, u32), Vec<usize>>,
}

impl Processes {
    /// Joins snapshots to processes and adds those that only `ps` knows.
    pub fn of(snaps: &[Snap<'_>], evidence: &Evidence) -> Self {
        let hosts = Hosts::of(evidence);
        let mut table = Processes { of_snap: vec![usize::MAX; snaps.len()], hosts, ..Processes::default() };
        // Those with a pid first: they are what the others may belong to.
        for with_pid in [true, false] {
            for (i, snap) in snaps.iter().enumerate() {
                let pid = pid_of(snap);
                if pid.is_some() != with_pid {
                    continue;
                }
                let known = table.all.iter().position(|p| table.belongs(p, snap, pid, snaps));
                let slot = known.unwrap_or_else(|| {
                    table.all.push(Process {
                        host: table.hosts.of_input(snap.s.input),
                        pid,
                        name: snap.name.clone(),
                        role: snap.role.clone(),
                        ..Process::default()
                    });
                    table.all.len() - 1
                });
                table.all[slot].snaps.push(i);
                table.of_snap[i] = slot;
            }
        }
        for process in &mut table.all {
            process.snaps.sort_by_key(|&i| (snaps[i].s.taken_at, i));
            process.primary = process.snaps.iter().copied().max_by_key(|&i| {
                let s = snaps[i].s;
                (s.goroutines.iter().any(|g| g.id.is_some()), s.complete, s.taken_at, s.goroutines.len(), i)
            });
        }
        table.add_rows(&evidence.node.processes);
        table.add_cores(&evidence.node.threads);
        table
    }

    /// Programs that are not Go are known by their cores alone.
    fn add_cores(&mut self, threads: &[ThreadStack]) {
        for thread in threads.iter().filter(|thread| thread.memory.is_some()) {
            let (Some(pid), Some(comm)) = (thread.pid, &thread.comm) else { continue };
            let host = self.hosts.of_input(thread.memory.map_or(0, |(input, _)| input));
            self.by_pid.entry((host, pid)).or_insert_with(|| {
                let row = ProcessRow { pid, command: comm.clone(), ..ProcessRow::default() };
                let role = role_of_program(comm, &row);
                self.all.push(Process { host, pid: Some(pid), name: comm.clone(), role, ..Process::default() });
                self.all.len() - 1
            });
        }
    }

    /// The process of a thread's record.
    pub fn of_thread(&self, thread: &ThreadStack) -> Option<usize> {
        self.by_pid.get(&(self.host_of(thread), thread.pid?)).copied()
    }

    /// The node of a thread's record.
    pub fn host_of(&self, thread: &ThreadStack) -> usize {
        let input = thread.memory.map(|(input, _)| input).or(thread.place.map(|place| place.input));
        self.hosts.of_input(input.unwrap_or(0))
    }

    fn belongs(&self, process: &Process, snap: &Snap<'_>, pid: Option<u32>, snaps: &[Snap<'_>]) -> bool {
        if process.host != self.hosts.of_input(snap.s.input) {
            return false;
        }
        if let (Some(a), Some(b)) = (process.pid, pid) {
            return a == b;
        }
        let Some(&other) = process.snaps.first() else { return false };
        process.role == snap.role && similarity(&snaps[other], snap) >= 0.5
    }

    fn add_rows(&mut self, rows: &[ProcessRow]) {
        let mut unclaimed: FxHashMap<(usize, String), Vec<usize>> = FxHashMap::default();
        for (n, row) in rows.iter().enumerate() {
            if row.tid.is_some_and(|t| t != row.pid) {
                continue;
            }
            unclaimed
                .entry((self.hosts.of_input(row.place.map_or(0, |place| place.input)), program(row)))
                .or_default()
                .push(n);
        }
        // A dump without a pid is of the only process of that name.
        for process in self.all.iter_mut().filter(|p| p.pid.is_none()) {
            let name = process.name.split(['(', ' ']).next().unwrap_or("").to_string();
            let host = process.host;
            let same = |key: &str| {
                unclaimed.get(&(host, key.to_string())).filter(|rows| rows.len() == 1).and_then(|r| r.first().copied())
            };
            if let Some(n) = same(&name).or_else(|| same(&process.role)) {
                process.pid = Some(rows[n].pid);
            }
        }
        for (slot, process) in self.all.iter().enumerate() {
            if let Some(pid) = process.pid {
                self.by_pid.entry((process.host, pid)).or_insert(slot);
            }
        }
        for (n, row) in rows.iter().enumerate() {
            if row.tid.is_some_and(|t| t != row.pid) {
                continue;
            }
            let host = self.hosts.of_input(row.place.map_or(0, |place| place.input));
            let slot = *self.by_pid.entry((host, row.pid)).or_insert_with(|| {
                let name = program(row);
                self.all.push(Process {
                    host,
                    pid: Some(row.pid),
                    role: role_of_program(&name, row),
                    name,
                    ..Process::default()
                });
                self.all.len() - 1
            });
            let process = &mut self.all[slot];
            process.row = process.row.or(Some(n));
            process.ppid = process.ppid.or(row.ppid);
        }
        for (slot, process) in self.all.iter().enumerate() {
            if let Some(parent) = process.ppid {
                self.children.entry((process.host, parent)).or_default().push(slot);
            }
        }
    }
}

/// A log's pid is its writer's: a shim's dump in containerd's log has containerd's pid, which is not its own.
fn pid_of(snap: &Snap<'_>) -> Option<u32> {
    let pid = snap.s.process.pid?;
    let writer = snap.s.process.name.as_deref().unwrap_or("");
    let contradicts = snap.role == "containerd-shim" && writer == "containerd";
    (!contradicts).then_some(pid)
}

/// Share of the smaller snapshot's goroutines that the other has too: same id, started at the same place.
fn similarity(a: &Snap<'_>, b: &Snap<'_>) -> f64 {
    let key = |snap: &Snap<'_>, i: usize| {
        let g = snap.goroutine(i);
        let creator = g.created_by.map(|c| snap.s.function(c.site).to_string()).unwrap_or_default();
        g.id.map(|id| (id, creator))
    };
    let left: std::collections::HashSet<_> = (0..a.s.goroutines.len()).filter_map(|i| key(a, i)).collect();
    let right: std::collections::HashSet<_> = (0..b.s.goroutines.len()).filter_map(|i| key(b, i)).collect();
    let smaller = left.len().min(right.len());
    if smaller == 0 {
        return 0.0;
    }
    left.intersection(&right).count() as f64 / smaller as f64
}

/// The program of a `ps` row: base name of what was run.
pub fn program(row: &ProcessRow) -> String {
    let command = row.command.trim();
    let first = command.split_whitespace().next().unwrap_or("");
    let base = first.trim_start_matches('-').rsplit('/').next().unwrap_or("");
    if command.starts_with('[') || base.is_empty() {
        return row.comm.clone().unwrap_or_else(|| command.trim_matches(['[', ']']).to_string());
    }
    base.trim_end_matches(':').to_string()
}

/// Roles of programs that mostly appear without a dump.
fn role_of_program(name: &str, row: &ProcessRow) -> String {
    let known = match name {
        "kubelet" | "dockerd" | "containerd" | "runc" | "crio" | "systemd" | "dbus-daemon" | "podman" | "conmon" => {
            name
        }
        _ if name.starts_with("containerd-shim") => "containerd-shim",
        _ if name.starts_with("runc") => "runc",
        _ if row.command.contains("/cni/bin/") => "cni-plugin",
        _ => "unknown",
    };
    known.to_string()
}
