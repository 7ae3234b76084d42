//! Which waits are for the same object.
//!
//! With an exact address this is a comparison. Without one (RLock and WaitGroup of optimised builds of 1.17 and
//! later) the waiters meet by the object that they call into: its receiver, plus the field's offset where waiters
//! with an address have taught it; failing that by call site, which is said with less trust.

use crate::snap::Snap;
use crate::waits::Primitive;
use holdup_parsers::evidence::{Argument, QueuedWaiter, SiteId};
use rustc_hash::{FxHashMap, FxHashSet};

/// Furthest that a lock is taken to lie inside the object whose method takes it, in bytes.
pub const OBJECT_SPAN: u64 = 0x4000;

/// How a lock's identity is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Identity {
    /// Its own address stands in the dump.
    Exact,
    /// Object and field offset are known: the address is computed.
    Computed,
    /// The object is known, the field's offset is not.
    Object,
    /// Only the call site is known: it may be several locks.
    Site,
}

/// Something that is waited for.
#[derive(Debug, Clone)]
pub struct LockGroup {
    /// `s1/l3`.
    pub id: String,
    /// The contract's kind.
    pub kind: &'static str,
    /// Base address, or the object's where the offset is unknown.
    pub address: Option<u64>,
    /// How it is known which lock this is.
    pub identity: Identity,
    /// The object that contains it, as its waiters' frames show it.
    pub object: Option<u64>,
    /// The object's type, or the function that takes the lock.
    pub type_name: Option<String>,
    /// Indexes of the waiting goroutines, in the dump's order.
    pub waiters: Vec<u32>,
}

impl LockGroup {
    /// Longest wait in whole minutes.
    pub fn oldest(&self, snap: &Snap<'_>) -> Option<u32> {
        self.waiters.iter().filter_map(|&w| snap.goroutine(w as usize).minutes).max()
    }

    /// How many goroutines wait, groups without ids counted in full.
    pub fn waiter_count(&self, snap: &Snap<'_>) -> u64 {
        self.waiters.iter().map(|&w| u64::from(snap.goroutine(w as usize).count)).sum()
    }

    /// What to call it: `ENI.lock 0xc0000ccec0`, `mutex 0xc000…`, `RWMutex of statusStorage`.
    pub fn label(&self) -> String {
        let short = self.type_name.as_deref().map(|t| t.rsplit('/').next().unwrap_or(t));
        let kind = match self.kind {
            "rwmutex" => "RWMutex",
            "mutex" => "Mutex",
            "waitgroup" => "WaitGroup",
            "channel" => "channel",
            "cond" => "Cond",
            "once" => "Once",
            other => other,
        };
        match (short, self.address) {
            (Some(t), Some(a)) => format!("{kind} of {t} {a:#x}"),
            (Some(t), None) => format!("{kind} of {t}"),
            (None, Some(a)) => format!("{kind} {a:#x}"),
            (None, None) => kind.to_string(),
        }
    }
}

/// Offsets of locks in the types whose methods take them, taught by waiters that show both addresses.
#[derive(Debug, Default)]
pub struct Offsets {
    by_type: FxHashMap<(String, &'static str), FxHashSet<u64>>,
}

impl Offsets {
    /// Adds what `snap` shows. Several snapshots of the same program teach each other.
    pub fn learn(&mut self, snap: &Snap<'_>) {
        for (i, wait) in snap.waits.iter().enumerate() {
            let (Some(address), Some(kind)) = (wait.address, wait.primitive.lock_kind()) else { continue };
            let Some(function) = snap.frame_function(i, wait.acquirer) else { continue };
            if function.type_name.is_empty() {
                continue;
            }
            if let Some(receiver) = receiver(snap, i, wait.acquirer).filter(|r| !r.stale && inside(address, r.value)) {
                self.by_type.entry((function.type_name.clone(), kind)).or_default().insert(address - receiver.value);
            }
        }
    }

