//! From a semaphore and the frames of who sleeps on it to the object around it, and what its own words say.

use crate::core::go::{Frame, Go};
use crate::core::memory::Memory;
use crate::evidence::LockWord;

/// Bits of `Mutex.state` (all releases).
const LOCKED: u32 = 1;
const STARVING: u32 = 4;
const WAITER_SHIFT: u32 = 3;
/// `rwmutexMaxReaders`.
const MOST_READERS: i64 = 1 << 30;

/// An object that holds a semaphore.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Object {
    pub address: u64,
    pub kind: &'static str,
    /// What its waiters on this semaphore want.
    pub mode: &'static str,
}

impl Object {
    /// Address of the mutex in it that an Unlock is called on; itself for most.
    pub fn mutex(&self) -> u64 {
        if self.kind == "once" { self.address.wrapping_add(4) } else { self.address }
    }
}

impl Go<'_> {
    /// The object around the semaphore at `sema`, as the calls of a goroutine that sleeps on it tell.
    pub(super) fn object(&self, sema: u64, frames: &[Frame]) -> Object {
        let (mut slow, mut read, mut write, mut once, mut group, mut fd) = (false, false, false, false, false, false);
        'stack: for frame in frames {
            for call in &self.calls(frame).calls {
                let name = call.name.strip_prefix("internal/").unwrap_or(&call.name);
                match name {
                    "sync.(*Mutex).lockSlow" | "sync.(*Mutex).Lock" => slow = true,
                    "sync.(*RWMutex).RLock" => read = true,
                    "sync.(*RWMutex).Lock" => write = true,
                    "sync.(*Once).doSlow" | "sync.(*Once).Do" => once = true,
                    "sync.(*WaitGroup).Wait" => group = true,
                    _ if call.name.starts_with("internal/poll.(*fdMutex)") => fd = true,
                    // Outside of the library: what is further out waits for something else.
                    _ if !name.starts_with("sync.") && !name.starts_with("runtime.") => break 'stack,
                    _ => {}
                }
            }
        }
        let at = |offset: u64, kind, mode| Object { address: sema.wrapping_sub(offset), kind, mode };
        match () {
            () if read => at(12, "rwmutex", "rlock"),
            () if write && slow => at(4, "rwmutex", "lock"),
            () if write => at(8, "rwmutex", "lock"),
            () if once && slow => at(8, "once", "wait"),
            () if slow => at(4, "mutex", "lock"),
            () if group => at(self.group_sema(sema), "waitgroup", "wait"),
            () if fd => at(0, "fd-mutex", "lock"),
            () => at(0, "semaphore", "wait"),
        }
    }

    /// Offset of the semaphore in a WaitGroup: it moved with alignment up to 1.17.
    fn group_sema(&self, sema: u64) -> u64 {
        if self.minor >= 18 || sema.is_multiple_of(8) { 8 } else { 0 }
    }
}

/// What the words of an object say.
pub(super) fn read(memory: &Memory, object: &Object) -> Option<LockWord> {
    let word = LockWord { address: object.address, kind: object.kind, ..LockWord::default() };
    let half = |offset: u64| memory.u32(object.address.wrapping_add(offset)).ok();
    match object.kind {
        "mutex" => {
            let (state, sema) = (half(0)?, half(4)?);
            Some(LockWord { words: format!("state={state:#x} sema={sema}"), ..mutex(word, state) })
        }
        "once" => {
            let (done, state, sema) = (half(0)?, half(4)?, half(8)?);
            Some(LockWord { words: format!("done={done} state={state:#x} sema={sema}"), ..mutex(word, state) })
        }
        "rwmutex" => rwmutex(word, [half(0)?, half(16)?, half(20)?]),
        "waitgroup" => {
            // The counter in the high half, the waiters in the low one, whose top bit is a flag since 1.25.
            let state = memory.u64(object.address).ok()?;
            let (counter, waiters) = ((state >> 32) as i32, state as u32 & 0x7fff_ffff);
            Some(LockWord {
                counted_waiters: Some(waiters),
                words: format!("counter={counter} waiters={waiters}"),
                ..word
            })
        }
        _ => Some(LockWord { words: format!("value={}", half(0)?), ..word }),
    }
}

fn mutex(word: LockWord, state: u32) -> LockWord {
    LockWord {
        locked: Some(state & LOCKED != 0),
        starving: state & STARVING != 0,
        counted_waiters: Some(state >> WAITER_SHIFT),
        ..word
    }
}

/// A writer holds or waits while `readerCount` is below zero; it holds when no reader is left to wait for.
fn rwmutex(word: LockWord, [state, count, wait]: [u32; 3]) -> Option<LockWord> {
    let (count, wait) = (i64::from(count as i32), i64::from(wait as i32));
    let announced = count < 0;
    let readers = if announced { count + MOST_READERS } else { count };
    // While a writer is announced the count includes readers that queue behind it; those that hold are in readerWait.
    let (holding, locked) = match announced {
        true if wait > 0 => (wait, false),
        true => (0, state & LOCKED != 0),
        false => (readers, false),
    };
    Some(LockWord {
        locked: Some(locked),
        readers: u32::try_from(holding).ok(),
        starving: state & STARVING != 0,
        words: format!("w.state={state:#x} readerCount={count} readerWait={wait}"),
        ..word
    })
}
