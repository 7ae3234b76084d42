//! Locks of the C library that threads wait for, as cores show them: the owner stands in the lock's own words.

use crate::case::Case;
use crate::diagnosis::{Evidence, Holder, HolderStatus, Lock, Node, NodeId, Source, Trust, Waiter};
use crate::graph::{Key, Link};
use holdup_parsers::evidence::{Evidence as Read, NativeLock, ThreadStack};
use rustc_hash::FxHashMap;

/// A lock with all that wait for it in one core.
#[derive(Debug, Clone)]
pub struct NativeGroup {
    /// `n1`, `n2` …
    pub id: String,
    /// Indices into `NodeEvidence::native_locks`, never empty.
    pub waits: Vec<usize>,
}

/// The native locks of an incident, and how to find their threads.
#[derive(Debug, Default)]
pub struct NativeLocks {
    /// The locks.
    pub groups: Vec<NativeGroup>,
    /// Lock by waiting thread (index into `NodeEvidence::threads`).
    by_thread: FxHashMap<usize, usize>,
    /// Threads of cores by input and thread id.
    threads: FxHashMap<(u32, u32), usize>,
}

impl NativeLocks {
    /// Groups what threads wait for by lock.
    pub fn of(evidence: &Read) -> Self {
        let mut found = NativeLocks::default();
        for (t, thread) in evidence.node.threads.iter().enumerate() {
            if let (Some((input, _)), Some(tid)) = (thread.memory, thread.tid) {
                found.threads.entry((input, tid)).or_insert(t);
            }
        }
        let mut slots: FxHashMap<(u32, u64, &str), usize> = FxHashMap::default();
        for (n, lock) in evidence.node.native_locks.iter().enumerate() {
            let slot = *slots.entry((lock.input, lock.address, lock.kind)).or_insert_with(|| {
                found.groups.push(NativeGroup { id: format!("n{}", found.groups.len() + 1), waits: Vec::new() });
                found.groups.len() - 1
            });
            found.groups[slot].waits.push(n);
            if let Some(&thread) = found.threads.get(&(lock.input, lock.waiter)) {
                found.by_thread.insert(thread, slot);
            }
        }
        found
    }

    /// The lock that thread `t` waits for.
    pub fn of_thread(&self, t: usize) -> Option<usize> {
        self.by_thread.get(&t).copied()
    }
}

/// A lock's words as its first waiter saw them.
pub fn words<'a>(case: &Case<'a>, group: usize) -> &'a NativeLock {
    &case.evidence.node.native_locks[case.native.groups[group].waits[0]]
}

/// The thread that a lock's words name as its owner.
fn owner(case: &Case<'_>, group: usize) -> Option<usize> {
    let lock = words(case, group);
    case.native.threads.get(&(lock.input, lock.owner?)).copied()
}

/// The threads that stand in a lock's call. One that waits for another's end does so by design.
pub fn waiting(case: &Case<'_>) -> Vec<Key> {
    let waits = |lock: &&NativeLock| lock.kind != "pthread-join";
    let locks = case.evidence.node.native_locks.iter().filter(waits);
    locks.filter_map(|lock| case.native.threads.get(&(lock.input, lock.waiter))).map(|&t| Key::Thread(t)).collect()
}

/// Thread to the lock that it waits for.
pub fn waits(case: &Case<'_>, t: usize) -> Option<(Key, Link)> {
    let group = case.native.of_thread(t)?;
    let lock = words(case, group);
    let thread = &case.evidence.node.threads[t];
    let text = match call_of(thread) {
        Some(call) => format!("its registers show a futex wait at {:#x}, in {call}", lock.address),
        None => format!("its registers show a futex wait at {:#x}", lock.address),
    };
    let evidence = vec![in_memory(lock, text)];
    Some((Key::NativeLock(group), Link { why: "lock", trust: Trust::Proven, evidence }))
}

/// Lock to its owner: the lock's own words are the proof.
pub fn holder(case: &Case<'_>, group: usize) -> Option<(Key, Link)> {
    let thread = owner(case, group)?;
    let lock = words(case, group);
    let text = match lock.kind {
        "pthread-join" => format!("it ends with thread {} ({})", lock.owner.unwrap_or(0), lock.words),
        _ => format!("its words name thread {} as the owner: {}", lock.owner.unwrap_or(0), lock.words),
    };
    Some((Key::Thread(thread), Link { why: "lock", trust: Trust::Proven, evidence: vec![in_memory(lock, text)] }))
}

/// The C library's function that a thread called: the frame that the program itself called.
fn call_of(thread: &ThreadStack) -> Option<&str> {
    thread.frames.iter().map(|f| f.function.as_str()).find(|f| f.contains("pthread_"))
}

fn in_memory(lock: &NativeLock, text: String) -> Evidence {
    let address = Some(format!("{:#x}", lock.address));
    let source = Some(Source { input: lock.input as usize, address, ..Source::default() });
    Evidence { kind: "memory".into(), text, source, against: false }
}

/// A lock as people name it.
pub fn label(case: &Case<'_>, group: usize) -> String {
    let lock = words(case, group);
    match lock.kind {
        "pthread-join" => format!("the end of thread {}", lock.owner.unwrap_or(0)),
        kind => format!("{kind} {:#x}", lock.address),
    }
}

/// A lock as the contract prints it in chains.
pub fn node(case: &Case<'_>, group: usize) -> Node {
    let id = NodeId::Name(case.native.groups[group].id.clone());
    Node { kind: "lock".into(), snapshot: None, id, label: label(case, group) }
}