    /// The only offset known for locks of `kind` in `type_name`.
    fn unique(&self, type_name: &str, kind: &'static str) -> Option<u64> {
        let known = self.by_type.get(&(type_name.to_string(), kind))?;
        (known.len() == 1).then(|| known.iter().copied().next()).flatten()
    }
}

/// Whether a lock at `address` can lie in an object at `object`.
pub fn inside(address: u64, object: u64) -> bool {
    object > 0xfff && address >= object && address - object < OBJECT_SPAN
}

/// The first argument of a frame: the receiver of a method.
pub fn receiver(snap: &Snap<'_>, i: usize, frame: usize) -> Option<Argument> {
    let g = snap.goroutine(i);
    let frame = snap.s.frames_of(g).get(frame)?;
    let first = snap.s.args(g, frame).first().copied().filter(|a| a.index == 0 && a.value > 0xfff)?;
    Some(Argument { stale: first.stale || snap.arguments.unmarked, ..first })
}

#[derive(PartialEq, Eq, Hash)]
enum Key {
    Address(u64, &'static str),
    Object(u64, String, &'static str),
    Site(SiteId, &'static str),
    /// A goroutine that meets nobody.
    Alone(u32),
}

/// Gathers the waits of a snapshot into locks, in order of their first waiter.
pub fn gather(snap: &Snap<'_>, offsets: &Offsets) -> Vec<LockGroup> {
    let exact_receivers = exact_receivers(snap);
    let exact_locks: FxHashSet<(u64, &'static str)> =
        snap.waits.iter().filter_map(|wait| Some((wait.address?, wait.primitive.lock_kind()?))).collect();
    let mut stale_votes: FxHashMap<(SiteId, u64), u32> = FxHashMap::default();
    for (i, wait) in snap.waits.iter().enumerate() {
        if wait.primitive.lock_kind().is_some()
            && wait.address.is_none()
            && let Some(r) = receiver(snap, i, wait.acquirer).filter(|r| r.stale)
            && let Some(site) = site_of(snap, i, wait.acquirer)
        {
            *stale_votes.entry((site, r.value)).or_default() += 1;
        }
    }
    let mut index: FxHashMap<Key, usize> = FxHashMap::default();
    let mut locks: Vec<LockGroup> = Vec::new();
    for (i, wait) in snap.waits.iter().enumerate() {
        let Some(kind) = wait.primitive.lock_kind() else { continue };
        // Groups of a profile show no ages: their members may wait for different things.
        if snap.goroutine(i).id.is_none() && snap.goroutine(i).minutes.is_none() && !wait.primitive.is_exclusive_lock()
        {
            continue;
        }
        let function = snap.frame_function(i, wait.acquirer);
        let type_name = function.map(|f| if f.type_name.is_empty() { f.family.clone() } else { f.type_name.clone() });
        let owner = type_name.clone().unwrap_or_default();
        let site = site_of(snap, i, wait.acquirer);
        let seen = receiver(snap, i, wait.acquirer);
        let object = seen
            .filter(|r| {
                !r.stale
                    || exact_receivers.contains(&(owner.clone(), r.value))
                    || site.is_some_and(|s| stale_votes.get(&(s, r.value)).is_some_and(|&n| n > 1))
            })
            .map(|r| r.value);
        let is_method = function.is_some_and(|f| !f.type_name.is_empty());
        let (key, address, identity) = match (wait.address.or_else(|| handed_over(snap, i, &exact_locks)), object) {
            (Some(address), _) if wait.address.is_none() => {
                (Key::Address(address, kind), Some(address), Identity::Computed)
            }
            (Some(address), _) => (Key::Address(address, kind), Some(address), Identity::Exact),
            (None, Some(object)) if is_method => match offsets.unique(&owner, kind) {
                Some(offset) => {
                    let address = object.wrapping_add(offset);
                    (Key::Address(address, kind), Some(address), Identity::Computed)
                }
                None => (Key::Object(object, owner.clone(), kind), Some(object), Identity::Object),
            },
            (None, object) => match (wait.primitive, object, site) {
                // A local WaitGroup is each caller's own.
                (Primitive::WaitGroup | Primitive::Forever, None, _) | (_, _, None) => {
                    (Key::Alone(i as u32), None, Identity::Site)
                }
                (Primitive::WaitGroup, Some(object), Some(_)) => {
                    (Key::Object(object, owner.clone(), kind), None, Identity::Site)
                }
                (_, _, Some(site)) => (Key::Site(site, kind), None, Identity::Site),
            },
        };
        let slot = *index.entry(key).or_insert_with(|| {
            locks.push(LockGroup {
                id: String::new(),
                kind,
                address,
                identity,
                object: None,
                type_name: None,
                waiters: Vec::new(),
            });
            locks.len() - 1
        });
        let lock = &mut locks[slot];
        lock.identity = lock.identity.min(identity);
        lock.waiters.push(i as u32);
        let fits = object.filter(|&o| is_method && wait.address.is_none_or(|a| inside(a, o)));
        lock.object = lock.object.or(fits);
        if lock.type_name.is_none() || (fits.is_some() && is_method) {
            lock.type_name = type_name;
        }
    }
    add_stated(snap, &mut locks);
    add_queued(snap, &mut locks);
    drop_colliding_addresses(&mut locks);
    if !snap.s.complete {
        // The goroutine that would have taught the offset may be in the part that is lost.
        for lock in locks.iter_mut().filter(|l| l.identity == Identity::Object) {
            lock.address = None;
        }
    }
    for (n, lock) in locks.iter_mut().enumerate() {
        lock.id = format!("{}/l{}", snap.id, n + 1);
    }
    locks
}

/// Locks that somebody was reported to hold: known even if nobody is seen to wait for them.
fn add_stated(snap: &Snap<'_>, locks: &mut Vec<LockGroup>) {
    for stated in &snap.s.stated_locks {
        if locks.iter().any(|l| l.address == Some(stated.lock)) {
            continue;
        }
        locks.push(LockGroup {
            id: String::new(),
            kind: if stated.reads { "rwmutex" } else { "mutex" },
            address: Some(stated.lock),
            identity: Identity::Exact,
            object: None,
            type_name: None,
            waiters: Vec::new(),
        });
    }
}

/// A core's channel queues also hold the goroutines that wait for several channels in a select.
fn add_queued(snap: &Snap<'_>, locks: &mut [LockGroup]) {
    let Some(memory) = &snap.s.memory else { return };
    let by_id: FxHashMap<u64, u32> =
        snap.s.goroutines.iter().enumerate().filter_map(|(i, g)| g.id.map(|id| (id, i as u32))).collect();
    let queues: FxHashMap<u64, &[QueuedWaiter]> =
        memory.locks.iter().filter(|w| w.kind == "channel").map(|w| (w.address, w.queue.as_slice())).collect();
    for lock in locks.iter_mut().filter(|l| l.kind == "channel") {
        let Some(queue) = lock.address.and_then(|a| queues.get(&a)) else { continue };
        let known: FxHashSet<u32> = lock.waiters.iter().copied().collect();
        let queued = queue.iter().filter_map(|w| by_id.get(&w.goroutine).copied());
        lock.waiters.extend(queued.filter(|i| !known.contains(i)));
    }
}

/// An object's address that stands in for its lock's must not be taken for another lock's.
fn drop_colliding_addresses(locks: &mut [LockGroup]) {
    let mut users: FxHashMap<u64, u32> = FxHashMap::default();
    for lock in locks.iter() {
        if let Some(address) = lock.address {
            *users.entry(address).or_default() += 1;
        }
    }
    for lock in locks.iter_mut().filter(|l| l.identity == Identity::Object) {
        if lock.address.is_some_and(|a| users.get(&a).is_some_and(|&n| n > 1)) {
            lock.address = None;
        }
    }
}

/// A lock that the waiter's acquiring function was called with, where others wait for it at that very address:
/// `lockIt(&rw)`, or `sync.Locker` of a reader. Two such locks among its arguments say nothing.
fn handed_over(snap: &Snap<'_>, i: usize, known: &FxHashSet<(u64, &'static str)>) -> Option<u64> {
    let wait = &snap.waits[i];
    let kind = wait.primitive.lock_kind().filter(|_| wait.address.is_none() && !snap.arguments.unmarked)?;
    let goroutine = snap.goroutine(i);
    let frame = snap.s.frames_of(goroutine).get(wait.acquirer)?;
    let arguments = snap.s.args(goroutine, frame);
    let mut found = arguments.iter().filter(|a| !a.stale && known.contains(&(a.value, kind))).map(|a| a.value);
    let first = found.next()?;
    found.all(|other| other == first).then_some(first)
}

fn site_of(snap: &Snap<'_>, i: usize, frame: usize) -> Option<SiteId> {
    snap.s.frames_of(snap.goroutine(i)).get(frame).map(|f| f.site)
}

/// Receivers that some frame shows without doubt, by type. Only types whose methods wait without an address matter.
fn exact_receivers(snap: &Snap<'_>) -> FxHashSet<(String, u64)> {
    let wanted: FxHashSet<&str> = snap
        .waits
        .iter()
        .enumerate()
        .filter(|(_, w)| w.primitive.lock_kind().is_some() && w.address.is_none())
        .filter_map(|(i, w)| snap.frame_function(i, w.acquirer).map(|f| f.type_name.as_str()))
        .filter(|t| !t.is_empty())
        .collect();
    let mut found = FxHashSet::default();
    if wanted.is_empty() {
        return found;
    }
    for i in 0..snap.s.goroutines.len() {
        for (n, frame) in snap.s.frames_of(snap.goroutine(i)).iter().enumerate() {
            let function = snap.function(frame.site);
            if !wanted.contains(function.type_name.as_str()) {
                continue;
            }
            if let Some(r) = receiver(snap, i, n).filter(|r| !r.stale) {
                found.insert((function.type_name.clone(), r.value));
            }
        }
    }
    found
}
