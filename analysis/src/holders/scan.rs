//! One pass over all frames that finds what the facts are made of: who shows a pointer to a lock's object, and who
//! stands in a function that takes it.

use crate::functions::Class;
use crate::locks::{Identity, LockGroup, OBJECT_SPAN, inside};
use crate::rules::Certainty;
use crate::snap::Snap;
use holdup_parsers::evidence::{SiteId, Sym};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::hash_map::Entry;

/// Entries kept for one key; more of them tell nothing apart.
const KEPT: usize = 64;

/// A frame that shows a pointer to, or into the object around, a lock.
#[derive(Debug, Clone, Copy)]
pub struct PointerSighting {
    /// Whose frame.
    pub goroutine: u32,
    /// Which frame.
    pub frame: u32,
    /// The lock's address less the pointer, in bytes.
    pub offset: u64,
}

/// A frame of a function that takes a lock, past (or before) the call.
#[derive(Debug, Clone, Copy)]
pub struct Passage {
    /// Whose frame.
    pub goroutine: u32,
    /// Which frame.
    pub frame: u32,
}

/// A group of equal stacks that a rule knows to run under a lock.
#[derive(Debug, Clone)]
pub struct RuleHolder {
    /// The group.
    pub group: u32,
    /// Index into the group's rules.
    pub rule: String,
    /// Frame of the function that took the lock.
    pub frame: usize,
    /// What it is doing meanwhile.
    pub doing: usize,
    /// Which lock, for a person.
    pub lock: String,
    /// As a reader.
    pub reads: bool,
    /// On every path, not in some only.
    pub always: bool,
    /// Indexes of the locks whose waiters stand where the rule says.
    pub fits: Vec<u32>,
}

/// The findings of the pass.
#[derive(Debug, Default)]
pub struct Scan {
    /// By index of the lock.
    pub pointers: Vec<Vec<PointerSighting>>,
    /// By index of the lock: goroutines that wait for another lock of the same object. That they have its pointer
    /// is explained by that.
    pub sharing: Vec<FxHashSet<usize>>,
    /// Frames in acquiring functions that are not waiting there, by function and exact receiver.
    pub with_receiver: FxHashMap<(Sym, u64), Vec<Passage>>,
    /// All frames in acquiring functions that are not waiting there, with the receiver where it is shown.
    pub by_function: FxHashMap<Sym, Vec<(Passage, Option<u64>)>>,
    /// Frames of methods of a lock-owning type with that exact receiver: `(type, receiver)`.
    pub methods: FxHashMap<(String, u64), Vec<Passage>>,
    /// Frames of methods of a lock-owning type whose receiver is unknown.
    pub methods_unknown: FxHashMap<String, Vec<Passage>>,
    /// Groups of goroutines that a rule knows to hold some lock.
    pub rule_holders: Vec<RuleHolder>,
    /// Goroutines that run a `sync.Once`: frame of `doSlow` or `Do`.
    pub once_runners: Vec<Passage>,
    /// Goroutines by the function that started them.
    pub siblings: FxHashMap<Sym, Vec<u32>>,
    /// By index of the lock: frames that show a word which marks it (see [`marks`]).
    pub marked: Vec<Vec<PointerSighting>>,
    /// By index of the lock: whether several waiters agree on its marks.
    pub agreed: Vec<bool>,
    /// Frames by call site and receiver that more than one goroutine stands at. Who stands there cannot hold a lock
    /// of that object by standing there, for both would.
    pub crowded: FxHashSet<(SiteId, u64)>,
}

