//! What each distinct function of a snapshot is, worked out once so that millions of frames cost a table look-up.

use crate::rules::is_plumbing;
use holdup_parsers::evidence::{FunctionName, Snapshot, Sym};

/// What a function is to the analysis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Class {
    /// Anything else: the program's own code or a library.
    #[default]
    Other,
    /// The standard library, as far as it is none of the others.
    Standard,
    /// Scheduler, semaphores, channels: `runtime.*`, `runtime_*` of other packages.
    Runtime,
    /// `runtime.semacquire1` and its like: the first argument is the semaphore word.
    RuntimeSema,
    /// `runtime.chanrecv`, `chanrecv1`, `chanrecv2`.
    ChanRecv,
    /// `runtime.chansend`, `chansend1`.
    ChanSend,
    /// `runtime.selectgo`, `runtime.block`.
    Select,
    /// `sync.runtime_Semacquire…`: to Go 1.16 the first argument is the semaphore word, later it is stale.
    SyncSema,
    /// `sync.runtime_notifyListWait`: the first argument is the Cond's list.
    NotifyWait,
    /// `(*Mutex).lockSlow`, whose argument is exact in all versions that have it (1.13 and later).
    MutexSlow,
    /// `(*Mutex).Lock`.
    MutexLock,
    /// `(*RWMutex).RLock`.
    RLock,
    /// `(*RWMutex).Lock`.
    WLock,
    /// `(*WaitGroup).Wait`.
    WaitGroup,
    /// `(*Cond).Wait`.
    CondWait,
    /// `(*Once).doSlow` (1.13 and later).
    OnceSlow,
    /// `(*Once).Do`.
    OnceDo,
    /// Other code of `sync`: Map, Pool, rlocker, OnceFunc.
    SyncOther,
    /// `internal/poll.(*fdMutex)`: a file's own read and write locks.
    FdMutex,
    /// `internal/poll.runtime_pollWait`; the second argument is the mode.
    PollWait,
    /// A raw system call: `syscall.Syscall6`, `unix.Syscall`, `internal/runtime/syscall.Syscall6`.
    RawSyscall,
    /// A named wrapper of one: `syscall.recvfrom`, `unix.Fsync`.
    NamedSyscall,
    /// `runtime.cgocall`, `_Cfunc_…`.
    Cgo,
    /// `time.Sleep`.
    Sleep,
}

impl Class {
    /// Whether the frame belongs to the machinery of waiting rather than to who waits.
    pub fn is_machinery(self) -> bool {
        !matches!(self, Class::Other | Class::Standard)
    }
}

/// One function, with what the analysis asks of it again and again.
#[derive(Debug, Clone, Default)]
pub struct Function {
    /// What it is.
    pub class: Class,
    /// Standard library or runtime.
    pub standard: bool,
    /// Its receiver's type with the package, vendor prefix removed; empty for plain functions.
    pub type_name: String,
    /// The function or method without closures.
    pub outer: String,
    /// Package, receiver and [`Self::outer`]: closures of one function share it.
    pub family: String,
    /// It is a thin wrapper that locks for its caller: `Lock`, `RLock`, `lock`, `lockContainer` …
    pub lock_wrapper: bool,
    /// Part of a library's machinery (grpc, ttrpc, http …): it says little about what a goroutine is for.
    pub plumbing: bool,
    /// Its name promises that the caller holds the lock: `…Locked`.
    pub named_locked: bool,
}

/// The functions of a snapshot by symbol.
pub struct Functions {
    table: Vec<Function>,
}

impl Functions {
    /// Works out every function that occurs at a site.
    pub fn of(snapshot: &Snapshot) -> Self {
        let mut table = vec![Function::default(); snapshot.names.len()];
        for site in &snapshot.sites {
            let slot = &mut table[site.func.0 as usize];
            if slot.family.is_empty() {
                *slot = describe(snapshot.names.get(site.func));
            }
        }
        Functions { table }
    }

    /// The function of `sym`.
    pub fn get(&self, sym: Sym) -> &Function {
        &self.table[sym.0 as usize]
    }
}

fn describe(full: &str) -> Function {
    let name = FunctionName::parse(full);
    let package = name.package_without_vendor();
    let outer = name.outer();
    let type_name = name.receiver.map_or(String::new(), |r| format!("{package}.{}", r.split('[').next().unwrap_or(r)));
    let family = match name.receiver {
        Some(receiver) => format!("{package}.{receiver}.{outer}"),
        None => format!("{package}.{outer}"),
    };
    let class = class_of(&name, package);
    Function {
        standard: name.is_standard_library() || name.is_runtime(),
        lock_wrapper: class == Class::Other && is_lock_wrapper(outer),
        plumbing: is_plumbing(name.without_vendor()),
        named_locked: outer.len() > 6 && (outer.ends_with("Locked") || outer.ends_with("NoLock")),
        class,
        type_name,
        outer: outer.to_string(),
        family,
    }
}

