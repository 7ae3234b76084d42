//! The kinds of evidence that somebody holds a lock. Each is found by its own function and carries the lines it
//! rests on; what it is worth is not decided here.

use super::scan::{Passage, Scan};
use crate::functions::Class;
use crate::locks::{self, Identity, LockGroup};
use crate::snap::Snap;
use crate::waits::Primitive;
use rustc_hash::{FxHashMap, FxHashSet};

/// What a fact is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FactKind {
    /// The program's own lock library said that it holds the lock.
    Stated,
    /// The memory shows that it has a pending release of this lock, past the acquisition.
    MemoryRelease,
    /// The memory shows a pending release of this lock, but not where the goroutine took it.
    MemoryReleaseUnplaced,
    /// The lock's address or its object's lies in its live stack behind a lock call.
    MemoryHint,
    /// Same function and receiver as a waiter, at a line behind the lock call.
    LaterLineSameObject,
    /// Same function as a waiter, at a line behind the lock call; the receiver is unknown.
    LaterLine,
    /// A frame has the lock's address, or its object's at the offset that the waiters show.
    Pointer,
    /// A frame has a pointer to something that may be the object around the lock.
    PointerNear,
    /// A frame has a word that all waiters of this lock have where they take it, and waiters of no other: the key or
    /// the object that leads to the lock.
    Marked,
    /// A rule says that this call runs under that lock.
    KnownHolder,
    /// A rule says that this call may run under that lock.
    KnownHolderSometimes,
    /// A function named `…Locked` on the same object.
    NamedLocked,
    /// It runs the Once.
    OnceRunner,
    /// It is itself a waiter of the same lock, further out in a function on the same object.
    Recursive,
    /// A method of the same type; the object is unknown.
    Family,
    /// Started by the same function as a waiter.
    Sibling,
    /// Waits for a lock that lies right beside this one.
    Neighbour,
    /// It has waited longest in its process.
    OldestWaiter,
    /// It shares the longest wait with others.
    OldestTie,
    /// Naming it closes a circle in which everything fits.
    Circle,
    /// Against: it got stuck clearly later than the longest waiter queued up.
    Younger,
    /// Against: idle by design.
    IdleByDesign,
    /// Against: others fit as well.
    Rivals,
}

/// A reason to think (or, if `against`, not to think) that a goroutine holds a lock.
#[derive(Debug, Clone)]
pub struct Fact {
    /// What it is.
    pub kind: FactKind,
    /// One sentence.
    pub text: String,
    /// Lines of the snapshot's text it rests on; 0 for none.
    pub line: u32,
    /// A core address it rests on.
    pub address: Option<u64>,
    /// Which goroutine's lines these are.
    pub against: bool,
}

impl Fact {
    /// A fact that rests on `line` of the snapshot's text.
    pub fn new(kind: FactKind, line: u32, text: String) -> Self {
        Fact { kind, text, line, address: None, against: false }
    }
    /// A fact that speaks against.
    pub fn against(kind: FactKind, line: u32, text: String) -> Self {
        Fact { against: true, ..Fact::new(kind, line, text) }
    }
}

/// Facts by goroutine and whether as a reader.
pub type Found = FxHashMap<(usize, bool), Vec<Fact>>;

/// Gathers everything that a text dump has about who holds `lock`.
pub fn gather(snap: &Snap<'_>, lock: &LockGroup, n: usize, scan: &Scan, found: &mut Found) {
    let waiting: FxHashSet<usize> = lock.waiters.iter().map(|&w| w as usize).collect();
    let places = acquisitions(snap, lock);
    let reads = held_by_readers(snap, lock);
    later_line(snap, lock, scan, &places, &waiting, reads, found);
    pointer(snap, lock, n, scan, &places, &waiting, reads, found);
    marked(snap, n, scan, &places, &waiting, reads, found);
    known_holder(snap, lock, n, scan, &waiting, found);
    once_runner(snap, lock, scan, &waiting, found);
    recursive(snap, lock, &places, reads, found);
    family(snap, lock, n, scan, &waiting, reads, found);
    sibling(snap, lock, scan, &waiting, reads, found);
}

/// Where the waiters take the lock.
pub struct Acquisition {
    /// Its symbol.
    pub func: holdup_parsers::evidence::Sym,
    /// Source line of the call.
    pub line: u32,
    /// File.
    pub file: holdup_parsers::evidence::Sym,
    /// How many waiters stand there.
    pub count: u32,
    /// They take it for reading.
    pub reading: bool,
}