impl Scan {
    /// Scans a snapshot for its exclusive locks.
    pub fn of(snap: &Snap<'_>, locks: &[LockGroup]) -> Self {
        let mut scan = Scan { pointers: vec![Vec::new(); locks.len()], ..Scan::default() };
        let mut targets: Vec<(u64, usize)> = Vec::new();
        let mut acquiring: FxHashSet<Sym> = FxHashSet::default();
        let mut types: FxHashSet<&str> = FxHashSet::default();
        let mut creators: FxHashSet<Sym> = FxHashSet::default();
        let mut lock_of: Vec<u32> = vec![u32::MAX; snap.waits.len()];
        for (n, lock) in locks.iter().enumerate() {
            if !matches!(lock.kind, "mutex" | "rwmutex" | "once") {
                continue;
            }
            if let Some(address) = lock.address {
                targets.push((address, n));
            }
            for &w in &lock.waiters {
                let i = w as usize;
                lock_of[i] = n as u32;
                let frames = snap.s.frames_of(snap.goroutine(i));
                if let Some(frame) = frames.get(snap.waits[i].acquirer) {
                    acquiring.insert(snap.s.site(frame.site).func);
                    let function = snap.function(frame.site);
                    if !function.type_name.is_empty() {
                        types.insert(&function.type_name);
                    }
                }
                if let Some(created) = snap.goroutine(i).created_by {
                    creators.insert(snap.s.site(created.site).func);
                }
            }
        }
        targets.sort_unstable();
        let (marks, agreed) = marks(snap, locks);
        scan.agreed = agreed;
        scan.marked = vec![Vec::new(); locks.len()];
        let mut places: FxHashMap<(SiteId, u64), u32> = FxHashMap::default();
        let lowest = targets.first().map_or(u64::MAX, |t| t.0.saturating_sub(OBJECT_SPAN));
        let highest = targets.last().map_or(0, |t| t.0);
        for (i, g) in snap.s.goroutines.iter().enumerate() {
            if let Some(created) = g.created_by {
                let func = snap.s.site(created.site).func;
                if creators.contains(&func) {
                    push(scan.siblings.entry(func).or_default(), i as u32);
                }
            }
            let own_lock = lock_of[i];
            for (n, frame) in snap.s.frames_of(g).iter().enumerate() {
                let waiting_here = own_lock != u32::MAX && n <= snap.waits[i].acquirer;
                let sym = snap.s.site(frame.site).func;
                let function = snap.functions.get(sym);
                let passage = Passage { goroutine: i as u32, frame: n as u32 };
                if matches!(function.class, Class::OnceSlow | Class::OnceDo) && n > 0 && !waiting_here {
                    push(&mut scan.once_runners, passage);
                }
                let wanted = !waiting_here && (acquiring.contains(&sym) || types.contains(function.type_name.as_str()));
                let text = snap.s.args_text(g, frame);
                if !wanted && (targets.is_empty() && marks.is_empty() || text.len() < 6) {
                    continue;
                }
                let args = Words::new(text);
                let mut receiver = None;
                for (nth, word) in args.enumerate() {
                    if word.stale || snap.arguments.unmarked {
                        continue;
                    }
                    if nth == 0 && word.first && word.value > 0xfff {
                        receiver = Some(word.value);
                    }
                    if let Some(marked) = marks.get(&word.value) {
                        for &lock in marked.iter().filter(|&&l| l != own_lock) {
                            let sighting = PointerSighting { goroutine: i as u32, frame: n as u32, offset: 0 };
                            push(&mut scan.marked[lock as usize], sighting);
                        }
                    }
                    if word.value < lowest || word.value > highest || word.value <= 0xfff {
                        continue;
                    }
                    let from = targets.partition_point(|t| t.0 < word.value);
                    for &(address, lock) in
                        targets[from..].iter().take_while(|t| t.0 - word.value < OBJECT_SPAN).take(16)
                    {
                        if own_lock == lock as u32 && n <= snap.waits[i].acquirer {
                            continue;
                        }
                        let sighting =
                            PointerSighting { goroutine: i as u32, frame: n as u32, offset: address - word.value };
                        let list = &mut scan.pointers[lock];
                        // A lock's own waiters show its object again and again further out: a few are enough.
                        if own_lock != lock as u32 || list.len() < KEPT {
                            push_up_to(list, sighting, 4 * KEPT);
                        }
                    }
                }
                if !wanted {
                    continue;
                }
                push(scan.by_function.entry(sym).or_default(), (passage, receiver));
                match receiver {
                    Some(value) => {
                        push(scan.with_receiver.entry((sym, value)).or_default(), passage);
                        match places.entry((frame.site, value)) {
                            Entry::Occupied(other) if *other.get() != i as u32 => {
                                scan.crowded.insert((frame.site, value));
                            }
                            Entry::Occupied(_) => {}
                            Entry::Vacant(free) => {
                                free.insert(i as u32);
                            }
                        }
                        if !function.type_name.is_empty() {
                            push(scan.methods.entry((function.type_name.clone(), value)).or_default(), passage);
                        }
                    }
                    None => {
                        if !function.type_name.is_empty() {
                            push(scan.methods_unknown.entry(function.type_name.clone()).or_default(), passage);
                        }
                    }
                }
            }
        }
        scan.sharing = sharing(locks);
        scan.rule_holders = rule_holders(snap, locks);
        scan
    }
}