fn class_of(name: &FunctionName<'_>, package: &str) -> Class {
    match package {
        "sync" | "internal/sync" => class_of_sync(name),
        "runtime" | "" => class_of_runtime(name.rest),
        "internal/poll" if name.rest == "runtime_pollWait" => Class::PollWait,
        "internal/poll" if name.rest.starts_with("runtime_Sem") => Class::SyncSema,
        "internal/poll" if name.receiver == Some("fdMutex") => Class::FdMutex,
        "net" if name.rest == "runtime_pollWait" => Class::PollWait,
        "time" if name.rest == "Sleep" => Class::Sleep,
        "internal/runtime/syscall" | "runtime/internal/syscall" => Class::RawSyscall,
        "internal/runtime/syscall/linux" => Class::RawSyscall,
        "syscall" | "golang.org/x/sys/unix" | "internal/syscall/unix" => class_of_syscall(name),
        _ if package.starts_with("internal/runtime/") || package.starts_with("runtime/internal/") => Class::Runtime,
        _ if name.rest.starts_with("_Cfunc_") => Class::Cgo,
        _ if name.rest.starts_with("runtime_") => Class::Runtime,
        _ if name.is_standard_library() => Class::Standard,
        _ => Class::Other,
    }
}

fn class_of_sync(name: &FunctionName<'_>) -> Class {
    match (name.receiver, name.rest) {
        (Some("Mutex"), "lockSlow") => Class::MutexSlow,
        (Some("Mutex"), _) => Class::MutexLock,
        (Some("RWMutex"), "RLock" | "rlock") => Class::RLock,
        (Some("RWMutex"), "Lock") => Class::WLock,
        (Some("WaitGroup"), "Wait") => Class::WaitGroup,
        (Some("Cond"), "Wait") => Class::CondWait,
        (Some("Once"), "doSlow") => Class::OnceSlow,
        (Some("Once"), "Do") => Class::OnceDo,
        (None, "runtime_notifyListWait" | "runtime_Syncsemacquire") => Class::NotifyWait,
        (None, rest) if rest.starts_with("runtime_Sem") => Class::SyncSema,
        (None, rest) if rest.starts_with("runtime_") => Class::Runtime,
        _ => Class::SyncOther,
    }
}

fn class_of_runtime(rest: &str) -> Class {
    match rest {
        "semacquire1" | "semacquire" => Class::RuntimeSema,
        "chanrecv" | "chanrecv1" | "chanrecv2" => Class::ChanRecv,
        "chansend" | "chansend1" => Class::ChanSend,
        "selectgo" | "block" | "selectnbrecv" | "selectnbsend" => Class::Select,
        "cgocall" | "asmcgocall" => Class::Cgo,
        "notifyListWait" => Class::NotifyWait,
        "netpollblock" => Class::Runtime,
        "main" | "goexit" => Class::Runtime,
        _ if rest.starts_with("sync_runtime_notifyListWait") => Class::NotifyWait,
        _ => Class::Runtime,
    }
}

fn class_of_syscall(name: &FunctionName<'_>) -> Class {
    match name.rest {
        "Syscall"
        | "Syscall6"
        | "Syscall9"
        | "RawSyscall"
        | "RawSyscall6"
        | "rawVforkSyscall"
        | "SyscallNoError"
        | "RawSyscallNoError"
        | "syscall"
        | "syscall6"
        | "rawSyscallNoError"
        | "runtime_entersyscall" => Class::RawSyscall,
        _ if name.receiver.is_none() => Class::NamedSyscall,
        _ => Class::Standard,
    }
}

/// Names under which code wraps a lock: the caller is who really takes it.
fn is_lock_wrapper(outer: &str) -> bool {
    let lower = outer.to_ascii_lowercase();
    matches!(
        lower.as_str(),
        "lock"
            | "rlock"
            | "wlock"
            | "acquire"
            | "lockname"
            | "lockkey"
            | "acquirelock"
            | "acquirerlock"
            | "acquirewlock"
    ) || (lower.starts_with("lock") || lower.starts_with("rlock")) && !lower.contains("unlock") && lower.len() <= 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_classed() {
        let cases = [
            ("sync.(*Mutex).lockSlow", Class::MutexSlow),
            ("internal/sync.(*Mutex).lockSlow", Class::MutexSlow),
            ("sync.(*RWMutex).RLock", Class::RLock),
            ("sync.runtime_SemacquireRWMutexR", Class::SyncSema),
            ("internal/sync.runtime_SemacquireMutex", Class::SyncSema),
            ("sync.runtime_notifyListWait", Class::NotifyWait),
            ("runtime.semacquire1", Class::RuntimeSema),
            ("runtime.chanrecv1", Class::ChanRecv),
            ("internal/poll.runtime_pollWait", Class::PollWait),
            ("net.runtime_pollWait", Class::PollWait),
            ("syscall.Syscall6", Class::RawSyscall),
            ("k8s.io/kubernetes/vendor/golang.org/x/sys/unix.Fsync", Class::NamedSyscall),
            ("sync.(*Once).doSlow", Class::OnceSlow),
            ("sync.(*rlocker).Lock", Class::SyncOther),
            ("main.f", Class::Other),
            ("os.(*File).Read", Class::Standard),
        ];
        for (name, class) in cases {
            assert_eq!(describe(name).class, class, "{name}");
        }
        assert!(describe("github.com/moby/locker.(*Locker).Lock").lock_wrapper);
        assert!(!describe("main.(*server).lookup").lock_wrapper);
        assert!(describe("x/y.(*Q).maybeAddLocked").named_locked);
        assert_eq!(describe("a.b/c.(*T).M.func1.2").family, "a.b/c.T.M");
    }
}
