//! What a core's memory says about locks. Facts only: what they prove is decided by the analysis.

/// Facts read out of a process's memory.
#[derive(Debug, Clone, Default)]
pub struct MemoryFacts {
    /// Every synchronisation object that some goroutine waits for, with its words as they stand in memory.
    pub locks: Vec<LockWord>,
    /// Pending deferred calls that release a lock.
    pub releases: Vec<DeferredRelease>,
    /// Goroutines whose live stack holds a lock's exact address or a pointer to the object around it.
    pub hints: Vec<HeldHint>,
}

/// A synchronisation object as it stands in memory.
#[derive(Debug, Clone, Default)]
pub struct LockWord {
    /// Base address of the object itself (an RWMutex, not its inner mutex).
    pub address: u64,
    /// `mutex`, `rwmutex`, `waitgroup`, `once`, `cond`, `channel`, `semaphore`.
    pub kind: &'static str,
    /// Whether somebody holds it for writing (`Mutex.state & 1`); `None` where the word says nothing.
    pub locked: Option<bool>,
    /// Readers that hold an RWMutex.
    pub readers: Option<u32>,
    /// Waiters as the lock's own word counts them.
    pub counted_waiters: Option<u32>,
    /// `Mutex.state & 4`.
    pub starving: bool,
    /// Waiters found in its queue, in order.
    pub queue: Vec<QueuedWaiter>,
    /// The words themselves, for the report: `state=0x259 sema=0`.
    pub words: String,
}

/// A waiter found in a lock's own queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuedWaiter {
    /// Goroutine id.
    pub goroutine: u64,
    /// `lock`, `rlock`, `wait`, `send`, `receive`.
    pub mode: &'static str,
}

/// A deferred call that is still to run and will release a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeferredRelease {
    /// Whose.
    pub goroutine: u64,
    /// The lock's base address.
    pub lock: u64,
    /// Whether it ends a read (`RUnlock`).
    pub read: bool,
    /// The function whose return runs it.
    pub function: String,
    /// Where the record stands: a `_defer`, or the frame's defer bits.
    pub at: u64,
    /// The goroutine is known to be past the acquisition: the code position agrees.
    pub past_acquisition: bool,
    /// The goroutine stands in a window in which it gave the lock back (`Unlock … wait … Lock`), or may.
    pub released_window: bool,
}

/// The lock's address (or its object's) among the live words of a goroutine's stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldHint {
    /// Whose stack.
    pub goroutine: u64,
    /// The lock's base address.
    pub lock: u64,
    /// The function whose frame holds the word.
    pub function: String,
    /// Address of the word.
    pub at: u64,
    /// The last lock operation before that frame's program counter takes this lock (and none gives it back).
    pub after_lock_call: bool,
}
