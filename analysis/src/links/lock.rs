//! Waiter to lock, lock to holder.

use crate::case::Case;
use crate::describe;
use crate::diagnosis::{Evidence, Source, Trust};
use crate::graph::{Key, Link};
use crate::holders::{Candidate, FactKind};
use crate::locks::Identity;
use crate::snap::Snap;
use crate::waits::Primitive;

/// The lock that a goroutine waits for. That it stands in the lock's own call is proof that it waits; which lock it
/// is, is as sure as the lock's identity.
pub fn waits(case: &Case<'_>, snap: usize, i: usize) -> Option<(Key, Link)> {
    let s = &case.snaps[snap];
    if !s.waits[i].primitive.is_exclusive_lock() {
        return None;
    }
    let n = *case.lock_of[snap].get(&i)?;
    let lock = &case.locks[snap][n];
    let trust = match lock.identity {
        Identity::Exact => Trust::Proven,
        Identity::Computed => Trust::Strong,
        Identity::Object => Trust::Likely,
        Identity::Site => Trust::Guess,
    };
    let g = s.goroutine(i);
    let call = match s.waits[i].primitive {
        Primitive::RwRead => "RLock",
        Primitive::Once => "Do",
        _ => "Lock",
    };
    let text = format!("{} waits in its call of {call}", s.frame_name(i, s.waits[i].acquirer));
    let line = s.s.frames_of(g).get(s.waits[i].acquirer).map_or(g.line, |f| f.line);
    let evidence = describe::frame_evidence(s, "frame", text, line);
    Some((Key::Lock(snap, n), Link { why: "lock", trust, evidence: vec![evidence] }))
}

/// The goroutine that holds a lock.
pub fn holder(case: &Case<'_>, snap: usize, n: usize) -> Option<(Key, Link)> {
    let candidate = case.holdings[snap][n].holder.as_ref()?;
    let evidence = evidence_of(&case.snaps[snap], candidate);
    Some((Key::Goroutine(snap, candidate.goroutine), Link { why: "lock", trust: candidate.trust, evidence }))
}

/// A candidate's facts as evidence, the heaviest first as they were found.
pub fn evidence_of(s: &Snap<'_>, candidate: &Candidate) -> Vec<Evidence> {
    let facts = candidate.facts.iter().map(|fact| Evidence {
        kind: word(fact.kind).into(),
        text: fact.text.clone(),
        source: describe::source(s, fact.line, fact.line + u32::from(fact.line > 0)).or_else(|| {
            fact.address.map(|a| Source {
                input: s.s.input as usize,
                address: Some(format!("{a:#x}")),
                ..Source::default()
            })
        }),
        against: fact.against,
    });
    facts.collect()
}

fn word(kind: FactKind) -> &'static str {
    match kind {
        FactKind::MemoryRelease | FactKind::MemoryReleaseUnplaced | FactKind::MemoryHint => "memory",
        FactKind::Stated => "stated",
        FactKind::LaterLineSameObject | FactKind::LaterLine => "later-line",
        FactKind::Pointer | FactKind::PointerNear | FactKind::Marked => "pointer",
        FactKind::KnownHolder | FactKind::KnownHolderSometimes => "rule",
        FactKind::NamedLocked => "name",
        FactKind::OnceRunner => "once",
        FactKind::Recursive => "recursion",
        FactKind::Family | FactKind::Sibling | FactKind::Neighbour => "family",
        FactKind::OldestWaiter | FactKind::OldestTie => "oldest-waiter",
        FactKind::Circle => "circle",
        FactKind::Younger => "time",
        FactKind::IdleByDesign | FactKind::Rivals => "exclusion",
    }
}