fn acquisitions(snap: &Snap<'_>, lock: &LockGroup) -> Vec<Acquisition> {
    let mut places: Vec<Acquisition> = Vec::new();
    let mut index = FxHashMap::default();
    for &w in &lock.waiters {
        let i = w as usize;
        let Some(frame) = snap.s.frames_of(snap.goroutine(i)).get(snap.waits[i].acquirer) else { continue };
        let slot = *index.entry(frame.site).or_insert_with(|| {
            let site = snap.s.site(frame.site);
            places.push(Acquisition {
                func: site.func,
                line: site.line,
                file: site.file,
                count: 0,
                reading: snap.waits[i].primitive == Primitive::RwRead,
            });
            places.len() - 1
        });
        places[slot].count += 1;
    }
    places
}

/// A writer that waits for readers says that readers hold the lock.
pub fn held_by_readers(snap: &Snap<'_>, lock: &LockGroup) -> bool {
    lock.waiters.iter().any(|&w| snap.waits[w as usize].primitive == Primitive::RwWriteForReaders)
}

/// Waiters stop in function F at line L; who is in the same F at a line behind L is past the lock.
fn later_line(
    snap: &Snap<'_>,
    lock: &LockGroup,
    scan: &Scan,
    places: &[Acquisition],
    waiting: &FxHashSet<usize>,
    reads: bool,
    found: &mut Found,
) {
    let objects = objects(snap, lock);
    // Who is past an RLock is no writer, and who is past a Lock no reader.
    for place in places.iter().filter(|p| lock.kind != "rwmutex" || p.reading == reads) {
        let mut consider = |passage: &Passage, same: bool| {
            let i = passage.goroutine as usize;
            let frames = snap.s.frames_of(snap.goroutine(i));
            let Some(frame) = frames.get(passage.frame as usize) else { return };
            let site = snap.s.site(frame.site);
            if waiting.contains(&i) || site.file != place.file || site.line <= place.line {
                return;
            }
            if same && !reads && objects.iter().any(|&o| scan.crowded.contains(&(frame.site, o))) {
                return;
            }
            let name = snap.frame_name(i, passage.frame as usize);
            let stop = format!(
                "stands behind the lock call of {name} ({}:{}; {} {} at :{})",
                base_name(snap.s.names.get(site.file)),
                site.line,
                place.count,
                if place.count == 1 { "waiter stops" } else { "waiters stop" },
                place.line
            );
            let (kind, text) = if same {
                (FactKind::LaterLineSameObject, format!("{stop}, with the same receiver"))
            } else {
                (FactKind::LaterLine, stop)
            };
            add(found, i, reads, Fact::new(kind, frame.line, text));
        };
        for object in &objects {
            for passage in scan.with_receiver.get(&(place.func, *object)).into_iter().flatten() {
                consider(passage, true);
            }
        }
        for (passage, receiver) in scan.by_function.get(&place.func).into_iter().flatten() {
            // Where the lock lies in the receiver, another receiver is another lock.
            if objects.is_empty() || receiver.is_none() {
                consider(passage, false);
            }
        }
    }
}

/// The objects around the lock, as the waiters' acquiring frames show them.
fn objects(snap: &Snap<'_>, lock: &LockGroup) -> Vec<u64> {
    let mut objects: Vec<u64> = lock.object.into_iter().collect();
    for &w in lock.waiters.iter().take(256) {
        let i = w as usize;
        // A thin wrapper's receiver (`c.Lock()`) is nearer to the lock than that of the method that calls it.
        let shown = (snap.waits[i].caller..=snap.waits[i].acquirer)
            .filter_map(|n| locks::receiver(snap, i, n))
            .find(|r| !r.stale && lock.address.is_none_or(|a| locks::inside(a, r.value)));
        if let Some(r) = shown
            && !objects.contains(&r.value)
            && objects.len() < 8
        {
            objects.push(r.value);
        }
    }
    objects
}

