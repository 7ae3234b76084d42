//! The one place that turns facts into trust.
//!
//! Points say how much a kind of fact tells; what may be called `strong` or `proven` is decided by rule, not by
//! points alone: two independent reasons, no rival near, nothing against.

use super::facts::{Fact, FactKind, Found, is_bystander};
use super::{Candidate, Holding, Oldest};
use crate::diagnosis::{HolderStatus, Trust};
use crate::locks::{Identity, LockGroup};
use crate::snap::Snap;
use crate::waits::Primitive;
use holdup_parsers::evidence::LockWord;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Minutes by which two ages may differ and still mean the same moment: one forced collection apart (two minutes,
/// `forcegcperiod` in Go's `runtime/proc.go`) and one for a dump that took long to print.
pub const AGE_SLACK: u32 = 3;

/// Numbers of goroutines that say nothing about their order: each processor takes sixteen at a time (`_GoidCacheBatch`
/// in Go's `runtime/proc.go`).
const ID_SLACK: u64 = 64;

/// A candidate with its points.
#[derive(Debug, Clone)]
pub struct Weighed {
    candidate: Candidate,
    points: i32,
}

fn points(kind: FactKind) -> i32 {
    match kind {
        FactKind::MemoryRelease => 100,
        FactKind::Stated => 80,
        FactKind::MemoryReleaseUnplaced => 60,
        FactKind::OnceRunner => 50,
        FactKind::MemoryHint | FactKind::LaterLineSameObject | FactKind::NamedLocked => 45,
        FactKind::KnownHolder => 35,
        FactKind::Pointer => 30,
        FactKind::LaterLine | FactKind::KnownHolderSometimes => 25,
        FactKind::Marked | FactKind::Recursive => 20,
        FactKind::PointerNear | FactKind::OldestWaiter => 15,
        FactKind::Circle => 12,
        FactKind::Family | FactKind::Sibling | FactKind::Neighbour => 8,
        FactKind::OldestTie => 3,
        FactKind::Rivals => 0,
        FactKind::Younger => -25,
        FactKind::IdleByDesign => -30,
    }
}

/// Points at which a single candidate may be called `likely`, and `strong`.
const LIKELY: i32 = 25;
const STRONG: i32 = 55;
/// What the only candidate of a whole dump gains: nobody else has anything to do with the lock.
const ONLY: i32 = 10;

/// Ranks the candidates of `lock` and names the holder, if one stands out.
pub fn weigh(snap: &Snap<'_>, lock: &LockGroup, found: Found, oldest: &Oldest) -> Holding {
    let longest = lock.oldest(snap);
    let mut ranked: Vec<Weighed> = found
        .into_iter()
        .filter(|((i, _), _)| !is_bystander(snap, *i))
        .map(|((i, reads), mut facts)| {
            add_time(snap, i, longest, oldest, &mut facts);
            let points = sum(&facts);
            Weighed { candidate: Candidate { goroutine: i, reads, trust: Trust::Guess, facts }, points }
        })
        .collect();
    let first_waiter = lock.waiters.iter().filter_map(|&w| snap.goroutine(w as usize).id).min();
    ranked.sort_by_key(|w| {
        // Who once passed the lock and is elsewhere now passed it before the holder did. So of equals the last comer is
        // taken: its wait began closest to that of the longest waiter, its number is the highest below the waiters'.
        let g = snap.goroutine(w.candidate.goroutine);
        let apart = longest.unwrap_or(0).abs_diff(g.minutes.unwrap_or(0));
        let after = g.id > first_waiter.map(|id| id.saturating_add(ID_SLACK));
        (Reverse(w.points), apart, after, if after { Reverse(None) } else { Reverse(g.id) }, w.candidate.goroutine)
    });
    ranked.retain(|w| w.points > 0);
    let whole = is_whole(snap);
    let only = ranked.len() == 1 && whole;
    let Some(best) = ranked.first() else {
        return Holding { status: nobody(snap, lock, whole), ..Holding::default() };
    };
    let best_points = best.points + if only { ONLY } else { 0 };
    let gap = best.points - ranked.get(1).map_or(0, |w| w.points);
    let readers = best.candidate.reads;
    let other_readers = ranked.iter().filter(|w| readers && shows_reader(&w.candidate)).count();
    let trust = trust_of(snap, lock, &best.candidate, best_points, gap, only, readers, other_readers);
    let rivals = ranked.iter().skip(1).filter(|w| best.points - w.points < 8).count();
    let mut ranked = ranked.into_iter().map(|w| w.candidate);
    let mut holder = ranked.next();
    if let Some(candidate) = &mut holder {
        candidate.trust = trust;
        if rivals > 0 && !readers {
            let text =
                format!("{rivals} other {} as well", if rivals == 1 { "goroutine fits" } else { "goroutines fit" });
            candidate.facts.push(Fact::against(FactKind::Rivals, 0, text));
        }
    }
    Holding { holder, status: HolderStatus::Named, others: ranked.collect() }
}

fn sum(facts: &[Fact]) -> i32 {
    let has = |kind| facts.iter().any(|f| f.kind == kind);
    facts
        .iter()
        .map(|f| match f.kind {
            // The same frame seen twice is one reason.
            FactKind::Pointer if has(FactKind::LaterLineSameObject) => 5,
            FactKind::LaterLine if has(FactKind::LaterLineSameObject) => 0,
            FactKind::Family if has(FactKind::LaterLine) || has(FactKind::LaterLineSameObject) => 0,
            FactKind::PointerNear if has(FactKind::Pointer) => 0,
            kind => points(kind),
        })
        .sum()
}

fn add_time(snap: &Snap<'_>, i: usize, longest: Option<u32>, oldest: &Oldest, facts: &mut Vec<Fact>) {
    let g = snap.goroutine(i);
    let blocked = snap.waits[i].primitive.is_blocked();
    if let Some(longest) = longest {
        let own = g.minutes.unwrap_or(0);
        if own + AGE_SLACK < longest {
            let what = if blocked { "has waited" } else { "is not blocked, or" };
            let text = format!("{what} {own} minutes at least, and the longest waiter {longest}: it got stuck later");
            facts.push(Fact::against(FactKind::Younger, g.line, text));
        }
    }
    if let (Some(age), Some(own)) = (oldest.minutes, g.minutes)
        && age == own
        && oldest.goroutines.contains(&i)
    {
        if oldest.count == 1 {
            let next = oldest.next.map_or(String::new(), |n| format!(", the next {n}"));
            let text = format!("blocked longest in this process: {age} minutes{next}");
            facts.push(Fact::new(FactKind::OldestWaiter, g.line, text));
        } else {
            let text =
                format!("shares the longest wait ({age} minutes) with {} others: a tie says little", oldest.count - 1);
            facts.push(Fact::new(FactKind::OldestTie, g.line, text));
        }
    }
    if let Some(why) = snap.idle(i) {
        facts.push(Fact::against(FactKind::IdleByDesign, g.line, format!("looks idle by design: {why}")));
    }
}

#[allow(clippy::too_many_arguments)]
fn trust_of(
    snap: &Snap<'_>,
    lock: &LockGroup,
    best: &Candidate,
    points: i32,
    gap: i32,
    only: bool,
    readers: bool,
    other_readers: usize,
) -> Trust {
    let has = |kind| best.facts.iter().any(|f| f.kind == kind);
    let against = best.facts.iter().any(|f| f.against);
    if has(FactKind::MemoryRelease) {
        return memory_trust(snap, lock, gap, readers, against, other_readers);
    }
    if has(FactKind::MemoryReleaseUnplaced) {
        let locked = word_of(snap, lock).is_some_and(|word| word.locked == Some(true));
        return if locked && gap >= 20 && !against { Trust::Strong } else { Trust::Likely };
    }
    if has(FactKind::Stated) {
        // It was so when the report was written; of several readers it names one.
        return if gap >= 20 || readers { Trust::Strong } else { Trust::Likely };
    }
    // That somebody stands behind a lock call or has the lock's object says where it has been, not that it still holds
    // the lock: it may have unlocked since. For `strong`, something must say that it holds a lock where it stands now,
    // something that it is this very lock, and the two must not be the same frame seen twice.
    let place = has(FactKind::LaterLineSameObject) || has(FactKind::LaterLine) || has(FactKind::KnownHolder);
    let object = has(FactKind::LaterLineSameObject) || has(FactKind::Pointer);
    let own = has(FactKind::NamedLocked) || has(FactKind::OnceRunner) || has(FactKind::MemoryHint);
    let holds_there = has(FactKind::KnownHolder) || own;
    let this_one = object || own || has(FactKind::OldestWaiter);
    let reasons = [place, object, own, has(FactKind::OldestWaiter), only].iter().filter(|&&r| r).count();
    let clear = gap >= 20 || readers;
    if points >= STRONG
        && holds_there
        && this_one
        && reasons >= 2
        && clear
        && !against
        && lock.identity <= Identity::Object
    {
        Trust::Strong
    } else if points >= LIKELY && (gap >= 8 || readers) {
        Trust::Likely
    } else {
        Trust::Guess
    }
}

/// A reader that no deferred release shows, but its frames do.
fn shows_reader(candidate: &Candidate) -> bool {
    let has = |kind| candidate.facts.iter().any(|f| f.kind == kind);
    candidate.reads
        && !has(FactKind::MemoryRelease)
        && (has(FactKind::Pointer) || has(FactKind::LaterLineSameObject) || has(FactKind::MemoryHint))
}

fn word_of<'s>(snap: &'s Snap<'_>, lock: &LockGroup) -> Option<&'s LockWord> {
    let memory = snap.s.memory.as_ref()?;
    memory.locks.iter().find(|word| Some(word.address) == lock.address)
}

/// `proven` needs the lock's own word to agree: locked, by as many as have a pending release. Readers without a
/// deferred release count where their frames show them past the lock (`other_readers`); one too many or too few, and
/// nothing is proven.
fn memory_trust(
    snap: &Snap<'_>,
    lock: &LockGroup,
    gap: i32,
    readers: bool,
    against: bool,
    other_readers: usize,
) -> Trust {
    let (Some(memory), Some(word)) = (&snap.s.memory, word_of(snap, lock)) else { return Trust::Likely };
    let releases: BTreeSet<u64> = memory
        .releases
        .iter()
        .filter(|r| Some(r.lock) == lock.address && r.read == readers && r.past_acquisition && !r.released_window)
        .map(|r| r.goroutine)
        .collect();
    let agrees = if readers {
        word.readers.is_some_and(|n| n as usize == releases.len() + other_readers)
    } else {
        word.locked == Some(true) && releases.len() == 1
    };
    let free = if readers { word.readers == Some(0) } else { word.locked == Some(false) };
    if agrees && (gap >= 30 || readers) {
        Trust::Proven
    } else if !against && !free {
        Trust::Strong
    } else {
        Trust::Guess
    }
}

/// Why nobody is named.
fn nobody(snap: &Snap<'_>, lock: &LockGroup, whole: bool) -> HolderStatus {
    if !whole {
        return HolderStatus::NotInEvidence;
    }
    let possible = snap.possible_holders(|i| {
        snap.idle(i).is_none() && !is_bystander(snap, i) && snap.waits[i].primitive != Primitive::Unknown
    });
    let all = possible.iter().filter(|&&p| p).take(lock.waiters.len() + 1).count();
    let waiting = lock.waiters.iter().filter(|&&w| possible.get(w as usize) == Some(&true)).count();
    let others = all.saturating_sub(waiting);
    if others == 0 { HolderStatus::Leaked } else { HolderStatus::Unknown }
}

/// Whether all goroutines of the process are there: nothing was cut, and goroutine 1, which every process has, is
/// among them.
pub fn is_whole(snap: &Snap<'_>) -> bool {
    snap.s.complete && snap.index_of(1).is_some()
}

/// Facts that are about this goroutine and this lock, rather than about what both look like.
fn tells_by_itself(kind: FactKind) -> bool {
    !matches!(
        kind,
        FactKind::Sibling
            | FactKind::Neighbour
            | FactKind::Family
            | FactKind::Circle
            | FactKind::OldestTie
            | FactKind::OldestWaiter
    )
}

/// Two weak guesses that close a circle support each other: `a` waits for what `b` seems to hold, and `b` for what
/// `a` seems to hold.
pub fn close_circles(snap: &Snap<'_>, locks: &[LockGroup], holdings: &mut [Holding]) {
    let mut waits_for: FxHashMap<usize, usize> = FxHashMap::default();
    for (n, lock) in locks.iter().enumerate() {
        for &w in &lock.waiters {
            waits_for.insert(w as usize, n);
        }
    }
    let mut raise = Vec::new();
    for start in 0..locks.len() {
        let mut path = Vec::new();
        let mut at = start;
        while path.len() <= 8 {
            let Some(candidate) = holdings[at].holder.as_ref() else { break };
            path.push(at);
            let Some(&next) = waits_for.get(&candidate.goroutine) else { break };
            if next == start && path.len() > 1 {
                raise.push(path.clone());
                break;
            }
            if path.contains(&next) {
                break;
            }
            at = next;
        }
    }
    for path in raise {
        for n in path {
            let Some(candidate) = holdings[n].holder.as_mut() else { continue };
            if candidate.trust != Trust::Guess || candidate.facts.iter().any(|f| f.kind == FactKind::Circle) {
                continue;
            }
            let line = snap.goroutine(candidate.goroutine).line;
            let text = "if it holds this lock, the waits close a circle, and none of them could ever end".to_string();
            candidate.facts.push(Fact::new(FactKind::Circle, line, text));
            let reasons = candidate.facts.iter().filter(|f| !f.against).count();
            let against =
                candidate.facts.iter().any(|f| f.kind == FactKind::Younger || f.kind == FactKind::IdleByDesign);
            let told = candidate.facts.iter().any(|f| !f.against && tells_by_itself(f.kind));
            if reasons >= 3 && told && !against {
                candidate.trust = Trust::Likely;
            }
        }
    }
}
