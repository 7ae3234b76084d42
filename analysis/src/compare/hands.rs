//! Which locks went from hand to hand, and which did not.
//!
//! The fact that decides: nobody gives up waiting for a `sync.Mutex` or `sync.RWMutex`. A waiter that has gone on was
//! given the lock, so the lock was free in between.

use super::model::{ComparedLock, Course, LockAt};
use super::moments::{Sight, Strand, snap_of};
use super::standing::{Standing, Step};
use crate::case::Case;
use crate::locks::{Identity, LockGroup};
use rustc_hash::{FxHashMap, FxHashSet};

/// How a lock is known again in another dump of its process. Go's collector moves no objects.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Mark {
    Address(u64, &'static str),
    /// Without an address: its type, if only one lock of a dump has it.
    Type(String, &'static str),
}

/// The locks of a process through its sights.
#[derive(Debug, Default)]
pub struct Hands {
    locks: Vec<ComparedLock>,
    /// Index of each lock at each sight, in that snapshot's own list.
    at: Vec<Vec<Option<usize>>>,
    /// By sight: the lock of each waiting goroutine.
    waits: Vec<FxHashMap<usize, usize>>,
}

impl Hands {
    /// Follows every lock that is waited for at some sight. `number` names the process.
    pub fn of(cases: &[Case<'_>], strand: &Strand, standing: &Standing, number: usize) -> Self {
        let sights = &strand.sights;
        let mut marks: Vec<Vec<Option<Mark>>> = sights.iter().map(|&s| marks(cases, s)).collect();
        join_by_type(cases, sights, &mut marks);
        let mut index: FxHashMap<&Mark, usize> = FxHashMap::default();
        let mut hands = Hands { waits: vec![FxHashMap::default(); sights.len()], ..Hands::default() };
        for (n, found) in marks.iter().enumerate() {
            for (l, mark) in found.iter().enumerate() {
                let Some(mark) = mark else { continue };
                let slot = *index.entry(mark).or_insert_with(|| {
                    hands.at.push(vec![None; sights.len()]);
                    hands.at.len() - 1
                });
                hands.at[slot][n] = Some(l);
                let lock = &cases[sights[n].case].locks[sights[n].snap][l];
                hands.waits[n].extend(lock.waiters.iter().map(|&w| (w as usize, slot)));
            }
        }
        for slot in 0..hands.at.len() {
            let lock = hands.follow(cases, strand, standing, slot, format!("p{number}/l{}", slot + 1));
            hands.locks.push(lock);
        }
        hands
    }

    /// Id of the lock in `slot`.
    pub fn id(&self, slot: usize) -> String {
        self.locks.get(slot).map_or(String::new(), |lock| lock.id.clone())
    }

    /// Slot of the lock that goroutine `i` of sight `n` waits for.
    pub fn waited_for(&self, n: usize, i: usize) -> Option<usize> {
        self.waits.get(n)?.get(&i).copied()
    }

    /// Ids of the locks that each goroutine holds in the last sight.
    pub fn held_by(&self) -> FxHashMap<u64, Vec<String>> {
        let mut held: FxHashMap<u64, Vec<String>> = FxHashMap::default();
        for lock in &self.locks {
            if let Some(holder) = lock.at.last().and_then(Option::as_ref).and_then(|at| at.holder) {
                held.entry(holder).or_default().push(lock.id.clone());
            }
        }
        held
    }

    /// What became of lock `l` of the snapshot at sight `n`.
    pub fn course(&self, n: usize, l: usize) -> Option<(Course, &str)> {
        let slot = self.at.iter().position(|at| at.get(n).copied().flatten() == Some(l))?;
        self.locks.get(slot).map(|lock| (lock.course, lock.why.as_str()))
    }

    /// The locks with an id, those that are stuck first.
    pub fn locks(&self) -> &[ComparedLock] {
        &self.locks
    }

    /// The same for the reader: what is stuck first, most waiters first.
    pub fn shown(&self) -> Vec<ComparedLock> {
        let mut shown = self.locks.clone();
        let most = |lock: &ComparedLock| lock.at.iter().flatten().map(|at| at.waiter_count).max();
        shown.sort_by_key(|lock| {
            let rank = match lock.course {
                Course::Stuck => 0,
                Course::ChangesHands => 1,
                Course::New => 2,
                Course::Unclear => 3,
                Course::Released => 4,
            };
            (rank, std::cmp::Reverse(most(lock)))
        });
        shown
    }

    fn follow(
        &self,
        cases: &[Case<'_>],
        strand: &Strand,
        standing: &Standing,
        slot: usize,
        id: String,
    ) -> ComparedLock {
        let sights = &strand.sights;
        let group = |n: usize| -> Option<&LockGroup> {
            let l = self.at[slot][n]?;
            cases[sights[n].case].locks[sights[n].snap].get(l)
        };
        let waiters = |n: usize| -> Vec<u64> {
            let snap = snap_of(cases, sights[n]);
            let all = group(n).map_or(&[][..], |lock| &lock.waiters);
            all.iter().filter_map(|&w| snap.goroutine(w as usize).id).collect()
        };
        let at: Vec<Option<LockAt>> = (0..sights.len())
            .map(|n| {
                let (lock, snap) = (group(n)?, snap_of(cases, sights[n]));
                let holding = &cases[sights[n].case].holdings[sights[n].snap][self.at[slot][n]?];
                let oldest = lock.waiters.iter().max_by_key(|&&w| snap.goroutine(w as usize).minutes);
                let line = oldest.map_or(0, |&w| snap.goroutine(w as usize).line);
                Some(LockAt {
                    moment: sights[n].moment as u32 + 1,
                    lock: lock.id.clone(),
                    waiter_count: lock.waiter_count(snap),
                    oldest_wait_minutes: lock.oldest(snap),
                    holder: holding.holder.as_ref().and_then(|c| snap.goroutine(c.goroutine).id),
                    holder_status: holding.status,
                    place: super::place(cases, sights[n], line),
                })
            })
            .collect();
        let seen: Vec<usize> = (0..sights.len()).filter(|&n| at[n].is_some()).collect();
        let (first, last) = (seen.first().copied().unwrap_or(0), seen.last().copied().unwrap_or(0));
        let newest = group(last);
        let ids: Vec<Vec<u64>> = (0..sights.len()).map(waiters).collect();
        let before: FxHashSet<u64> =
            last.checked_sub(1).and_then(|n| ids.get(n)).map(|v| v.iter().copied().collect()).unwrap_or_default();
        let same =
            |id: &u64| last > first && (first..last).all(|n| self.waits_on(cases, strand, standing, *id, n, slot));
        let mut served: Vec<u64> = Vec::new();
        for n in first..sights.len().saturating_sub(1) {
            // A dump that is cut short lacks goroutines that still wait.
            let whole = snap_of(cases, sights[n + 1]).s.complete;
            served.extend(ids[n].iter().filter(|&&id| match standing.step(cases, strand, id, n, n + 1) {
                Step::Stood => false,
                Step::Absent => whole,
                Step::Moved | Step::CameBack => true,
            }));
        }
        served.sort_unstable();
        served.dedup();
        let mut lock = ComparedLock {
            id,
            label: newest.map_or(String::new(), LockGroup::label),
            kind: newest.map_or(String::new(), |l| l.kind.to_string()),
            address: newest.and_then(|l| l.address).map(|a| format!("{a:#x}")),
            type_: newest.and_then(|l| l.type_name.clone()),
            same_waiters: ids[last].iter().filter(|id| same(id)).copied().collect(),
            new_waiters: ids[last].iter().filter(|&id| last > 0 && !before.contains(id)).copied().collect(),
            served,
            at,
            ..ComparedLock::default()
        };
        let exclusive = is_held(&lock.kind);
        (lock.course, lock.why) = self.judge(cases, strand, standing, &lock, exclusive, last);
        lock
    }

    /// Whether `id` waits for the lock at sight `n` and stands there still at the next.
    fn waits_on(
        &self,
        cases: &[Case<'_>],
        strand: &Strand,
        standing: &Standing,
        id: u64,
        n: usize,
        slot: usize,
    ) -> bool {
        let waits = standing.index(id, n).is_some_and(|i| self.waited_for(n, i) == Some(slot));
        waits && standing.step(cases, strand, id, n, n + 1) == Step::Stood
    }

    fn judge(
        &self,
        cases: &[Case<'_>],
        strand: &Strand,
        standing: &Standing,
        lock: &ComparedLock,
        exclusive: bool,
        last: usize,
    ) -> (Course, String) {
        let end = strand.sights.len() - 1;
        let earlier = lock.at.iter().take(end).flatten().count();
        if lock.at[end].is_none() {
            return (Course::Released, "nobody waits for it any more in the last dump".into());
        }
        if earlier == 0 {
            return (Course::New, "nobody waited for it in the dumps before the last".into());
        }
        if !exclusive {
            let what = "what is waited for is no lock that somebody holds";
            return match lock.same_waiters.is_empty() {
                true => (Course::Unclear, what.into()),
                false => (Course::Stuck, format!("the same goroutines wait; {what}")),
            };
        }
        let holders: Vec<(usize, u64)> =
            lock.at.iter().enumerate().filter_map(|(n, at)| Some((n, at.as_ref()?.holder?))).collect();
        let holder_stays = holders.last().is_some_and(|&(n, id)| {
            let from = holders.first().map_or(n, |h| h.0);
            holders.iter().all(|h| h.1 == id) && standing.since(cases, strand, id, n) <= from
        });
        let readers_pass = lock.kind == "rwmutex" && holder_stays;
        if !lock.served.is_empty() && !readers_pass {
            let ids: Vec<String> = lock.served.iter().take(3).map(u64::to_string).collect();
            return (
                Course::ChangesHands,
                format!(
                    "{} waited for it and went on (such as {}): whoever waits for a lock goes on only with it",
                    crate::describe::count(lock.served.len() as u64, "goroutine", "goroutines"),
                    ids.join(", ")
                ),
            );
        }
        if let Some(pair) = holders.windows(2).find(|pair| {
            pair[0].1 != pair[1].1
                && !matches!(standing.step(cases, strand, pair[0].1, pair[0].0, pair[1].0), Step::Stood)
        }) {
            return (Course::ChangesHands, format!("goroutine {} held it, then goroutine {}", pair[0].1, pair[1].1));
        }
        if lock.same_waiters.is_empty() {
            return (Course::Unclear, "no waiter is known to be the same in the dumps".into());
        }
        let holder = match holders.last() {
            Some((n, id)) if holder_stays && *n == last && holders.len() > 1 => {
                format!(", and goroutine {id} that holds it has not moved")
            }
            _ => String::new(),
        };
        let n = lock.same_waiters.len() as u64;
        let who = crate::describe::count(n, "goroutine", "goroutines");
        (Course::Stuck, format!("{who} waited for it in every dump that shows it, nobody went on{holder}"))
    }
}

/// What each lock of a dump is known again by; `None` for what cannot be followed or need not be: channels and
/// conditions have no holder and are mostly waited for all the time, and what only idle goroutines wait for is no news.
fn marks(cases: &[Case<'_>], sight: Sight) -> Vec<Option<Mark>> {
    let (locks, snap) = (&cases[sight.case].locks[sight.snap], snap_of(cases, sight));
    let mut types: FxHashMap<(&str, &str), u32> = FxHashMap::default();
    for lock in locks {
        if let Some(name) = &lock.type_name {
            *types.entry((name, lock.kind)).or_default() += 1;
        }
    }
    let mark = |lock: &LockGroup| match (lock.address, lock.identity) {
        _ if matches!(lock.kind, "channel" | "cond") => None,
        _ if !is_held(lock.kind) && lock.waiters.iter().all(|&w| snap.idle(w as usize).is_some()) => None,
        (Some(address), Identity::Exact | Identity::Computed | Identity::Object) => {
            Some(Mark::Address(address, lock.kind))
        }
        // Waiters for groups without an address are each their own; only locks meet by type.
        _ if !is_held(lock.kind) => None,
        _ => {
            let name = lock.type_name.as_deref()?;
            (types.get(&(name, lock.kind)) == Some(&1)).then(|| Mark::Type(name.to_string(), lock.kind))
        }
    };
    locks.iter().map(mark).collect()
}

/// A lock whose address one form of dump shows and another does not: the same, if each dump has only one of its type.
fn join_by_type(cases: &[Case<'_>], sights: &[Sight], marks: &mut [Vec<Option<Mark>>]) {
    let mut known: FxHashMap<(String, &'static str), (usize, FxHashSet<u64>)> = FxHashMap::default();
    let locks = |n: usize| &cases[sights[n].case].locks[sights[n].snap];
    for n in 0..sights.len() {
        let mut here: FxHashMap<(String, &'static str), usize> = FxHashMap::default();
        for lock in locks(n).iter().filter(|lock| is_held(lock.kind)) {
            let Some(name) = lock.type_name.clone() else { continue };
            let count = here.entry((name.clone(), lock.kind)).or_default();
            *count += 1;
            let seen = known.entry((name, lock.kind)).or_default();
            seen.0 = seen.0.max(*count);
            seen.1.extend(lock.address);
        }
    }
    for (n, marks) in marks.iter_mut().enumerate() {
        for (lock, mark) in locks(n).iter().zip(marks) {
            let Some(name) = lock.type_name.clone().filter(|_| mark.is_some()) else { continue };
            if known.get(&(name.clone(), lock.kind)).is_some_and(|(most, addresses)| *most == 1 && addresses.len() <= 1)
            {
                *mark = Some(Mark::Type(name, lock.kind));
            }
        }
    }
}

fn is_held(kind: &str) -> bool {
    matches!(kind, "mutex" | "rwmutex" | "once")
}
