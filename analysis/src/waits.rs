//! What each goroutine waits for, told from its state word and its innermost frames.
//!
//! Facts: Go's `src/sync`, `src/internal/sync` and `src/runtime/sema.go` of 1.4 to 1.27. Which frames carry an exact
//! address depends on the version: up to 1.16 all printed words are real; since 1.17 register arguments may be stale.

use crate::functions::{Class, Functions};
use holdup_parsers::evidence::{Flags, Frame, Goroutine, Snapshot};

/// What a goroutine is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Primitive {
    /// `sync.Mutex`.
    Mutex,
    /// `RWMutex.RLock`: a writer holds it, or waits before us.
    RwRead,
    /// `RWMutex.Lock` that waits for readers to leave; it keeps later readers out.
    RwWriteForReaders,
    /// `RWMutex.Lock` behind another writer.
    RwWriteBehindWriter,
    /// `sync.Once` that somebody else runs.
    Once,
    /// `sync.WaitGroup`.
    WaitGroup,
    /// `sync.Cond`.
    Cond,
    /// A runtime semaphore of unknown use, or a file's own lock.
    Semaphore,
    /// Channel receive (also `range`, and a select with one case).
    ChanReceive,
    /// Channel send.
    ChanSend,
    /// A nil channel or `select {}`: for ever.
    Forever,
    /// Select with several cases.
    Select,
    /// `time.Sleep`.
    Sleep,
    /// The network poller, reading or accepting.
    PollRead,
    /// The network poller, writing or connecting.
    PollWrite,
    /// In a system call.
    Syscall,
    /// In C code.
    Cgo,
    /// On a processor.
    Running,
    /// Ready, waits for a processor.
    Runnable,
    /// Held up by the garbage collector.
    Collector,
    /// A goroutine of the runtime itself, idle.
    RuntimeIdle,
    /// `iter.Pull`, switched away.
    Coroutine,
    /// Nothing is known.
    #[default]
    Unknown,
}

impl Primitive {
    /// The contract's lock kind, for what can be listed among `locks`.
    pub fn lock_kind(self) -> Option<&'static str> {
        Some(match self {
            Primitive::Mutex => "mutex",
            Primitive::RwRead | Primitive::RwWriteForReaders | Primitive::RwWriteBehindWriter => "rwmutex",
            Primitive::Once => "once",
            Primitive::WaitGroup => "waitgroup",
            Primitive::Cond => "cond",
            Primitive::Semaphore => "semaphore",
            Primitive::ChanReceive | Primitive::ChanSend | Primitive::Forever => "channel",
            _ => return None,
        })
    }

    /// Whether somebody excludes the waiter by holding the object.
    pub fn is_exclusive_lock(self) -> bool {
        matches!(
            self,
            Primitive::Mutex
                | Primitive::RwRead
                | Primitive::RwWriteForReaders
                | Primitive::RwWriteBehindWriter
                | Primitive::Once
        )
    }

    /// The contract's waiter mode.
    pub fn mode(self) -> &'static str {
        match self {
            Primitive::RwRead => "rlock",
            Primitive::ChanSend => "send",
            Primitive::ChanReceive | Primitive::Forever => "receive",
            Primitive::WaitGroup | Primitive::Cond | Primitive::Semaphore => "wait",
            _ => "lock",
        }
    }

    /// Blocked, rather than running or ready to run.
    pub fn is_blocked(self) -> bool {
        !matches!(self, Primitive::Running | Primitive::Runnable | Primitive::Unknown | Primitive::RuntimeIdle)
    }
}

/// A goroutine's wait.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wait {
    /// What it does.
    pub primitive: Primitive,
    /// Base address of the object, where the dump has it exactly.
    pub address: Option<u64>,
    /// Index (among its frames) of the first frame that is not machinery: who waits. Equals the frame count if none.
    pub caller: usize,
    /// Index of the first frame that is not a thin lock wrapper either.
    pub acquirer: usize,
    /// Index of the frame with the system call's arguments, if it is in one.
    pub syscall_frame: Option<usize>,
}

/// What of the printed arguments may be believed in a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArgumentRules {
    /// Up to Go 1.16: machine words without braces, all real.
    pub all_exact: bool,
    /// Go 1.17 on register architectures: stale words are not marked.
    pub unmarked: bool,
    /// 32-bit: pointers are half as wide.
    pub narrow: bool,
}

