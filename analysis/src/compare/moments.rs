//! Putting moments in order, and the same process of several moments together.

use crate::case::Case;
use crate::snap::Snap;
use jiff::Timestamp;
use rustc_hash::{FxHashMap, FxHashSet};

/// Share of the smaller snapshot's goroutines that another of the same process has too, at least.
const ALIKE: f64 = 0.3;

/// A process at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sight {
    /// Index of the moment.
    pub moment: usize,
    /// Index of the case.
    pub case: usize,
    /// Index of the snapshot within the case.
    pub snap: usize,
}

/// A process through the moments.
#[derive(Debug, Clone, Default)]
pub struct Strand {
    /// Where it was seen, oldest first.
    pub sights: Vec<Sight>,
    /// Its pid, if told at any moment.
    pub pid: Option<u32>,
    /// What limits the comparison.
    pub notes: Vec<String>,
}

/// The moments of a comparison.
#[derive(Debug, Default)]
pub struct Moments {
    /// Case of each moment, oldest first.
    pub case_of: Vec<usize>,
    /// When each was taken.
    pub taken_at: Vec<Option<Timestamp>>,
    /// The processes.
    pub strands: Vec<Strand>,
    /// What the reader should know.
    pub notes: Vec<String>,
}

impl Moments {
    /// Puts `cases` (in the order given) in order of time and joins their processes.
    pub fn of(cases: &[Case<'_>]) -> Self {
        match cases {
            [only] => Moments::within(only),
            _ => Moments::across(cases),
        }
    }

    /// Several dumps in one path: each process's first, second … dump.
    fn within(case: &Case<'_>) -> Self {
        let mut moments = Moments::default();
        for process in case.processes.all.iter().filter(|p| !p.snaps.is_empty()) {
            let sights = process.snaps.iter().enumerate();
            moments.strands.push(Strand {
                sights: sights.map(|(moment, &snap)| Sight { moment, case: 0, snap }).collect(),
                pid: process.pid,
                notes: Vec::new(),
            });
        }
        let count = moments.strands.iter().map(|s| s.sights.len()).max().unwrap_or(0);
        moments.case_of = vec![0; count.max(1)];
        moments.taken_at = (0..count.max(1))
            .map(|m| {
                let sights = moments.strands.iter().flat_map(|s| &s.sights).filter(|s| s.moment == m);
                sights.filter_map(|s| case.snaps[s.snap].s.taken_at).max()
            })
            .collect();
        moments
    }

    fn across(cases: &[Case<'_>]) -> Self {
        let mut moments = Moments::default();
        let clocks: Vec<Option<Timestamp>> = cases.iter().map(clock).collect();
        let mut order: Vec<usize> = (0..cases.len()).collect();
        if clocks.iter().all(Option::is_some) {
            order.sort_by_key(|&c| (clocks[c], c));
        }
        moments.strands = join(cases, &order, &mut moments.notes);
        if !clocks.iter().all(Option::is_some) && runs_backwards(cases, &moments.strands) {
            order.reverse();
            moments.notes.clear();
            moments.strands = join(cases, &order, &mut moments.notes);
        }
        if order.windows(2).any(|pair| pair[0] > pair[1]) {
            let given: Vec<String> = order.iter().map(|c| (c + 1).to_string()).collect();
            moments.notes.push(format!(
                "the paths were not given in order of time; they are compared as {} of the command line",
                given.join(", ")
            ));
        }
        moments.taken_at = order.iter().map(|&c| clocks[c]).collect();
        moments.case_of = order;
        moments
    }
}

/// When a case was taken: its newest dump, else what the node's own evidence says.
fn clock(case: &Case<'_>) -> Option<Timestamp> {
    let dumps = case.snaps.iter().filter_map(|snap| snap.s.taken_at).max();
    dumps.or_else(|| case.evidence.node.taken_at.first().map(|(at, _)| *at))
}

/// Joins the processes of all moments: by pid where it is told, else by role and by goroutines that are in both.
fn join(cases: &[Case<'_>], order: &[usize], notes: &mut Vec<String>) -> Vec<Strand> {
    let mut strands: Vec<Strand> = Vec::new();
    for (moment, &c) in order.iter().enumerate() {
        let case = &cases[c];
        let mut taken: FxHashSet<usize> = FxHashSet::default();
        let processes = case.processes.all.iter().filter_map(|p| p.primary.map(|snap| (p, snap)));
        let mut waiting: Vec<_> = processes.collect();
        // Those that a pid ties to an earlier moment first: they are not to be taken by others.
        waiting.sort_by_key(|(p, _)| !p.pid.is_some_and(|pid| strands.iter().any(|s| s.pid == Some(pid))));
        for (process, snap) in waiting {
            let sight = Sight { moment, case: c, snap };
            let candidates = (0..strands.len()).filter(|s| !taken.contains(s));
            let found = candidates
                .filter_map(|s| kinship(cases, &strands[s], sight, process.pid).map(|k| (s, k)))
                .max_by(|a, b| a.1.total_cmp(&b.1));
            let slot = match found {
                Some((slot, _)) => slot,
                None => {
                    if let Some(before) = restarted(cases, &strands, &taken, sight, process.pid) {
                        notes.push(before);
                    }
                    strands.push(Strand::default());
                    strands.len() - 1
                }
            };
            taken.insert(slot);
            strands[slot].pid = strands[slot].pid.or(process.pid);
            strands[slot].sights.push(sight);
        }
    }
    let several: FxHashMap<String, usize> = strands.iter().fold(FxHashMap::default(), |mut map, strand| {
        *map.entry(role(cases, strand)).or_default() += 1;
        map
    });
    for strand in &mut strands {
        let [first, .., last] = strand.sights.as_slice() else { continue };
        let (a, b) = (snap_of(cases, *first), snap_of(cases, *last));
        if !has_ids(a) || !has_ids(b) {
            strand.notes.push("a form without goroutine ids: only numbers of equal stacks can be compared".into());
        } else if similarity(a, b) < 0.1 && several.get(&a.role).is_some_and(|&n| n == 1) {
            strand.notes.push(
                "hardly a goroutine is in both dumps: it may have been started anew, or be another process".into(),
            );
        }
        if strand.sights.iter().any(|&s| !snap_of(cases, s).s.complete) {
            strand.notes.push("a dump is cut short: what is missing in it may have stood still or moved".into());
        }
    }
    strands
}

fn role(cases: &[Case<'_>], strand: &Strand) -> String {
    strand.sights.first().map_or(String::new(), |&s| snap_of(cases, s).role.clone())
}

/// The snapshot of a sight.
pub fn snap_of<'c, 'a>(cases: &'c [Case<'a>], sight: Sight) -> &'c Snap<'a> {
    &cases[sight.case].snaps[sight.snap]
}

/// How likely `sight` shows the process of `strand`; `None` if it does not.
fn kinship(cases: &[Case<'_>], strand: &Strand, sight: Sight, pid: Option<u32>) -> Option<f64> {
    let &last = strand.sights.last()?;
    let (a, b) = (snap_of(cases, last), snap_of(cases, sight));
    if let (Some(known), Some(pid)) = (strand.pid, pid) {
        return (known == pid && a.role == b.role).then_some(2.0);
    }
    if a.role != b.role || (a.role == "unknown" && a.name != b.name && !unnamed(a) && !unnamed(b)) {
        return None;
    }
    let alike = similarity(a, b);
    let alone = |case: usize, role: &str| {
        let all = cases[case].processes.all.iter().filter_map(|p| p.primary);
        all.filter(|&snap| cases[case].snaps[snap].role == role).count() == 1
    };
    let only = alone(last.case, &a.role) && alone(sight.case, &b.role);
    (only || alike >= ALIKE).then_some(alike)
}

/// A program that nothing names goes by a makeshift name.
fn unnamed(snap: &Snap<'_>) -> bool {
    snap.s.process.name.is_none()
}

/// The same program under another pid, and the one before is not there any more: it was started anew.
fn restarted(
    cases: &[Case<'_>],
    strands: &[Strand],
    taken: &FxHashSet<usize>,
    sight: Sight,
    pid: Option<u32>,
) -> Option<String> {
    let snap = snap_of(cases, sight);
    let pid = pid?;
    let mut same = strands.iter().enumerate().filter(|(n, strand)| {
        let is_same = strand.sights.last().is_some_and(|&s| {
            let before = snap_of(cases, s);
            before.role == snap.role && before.name == snap.name && snap.role != "containerd-shim"
        });
        is_same && !taken.contains(n) && strand.pid.is_some()
    });
    let (_, before) = same.next()?;
    Some(format!(
        "{} was started anew between the moments: it had pid {}, now {pid}; the two cannot be compared",
        snap.name, before.pid?
    ))
}

fn has_ids(snap: &Snap<'_>) -> bool {
    snap.s.goroutines.iter().any(|g| g.id.is_some())
}

/// Share of the smaller snapshot's goroutines that the other has too: same id, started at the same place.
fn similarity(a: &Snap<'_>, b: &Snap<'_>) -> f64 {
    let (small, large) = if a.s.goroutines.len() <= b.s.goroutines.len() { (a, b) } else { (b, a) };
    let creator = |snap: &Snap<'_>, i: usize| -> Option<String> {
        snap.goroutine(i).created_by.map(|c| snap.s.function(c.site).to_string())
    };
    let index: FxHashMap<u64, usize> =
        large.s.goroutines.iter().enumerate().filter_map(|(i, g)| g.id.map(|id| (id, i))).collect();
    let (mut with_id, mut both) = (0u64, 0u64);
    for (i, g) in small.s.goroutines.iter().enumerate() {
        let Some(id) = g.id else { continue };
        with_id += 1;
        if index.get(&id).is_some_and(|&j| creator(small, i) == creator(large, j)) {
            both += 1;
        }
    }
    if with_id == 0 { 0.0 } else { both as f64 / with_id as f64 }
}

/// Whether goroutines get younger from moment to moment: the paths were given the wrong way round. Some do that in
/// any case, since they came back for a new wait; nearly all do it only when time runs backwards.
fn runs_backwards(cases: &[Case<'_>], strands: &[Strand]) -> bool {
    const LEAST: u32 = 3;
    let (mut younger, mut all) = (0u32, 0u32);
    for pair in strands.iter().flat_map(|strand| strand.sights.windows(2)) {
        for (before, after) in standing(cases, pair[0], pair[1]) {
            if let (Some(before), Some(after)) = (before, after) {
                all += 1;
                younger += u32::from(after < before);
            }
        }
    }
    younger >= LEAST && younger * 10 >= all * 9
}

/// Both ages of every goroutine that has the same id at the same place in both.
fn standing(cases: &[Case<'_>], a: Sight, b: Sight) -> Vec<(Option<u32>, Option<u32>)> {
    let (first, second) = (snap_of(cases, a), snap_of(cases, b));
    let (here, there) = (super::places(&cases[a.case], a.snap), super::places(&cases[b.case], b.snap));
    let by_id = &cases[b.case].by_id[b.snap];
    let mut found = Vec::new();
    for (i, g) in first.s.goroutines.iter().enumerate() {
        let Some(&j) = g.id.and_then(|id| by_id.get(&id)) else { continue };
        if here[first.group_of[i] as usize] == there[second.group_of[j] as usize] {
            found.push((g.minutes, second.goroutine(j).minutes));
        }
    }
    found
}

/// Whole minutes between two sights, by how much older those that did not move have become: the most common growth.
pub fn minutes_between(cases: &[Case<'_>], a: Sight, b: Sight) -> Option<u32> {
    let mut votes: FxHashMap<u32, u32> = FxHashMap::default();
    for (before, after) in standing(cases, a, b) {
        if let (Some(before), Some(after)) = (before, after)
            && after >= before
        {
            *votes.entry(after - before).or_default() += 1;
        }
    }
    votes.into_iter().max_by_key(|&(minutes, n)| (n, minutes)).map(|(minutes, _)| minutes)
}