/// Words that mark a lock whose object is not known by its address: all its waiters show them where they take it, and
/// waiters of no other lock do. Such are the object that has only a pointer to the lock, or the key that it is kept
/// under. With them, whether more than one waiter agrees on it.
fn marks(snap: &Snap<'_>, locks: &[LockGroup]) -> (FxHashMap<u64, Vec<u32>>, Vec<bool>) {
    /// Waiters of a lock that are asked.
    const ASKED: usize = 32;
    let mut marks: FxHashMap<u64, Vec<u32>> = FxHashMap::default();
    let mut agreed = vec![false; locks.len()];
    if snap.arguments.unmarked {
        return (marks, agreed);
    }
    for (n, lock) in locks.iter().enumerate() {
        if !matches!(lock.kind, "mutex" | "rwmutex") || lock.identity == Identity::Site {
            continue;
        }
        let mut common: Option<FxHashSet<u64>> = None;
        for &w in lock.waiters.iter().take(ASKED) {
            let i = w as usize;
            let g = snap.goroutine(i);
            let frames = snap.s.frames_of(g);
            let own = frames.get(snap.waits[i].caller..=snap.waits[i].acquirer).unwrap_or_default();
            let words: FxHashSet<u64> = own
                .iter()
                .flat_map(|frame| Words::new(snap.s.args_text(g, frame)))
                .filter(|word| !word.stale && word.value > 0xffff)
                .filter(|word| lock.address.is_none_or(|a| !inside(a, word.value)))
                .map(|word| word.value)
                .collect();
            common = Some(match common {
                None => words,
                Some(before) => before.intersection(&words).copied().collect(),
            });
        }
        agreed[n] = lock.waiters.len() > 1;
        for word in common.unwrap_or_default() {
            marks.entry(word).or_default().push(n as u32);
        }
    }
    marks.retain(|_, locks| locks.len() == 1);
    (marks, agreed)
}

/// Waiters of locks that lie in the same object, a few for each lock.
fn sharing(locks: &[LockGroup]) -> Vec<FxHashSet<usize>> {
    let mut by_object: FxHashMap<u64, Vec<usize>> = FxHashMap::default();
    for (n, lock) in locks.iter().enumerate() {
        if let Some(object) = lock.object
            && matches!(lock.kind, "mutex" | "rwmutex" | "once")
        {
            by_object.entry(object).or_default().push(n);
        }
    }
    let others = |n: usize, lock: &LockGroup| -> FxHashSet<usize> {
        let Some(same) = lock.object.and_then(|o| by_object.get(&o)) else { return FxHashSet::default() };
        let others = same.iter().take(16).filter(|&&m| m != n);
        others.flat_map(|&m| locks[m].waiters.iter().take(4 * KEPT).map(|&w| w as usize)).collect()
    };
    locks.iter().enumerate().map(|(n, lock)| others(n, lock)).collect()
}

/// Asks the rules once a group, and finds the locks that each answer may be about.
fn rule_holders(snap: &Snap<'_>, locks: &[LockGroup]) -> Vec<RuleHolder> {
    let mut holders = Vec::new();
    for (group, members) in snap.groups.iter().enumerate() {
        let Some(&first) = members.members.first() else { continue };
        let g = snap.goroutine(first as usize);
        for found in snap.bound.holds(snap.s, g) {
            let fits = locks.iter().enumerate().filter(|(_, lock)| {
                matches!(lock.kind, "mutex" | "rwmutex" | "once")
                    && lock.waiters.iter().take(32).any(|&w| {
                        let i = w as usize;
                        let wait = snap.waits[i];
                        (wait.caller..=wait.acquirer)
                            .any(|frame| snap.bound.waits_for(found.rule, snap.s, snap.goroutine(i), frame))
                    })
            });
            let fits: Vec<u32> = fits.map(|(n, _)| n as u32).collect();
            holders.push(RuleHolder {
                group: group as u32,
                rule: found.rule.id.clone(),
                frame: found.frame,
                doing: found.doing,
                lock: found.rule.lock.clone(),
                reads: found.rule.mode == "rlock",
                always: found.rule.certainty == Certainty::Always,
                fits,
            });
        }
    }
    holders
}

fn push<T>(list: &mut Vec<T>, item: T) {
    push_up_to(list, item, KEPT);
}

fn push_up_to<T>(list: &mut Vec<T>, item: T, most: usize) {
    if list.len() < most {
        list.push(item);
    }
}

/// A word of an argument list.
struct Word {
    value: u64,
    stale: bool,
    /// First of its list, outside braces.
    first: bool,
}

/// The hexadecimal words of an argument list, read without building anything.
struct Words<'t> {
    rest: &'t [u8],
    first: bool,
}

impl<'t> Words<'t> {
    fn new(text: &'t str) -> Self {
        Words { rest: text.as_bytes(), first: true }
    }
}

impl Iterator for Words<'_> {
    type Item = Word;

    fn next(&mut self) -> Option<Word> {
        loop {
            let at = memchr::memchr(b'x', self.rest)?;
            let first = self.first && at == 1;
            self.first = false;
            let mut value = 0u64;
            let mut n = at + 1;
            while let Some(digit) = self.rest.get(n).and_then(|&b| (b as char).to_digit(16)) {
                value = value.wrapping_shl(4) | u64::from(digit);
                n += 1;
            }
            let stale = self.rest.get(n) == Some(&b'?');
            let empty = n == at + 1 || n - at > 17;
            self.rest = self.rest.get(n..)?;
            if !empty {
                return Some(Word { value, stale, first });
            }
        }
    }
}
