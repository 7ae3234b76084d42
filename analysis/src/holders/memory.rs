//! What a core's memory, or the program's own lock library, says about who holds a lock.

use super::facts::{Fact, FactKind, Found};
use crate::locks::LockGroup;
use crate::snap::Snap;

/// Adds what a library that watches locks said about `lock`.
pub fn stated(snap: &Snap<'_>, lock: &LockGroup, found: &mut Found) {
    let Some(address) = lock.address else { return };
    for stated in snap.s.stated_locks.iter().filter(|s| s.holds && s.lock == address) {
        let Some(i) = snap.s.goroutines.iter().position(|g| g.id == Some(stated.goroutine)) else { continue };
        let text = format!(
            "the program's lock library reports that goroutine {} took this lock and still has it",
            stated.goroutine
        );
        found.entry((i, stated.reads)).or_default().push(Fact::new(FactKind::Stated, stated.line, text));
    }
}

/// Adds the facts of memory about `lock`.
pub fn gather(snap: &Snap<'_>, lock: &LockGroup, found: &mut Found) {
    let (Some(memory), Some(address)) = (&snap.s.memory, lock.address) else { return };
    let waiting: std::collections::HashSet<usize> = lock.waiters.iter().map(|&w| w as usize).collect();
    for release in memory.releases.iter().filter(|r| r.lock == address && !r.released_window) {
        let Some(i) = snap.index_of(release.goroutine) else { continue };
        let call = if release.read { "RUnlock" } else { "Unlock" };
        let pending = format!("a deferred {call} of this lock is pending in {}", release.function);
        // `defer mu.Unlock(); mu.Lock()`: who stands in the Lock has the pending Unlock already.
        let (kind, text) = if release.past_acquisition {
            (FactKind::MemoryRelease, pending)
        } else if waiting.contains(&i) {
            continue;
        } else {
            (FactKind::MemoryReleaseUnplaced, format!("{pending}; where it took the lock is not seen in that function"))
        };
        let mut fact = Fact::new(kind, 0, text);
        fact.address = Some(release.at);
        found.entry((i, release.read)).or_default().push(fact);
    }
    for hint in memory.hints.iter().filter(|h| h.lock == address && h.after_lock_call) {
        let Some(i) = snap.index_of(hint.goroutine) else { continue };
        let text = format!("the lock's address lies in the live frame of {}, behind its lock call", hint.function);
        let mut fact = Fact::new(FactKind::MemoryHint, 0, text);
        fact.address = Some(hint.at);
        let reads = found.keys().any(|&(g, r)| g == i && r);
        found.entry((i, reads)).or_default().push(fact);
    }
}