/// The lock's address, or its object's, among the arguments of somebody who does not wait for it.
#[allow(clippy::too_many_arguments)]
fn pointer(
    snap: &Snap<'_>,
    lock: &LockGroup,
    n: usize,
    scan: &Scan,
    places: &[Acquisition],
    waiting: &FxHashSet<usize>,
    reads: bool,
    found: &mut Found,
) {
    let objects = objects(snap, lock);
    let Some(address) = lock.address else {
        return;
    };
    let sharing = &scan.sharing[n];
    let nearest = scan.pointers[n].iter().map(|p| p.offset).min().unwrap_or(u64::MAX);
    for sighting in &scan.pointers[n] {
        let i = sighting.goroutine as usize;
        if waiting.contains(&i) {
            continue;
        }
        let frames = snap.s.frames_of(snap.goroutine(i));
        let Some(frame) = frames.get(sighting.frame as usize) else { continue };
        let site = snap.s.site(frame.site);
        let value = address - sighting.offset;
        // In the very function that takes the lock, before the call: it is on its way, not past it.
        if places.iter().any(|p| p.func == site.func && p.file == site.file && site.line < p.line) {
            continue;
        }
        // The frames of its own wait show the lock that it waits for, not one that it holds.
        let wait = snap.waits[i];
        let own = if wait.primitive.is_exclusive_lock() { wait.acquirer } else { wait.caller };
        if (sighting.frame as usize) < own {
            continue;
        }
        if !reads && scan.crowded.contains(&(frame.site, value)) {
            continue;
        }
        let function = snap.functions.get(site.func);
        let name = snap.frame_name(i, sighting.frame as usize);
        let exact = sighting.offset == 0 || objects.contains(&value);
        if exact {
            let what = if sighting.offset == 0 && !objects.contains(&value) {
                "the lock's address"
            } else {
                "the lock's object"
            };
            let text = format!("{name} has {what} {value:#x} among its arguments and does not wait for it");
            let kind = match sharing.contains(&i) {
                _ if function.named_locked => FactKind::NamedLocked,
                true => FactKind::Family,
                false => FactKind::Pointer,
            };
            add(found, i, reads, Fact::new(kind, frame.line, text));
        } else if sighting.offset == nearest && sighting.offset < 0x200 && !function.standard && objects.is_empty() {
            let text = format!("{name} has a pointer {value:#x} that lies {} bytes before the lock", sighting.offset);
            add(found, i, reads, Fact::new(FactKind::PointerNear, frame.line, text));
        }
    }
}

/// What leads all waiters to this lock and to no other, among the arguments of somebody who does not wait for it.
fn marked(
    snap: &Snap<'_>,
    n: usize,
    scan: &Scan,
    places: &[Acquisition],
    waiting: &FxHashSet<usize>,
    reads: bool,
    found: &mut Found,
) {
    for sighting in &scan.marked[n] {
        let i = sighting.goroutine as usize;
        let at = sighting.frame as usize;
        if waiting.contains(&i) || at < snap.waits[i].caller {
            continue;
        }
        let Some(frame) = snap.s.frames_of(snap.goroutine(i)).get(at) else { continue };
        let site = snap.s.site(frame.site);
        if places.iter().any(|p| p.func == site.func && p.file == site.file && site.line <= p.line) {
            continue;
        }
        let who = if scan.agreed[n] { "all waiters of this lock" } else { "the waiter" };
        let text = format!("{} has an argument that {who} and no others show", snap.frame_name(i, at));
        add(found, i, reads, Fact::new(FactKind::Marked, frame.line, text));
    }
}

/// A rule says that a call runs under the lock that these waiters want.
fn known_holder(
    snap: &Snap<'_>,
    lock: &LockGroup,
    n: usize,
    scan: &Scan,
    waiting: &FxHashSet<usize>,
    found: &mut Found,
) {
    let objects = objects(snap, lock);
    for holder in scan.rule_holders.iter().filter(|h| h.fits.contains(&(n as u32))) {
        let Some(group) = snap.groups.get(holder.group as usize) else { continue };
        for &member in group.members.iter().take(16) {
            let i = member as usize;
            if waiting.contains(&i) {
                continue;
            }
            // Several locks of this kind in one process: the receiver tells which, if it is shown.
            let shown = locks::receiver(snap, i, holder.frame).filter(|r| !r.stale).map(|r| r.value);
            let same_type =
                snap.frame_function(i, holder.frame).map(|f| f.type_name.as_str()) == lock.type_name.as_deref();
            let agrees = shown.is_some_and(|r| objects.contains(&r));
            if same_type && shown.is_some() && !objects.is_empty() && !agrees {
                continue;
            }
            let frames = snap.s.frames_of(snap.goroutine(i));
            let Some(frame) = frames.get(holder.frame) else { continue };
            let name = snap.frame_name(i, holder.frame);
            let sure = agrees || (holder.fits.len() == 1 && group.members.len() == 1 && holder.always);
            let how = if holder.always { "runs under" } else { "in some versions runs under" };
            let text = format!(
                "{name} {how} {} while it is in {} (rule {})",
                holder.lock,
                snap.frame_name(i, holder.doing),
                holder.rule
            );
            let kind = if sure || holder.always { FactKind::KnownHolder } else { FactKind::KnownHolderSometimes };
            add(found, i, holder.reads, Fact::new(kind, frame.line, text));
        }
    }
}

