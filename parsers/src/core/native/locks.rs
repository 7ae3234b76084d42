//! What threads wait for in the C library, read out of the lock's own words.
//!
//! glibc's `struct __pthread_mutex_s` (`sysdeps/x86/nptl/bits/struct_mutex.h`, `sysdeps/nptl/bits/struct_mutex.h`; the
//! same on amd64 and arm64 since 2.0): `__lock` at 0, `__count` at 4, `__owner` at 8, `__nusers` at 12, `__kind` at 16.
//! `struct __pthread_rwlock_arch_t` (`bits/struct_rwlock.h`, since 2.25): `__readers` at 0, `__writers` at 4,
//! `__wrphase_futex` at 8, `__writers_futex` at 12, `__cur_writer` at 24.

use super::NativeFrame;
use crate::core::CoreFile;
use crate::core::elf::Arch;
use crate::core::notes::Thread;
use crate::evidence::NativeLock;
use rustc_hash::FxHashMap;

/// `futex(2)` on amd64 (`arch/x86/entry/syscalls/syscall_64.tbl`).
pub const FUTEX_AMD64: u64 = 202;
/// `futex(2)` on arm64 (`include/uapi/asm-generic/unistd.h`).
pub const FUTEX_ARM64: u64 = 98;
/// `FUTEX_WAIT`, `FUTEX_LOCK_PI`, `FUTEX_WAIT_BITSET`, `FUTEX_LOCK_PI2` (`include/uapi/linux/futex.h`).
const WAITS: [u64; 4] = [0, 6, 9, 13];
/// `FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME`.
const FLAGS: u64 = 128 | 256;
/// The owner's thread id in the word of a robust or priority-inheriting lock (`FUTEX_TID_MASK`).
const TID_MASK: u32 = 0x3fff_ffff;
/// `PTHREAD_MUTEX_ROBUST_NORMAL_NP | PTHREAD_MUTEX_PRIO_INHERIT_NP`: the lock word holds the owner's id.
const TID_IN_WORD: u32 = 0x30;
/// glibc's `struct pthread.tid` on amd64, from the thread pointer (`nptl/descr.h`; the same since 2.4).
const TID_AMD64: u64 = 0x2d0;
/// Frames above a system call in which the C library's own function is looked for.
const LIBRARY: usize = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Mutex,
    RwLock,
    Join,
}

impl Kind {
    fn of(function: &str) -> Option<Kind> {
        // Frames may show the internal name: `___pthread_mutex_lock`, `__pthread_mutex_lock_full`.
        let name = function.trim_start_matches('_').trim_start_matches("GI_").trim_start_matches('_');
        match name {
            "pthread_mutex_lock"
            | "pthread_mutex_lock_full"
            | "pthread_mutex_timedlock"
            | "pthread_mutex_clocklock"
            | "pthread_mutex_clocklock_common"
            | "pthread_mutex_cond_lock"
            | "pthread_mutex_cond_lock_full" => Some(Kind::Mutex),
            "pthread_rwlock_rdlock"
            | "pthread_rwlock_wrlock"
            | "pthread_rwlock_timedrdlock"
            | "pthread_rwlock_timedwrlock"
            | "pthread_rwlock_clockrdlock"
            | "pthread_rwlock_clockwrlock" => Some(Kind::RwLock),
            "pthread_join" | "pthread_timedjoin_np" | "pthread_clockjoin_np" | "pthread_clockjoin_ex" => {
                Some(Kind::Join)
            }
            _ => None,
        }
    }
}

impl CoreFile {
    /// The pthread locks that threads wait for; `stacks` are those of the core's threads, in order.
    pub(super) fn native_locks(&self, stacks: &[Vec<NativeFrame>], input: u32) -> Vec<NativeLock> {
        let by_own_id = self.own_ids();
        let threads = self.notes.threads.iter().zip(stacks);
        threads.filter_map(|(thread, stack)| self.wait(thread, stack, input, &by_own_id)).collect()
    }

