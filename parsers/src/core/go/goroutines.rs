//! Finding `allgs`, and reading the `g` of every goroutine.

use super::Go;
use super::code;
use crate::core::memory::Read;
use crate::evidence::Problem;
use crate::limits;
use rustc_hash::FxHashSet;
use std::cell::Cell;

/// Low bits of `atomicstatus` (`runtime2.go`); stable since 1.5 but for the last two (1.26).
pub(super) mod status {
    pub const RUNNING: u32 = 2;
    pub const SYSCALL: u32 = 3;
    pub const WAITING: u32 = 4;
    pub const DEAD: u32 = 6;
    pub const LEAKED: u32 = 10;
    pub const DEAD_EXTRA: u32 = 11;
    /// Set while the collector scans the stack.
    pub const SCAN: u32 = 0x1000;
    /// Behind the last known one.
    pub const END: u32 = 12;
}

/// A goroutine's `g`, as it stands in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Goroutine {
    /// Address of the `g`.
    pub address: u64,
    pub id: u64,
    /// Without the scan bit.
    pub status: u32,
    pub scan: bool,
    pub stack_lo: u64,
    pub stack_hi: u64,
    /// Address of its `m`, 0 if none.
    pub m: u64,
    pub locked_m: u64,
    pub sched_pc: u64,
    pub sched_sp: u64,
    pub sched_lr: u64,
    pub syscall_pc: u64,
    pub syscall_sp: u64,
    pub wait_reason: u8,
    /// `nanotime` of the collection that found it waiting; 0 if none has.
    pub wait_since: u64,
    pub go_pc: u64,
    pub start_pc: u64,
    pub parent: u64,
    pub ancestors: u64,
    /// First pending `_defer`.
    pub defer: u64,
    pub panic: u64,
    /// First `sudog` it waits with.
    pub waiting: u64,
    pub labels: u64,
    pub bubble: u64,
}

impl Goroutine {
    /// Whether it is no goroutine now: ended, or kept for threads that C creates.
    pub fn is_dead(&self) -> bool {
        self.status == status::DEAD || self.status == status::DEAD_EXTRA
    }
}

/// Variables that hold the list: where its address is formed, surest first.
const WITNESSES: [&str; 5] =
    ["runtime.allgadd", "runtime.forEachG", "runtime.checkdead", "runtime.tracebackothers", "runtime.forEachGRace"];