impl ArgumentRules {
    /// Looks at how arguments are printed: braces came with 1.17, `?` with 1.18.
    pub fn of(snapshot: &Snapshot) -> Self {
        let (mut braces, mut doubts, mut seen, mut wide) = (false, false, 0usize, false);
        'scan: for goroutine in &snapshot.goroutines {
            for frame in snapshot.frames_of(goroutine) {
                let text = snapshot.args_text(goroutine, frame);
                braces |= text.contains('{');
                doubts |= text.contains('?');
                wide |= text.split(['x', ',']).any(|word| word.trim_end_matches(['?', '}', ' ']).len() > 8);
                seen += usize::from(!text.is_empty() && text != "...");
                if (braces && doubts && wide) || seen > 5_000 {
                    break 'scan;
                }
            }
        }
        let version = snapshot.process.go_version.as_deref().and_then(minor_version);
        let narrow = !wide && seen > 20;
        ArgumentRules {
            all_exact: version.map_or(!braces && !doubts, |minor| minor <= 16),
            unmarked: version.map_or(braces && !doubts && seen > 50 && !narrow, |minor| minor == 17),
            narrow,
        }
    }
}

/// `go1.19.8` is 19.
pub fn minor_version(version: &str) -> Option<u32> {
    let rest = version.trim_start_matches("go").strip_prefix("1.")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Classifies one goroutine.
pub fn classify(snapshot: &Snapshot, functions: &Functions, rules: ArgumentRules, goroutine: &Goroutine) -> Wait {
    let frames = snapshot.frames_of(goroutine);
    let state = snapshot.names.get(goroutine.state);
    let class = |frame: &Frame| functions.get(snapshot.site(frame.site).func).class;
    let caller = frames.iter().position(|f| !class(f).is_machinery()).unwrap_or(frames.len());
    let top = &frames[..caller];
    let has = |wanted: Class| top.iter().any(|f| class(f) == wanted);

    let mutex_frames = has(Class::MutexSlow) || has(Class::MutexLock);
    let by_frames = if has(Class::OnceSlow) || has(Class::OnceDo) {
        // Without mutex frames on top it is the one that runs the function.
        mutex_frames.then_some(Primitive::Once)
    } else if has(Class::RLock) {
        Some(Primitive::RwRead)
    } else if has(Class::WLock) {
        Some(if mutex_frames { Primitive::RwWriteBehindWriter } else { Primitive::RwWriteForReaders })
    } else if has(Class::WaitGroup) {
        Some(Primitive::WaitGroup)
    } else if has(Class::CondWait) || has(Class::NotifyWait) {
        Some(if mutex_frames && !has(Class::NotifyWait) { Primitive::Mutex } else { Primitive::Cond })
    } else if has(Class::FdMutex) {
        Some(Primitive::Semaphore)
    } else if mutex_frames {
        Some(Primitive::Mutex)
    } else if has(Class::PollWait) {
        Some(poll_mode(snapshot, functions, goroutine, top))
    } else {
        None
    };
    let blocked_on_lock = by_frames.filter(|p| state_allows(*p, state));
    let primitive = blocked_on_lock.unwrap_or_else(|| by_state(state, top.iter().map(class), goroutine.flags));

    let mut acquirer = caller;
    while acquirer < frames.len() {
        let function = functions.get(snapshot.site(frames[acquirer].site).func);
        if !(function.lock_wrapper || function.class == Class::Standard && function.outer == "Lock") {
            break;
        }
        acquirer += 1;
    }
    if acquirer == frames.len() {
        acquirer = caller;
    }
    let syscall_frame =
        (primitive == Primitive::Syscall).then(|| top.iter().position(|f| class(f) == Class::RawSyscall)).flatten();
    let address = address_of(snapshot, functions, rules, goroutine, top, primitive)
        .or_else(|| stated_address(snapshot, goroutine, primitive));
    Wait { primitive, address, caller, acquirer, syscall_frame }
}

/// The lock that a library that watches locks reported this goroutine to wait for.
fn stated_address(snapshot: &Snapshot, goroutine: &Goroutine, primitive: Primitive) -> Option<u64> {
    if snapshot.stated_locks.is_empty() || !primitive.is_exclusive_lock() {
        return None;
    }
    snapshot.stated_locks.iter().find(|s| !s.holds && Some(s.goroutine) == goroutine.id).map(|s| s.lock)
}

/// Frames alone can mislead when the goroutine has just been woken: `[runnable]` in `lockSlow` waits for a processor.
fn state_allows(primitive: Primitive, state: &str) -> bool {
    match state {
        "running" | "runnable" | "dead" | "idle" | "copystack" => false,
        "" => true,
        _ => match primitive {
            Primitive::PollRead | Primitive::PollWrite => state == "IO wait",
            _ => state != "syscall" && state != "sleep" && !state.starts_with("GC"),
        },
    }
}

fn by_state(state: &str, top: impl Iterator<Item = Class>, flags: Flags) -> Primitive {
    let top: Vec<Class> = top.collect();
    let base = state.trim_end_matches(" (synctest)").trim_end_matches(" (durable)");
    match base {
        "sync.Mutex.Lock" => Primitive::Mutex,
        "sync.RWMutex.RLock" => Primitive::RwRead,
        "sync.RWMutex.Lock" => Primitive::RwWriteForReaders,
        "sync.WaitGroup.Wait" => Primitive::WaitGroup,
        "sync.Cond.Wait" => Primitive::Cond,
        "semacquire" | "semarelease" => Primitive::Semaphore,
        "chan receive" => Primitive::ChanReceive,
        "chan send" => Primitive::ChanSend,
        "chan receive (nil chan)" | "chan send (nil chan)" | "select (no cases)" => Primitive::Forever,
        "select" => Primitive::Select,
        "sleep" => Primitive::Sleep,
        "IO wait" => Primitive::PollRead,
        "syscall" if top.contains(&Class::Cgo) => Primitive::Cgo,
        "syscall" => Primitive::Syscall,
        "running" => Primitive::Running,
        "runnable" | "waiting for cgo callback" => Primitive::Runnable,
        "coroutine" => Primitive::Coroutine,
        "finalizer wait"
        | "cleanup wait"
        | "trace reader (blocked)"
        | "timer goroutine (idle)"
        | "mark wait (idle)" => Primitive::RuntimeIdle,
        _ if base.ends_with("(idle)") || base == "GC sweep wait" || base == "GC scavenge wait" => {
            Primitive::RuntimeIdle
        }
        _ if base.starts_with("GC ") || base.starts_with("garbage collection") || base == "stopping the world" => {
            Primitive::Collector
        }
        // Forms without states (pprof debug=1) tell by their innermost frame.
        "" if flags.has(Flags::UNAVAILABLE) => Primitive::Running,
        "" => match top.first() {
            Some(Class::ChanRecv) => Primitive::ChanReceive,
            Some(Class::ChanSend) => Primitive::ChanSend,
            Some(Class::Select) => Primitive::Select,
            Some(Class::Sleep) => Primitive::Sleep,
            Some(Class::RawSyscall | Class::NamedSyscall) => Primitive::Syscall,
            Some(Class::Cgo) => Primitive::Cgo,
            Some(Class::SyncSema) => Primitive::Semaphore,
            _ => Primitive::Unknown,
        },
        _ => Primitive::Unknown,
    }
}

fn poll_mode(snapshot: &Snapshot, functions: &Functions, goroutine: &Goroutine, top: &[Frame]) -> Primitive {
    let poll = top.iter().find(|f| functions.get(snapshot.site(f.site).func).class == Class::PollWait);
    let mode = poll.and_then(|f| snapshot.args(goroutine, f).get(1).map(|a| a.value));
    // 'r' and 'w' of `internal/poll/fd_poll_runtime.go`.
    if mode == Some(0x77) { Primitive::PollWrite } else { Primitive::PollRead }
}

/// The object's base, from whichever frame shows it exactly.
fn address_of(
    snapshot: &Snapshot,
    functions: &Functions,
    rules: ArgumentRules,
    goroutine: &Goroutine,
    top: &[Frame],
    primitive: Primitive,
) -> Option<u64> {
    let first = |wanted: Class| {
        let frame = top.iter().find(|f| functions.get(snapshot.site(f.site).func).class == wanted)?;
        let args = snapshot.args(goroutine, frame);
        args.first().copied().filter(|a| !a.stale && a.value > 0xfff && a.depth == 0 && a.index == 0).map(|a| a.value)
    };
    let receiver = |wanted: Class| if rules.unmarked { None } else { first(wanted) };
    // System level (signals, cores): exact in every version.
    let sema = first(Class::RuntimeSema).or_else(|| if rules.all_exact { first(Class::SyncSema) } else { None });
    let mutex =
        first(Class::MutexSlow).or_else(|| receiver(Class::MutexLock)).or_else(|| sema.map(|s| s.wrapping_sub(4)));
    match primitive {
        Primitive::Mutex | Primitive::RwWriteBehindWriter => mutex,
        Primitive::Once => {
            // Until 1.12 the mutex is the first field; since 1.13 `done` is, and doSlow exists.
            let slow = top.iter().any(|f| functions.get(snapshot.site(f.site).func).class == Class::OnceSlow);
            mutex.map(|m| if slow { m.wrapping_sub(4) } else { m })
        }
        Primitive::RwRead => receiver(Class::RLock).or_else(|| sema.map(|s| s.wrapping_sub(12))),
        Primitive::RwWriteForReaders => sema.map(|s| s.wrapping_sub(8)).or_else(|| receiver(Class::WLock)),
        Primitive::WaitGroup => receiver(Class::WaitGroup).or_else(|| {
            // Go 1.11 to 1.19 put the semaphore first where the group is not 8-aligned.
            sema.map(|s| if s % 8 == 0 { s.wrapping_sub(8) } else { s })
        }),
        Primitive::Cond => {
            let list = first(Class::NotifyWait);
            let offset = if rules.narrow { 8 } else { 16 };
            list.map(|l| l.wrapping_sub(offset)).or_else(|| receiver(Class::CondWait))
        }
        Primitive::ChanReceive => first(Class::ChanRecv),
        Primitive::ChanSend => first(Class::ChanSend),
        Primitive::Semaphore => sema,
        _ => None,
    }
}