    fn wait(
        &self,
        thread: &Thread,
        stack: &[NativeFrame],
        input: u32,
        by_own_id: &FxHashMap<u32, u32>,
    ) -> Option<NativeLock> {
        let futex = self.futex_of(thread)?;
        let kind = match self.is_thread_end(futex) {
            true => Kind::Join,
            false => stack.iter().take(LIBRARY).find_map(|frame| Kind::of(frame.function.as_deref()?))?,
        };
        let half = |address: u64| self.memory.u32(address).ok();
        let tid = |own: u32| by_own_id.get(&own).copied();
        let mut lock = NativeLock { pid: self.process().pid, waiter: thread.tid, input, ..NativeLock::default() };
        match kind {
            Kind::Mutex => {
                let (word, count) = (half(futex)?, half(futex.checked_add(4)?)?);
                let (owner, users) = (half(futex.checked_add(8)?)?, half(futex.checked_add(12)?)?);
                let kind = half(futex.checked_add(16)?)?;
                lock.kind = "pthread-mutex";
                lock.address = futex;
                lock.words = format!("__lock={word:#x} __count={count} __owner={owner} __nusers={users} __kind={kind}");
                // Between its atomic and its owner field a locker is for a moment both: then the words disagree.
                let agrees = word != 0 && owner != 0 && (kind & TID_IN_WORD == 0 || word & TID_MASK == owner);
                lock.owner = agrees.then(|| tid(owner)).flatten();
                lock.owner_gone = agrees && lock.owner.is_none() && !by_own_id.is_empty();
            }
            Kind::RwLock => {
                // It waits at one of two words of the lock; only one of the two readings makes sense.
                let writer = |base: u64| half(base.checked_add(24)?).filter(|&own| own != 0).and_then(tid);
                let base = [8u64, 12].into_iter().filter_map(|offset| futex.checked_sub(offset));
                let fits: Vec<u64> = base.filter(|base| base % 8 == 0).collect();
                let [base] = fits[..] else { return None };
                let (readers, writers) = (half(base)?, half(base.checked_add(4)?)?);
                lock.kind = "pthread-rwlock";
                lock.address = base;
                lock.reads =
                    stack.iter().take(LIBRARY).any(|f| f.function.as_deref().is_some_and(|n| n.contains("rdlock")));
                lock.words = format!("__readers={readers:#x} __writers={writers:#x}");
                lock.owner = writer(base);
            }
            Kind::Join => {
                let own = half(futex).filter(|&own| own != 0)?;
                lock.kind = "pthread-join";
                lock.address = futex;
                lock.words = format!("tid={own}");
                lock.owner = tid(own);
            }
        }
        Some(lock)
    }

    /// The address of the futex that a thread waits at, from the registers of its system call.
    fn futex_of(&self, thread: &Thread) -> Option<u64> {
        let word = |at: usize| thread.words.get(at).copied();
        let (number, address, operation) = match self.arch {
            // orig_rax, rdi, rsi
            Arch::Amd64 => (word(15)? == FUTEX_AMD64, word(14)?, word(13)?),
            // x8, x1; the kernel keeps x0 apart and returns in it, so that only a wait that is still on shows it.
            Arch::Arm64 => (word(8)? == FUTEX_ARM64, word(0)?, word(1)?),
        };
        (number && WAITS.contains(&(operation & !FLAGS)) && address % 4 == 0).then_some(address)
    }

    /// Whether a futex is the `tid` field of some thread: the kernel clears and wakes it when that thread ends.
    fn is_thread_end(&self, futex: u64) -> bool {
        let field = |tls: u64| tls.checked_add(TID_AMD64);
        self.arch == Arch::Amd64 && self.notes.threads.iter().any(|t| t.tls != 0 && field(t.tls) == Some(futex))
    }

    /// Thread ids of the core by those that the process itself sees: gdb's gcore, run from outside of a container,
    /// writes the host's ids where locks have those of the container's PID namespace.
    fn own_ids(&self) -> FxHashMap<u32, u32> {
        let threads = &self.notes.threads;
        let plain: FxHashMap<u32, u32> = threads.iter().map(|thread| (thread.tid, thread.tid)).collect();
        if self.arch != Arch::Amd64 {
            return plain;
        }
        let own: FxHashMap<u32, u32> = threads
            .iter()
            .filter(|thread| thread.tls != 0)
            .filter_map(|thread| Some((self.memory.u32(thread.tls.checked_add(TID_AMD64)?).ok()?, thread.tid)))
            .filter(|(own, _)| *own != 0 && *own <= TID_MASK)
            .collect();
        if own.len() == threads.len() { own } else { plain }
    }
}