/// Who runs a Once stands below `doSlow` (or `Do`) with the function above it.
fn once_runner(snap: &Snap<'_>, lock: &LockGroup, scan: &Scan, waiting: &FxHashSet<usize>, found: &mut Found) {
    if lock.kind != "once" {
        return;
    }
    let callers: FxHashSet<&str> = lock
        .waiters
        .iter()
        .filter_map(|&w| snap.frame_function(w as usize, snap.waits[w as usize].acquirer))
        .map(|f| if f.type_name.is_empty() { f.family.as_str() } else { f.type_name.as_str() })
        .collect();
    let objects = objects(snap, lock);
    for passage in &scan.once_runners {
        let i = passage.goroutine as usize;
        if waiting.contains(&i) {
            continue;
        }
        let frame_index = passage.frame as usize;
        let frames = snap.s.frames_of(snap.goroutine(i));
        let Some(frame) = frames.get(frame_index) else { continue };
        // The function that it runs stands right above the Once.
        let line =
            frame_index.checked_sub(1).and_then(|above| frames.get(above)).map_or(frame.line, |above| above.line);
        let shown = locks::receiver(snap, i, frame_index).filter(|r| !r.stale).map(|r| r.value);
        if shown.is_some() && shown == lock.address {
            let text =
                format!("runs the function of this Once ({})", snap.frame_name(i, frame_index.saturating_sub(1)));
            add(found, i, false, Fact::new(FactKind::OnceRunner, line, text));
            continue;
        }
        let mut user = frame_index;
        while frames.get(user).is_some_and(|f| snap.function(f.site).class.is_machinery()) {
            user += 1;
        }
        let Some(function) = snap.frame_function(i, user) else { continue };
        let owner = if function.type_name.is_empty() { function.family.as_str() } else { function.type_name.as_str() };
        let receiver = locks::receiver(snap, i, user).filter(|r| !r.stale).map(|r| r.value);
        let same_object = receiver.is_some_and(|r| objects.contains(&r));
        let other_object = receiver.is_some() && !objects.is_empty() && !same_object;
        if callers.contains(owner) && !other_object {
            let text =
                format!("runs a Once of the same {owner} ({})", snap.frame_name(i, frame_index.saturating_sub(1)));
            let kind = if same_object { FactKind::OnceRunner } else { FactKind::LaterLine };
            add(found, i, false, Fact::new(kind, line, text));
        }
    }
}

/// A waiter that, further out, is past a call that takes this lock: it waits for itself.
fn recursive(snap: &Snap<'_>, lock: &LockGroup, places: &[Acquisition], reads: bool, found: &mut Found) {
    let objects = objects(snap, lock);
    // Who comes through an outer method of the same object stands out only if not all do.
    let mut through: Vec<(usize, usize, bool, bool)> = Vec::new();
    for &w in lock.waiters.iter().take(20_000) {
        let i = w as usize;
        let wait = snap.waits[i];
        if reads && wait.primitive == Primitive::RwWriteForReaders {
            continue;
        }
        let frames = snap.s.frames_of(snap.goroutine(i));
        let Some(inner) = frames.get(wait.acquirer) else { continue };
        let inner_function = snap.function(inner.site);
        let inner_receiver = locks::receiver(snap, i, wait.acquirer).filter(|r| !r.stale).map(|r| r.value);
        for (n, frame) in frames.iter().enumerate().skip(wait.acquirer + 1) {
            let function = snap.function(frame.site);
            let site = snap.s.site(frame.site);
            if function.class.is_machinery() {
                continue;
            }
            let seen = locks::receiver(snap, i, n);
            let exact = seen.filter(|r| !r.stale).map(|r| r.value);
            let same_object =
                exact.is_some_and(|r| objects.contains(&r) || Some(r) == lock.address || Some(r) == inner_receiver);
            let behind = places.iter().any(|p| p.func == site.func && p.file == site.file && site.line > p.line);
            let same_type = !function.type_name.is_empty() && function.type_name == inner_function.type_name;
            if behind && (same_object || exact.is_none() && same_type && lock.identity != Identity::Site) {
                through.push((i, n, true, same_object));
                break;
            }
            if same_object && (same_type || Some(exact.unwrap_or(0)) == lock.address) {
                through.push((i, n, false, true));
                break;
            }
        }
    }
    let few = if found.is_empty() { 2 } else { 4 };
    let odd = through.len() * few <= lock.waiters.len() || lock.waiters.len() <= 2;
    for &(i, n, behind, same_object) in through.iter().take(8) {
        let frames = snap.s.frames_of(snap.goroutine(i));
        let Some(frame) = frames.get(n) else { continue };
        let name = snap.frame_name(i, n);
        if behind {
            let text = format!("is itself past the lock call of {name} further out, and asks for the same lock again");
            add(found, i, reads, Fact::new(FactKind::Recursive, frame.line, text));
            if same_object {
                let text = format!("{name} has the same receiver");
                add(found, i, reads, Fact::new(FactKind::LaterLineSameObject, frame.line, text));
            }
        } else if odd {
            let text = format!(
                "comes here through {name} on the same object, unlike other waiters, and may hold the lock since"
            );
            add(found, i, reads, Fact::new(FactKind::Recursive, frame.line, text));
        }
    }
}

