//! Threads and the runtime's `m`s: which goroutine ran where.
//!
//! Thread ids alone join nothing: gdb's gcore writes the host's ids where `m.procid` has those of the PID namespace. So
//! the way goes from a thread's registers to its `g`, and from there to `m`.

use super::Go;
use crate::core::elf::Arch;
use crate::core::memory::Read;
use crate::core::notes::Thread;
use rustc_hash::{FxHashMap, FxHashSet};

/// Threads of one process at most; Go's own limit is 10,000.
const MOST: usize = 1 << 20;

/// A thread of the runtime (`runtime.m`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Machine {
    /// Address of the `m`.
    pub address: u64,
    /// `m.id`, as dumps print it.
    pub id: i64,
    /// Thread id as the process itself sees it.
    pub procid: u64,
    pub g0: u64,
    pub gsignal: u64,
    /// The goroutine it runs, 0 if none.
    pub curg: u64,
    pub vdso_pc: u64,
    pub vdso_sp: u64,
    /// Index of its thread in the core's notes.
    pub thread: Option<usize>,
}

impl Go<'_> {
    fn machine(&self, address: u64) -> Read<Machine> {
        let m = &self.layout.m;
        let word = |offset: u16| self.memory.u64(address.wrapping_add(u64::from(offset)));
        Ok(Machine {
            address,
            id: word(m.id)? as i64,
            procid: word(m.procid)?,
            g0: word(m.g0)?,
            gsignal: word(m.gsignal)?,
            curg: word(m.curg)?,
            vdso_pc: word(m.vdso_pc)?,
            vdso_sp: word(m.vdso_sp)?,
            thread: None,
        })
    }

    /// The `m` of the `g` at `g`, if both know each other.
    fn machine_of(&self, g: u64) -> Option<Machine> {
        if g == 0 {
            return None;
        }
        let m = self.memory.u64(g.wrapping_add(u64::from(self.layout.g.m))).ok().filter(|&m| m != 0)?;
        let machine = self.machine(m).ok()?;
        [machine.g0, machine.gsignal, machine.curg].contains(&g).then_some(machine)
    }

    /// All machines: those of the core's threads, and those that `alllink` leads to from there. The newest `m` heads
    /// that list and has a thread, so none is missed.
    pub(super) fn read_machines(&self, threads: &[Thread]) -> FxHashMap<u64, Machine> {
        let mut machines: FxHashMap<u64, Machine> = FxHashMap::default();
        let offset = match self.arch {
            Arch::Amd64 => self.tls_offset(threads),
            Arch::Arm64 => 0,
        };
        for (index, thread) in threads.iter().enumerate() {
            let g = match self.arch {
                Arch::Amd64 => self.memory.u64(thread.tls.wrapping_add_signed(offset)).unwrap_or(0),
                Arch::Arm64 => thread.word(28),
            };
            if let Some(machine) = self.machine_of(g) {
                machines.entry(machine.address).or_insert(Machine { thread: Some(index), ..machine });
            }
        }
        let mut known: FxHashSet<u64> = machines.keys().copied().collect();
        let link = u64::from(self.layout.m.all_link);
        let mut at: Vec<u64> = known.iter().copied().collect();
        while let Some(m) = at.pop() {
            let Ok(next) = self.memory.u64(m.wrapping_add(link)) else {
                continue;
            };
            if next != 0 && known.len() < MOST && known.insert(next) {
                at.push(next);
                if let Ok(machine) = self.machine(next) {
                    machines.insert(next, machine);
                }
            }
        }
        self.join_the_rest(threads, &mut machines);
        machines
    }

    /// Threads that stand in C code have no `g` in their registers (arm64), or no readable thread storage: they are
    /// joined by number if the numbers of all others agree.
    fn join_the_rest(&self, threads: &[Thread], machines: &mut FxHashMap<u64, Machine>) {
        let joined: Vec<(usize, u64)> = machines.values().filter_map(|m| Some((m.thread?, m.procid))).collect();
        let tid = |index: usize| threads.get(index).map_or(0, |t| u64::from(t.tid));
        if joined.iter().any(|&(index, procid)| tid(index) != procid) {
            return;
        }
        let taken: FxHashSet<usize> = joined.iter().map(|&(index, _)| index).collect();
        for machine in machines.values_mut().filter(|m| m.thread.is_none() && m.procid != 0) {
            machine.thread = threads
                .iter()
                .enumerate()
                .find(|(index, t)| u64::from(t.tid) == machine.procid && !taken.contains(index))
                .map(|(index, _)| index);
        }
    }

    /// Where `g` lies relative to `fs_base`: at −8, unless C code with thread variables is linked in statically. The
    /// instructions that load it say where.
    fn tls_offset(&self, threads: &[Thread]) -> i64 {
        let fits = |offset: i64| {
            let g = |t: &Thread| self.memory.u64(t.tls.wrapping_add_signed(offset)).unwrap_or(0);
            threads.iter().filter(|t| t.tls != 0 && self.machine_of(g(t)).is_some()).count()
        };
        const USUAL: i64 = -8;
        if fits(USUAL) > 0 {
            return USUAL;
        }
        let mut votes: FxHashMap<i64, usize> = FxHashMap::default();
        let code = self.memory.up_to(self.module.text, (self.module.etext - self.module.text).min(1 << 20));
        for at in memchr::memchr_iter(0x64, &code) {
            let bytes = code.get(at.saturating_sub(7)..).unwrap_or(&[]);
            let displacement = match (code.get(at..), bytes) {
                // mov reg, fs:[disp32]
                (Some([0x64, 0x48 | 0x4c, 0x8b, modrm, 0x25, a, b, c, d, ..]), _) if modrm & 0xc7 == 0x04 => {
                    [*a, *b, *c, *d]
                }
                // mov reg, imm32; mov reg, fs:[reg]
                (_, [0x48 | 0x49, 0xc7, 0xc0..=0xc7, a, b, c, d, 0x64, ..]) => [*a, *b, *c, *d],
                _ => continue,
            };
            *votes.entry(i64::from(i32::from_le_bytes(displacement))).or_default() += 1;
        }
        let mut ranked: Vec<(usize, i64)> = votes.into_iter().map(|(offset, count)| (count, offset)).collect();
        ranked.sort_unstable_by(|a, b| b.cmp(a));
        ranked.into_iter().take(8).map(|(_, offset)| offset).find(|&offset| fits(offset) > 0).unwrap_or(USUAL)
    }

    /// The latest moment (`nanotime`) that any processor noted: "now", or a little before it.
    pub(super) fn latest_tick(&self, machines: &FxHashMap<u64, Machine>) -> u64 {
        let (m, p) = (&self.layout.m, &self.layout.p);
        let word = |base: u64, offset: u16| self.memory.u64(base.wrapping_add(u64::from(offset))).unwrap_or(0);
        let mut processors: FxHashSet<u64> = FxHashSet::default();
        for machine in machines.values() {
            processors.extend([m.p, m.next_p, m.old_p].map(|offset| word(machine.address, offset)));
        }
        processors.remove(&0);
        let ticks = |at: u64| [p.sched_when, p.syscall_when, p.mark_worker_start].map(|offset| word(at, offset));
        processors.into_iter().flat_map(ticks).filter(|&tick| tick < 1 << 62).max().unwrap_or(0)
    }
}
