//! Who holds a lock. A text dump never says; the facts that point to somebody are gathered here, each kind by its own
//! function, and weighed in one place ([`weigh`]).

mod facts;
mod memory;
mod scan;
mod weigh;

pub use facts::{Fact, FactKind};
pub use weigh::{AGE_SLACK, is_whole};

use crate::diagnosis::{HolderStatus, Trust};
use crate::locks::LockGroup;
use crate::snap::Snap;
use rustc_hash::FxHashMap;
use scan::Scan;

/// Candidates of one lock that are kept, best first; further ones add nothing a reader could use.
const KEPT: usize = 8;

/// What is known of a lock's holder.
#[derive(Debug, Clone, Default)]
pub struct Holding {
    /// Who holds it, if one can be named.
    pub holder: Option<Candidate>,
    /// Why there is or is not one.
    pub status: HolderStatus,
    /// Others, ranked.
    pub others: Vec<Candidate>,
}

/// A goroutine that holds the lock, or might.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Its index.
    pub goroutine: usize,
    /// Whether as a reader.
    pub reads: bool,
    /// How sure.
    pub trust: Trust,
    /// Why, and what speaks against it.
    pub facts: Vec<Fact>,
}

/// Longest waits of the process.
#[derive(Debug, Clone, Default)]
pub struct Oldest {
    /// The age in minutes; `None` if no goroutine shows one.
    pub minutes: Option<u32>,
    /// Who has it, at most a handful; `count` says how many.
    pub goroutines: Vec<usize>,
    /// How many share it.
    pub count: usize,
    /// The age of the next.
    pub next: Option<u32>,
}

impl Oldest {
    /// Of the goroutines that are blocked and not idle by design, which has waited longest.
    pub fn of(snap: &Snap<'_>) -> Self {
        let mut oldest = Oldest::default();
        for (i, wait) in snap.waits.iter().enumerate() {
            let Some(minutes) = snap.goroutine(i).minutes else { continue };
            if !wait.primitive.is_blocked() || snap.idle(i).is_some() {
                continue;
            }
            match oldest.minutes {
                Some(age) if age == minutes => {
                    oldest.count += 1;
                    if oldest.goroutines.len() < 8 {
                        oldest.goroutines.push(i);
                    }
                }
                Some(age) if age > minutes => oldest.next = oldest.next.max(Some(minutes)),
                _ => {
                    oldest.next = oldest.minutes;
                    oldest.minutes = Some(minutes);
                    oldest.goroutines = vec![i];
                    oldest.count = 1;
                }
            }
        }
        oldest
    }
}

/// Infers the holder of every lock of a snapshot.
pub fn infer(snap: &Snap<'_>, locks: &[LockGroup]) -> Vec<Holding> {
    let scan = Scan::of(snap, locks);
    let oldest = Oldest::of(snap);
    let mut holdings: Vec<Holding> = locks
        .iter()
        .enumerate()
        .map(|(n, lock)| match lock.kind {
            "mutex" | "rwmutex" | "once" => {
                let mut found: FxHashMap<(usize, bool), Vec<Fact>> = FxHashMap::default();
                facts::gather(snap, lock, n, &scan, &mut found);
                memory::gather(snap, lock, &mut found);
                memory::stated(snap, lock, &mut found);
                weigh::weigh(snap, lock, found, &oldest)
            }
            _ => Holding { status: HolderStatus::NotApplicable, ..Holding::default() },
        })
        .collect();
    weigh::close_circles(snap, locks, &mut holdings);
    for holding in &mut holdings {
        holding.others.truncate(KEPT);
    }
    holdings
}
