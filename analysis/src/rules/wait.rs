//! The state of a goroutine as one word, the same for every Go version and form.

use holdup_parsers::evidence::{Goroutine, Snapshot};

/// How a goroutine waits, as far as rules care.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Wait {
    Select,
    ChanReceive,
    ChanSend,
    Io,
    Sleep,
    Cond,
    WaitGroup,
    Lock,
    RLock,
    Syscall,
    Runnable,
    Running,
    /// Workers of the runtime itself: collector, finalizers, trace reader.
    Runtime,
    /// A semaphore of which nothing more is known.
    Semacquire,
    /// The form does not tell (counted profiles), and neither do the frames.
    Unknown,
    /// A state word that is not known here.
    Other,
}

impl Wait {
    /// The words that a rule may use in `states`.
    pub const WORDS: &'static [(&'static str, Wait)] = &[
        ("IO wait", Wait::Io),
        ("chan receive", Wait::ChanReceive),
        ("chan send", Wait::ChanSend),
        ("lock", Wait::Lock),
        ("rlock", Wait::RLock),
        ("runnable", Wait::Runnable),
        ("running", Wait::Running),
        ("runtime", Wait::Runtime),
        ("select", Wait::Select),
        ("semacquire", Wait::Semacquire),
        ("sleep", Wait::Sleep),
        ("sync.Cond.Wait", Wait::Cond),
        ("sync.WaitGroup.Wait", Wait::WaitGroup),
        ("syscall", Wait::Syscall),
    ];

    pub(crate) fn parse(word: &str) -> Option<Wait> {
        Wait::WORDS.iter().find(|(w, _)| *w == word).map(|(_, wait)| *wait)
    }

    pub(crate) fn bit(self) -> u32 {
        1 << self as u32
    }

    /// How `g` waits: its state word, and where that says little (`semacquire`, none) its innermost frames.
    pub fn of(s: &Snapshot, g: &Goroutine) -> Wait {
        let state = s.names.get(g.state);
        match state {
            "select" | "select (no cases)" => Wait::Select,
            "chan receive" | "chan receive (nil chan)" => Wait::ChanReceive,
            "chan send" | "chan send (nil chan)" => Wait::ChanSend,
            "IO wait" => Wait::Io,
            "sleep" => Wait::Sleep,
            "sync.Cond.Wait" => Wait::Cond,
            "sync.WaitGroup.Wait" => Wait::WaitGroup,
            "sync.Mutex.Lock" | "sync.RWMutex.Lock" => Wait::Lock,
            "sync.RWMutex.RLock" => Wait::RLock,
            "syscall" => Wait::Syscall,
            "runnable" | "runnable (scan)" => Wait::Runnable,
            "running" => Wait::Running,
            "semacquire" | "semarelease" | "" | "waiting" => Wait::of_frames(s, g, state),
            _ if state.starts_with("GC ")
                || state.starts_with("finalizer")
                || state.starts_with("force gc")
                || state.starts_with("trace reader")
                || state.starts_with("cleanup wait")
                || state == "idle" =>
            {
                Wait::Runtime
            }
            _ => Wait::Other,
        }
    }

    fn of_frames(s: &Snapshot, g: &Goroutine, state: &str) -> Wait {
        for frame in s.frames_of(g).iter().take(12) {
            let name = s.function(frame.site);
            let told = match name {
                "runtime.selectgo" | "runtime.block" => Wait::Select,
                "internal/poll.runtime_pollWait" | "net.runtime_pollWait" | "runtime.netpollblock" => Wait::Io,
                "time.Sleep" => Wait::Sleep,
                "sync.(*WaitGroup).Wait" => Wait::WaitGroup,
                "sync.(*Cond).Wait" | "sync.runtime_notifyListWait" | "sync.runtime_Syncsemacquire" => Wait::Cond,
                "sync.(*RWMutex).RLock" | "sync.runtime_SemacquireRWMutexR" => Wait::RLock,
                "sync.(*Mutex).Lock"
                | "sync.(*Mutex).lockSlow"
                | "internal/sync.(*Mutex).Lock"
                | "internal/sync.(*Mutex).lockSlow"
                | "sync.(*RWMutex).Lock"
                | "sync.runtime_SemacquireRWMutex"
                | "sync.runtime_SemacquireMutex"
                | "internal/sync.runtime_SemacquireMutex" => {
                    // RLock of old versions comes through the same semaphore call: the next frame tells.
                    if name.ends_with("runtime_SemacquireMutex") {
                        continue;
                    }
                    Wait::Lock
                }
                _ if name.starts_with("runtime.chanrecv") => Wait::ChanReceive,
                _ if name.starts_with("runtime.chansend") => Wait::ChanSend,
                _ if name.starts_with("syscall.Syscall") || name.starts_with("syscall.RawSyscall") => Wait::Syscall,
                _ if name.starts_with("runtime.") || name.starts_with("sync.runtime_") => continue,
                _ => break,
            };
            return told;
        }
        if state.is_empty() { Wait::Unknown } else { Wait::Semacquire }
    }
}
