//! What memory says about locks: their words, who queues, who is to release them, whose frames point at them.
//!
//! Facts only. A pending Unlock alone proves nothing (the defer may stand before the Lock, the lock may have been given
//! back for a while): each carries where its frame stands, and the analysis weighs them.

mod graph;
pub(super) mod names;
mod position;
mod queues;
mod semaphores;
mod words;

use super::Go;
use super::defers::Pending;
use super::goroutines::Goroutine;
use super::machine::Released;
use super::pclntab::Function;
use super::unwind::Frame;
use crate::evidence::{DeferredRelease, HeldHint, LockWord, MemoryFacts, QueuedWaiter};
use position::{Flow, Position};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::rc::Rc;
use words::Object;

/// Frames of a goroutine that are looked at for locks.
const FRAMES: usize = 512;
/// Bytes of a frame that are searched for a lock's address.
const FRAME: u64 = 1 << 16;

/// Where a function stands, for one frame; the same frame asks for several locks.
type Flows = FxHashMap<(u64, u64, bool), Option<Rc<Flow>>>;

impl Go<'_> {
    /// Reads everything that memory says about locks.
    pub fn memory_facts(&self) -> MemoryFacts {
        let ids: FxHashMap<u64, u64> = self.goroutines.iter().map(|g| (g.address, g.id)).collect();
        let by_address: FxHashMap<u64, &Goroutine> = self.goroutines.iter().map(|g| (g.address, g)).collect();
        let mut locks = self.semaphores(&ids, &by_address);
        let conds = self.conds(&ids);
        // A Cond's waiters have given back its L: the goroutine and where it waits.
        let mut facts = MemoryFacts::default();
        // An Unlock is called on the mutex within; the lock that people know is the object around it.
        let outer: FxHashMap<u64, u64> = locks.keys().map(|object| (object.mutex(), object.address)).collect();
        let held: Vec<(u64, u64)> = locks
            .iter()
            .filter(|(object, word)| {
                matches!(object.kind, "mutex" | "rwmutex" | "once") && word.locked != Some(false)
                    || word.readers.is_some_and(|readers| readers > 0)
            })
            .map(|(object, _)| (object.mutex(), object.address))
            .collect();
        let mut waits: FxHashMap<u64, Vec<u64>> = FxHashMap::default();
        for lock in locks.values() {
            for waiter in &lock.queue {
                waits.entry(waiter.goroutine).or_default().push(lock.address);
            }
        }
        let mut flows = Flows::default();
        for g in &self.goroutines {
            let frames = self.frames(g, FRAMES);
            let pending = self.pending(g, &frames);
            for call in &pending {
                for released in self.releases(call.closure, &call.arguments) {
                    let release = self.release(g, &frames, call, released, &conds, &outer, &mut flows);
                    if !facts.releases.contains(&release) {
                        facts.releases.push(release);
                    }
                }
            }
            let queues = waits.get(&g.id).map_or(&[][..], Vec::as_slice);
            let others: Vec<_> = held.iter().filter(|(_, lock)| !queues.contains(lock)).copied().collect();
            self.hints(g, &frames, &others, &mut flows, &mut facts.hints);
        }
        let mut found: Vec<LockWord> = std::mem::take(&mut locks).into_values().collect();
        found.extend(
            conds
                .into_values()
                .map(|cond| cond.word)
                .fold(BTreeMap::new(), |mut all, word| {
                    all.entry(word.address).or_insert(word);
                    all
                })
                .into_values(),
        );
        found.extend(self.channels(&ids));
        facts.locks = found;
        facts
    }

    /// Objects with a semaphore that somebody sleeps on.
    fn semaphores(
        &self,
        ids: &FxHashMap<u64, u64>,
        by_address: &FxHashMap<u64, &Goroutine>,
    ) -> BTreeMap<Object, LockWord> {
        let mut found: BTreeMap<Object, LockWord> = BTreeMap::new();
        for (sema, queue) in self.semaphore_queues() {
            let Some(first) = queue.iter().find_map(|g| by_address.get(g)) else { continue };
            let object = self.object(sema, &self.frames(first, FRAMES));
            let key = Object { mode: "", ..object };
            let Some(word) = words::read(self.memory, &object) else { continue };
            let entry = found.entry(key).or_insert(word);
            let waiters = queue.iter().filter_map(|g| ids.get(g));
            entry.queue.extend(waiters.map(|&goroutine| QueuedWaiter { goroutine, mode: object.mode }));
        }
        found
    }

    /// The Cond of every goroutine that waits on one, by goroutine.
    fn conds(&self, ids: &FxHashMap<u64, u64>) -> FxHashMap<u64, Waited> {
        let mut found: FxHashMap<u64, Waited> = FxHashMap::default();
        for g in self.goroutines.iter().filter(|g| self.state(g) == "sync.Cond.Wait") {
            if found.contains_key(&g.id) {
                continue;
            }
            let frames = self.frames(g, FRAMES);
            let Some(word) = self.cond_of(g, &frames, ids) else { continue };
            // The data word of the interface L.
            let lock = self.memory.u64(word.address.wrapping_add(8)).ok();
            for waiter in &word.queue {
                found.insert(waiter.goroutine, Waited { lock, word: word.clone() });
            }
        }
        found
    }

    #[allow(clippy::too_many_arguments)]
    fn release(
        &self,
        g: &Goroutine,
        frames: &[Frame],
        call: &Pending,
        released: Released,
        conds: &FxHashMap<u64, Waited>,
        outer: &FxHashMap<u64, u64>,
        flows: &mut Flows,
    ) -> DeferredRelease {
        let lock = released.lock;
        let own = call.frame.and_then(|index| frames.get(index));
        let mut release = DeferredRelease {
            goroutine: g.id,
            lock: outer.get(&lock).copied().unwrap_or(lock),
            read: released.read,
            function: own.map_or_else(String::new, |frame| self.table.name(&frame.function).to_owned()),
            at: call.at,
            past_acquisition: false,
            released_window: false,
        };
        let Some(own) = own else { return release };
        let position = self.position(own, lock, true, flows);
        release.past_acquisition = position.taken;
        release.released_window = position.given;
        let inner = frames.get(..call.frame.unwrap_or(0)).unwrap_or(&[]);
        // A Cond gives its lock back while it waits; one that is not found may be the lock's.
        if inner.iter().any(|frame| self.table.name(&frame.function) == "sync.(*Cond).Wait") {
            let other = conds.get(&g.id).and_then(|cond| cond.lock).is_some_and(|of_cond| of_cond != lock);
            release.released_window |= !other;
        }
        // A function that it called may have given the lock back for a while, too.
        for frame in inner.iter().filter(|frame| !self.is_library(&frame.function)) {
            let position = self.position(frame, lock, true, flows);
            release.released_window |= position.given && position.certain;
        }
        release
    }

    fn is_library(&self, function: &Function) -> bool {
        let name = self.table.name(function);
        let name = name.strip_prefix("internal/").unwrap_or(name);
        name.starts_with("runtime.") || name.starts_with("sync.") || name.starts_with("runtime/")
    }

    fn position(&self, frame: &Frame, lock: u64, helpers: bool, flows: &mut Flows) -> Position {
        let flow = flows.entry((frame.sp, frame.pc, helpers)).or_insert_with(|| self.flow(frame, helpers).map(Rc::new));
        flow.as_ref().filter(|flow| flow.concerns(lock)).map_or_else(Position::default, |flow| flow.position(lock))
    }

    /// Frames that hold a lock's exact address, behind a Lock of it.
    fn hints(
        &self,
        g: &Goroutine,
        frames: &[Frame],
        held: &[(u64, u64)],
        flows: &mut Flows,
        hints: &mut Vec<HeldHint>,
    ) {
        if held.is_empty() {
            return;
        }
        let wanted: FxHashSet<u64> = held.iter().map(|&(mutex, _)| mutex).collect();
        for frame in frames.iter().filter(|frame| !self.is_library(&frame.function)) {
            let arguments = u64::try_from(frame.function.args).unwrap_or(0).min(1 << 12) + 64;
            let end = frame.argp.wrapping_add(arguments);
            let bytes = self.memory.up_to(frame.sp, end.saturating_sub(frame.sp).min(FRAME));
            let mut seen = FxHashSet::default();
            for (i, word) in bytes.chunks_exact(8).enumerate() {
                let value = word.first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
                if !wanted.contains(&value) || !seen.insert(value) {
                    continue;
                }
                let holds = |position: Position| position.taken && !position.given && position.certain;
                // What the functions that it calls do costs more to find out, and only matters if it took the lock.
                let after_lock_call =
                    holds(self.position(frame, value, false, flows)) && holds(self.position(frame, value, true, flows));
                hints.push(HeldHint {
                    goroutine: g.id,
                    lock: held.iter().find(|(mutex, _)| *mutex == value).map_or(value, |&(_, lock)| lock),
                    function: self.table.name(&frame.function).to_owned(),
                    at: frame.sp + 8 * i as u64,
                    after_lock_call,
                });
            }
        }
    }
}

/// The Cond that a goroutine waits on, and the lock that it gave back for that.
struct Waited {
    lock: Option<u64>,
    word: LockWord,
}
