//! Queues of channels and condition variables.

use crate::core::go::{Frame, Go, Goroutine};
use crate::evidence::{LockWord, QueuedWaiter};
use rustc_hash::{FxHashMap, FxHashSet};

/// Waiters of one queue that are followed.
const WAITERS: usize = 20_000_000;
/// Channels of one select.
const CASES: usize = 1 << 16;
/// Words of a stack that are searched for a Cond's list.
const WORDS: u64 = 256;

/// Offset of the notify list in a `sync.Cond`, and of the list's head in it (all releases).
const NOTIFY: u64 = 16;
const HEAD: u64 = 16;

impl Go<'_> {
    /// Every channel that somebody waits for, with both its queues. Each is read once, however many wait.
    pub(super) fn channels(&self, ids: &FxHashMap<u64, u64>) -> Vec<LockWord> {
        let mut seen = FxHashSet::default();
        let mut found = Vec::new();
        for g in self.goroutines.iter().filter(|g| g.waiting != 0) {
            let mut at = g.waiting;
            for _ in 0..CASES {
                let Some(sudog) = self.sudog(at).filter(|sudog| sudog.g == g.address) else { break };
                if sudog.channel != 0 && seen.insert(sudog.channel) {
                    found.extend(self.channel(sudog.channel, ids));
                }
                at = sudog.wait_link;
            }
        }
        found
    }

    fn channel(&self, address: u64, ids: &FxHashMap<u64, u64>) -> Option<LockWord> {
        let c = &self.layout.channel;
        let word = |offset: u16| self.memory.u64(address.wrapping_add(u64::from(offset))).ok();
        let (count, capacity) = (word(c.count)?, word(c.capacity)?);
        let closed = self.memory.u32(address.wrapping_add(u64::from(c.closed))).ok()?;
        let mut queue = self.list(word(c.receivers)?, "receive", ids);
        queue.extend(self.list(word(c.senders)?, "send", ids));
        if queue.is_empty() || count > capacity || closed > 1 {
            return None;
        }
        Some(LockWord {
            address,
            kind: "channel",
            counted_waiters: None,
            queue,
            words: format!("qcount={count} dataqsiz={capacity} closed={closed}"),
            ..LockWord::default()
        })
    }

    /// The goroutines of a list that is linked by `next`.
    fn list(&self, first: u64, mode: &'static str, ids: &FxHashMap<u64, u64>) -> Vec<QueuedWaiter> {
        let (mut queue, mut seen, mut at) = (Vec::new(), FxHashSet::default(), first);
        while at != 0 && queue.len() < WAITERS && seen.insert(at) {
            let Some(sudog) = self.sudog(at) else { break };
            let Some(&goroutine) = ids.get(&sudog.g) else { break };
            queue.push(QueuedWaiter { goroutine, mode });
            at = sudog.next;
        }
        queue
    }

    /// The `sync.Cond` that a goroutine waits on: the one whose address lies in its frames and whose list holds it.
    pub(super) fn cond_of(&self, g: &Goroutine, frames: &[Frame], ids: &FxHashMap<u64, u64>) -> Option<LockWord> {
        let near = frames.iter().take_while(|frame| frame.sp.saturating_sub(g.sched_sp) < 8 * WORDS);
        let end = near.last().map_or(0, |frame| frame.argp.wrapping_add(64));
        for i in 0..(end.saturating_sub(g.sched_sp) / 8).min(WORDS) {
            let Ok(word) = self.memory.u64(g.sched_sp.wrapping_add(8 * i)) else { continue };
            // The list, or the Cond around it.
            for cond in [word.wrapping_sub(NOTIFY), word] {
                let Ok(head) = self.memory.u64(cond.wrapping_add(NOTIFY + HEAD)) else { continue };
                if head == 0 || self.sudog(head).is_none_or(|sudog| !ids.contains_key(&sudog.g)) {
                    continue;
                }
                let queue = self.list(head, "wait", ids);
                let counters = cond.wrapping_add(NOTIFY);
                let count = |at: u64| self.memory.u32(at).unwrap_or(0);
                let (wait, notify) = (count(counters), count(counters.wrapping_add(4)));
                // As many have come and not been notified as are on the list, or a few more that are on their way.
                let expected = queue.len()..=queue.len() + 1000;
                let fits = expected.contains(&(wait.wrapping_sub(notify) as usize));
                if fits && queue.iter().any(|waiter| waiter.goroutine == g.id) {
                    return Some(LockWord {
                        address: cond,
                        kind: "cond",
                        counted_waiters: Some(wait.wrapping_sub(notify)),
                        queue,
                        words: format!("wait={wait} notify={notify}"),
                        ..LockWord::default()
                    });
                }
            }
        }
        None
    }
}
