//! Everything about one incident that the later steps share.

use crate::holders::{self, Holding, Oldest};
use crate::kernel::KernelRules;
use crate::locks::{self, LockGroup, Offsets};
use crate::native::NativeLocks;
use crate::peers::Peers;
use crate::processes::Processes;
use crate::rules::Rules;
use crate::snap::Snap;
use holdup_parsers::evidence::Evidence;
use rustc_hash::FxHashMap;

/// Innermost frames that must agree for a goroutine to stand at the same place in two dumps.
const COMPARED: usize = 12;

/// One incident, prepared step by step.
pub struct Case<'a> {
    /// What was read.
    pub evidence: &'a Evidence,
    /// What is known of daemons.
    pub rules: &'a Rules,
    /// What is known of the kernel's functions.
    pub kernel: &'a KernelRules,
    /// Who calls whom without a dump.
    pub peers: &'a Peers,
    /// The snapshots.
    pub snaps: Vec<Snap<'a>>,
    /// Their locks.
    pub locks: Vec<Vec<LockGroup>>,
    /// Who holds them.
    pub holdings: Vec<Vec<Holding>>,
    /// Lock that each waiting goroutine waits for, by snapshot.
    pub lock_of: Vec<FxHashMap<usize, usize>>,
    /// Longest waits, by snapshot.
    pub oldest: Vec<Oldest>,
    /// Locks of C programs.
    pub native: NativeLocks,
    /// The processes.
    pub processes: Processes,
    /// Goroutines by id, by snapshot.
    pub by_id: Vec<FxHashMap<u64, usize>>,
}

impl<'a> Case<'a> {
    /// Prepares the incident: waits, locks, holders, processes.
    pub fn new(evidence: &'a Evidence, rules: &'a Rules, kernel: &'a KernelRules, peers: &'a Peers) -> Self {
        let snaps: Vec<Snap<'a>> = evidence.snapshots.iter().enumerate().map(|(i, s)| Snap::new(i, s, rules)).collect();
        let mut offsets = Offsets::default();
        for snap in &snaps {
            offsets.learn(snap);
        }
        let locks: Vec<Vec<LockGroup>> = snaps.iter().map(|snap| locks::gather(snap, &offsets)).collect();
        let holdings = snaps.iter().zip(&locks).map(|(snap, locks)| holders::infer(snap, locks)).collect();
        let lock_of = locks
            .iter()
            .map(|locks| {
                let mut map = FxHashMap::default();
                for (n, lock) in locks.iter().enumerate() {
                    map.extend(lock.waiters.iter().map(|&w| (w as usize, n)));
                }
                map
            })
            .collect();
        let oldest = snaps.iter().map(Oldest::of).collect();
        let processes = Processes::of(&snaps, evidence);
        let by_id = evidence
            .snapshots
            .iter()
            .map(|s| s.goroutines.iter().enumerate().filter_map(|(i, g)| g.id.map(|id| (id, i))).collect())
            .collect();
        let native = NativeLocks::of(evidence);
        Case { evidence, rules, kernel, peers, snaps, locks, holdings, lock_of, oldest, native, processes, by_id }
    }

    /// The snapshots that the graph is built on: one for each process.
    pub fn primaries(&self) -> impl Iterator<Item = usize> + '_ {
        self.processes.all.iter().filter_map(|p| p.primary)
    }

    /// The other moments of the process that snapshot `snap` shows.
    pub fn moments(&self, snap: usize) -> impl Iterator<Item = usize> + '_ {
        let process = self.processes.of_snap[snap];
        self.processes.all[process].snaps.iter().copied().filter(move |&other| other != snap)
    }

    /// Where goroutine `i` of snapshot `snap` stands in snapshot `other` of the same process: the same id at the same
    /// functions. `None` if it is gone or elsewhere.
    pub fn same_place(&self, snap: usize, i: usize, other: usize) -> Option<usize> {
        let here = &self.snaps[snap];
        let j = *self.by_id[other].get(&here.goroutine(i).id?)?;
        self.stands(snap, i).eq(self.stands(other, j)).then_some(j)
    }

    /// The innermost functions and lines of goroutine `i` of snapshot `snap`, without what only some forms of dump
    /// show: frames of the machinery, wrappers of `go` and `defer`, and the outer end of deep stacks.
    pub fn stands(&self, snap: usize, i: usize) -> impl Iterator<Item = (&'a str, u32)> + '_ {
        let s = &self.snaps[snap];
        let frames = s.s.frames_of(s.goroutine(i));
        let own = frames.iter().filter(move |f| !s.function(f.site).class.is_machinery());
        let shown = own.map(move |f| (s.s.function(f.site), s.s.site(f.site).line));
        let shown = shown.filter(|(name, _)| !(name.contains("wrap") && name.contains('.') || name.ends_with("-fm")));
        shown.take(COMPARED)
    }
}
