//! `runtime.semtable`: who sleeps on which semaphore, in which order (`runtime/sema.go`).

use crate::core::elf::Arch;
use crate::core::go::{Go, code};
use rustc_hash::{FxHashMap, FxHashSet};

/// Buckets, in all releases (`semTabSize`).
const BUCKETS: u64 = 251;
/// Waiters of one semaphore, and nodes of one tree, that are followed.
const WAITERS: usize = 20_000_000;

const WITNESSES: [&str; 3] = ["runtime.semacquire1", "runtime.semrelease1", "runtime.(*semTable).rootFor"];

/// Addresses of `g`s that sleep on a semaphore, first come first.
pub(super) type Queues = FxHashMap<u64, Vec<u64>>;

/// A `sudog`: a goroutine on a queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sudog {
    pub g: u64,
    pub next: u64,
    pub prev: u64,
    pub elem: u64,
    pub wait_link: u64,
    pub channel: u64,
}

impl Go<'_> {
    pub(super) fn sudog(&self, at: u64) -> Option<Sudog> {
        let s = &self.layout.sudog;
        let word = |offset: u16| self.memory.u64(at.checked_add(u64::from(offset))?).ok();
        Some(Sudog {
            g: word(s.g)?,
            next: word(s.next)?,
            prev: word(s.prev)?,
            elem: word(s.elem)?,
            wait_link: word(s.wait_link)?,
            channel: word(s.channel)?,
        })
    }

    /// A sudog whose goroutine is one of ours.
    fn living(&self, at: u64, known: &FxHashSet<u64>) -> Option<Sudog> {
        if at == 0 || !at.is_multiple_of(8) {
            return None;
        }
        self.sudog(at).filter(|sudog| known.contains(&sudog.g))
    }

    /// Buckets in use of the table at `base`; `None` if there is none: every root must lie in the bucket that its
    /// semaphore's address asks for.
    fn table_at(&self, base: u64, stride: u64, known: &FxHashSet<u64>) -> Option<u32> {
        let mut used = 0;
        for i in 0..BUCKETS {
            let root = base.checked_add(i * stride)?;
            let treap = self.memory.u64(root + u64::from(self.layout.semaroot.treap)).ok()?;
            let waiters = self.memory.u32(root + u64::from(self.layout.semaroot.waiters)).ok()?;
            if (treap == 0) != (waiters == 0) || waiters > 1 << 24 {
                return None;
            }
            if treap != 0 {
                if (self.living(treap, known)?.elem >> 3) % BUCKETS != i {
                    return None;
                }
                used += 1;
            }
        }
        Some(used)
    }

    /// Finds the table, through the code that uses it or by its looks; with the distance between its buckets.
    ///
    /// With nobody asleep it cannot be told from zeros, and is not needed.
    fn find_semtable(&self, known: &FxHashSet<u64>) -> Option<(u64, u64)> {
        // Padded to a cache line.
        let strides: &[u64] = match self.arch {
            Arch::Amd64 => &[64],
            Arch::Arm64 => &[128, 64],
        };
        let mut candidates: Vec<u64> = Vec::new();
        for (_, function) in self.table.by_names(&WITNESSES) {
            let bytes = self.table.code(self.memory, &function).unwrap_or_default();
            candidates.extend(code::references(self.arch, &bytes, function.entry, &self.module.variables));
        }
        for &stride in strides {
            let best = candidates.iter().filter_map(|&at| Some((self.table_at(at, stride, known)?, at))).max();
            if let Some((1.., at)) = best {
                return Some((at, stride));
            }
        }
        strides.iter().find_map(|&stride| Some((self.search_semtable(stride, known)?, stride)))
    }

    fn search_semtable(&self, stride: u64, known: &FxHashSet<u64>) -> Option<u64> {
        let mut tried = FxHashSet::default();
        for (start, bytes) in self.memory.parts(self.module.bss.clone()) {
            let skip = (start.next_multiple_of(8) - start) as usize;
            for (i, word) in bytes.get(skip..).unwrap_or(&[]).chunks_exact(8).enumerate() {
                let value = word.first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
                let Some(sudog) = self.living(value, known) else { continue };
                let at = start + skip as u64 + 8 * i as u64;
                let before = u64::from(self.layout.semaroot.treap) + (sudog.elem >> 3) % BUCKETS * stride;
                let base = at.saturating_sub(before);
                if tried.insert(base) && self.table_at(base, stride, known).is_some_and(|used| used > 0) {
                    return Some(base);
                }
            }
        }
        None
    }

    /// Everybody who sleeps on a semaphore.
    pub(super) fn semaphore_queues(&self) -> Queues {
        let known: FxHashSet<u64> = self.goroutines.iter().map(|g| g.address).collect();
        let mut queues = Queues::default();
        let Some((base, stride)) = self.find_semtable(&known) else { return queues };
        let mut seen = FxHashSet::default();
        for i in 0..BUCKETS {
            let root = base + i * stride + u64::from(self.layout.semaroot.treap);
            let mut nodes = vec![self.memory.u64(root).unwrap_or(0)];
            while let Some(at) = nodes.pop() {
                if at == 0 || seen.len() >= WAITERS || !seen.insert(at) {
                    continue;
                }
                let Some(node) = self.sudog(at) else { continue };
                nodes.extend([node.prev, node.next]);
                let queue = queues.entry(node.elem).or_default();
                queue.push(node.g);
                // Waiters for the same address hang on the node.
                let mut next = node.wait_link;
                while next != 0 && seen.insert(next) {
                    let Some(waiter) = self.sudog(next) else { break };
                    queue.push(waiter.g);
                    next = waiter.wait_link;
                }
            }
        }
        queues
    }
}