/// The locks as the contract prints them; waits for a thread's end are not among them.
pub fn locks(case: &Case<'_>) -> Vec<Lock> {
    let groups = case.native.groups.iter().enumerate().filter(|&(n, _)| words(case, n).kind != "pthread-join");
    groups
        .map(|(n, group)| {
            let lock = words(case, n);
            let waiters: Vec<Waiter> = group
                .waits
                .iter()
                .map(|&w| &case.evidence.node.native_locks[w])
                .map(|wait| Waiter {
                    goroutine: None,
                    thread: Some(wait.waiter),
                    mode: if wait.reads { "rlock" } else { "lock" }.into(),
                    minutes: None,
                })
                .collect();
            let holder = owner(case, n).map(|t| Holder {
                goroutine: None,
                thread: case.evidence.node.threads[t].tid,
                mode: "lock".into(),
                trust: Trust::Proven,
                evidence: holder(case, n).map(|(_, link)| link.evidence).unwrap_or_default(),
            });
            let holder_status = match () {
                () if holder.is_some() => HolderStatus::Named,
                () if lock.owner_gone => HolderStatus::Leaked,
                () => HolderStatus::Unknown,
            };
            Lock {
                id: group.id.clone(),
                address: Some(format!("{:#x}", lock.address)),
                address_of: "lock".into(),
                kind: lock.kind.into(),
                waiter_count: waiters.len() as u64,
                waiters,
                holder,
                holder_status,
                ..Lock::default()
            }
        })
        .collect()
}

/// Functions of the C library in which a thread waits for somebody else: a holder that stands in one may stay long.
const BLOCKING: &[&str] = &[
    "accept",
    "accept4",
    "clock_nanosleep",
    "connect",
    "epoll_wait",
    "fcntl",
    "fdatasync",
    "flock",
    "fsync",
    "ioctl",
    "lockf",
    "msgrcv",
    "nanosleep",
    "open",
    "open64",
    "openat",
    "poll",
    "ppoll",
    "pread",
    "pread64",
    "pwrite",
    "pwrite64",
    "read",
    "readv",
    "recv",
    "recvfrom",
    "recvmsg",
    "select",
    "sem_wait",
    "send",
    "sendmsg",
    "sendto",
    "sigsuspend",
    "sleep",
    "statfs",
    "usleep",
    "wait4",
    "waitid",
    "waitpid",
    "write",
    "writev",
];

/// The blocking call that a native thread stands in, as its innermost frames show it.
pub fn blocking_call(thread: &ThreadStack) -> Option<&str> {
    let frames = thread.frames.iter().take(3).map(|f| f.function.as_str());
    let plain = |name: &'_ str| {
        let name = name.trim_start_matches('_').trim_start_matches("GI_").trim_start_matches('_');
        BLOCKING.binary_search(&name.trim_start_matches("libc_")).is_ok()
    };
    frames.into_iter().find(|name| plain(name)).filter(|_| thread.native)
}

/// The innermost function of the program itself: what it was doing, not how the C library waits.
pub fn own_function(thread: &ThreadStack) -> Option<String> {
    let library = |module: &str| ["libc.", "libc-", "ld-", "libpthread"].iter().any(|l| module.starts_with(l));
    let waits = |name: &str| ["futex", "lll_lock", "pthread_"].iter().any(|word| name.contains(word));
    let own = thread.frames.iter().find(|frame| {
        let one = ThreadStack { frames: vec![(*frame).clone()], native: true, ..ThreadStack::default() };
        !frame.module.as_deref().is_some_and(library) && !waits(&frame.function) && blocking_call(&one).is_none()
    });
    own.or(thread.frames.first()).map(|frame| frame.function.clone())
}

/// `held 10779 thread 10781 (settle)`.
pub fn thread_label(case: &Case<'_>, t: usize) -> String {
    let thread = &case.evidence.node.threads[t];
    let process = case.processes.of_thread(thread).map(|p| case.processes.all[p].label());
    let process = process.or_else(|| thread.comm.clone()).unwrap_or_else(|| "a process".into());
    let tid = thread.tid.map_or(String::new(), |tid| format!(" thread {tid}"));
    let function = own_function(thread).map_or(String::new(), |f| format!(" ({f})"));
    format!("{process}{tid}{function}")
}

/// One line for a chain that ends behind a native lock.
pub fn title(case: &Case<'_>, lock: usize, last: Key) -> String {
    match last {
        Key::Thread(t) => {
            let call = blocking_call(&case.evidence.node.threads[t]);
            let stuck = call.map_or("it does not go on".into(), |call| format!("it is stuck in {call}"));
            format!("{} holds {} while {stuck}", thread_label(case, t), label(case, lock))
        }
        _ => format!("{} is locked by a thread that has ended: nobody can unlock it", label(case, lock)),
    }
}

/// The threads and locks of a circle.
pub fn members(ring: &[Key]) -> (Vec<usize>, Vec<usize>) {
    let threads = ring.iter().filter_map(|k| if let Key::Thread(t) = k { Some(*t) } else { None });
    let locks = ring.iter().filter_map(|k| if let Key::NativeLock(n) = k { Some(*n) } else { None });
    (threads.collect(), locks.collect())
}

#[cfg(test)]
mod tests {
    #[test]
    fn blocking_calls_are_sorted() {
        assert!(super::BLOCKING.is_sorted());
    }
}
