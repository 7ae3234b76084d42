//! Which goroutines of a process stand still, and which move.

use super::hands::Hands;
use super::judge::Member;
use super::model::{Moving, Stuck};
use super::moments::{Strand, snap_of};
use super::places;
use crate::case::Case;
use crate::describe;
use crate::snap::Snap;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

/// The goroutines of a process through its sights.
pub struct Standing {
    /// By sight: where each group of equal stacks stands.
    places: Vec<Vec<u64>>,
    /// By id, the goroutine's index at each sight.
    tracks: BTreeMap<u64, Vec<Option<u32>>>,
}

/// What a goroutine did between two sights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Same place, and its wait is not younger.
    Stood,
    /// Same place, but a younger wait: it was away in between.
    CameBack,
    /// Elsewhere.
    Moved,
    /// Not there at one of them.
    Absent,
}

impl Standing {
    /// Follows every goroutine that has an id.
    pub fn of(cases: &[Case<'_>], strand: &Strand) -> Self {
        let mut tracks: BTreeMap<u64, Vec<Option<u32>>> = BTreeMap::new();
        for (n, &sight) in strand.sights.iter().enumerate() {
            for (i, g) in snap_of(cases, sight).s.goroutines.iter().enumerate() {
                if let Some(id) = g.id {
                    tracks.entry(id).or_insert_with(|| vec![None; strand.sights.len()])[n] = Some(i as u32);
                }
            }
        }
        let places = strand.sights.iter().map(|s| places(&cases[s.case], s.snap)).collect();
        Standing { places, tracks }
    }

    /// Index of goroutine `id` at sight `n`.
    pub fn index(&self, id: u64, n: usize) -> Option<usize> {
        self.tracks.get(&id)?.get(n).copied().flatten().map(|i| i as usize)
    }

    /// What goroutine `id` did between sights `a` and `b`.
    pub fn step(&self, cases: &[Case<'_>], strand: &Strand, id: u64, a: usize, b: usize) -> Step {
        let (Some(i), Some(j)) = (self.index(id, a), self.index(id, b)) else { return Step::Absent };
        let (first, second) = (snap_of(cases, strand.sights[a]), snap_of(cases, strand.sights[b]));
        let here = self.places[a][first.group_of[i] as usize];
        let there = self.places[b][second.group_of[j] as usize];
        if here != there {
            return Step::Moved;
        }
        // A wait's start is stamped once, so its age can only grow (Go's runtime/proc.go, waitsince).
        match (first.goroutine(i).minutes, second.goroutine(j).minutes) {
            (Some(before), after) if after.unwrap_or(0) < before => Step::CameBack,
            _ => Step::Stood,
        }
    }

    /// The first sight from which goroutine `id` has stood still up to sight `until`.
    pub fn since(&self, cases: &[Case<'_>], strand: &Strand, id: u64, until: usize) -> usize {
        let mut since = until;
        while since > 0 && self.step(cases, strand, id, since - 1, since) == Step::Stood {
            since -= 1;
        }
        since
    }

    /// Whether goroutine `id` stands at the same place in all sights.
    pub fn stood(&self, cases: &[Case<'_>], strand: &Strand, id: u64) -> bool {
        self.since(cases, strand, id, strand.sights.len() - 1) == 0
    }

    /// How many of the first sight's are gone in the last, and how many of the last were not in the first.
    pub fn turnover(&self) -> (u64, u64) {
        let (mut ended, mut started) = (0, 0);
        for track in self.tracks.values() {
            match (track.first().copied().flatten(), track.last().copied().flatten()) {
                (Some(_), None) => ended += 1,
                (None, Some(_)) => started += 1,
                _ => {}
            }
        }
        (ended, started)
    }

    /// Goroutines that stand still and are idle by design.
    pub fn idle(&self, cases: &[Case<'_>], strand: &Strand) -> u64 {
        let last = strand.sights.len() - 1;
        let snap = snap_of(cases, strand.sights[last]);
        let idle = |id: u64| self.index(id, last).is_some_and(|i| snap.idle(i).is_some());
        self.tracks.keys().filter(|&&id| idle(id) && self.stood(cases, strand, id)).count() as u64
    }

    /// Those that stand still and are not idle, equal stacks together; what a chain or a lock is about first.
    pub fn stuck(&self, cases: &[Case<'_>], strand: &Strand, hands: &Hands, chained: &FxHashSet<Member>) -> Vec<Stuck> {
        let last = strand.sights.len() - 1;
        let sight = strand.sights[last];
        let snap = snap_of(cases, sight);
        let holds = hands.held_by();
        let mut groups: BTreeMap<(u32, Option<usize>), Vec<u64>> = BTreeMap::new();
        for &id in self.tracks.keys() {
            let Some(i) = self.index(id, last) else { continue };
            let lock = hands.waited_for(last, i);
            let concerns = lock.is_some() || holds.contains_key(&id) || chained.contains(&(sight.case, sight.snap, i));
            if (snap.idle(i).is_some() || !snap.waits[i].primitive.is_blocked()) && !concerns {
                continue;
            }
            if self.stood(cases, strand, id) {
                groups.entry((snap.group_of[i], lock)).or_default().push(id);
            }
        }
        let mut found: Vec<Stuck> = groups
            .into_iter()
            .map(|((_, lock), ids)| {
                let oldest = |n: usize| {
                    let at = snap_of(cases, strand.sights[n]);
                    ids.iter().filter_map(|&id| at.goroutine(self.index(id, n)?).minutes).max()
                };
                let first = ids.first().and_then(|&id| self.index(id, last)).unwrap_or(0);
                let doing = describe::doing(snap, first);
                let places = (0..strand.sights.len()).filter_map(|n| {
                    let i = self.index(*ids.first()?, n)?;
                    let line = if n == last { doing.line } else { telling_line(snap_of(cases, strand.sights[n]), i) };
                    super::place(cases, strand.sights[n], line)
                });
                let in_chain = ids
                    .iter()
                    .any(|&id| self.index(id, last).is_some_and(|i| chained.contains(&(sight.case, sight.snap, i))));
                Stuck {
                    count: ids.len() as u64,
                    function: doing.function,
                    state: snap.s.names.get(snap.goroutine(first).state).to_string(),
                    blocked_in: doing.blocked_in,
                    minutes: (0..strand.sights.len()).map(oldest).collect(),
                    waits_for: lock.map(|l| hands.id(l)),
                    holds: ids.iter().filter_map(|id| holds.get(id)).flatten().cloned().collect(),
                    in_chain,
                    places: places.collect(),
                    goroutines: ids,
                }
            })
            .collect();
        found.sort_by_key(|s| {
            let age = s.minutes.last().copied().flatten();
            (!s.in_chain, s.holds.is_empty() && s.waits_for.is_none(), std::cmp::Reverse((age, s.count)))
        });
        found
    }

    /// Those that were seen at two places, or came back for a new wait; those idle at both ends left out.
    pub fn moving(&self, cases: &[Case<'_>], strand: &Strand) -> Vec<Moving> {
        let mut groups: FxHashMap<(usize, u32, u32, bool), Vec<u64>> = FxHashMap::default();
        for &id in self.tracks.keys() {
            for n in (1..strand.sights.len()).rev() {
                let step = self.step(cases, strand, id, n - 1, n);
                if !matches!(step, Step::Moved | Step::CameBack) {
                    continue;
                }
                let (Some(i), Some(j)) = (self.index(id, n - 1), self.index(id, n)) else { continue };
                let (a, b) = (snap_of(cases, strand.sights[n - 1]), snap_of(cases, strand.sights[n]));
                if a.idle(i).is_some() && b.idle(j).is_some() {
                    continue;
                }
                let key = (n, a.group_of[i], b.group_of[j], step == Step::CameBack);
                groups.entry(key).or_default().push(id);
                break;
            }
        }
        let mut found: Vec<Moving> = groups
            .into_iter()
            .map(|((n, from, to, came_back), goroutines)| {
                let (a, b) = (snap_of(cases, strand.sights[n - 1]), snap_of(cases, strand.sights[n]));
                Moving {
                    count: goroutines.len() as u64,
                    goroutines,
                    from: standing_in(a, from),
                    to: standing_in(b, to),
                    came_back,
                    moment: strand.sights[n].moment as u32 + 1,
                }
            })
            .collect();
        found.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.goroutines.cmp(&b.goroutines)));
        found
    }

    /// How many of the goroutines at `place` in the first sight still stand there in the last.
    pub fn stayed(&self, cases: &[Case<'_>], strand: &Strand, place: u64) -> u64 {
        let last = strand.sights.len() - 1;
        let first = snap_of(cases, strand.sights[0]);
        let mut stayed = 0;
        for (&id, track) in &self.tracks {
            let Some(i) = track.first().copied().flatten() else { continue };
            let here = self.places[0][first.group_of[i as usize] as usize];
            stayed += u64::from(here == place && self.step(cases, strand, id, 0, last) == Step::Stood);
        }
        stayed
    }

    /// Where the groups of equal stacks of sight `n` stand.
    pub fn places(&self, n: usize) -> &[u64] {
        &self.places[n]
    }
}

fn telling_line(snap: &Snap<'_>, i: usize) -> u32 {
    let frames = snap.s.frames_of(snap.goroutine(i));
    frames.get(snap.telling_frame(i)).map_or(snap.goroutine(i).line, |f| f.line)
}

/// `pool.release (sync.Mutex.Lock)`: what the goroutines of a group do.
fn standing_in(snap: &Snap<'_>, group: u32) -> String {
    let Some(&first) = snap.groups.get(group as usize).and_then(|g| g.members.first()) else { return String::new() };
    let doing = describe::doing(snap, first as usize);
    if doing.blocked_in.is_empty() { doing.function } else { format!("{} ({})", doing.function, doing.blocked_in) }
}