impl Go<'_> {
    /// Reads one `g`.
    ///
    /// # Errors
    /// A part of it is absent.
    pub fn goroutine(&self, address: u64) -> Read<Goroutine> {
        let (memory, g) = (self.memory, &self.layout.g);
        let word = |offset: u16| memory.u64(address.wrapping_add(u64::from(offset)));
        let maybe = |offset: Option<u16>| offset.map_or(Ok(0), word);
        let state = memory.u32(address.wrapping_add(u64::from(g.status)))?;
        Ok(Goroutine {
            address,
            id: word(g.goid)?,
            status: state & !status::SCAN,
            scan: state & status::SCAN != 0,
            stack_lo: word(g.stack_lo)?,
            stack_hi: word(g.stack_hi)?,
            m: word(g.m)?,
            locked_m: word(g.locked_m)?,
            sched_pc: word(g.sched_pc)?,
            sched_sp: word(g.sched_sp)?,
            sched_lr: word(g.sched_lr)?,
            syscall_pc: word(g.syscall_pc)?,
            syscall_sp: word(g.syscall_sp)?,
            wait_reason: memory.u8(address.wrapping_add(u64::from(g.wait_reason)))?,
            wait_since: word(g.wait_since)?,
            go_pc: word(g.go_pc)?,
            start_pc: word(g.start_pc)?,
            parent: maybe(g.parent)?,
            ancestors: word(g.ancestors)?,
            defer: word(g.defer)?,
            panic: word(g.panic)?,
            waiting: word(g.waiting)?,
            labels: word(g.labels)?,
            bubble: maybe(g.bubble)?,
        })
    }

    /// Whether a `g` may stand at `address`: sane stack, status and id, and it knows its own address once it has run.
    fn plausible(&self, address: u64) -> bool {
        if address == 0 || !address.is_multiple_of(8) {
            return false;
        }
        let Ok(g) = self.goroutine(address) else {
            return false;
        };
        let own = self.memory.u64(address.wrapping_add(u64::from(self.layout.g.sched_g))) == Ok(address);
        let stack = (g.stack_lo == 0 && g.stack_hi == 0)
            || (g.stack_lo > 0 && g.stack_lo < g.stack_hi && g.stack_hi - g.stack_lo <= 1 << 40);
        g.status < status::END && g.id > 0 && g.id < 1 << 48 && stack && (own || g.is_dead() || g.status == 0)
    }

    /// Length of the slice of goroutines at `address`, 0 if there is none.
    fn slice_of_goroutines(&self, address: u64) -> u64 {
        let word = |i: u64| self.memory.u64(address.wrapping_add(8 * i)).unwrap_or(0);
        let (start, length, capacity) = (word(0), word(1), word(2));
        if start == 0 || start % 8 != 0 || length == 0 || length > capacity || capacity >= 1 << 32 {
            return 0;
        }
        let element = |i: u64| self.memory.u64(start.wrapping_add(8 * i)).is_ok_and(|g| self.plausible(g));
        if (0..length.min(8)).all(element) && element(length - 1) { length } else { 0 }
    }

    /// Address of `runtime.allgs`.
    ///
    /// By the code of functions that use it; without their code by looking through `.bss` for what it must look like.
    fn find_allgs(&self) -> Option<u64> {
        let by_code = self.table.by_names(&WITNESSES).into_iter().flat_map(|(_, function)| {
            let code = self.table.code(self.memory, &function).unwrap_or_default();
            code::references(self.arch, &code, function.entry, &self.module.variables)
        });
        if let Some(best) = self.longest(by_code) {
            return Some(best);
        }
        let parts = self.memory.parts(self.module.bss.clone());
        self.longest(parts.flat_map(|(start, bytes)| {
            let first = start.next_multiple_of(8);
            (first..start + bytes.len() as u64).step_by(8)
        }))
    }

    fn longest(&self, candidates: impl Iterator<Item = u64>) -> Option<u64> {
        let measured = candidates.map(|at| (self.slice_of_goroutines(at), at)).filter(|(length, _)| *length > 0);
        // The first of equals: a copy that the collector made lies behind.
        measured.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, at)| at)
    }

    /// Every goroutine that is alive, in the order in which the runtime lists them.
    pub(super) fn read_goroutines(&self, problems: &mut Vec<Problem>) -> Vec<Goroutine> {
        let mut found = Vec::new();
        let mut seen = FxHashSet::default();
        let lost = Cell::new(0u64);
        let mut take = |address: u64, found: &mut Vec<Goroutine>| {
            if address == 0 || !seen.insert(address) {
                return;
            }
            match self.goroutine(address) {
                Ok(g) if g.status < status::END && g.id < 1 << 48 => found.push(g),
                _ => lost.set(lost.get() + 1),
            }
        };
        match self.find_allgs() {
            Some(at) => {
                let word = |i: u64| self.memory.u64(at.wrapping_add(8 * i)).unwrap_or(0);
                let (start, length) = (word(0), word(1).min(limits::GOROUTINES as u64));
                let bytes = self.memory.up_to(start, 8 * length);
                for pointer in bytes.chunks_exact(8) {
                    take(pointer.first_chunk().map_or(0, |b| u64::from_le_bytes(*b)), &mut found);
                }
                lost.set(lost.get() + length.saturating_sub(bytes.len() as u64 / 8));
            }
            None => {
                problems.push(Problem::warning(
                    None,
                    "the list of goroutines was not found; memory was searched for goroutines instead, some may be missing",
                ));
            }
        }
        if lost.get() > 0 || found.is_empty() {
            for address in self.scan() {
                take(address, &mut found);
            }
        }
        let lost = lost.get();
        if lost > 0 {
            problems.push(Problem::warning(
                None,
                format!("{lost} goroutines of the list are not in the core or are overwritten; memory was searched for others"),
            ));
        }
        // A scan also meets the threads' scheduler stacks (id 0).
        found.retain(|g| !g.is_dead() && g.id != 0);
        found
    }

    /// Every address in memory that holds a `g` by its looks: `sched.g` points to its own `g` in all releases.
    fn scan(&self) -> Vec<u64> {
        let back = u64::from(self.layout.g.sched_g);
        let mut found = Vec::new();
        let everything = 0..u64::MAX;
        for (start, bytes) in self.memory.searched(std::slice::from_ref(&everything)) {
            let skip = (start.next_multiple_of(8) - start) as usize;
            for (i, word) in bytes.get(skip..).unwrap_or(&[]).chunks_exact(8).enumerate() {
                let value = word.first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
                let own = (start + skip as u64 + 8 * i as u64).wrapping_sub(back);
                if value == own && self.plausible(own) {
                    found.push(own);
                }
            }
        }
        found
    }
}
