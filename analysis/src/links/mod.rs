//! What each node of the graph waits for: one file a kind of edge.

mod children;
mod exec;
mod external;
mod lock;
mod rpc;
mod threads;

pub use exec::waits_for_child;
pub use lock::evidence_of;
pub use threads::{telling_function, thread_node};

use crate::case::Case;
use crate::graph::{Key, Link, Resource};
use crate::native;
use crate::waits::Primitive;

/// Indexes that the edges need, made once.
pub struct Context {
    rpc: rpc::Servers,
    threads: threads::Threads,
}

impl Context {
    /// Prepares the indexes.
    pub fn new(case: &Case<'_>) -> Self {
        Context { rpc: rpc::Servers::of(case), threads: threads::Threads::of(case) }
    }
}

/// Goroutines of a snapshot that the graph starts from: those that wait for a lock, and those that wait for
/// something outside their process.
pub fn starts(case: &Case<'_>, snap: usize) -> Vec<usize> {
    let s = &case.snaps[snap];
    let mut outside: Vec<bool> = Vec::with_capacity(s.groups.len());
    for group in &s.groups {
        let Some(&first) = group.members.first() else {
            outside.push(false);
            continue;
        };
        let g = s.goroutine(first as usize);
        let primitive = s.waits[first as usize].primitive;
        outside.push(
            group.idle.is_none()
                && primitive.is_blocked()
                && (s.bound.rpc_client(s.s, g).is_some()
                    || s.bound.external(s.s, g).is_some()
                    || s.bound.symptom(s.s, g).is_some()
                    || primitive == Primitive::WaitGroup
                    || primitive == Primitive::ChanSend
                    || external::file_call(s, first as usize).is_some()
                    || exec::waits_for_child(s, first as usize).is_some()),
        );
    }
    (0..s.s.goroutines.len())
        .filter(|&i| {
            let known = s.goroutine(i).id.is_some() || s.goroutine(i).minutes.is_some();
            known && (s.waits[i].primitive.is_exclusive_lock() || outside[s.group_of[i] as usize])
        })
        .collect()
}

/// Threads that the kernel holds, and threads of C programs that wait for a lock.
pub fn stuck_threads(case: &Case<'_>) -> Vec<Key> {
    let mut stuck = threads::stuck(case);
    stuck.extend(native::waiting(case));
    stuck
}

/// What `key` waits for.
pub fn expand(case: &Case<'_>, context: &Context, key: Key, resources: &mut Vec<Resource>) -> Vec<(Key, Link)> {
    match key {
        Key::Goroutine(snap, i) => goroutine(case, context, snap, i, resources),
        Key::Lock(snap, n) => lock::holder(case, snap, n).into_iter().collect(),
        Key::Process(p) => process(case, context, p, resources),
        Key::Thread(t) => threads::onward(case, &context.threads, t, resources).into_iter().collect(),
        Key::NativeLock(n) => native::holder(case, n).into_iter().collect(),
        Key::Resource(r) => external::owner(case, resources.get(r)).into_iter().collect(),
    }
}

fn goroutine(
    case: &Case<'_>,
    context: &Context,
    snap: usize,
    i: usize,
    resources: &mut Vec<Resource>,
) -> Vec<(Key, Link)> {
    if let Some(edge) = lock::waits(case, snap, i) {
        return vec![edge];
    }
    let mut edges = Vec::new();
    edges.extend(rpc::server(case, &context.rpc, snap, i));
    if edges.is_empty() {
        edges.extend(exec::child(case, snap, i));
    }
    edges.extend(threads::of_goroutine(case, &context.threads, snap, i));
    if edges.is_empty() {
        edges.extend(rpc::peer(case, snap, i));
    }
    if edges.is_empty() {
        edges.extend(external::resource(case, snap, i, resources));
    }
    if edges.is_empty() {
        edges.extend(children::of(case, snap, i));
    }
    edges
}

fn process(case: &Case<'_>, context: &Context, p: usize, resources: &mut Vec<Resource>) -> Vec<(Key, Link)> {
    let mut edges = Vec::new();
    if let Some(snap) = case.processes.all[p].primary {
        edges.extend(exec::inside(case, p, snap));
    }
    if edges.is_empty() {
        edges.extend(threads::of_process(case, &context.threads, p, resources));
    }
    if edges.is_empty() {
        edges.extend(exec::stuck_child(case, &context.threads, p));
    }
    if edges.is_empty() {
        edges.extend(exec::lingering_child(case, p));
    }
    if edges.is_empty() {
        edges.extend(rpc::daemon_of(case, &context.rpc, p));
    }
    if edges.is_empty() {
        edges.extend(exec::peer(case, &context.threads, p));
    }
    edges
}