/// Methods of the type whose methods take the lock.
fn family(
    snap: &Snap<'_>,
    lock: &LockGroup,
    n: usize,
    scan: &Scan,
    waiting: &FxHashSet<usize>,
    reads: bool,
    found: &mut Found,
) {
    let Some(type_name) = &lock.type_name else { return };
    let objects = objects(snap, lock);
    let mut note = |passage: &Passage, same: bool| {
        let i = passage.goroutine as usize;
        if waiting.contains(&i) {
            return;
        }
        let frames = snap.s.frames_of(snap.goroutine(i));
        let Some(frame) = frames.get(passage.frame as usize) else { return };
        let name = snap.frame_name(i, passage.frame as usize);
        if same {
            let text = format!("{name} works on the lock's object");
            let kind = if scan.sharing[n].contains(&i) { FactKind::Family } else { FactKind::Pointer };
            add(found, i, reads, Fact::new(kind, frame.line, text));
        } else {
            let text = format!("{name} is a method of the same type; which object it works on is not shown");
            add(found, i, reads, Fact::new(FactKind::Family, frame.line, text));
        }
    };
    if lock.address.is_none() || lock.identity == Identity::Object {
        for object in &objects {
            for passage in scan.methods.get(&(type_name.clone(), *object)).into_iter().flatten() {
                note(passage, true);
            }
        }
    }
    for passage in scan.methods_unknown.get(type_name).into_iter().flatten() {
        note(passage, false);
    }
}

/// Goroutines that the same function started, such as both sides of a test of two closures.
fn sibling(snap: &Snap<'_>, lock: &LockGroup, scan: &Scan, waiting: &FxHashSet<usize>, reads: bool, found: &mut Found) {
    let Some(&first) = lock.waiters.first() else { return };
    let Some(created) = snap.goroutine(first as usize).created_by else { return };
    let creator = snap.s.site(created.site).func;
    // Servers start all their handlers at one place: that says nothing.
    if snap.function(created.site).standard {
        return;
    }
    let Some(siblings) = scan.siblings.get(&creator) else { return };
    if siblings.len() > 12 {
        return;
    }
    let creator_name = snap.s.function(created.site);
    for &s in siblings {
        let i = s as usize;
        if waiting.contains(&i) {
            continue;
        }
        let line = snap.goroutine(i).line;
        let text = format!("was started by the same function as the waiters ({creator_name})");
        let started = snap.goroutine(i).created_by.map_or(line, |created| created.line);
        add(found, i, reads, Fact::new(FactKind::Sibling, started, text));
        let wait = snap.waits[i];
        if let (Some(mine), Some(its)) = (lock.address, wait.address)
            && wait.primitive.is_exclusive_lock()
            && mine.abs_diff(its) <= 64
            && snap.frame_function(i, wait.acquirer).map(|f| f.family.as_str())
                == snap.frame_function(first as usize, snap.waits[first as usize].acquirer).map(|f| f.family.as_str())
        {
            let text = format!("waits for the lock {its:#x}, which lies right beside this one");
            add(found, i, reads, Fact::new(FactKind::Neighbour, line, text));
        }
    }
}

fn add(found: &mut Found, i: usize, reads: bool, fact: Fact) {
    let facts = found.entry((i, reads)).or_default();
    if !facts.iter().any(|f| f.kind == fact.kind) {
        facts.push(fact);
    }
}

/// The last part of a path.
pub fn base_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// Whether a goroutine cannot be a holder at all: the dumper itself, or machinery of the runtime.
pub fn is_bystander(snap: &Snap<'_>, i: usize) -> bool {
    let frames = snap.s.frames_of(snap.goroutine(i));
    let primitive = snap.waits[i].primitive;
    if primitive == Primitive::RuntimeIdle {
        return true;
    }
    primitive == Primitive::Running
        && frames.iter().take(4).any(|f| {
            let name = snap.s.function(f.site);
            name == "runtime/pprof.writeGoroutineStacks"
                || snap.function(f.site).class == Class::Runtime && name.ends_with("Stack")
        })
}
