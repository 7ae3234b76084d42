//! Which waits end where. Every node has one best edge onwards, so the graph becomes a forest whose roots are the
//! sinks; one walk counts what flows into each.

use crate::case::Case;
use crate::graph::{Key, WaitGraph};
use crate::waits::Primitive;
use rustc_hash::{FxHashMap, FxHashSet};

/// Where a wait ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum End {
    /// A node without an edge onwards.
    Node(Key),
    /// A circle, by its number.
    Circle(usize),
}

/// What flows into an end.
#[derive(Debug, Clone, Default)]
pub struct Basin {
    /// Goroutines that wait for it, the end itself not counted.
    pub goroutines: u64,
    /// Those of them that stand in a lock's call.
    pub lock_waiters: u64,
    /// Longest wait of all of them, in minutes.
    pub oldest: Option<u32>,
    /// Longest wait of those in a lock's call.
    pub oldest_lock_wait: Option<u32>,
    /// Processes that have some of them, or lie on the way.
    pub processes: FxHashSet<usize>,
    /// Goroutine (snapshot, index) that a rule knows as an observer, the longest waiting.
    pub symptom: Option<(usize, usize)>,
    /// The node whose way to the end tells most.
    pub start: Option<Key>,
    start_rank: (u32, bool, u32, u32),
}

/// All basins.
pub struct Basins {
    next: FxHashMap<Key, Key>,
    circle_of: FxHashMap<Key, usize>,
    /// By end.
    pub by_end: FxHashMap<End, Basin>,
}

impl Basins {
    /// Follows every node of the graph to its end.
    pub fn of(case: &Case<'_>, graph: &WaitGraph, circles: &[Vec<Key>]) -> Self {
        let mut circle_of = FxHashMap::default();
        for (n, circle) in circles.iter().enumerate() {
            circle_of.extend(circle.iter().map(|&key| (key, n)));
        }
        let mut next: FxHashMap<Key, Key> = FxHashMap::default();
        let mut keys: Vec<Key> = graph.keys().collect();
        keys.sort_unstable();
        for &key in &keys {
            if !circle_of.contains_key(&key)
                && let Some((to, _)) = graph.out(key).first()
            {
                next.insert(key, *to);
            }
        }
        let mut basins = Basins { next, circle_of, by_end: FxHashMap::default() };
        let mut memo: FxHashMap<Key, (End, u32, u32)> = FxHashMap::default();
        for &key in &keys {
            let (end, depth, changes) = basins.resolve(case, key, &mut memo);
            basins.add(case, key, end, depth, changes);
        }
        basins
    }

    /// End of a node, the number of steps to it, and how many of them lead to a lock or into another process.
    fn resolve(&self, case: &Case<'_>, start: Key, memo: &mut FxHashMap<Key, (End, u32, u32)>) -> (End, u32, u32) {
        let mut path = Vec::new();
        let mut at = start;
        let known = loop {
            if let Some(&known) = memo.get(&at) {
                break known;
            }
            if let Some(&circle) = self.circle_of.get(&at) {
                break (End::Circle(circle), 0, 0);
            }
            match self.next.get(&at) {
                Some(&to) => {
                    path.push(at);
                    at = to;
                }
                None => break (End::Node(at), 0, 0),
            }
        };
        memo.entry(at).or_insert(known);
        let (end, mut depth, mut changes) = known;
        let mut after = at;
        for &key in path.iter().rev() {
            depth += 1;
            // A lock on the way tells as much as a step into another process.
            let lock = matches!(after, Key::Lock(..));
            changes += u32::from(lock || process_of(case, key) != process_of(case, after));
            memo.insert(key, (end, depth, changes));
            after = key;
        }
        (end, depth, changes)
    }

    fn add(&mut self, case: &Case<'_>, key: Key, end: End, depth: u32, changes: u32) {
        let is_end = end == End::Node(key) || matches!(end, End::Circle(_)) && depth == 0;
        let basin = self.by_end.entry(end).or_default();
        if let Some(p) = process_of(case, key) {
            basin.processes.insert(p);
        }
        let mut age = 0;
        let mut symptom = false;
        if let Key::Goroutine(snap, i) = key {
            let s = &case.snaps[snap];
            let g = s.goroutine(i);
            age = g.minutes.unwrap_or(0);
            if !is_end || matches!(end, End::Circle(_)) {
                basin.goroutines += u64::from(g.count);
                basin.oldest = basin.oldest.max(g.minutes);
                if s.waits[i].primitive.is_exclusive_lock() {
                    basin.lock_waiters += u64::from(g.count);
                    basin.oldest_lock_wait = basin.oldest_lock_wait.max(g.minutes);
                }
            }
            symptom = s.bound.symptom(s.s, g).is_some();
            if symptom {
                let older = basin.symptom.is_none_or(|(other, j)| case.snaps[other].goroutine(j).minutes < g.minutes);
                if older {
                    basin.symptom = Some((snap, i));
                }
            }
        }
        let rank = (changes, symptom, depth, age);
        if basin.start.is_none() || rank > basin.start_rank {
            basin.start = Some(key);
            basin.start_rank = rank;
        }
    }

    /// The way from a node to its end, both included.
    pub fn path(&self, start: Key) -> Vec<Key> {
        let mut path = vec![start];
        let mut at = start;
        while let Some(&to) = self.next.get(&at) {
            path.push(to);
            at = to;
        }
        path
    }
}

/// The process that a node belongs to.
pub fn process_of(case: &Case<'_>, key: Key) -> Option<usize> {
    match key {
        Key::Goroutine(snap, _) | Key::Lock(snap, _) => case.processes.of_snap.get(snap).copied(),
        Key::Process(p) => Some(p),
        Key::Thread(t) => case.processes.of_thread(&case.evidence.node.threads[t]),
        Key::NativeLock(n) => {
            let lock = crate::native::words(case, n);
            case.processes.by_pid.get(&(case.processes.hosts.of_input(lock.input), lock.pid?)).copied()
        }
        Key::Resource(_) => None,
    }
}

/// Whether a goroutine node stands in a lock's call.
pub fn is_lock_wait(case: &Case<'_>, key: Key) -> bool {
    matches!(key, Key::Goroutine(snap, i) if case.snaps[snap].waits[i].primitive.is_exclusive_lock())
}

/// A goroutine's primitive.
pub fn primitive(case: &Case<'_>, key: Key) -> Option<Primitive> {
    match key {
        Key::Goroutine(snap, i) => Some(case.snaps[snap].waits[i].primitive),
        _ => None,
    }
}
