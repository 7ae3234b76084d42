//! Follows a deferred function with the values that the core has for it, to the release calls it would reach.
//!
//! Both sides of a condition are taken, registers are forgotten over calls, small callees are followed. What it finds
//! is what the call would release now: with receivers, so that two locks released by the same code are told apart.

use super::{Address, Op, REGISTERS, Reg, Target, Value};
use crate::core::go::Go;
use crate::core::go::locks::names::{self, Action};
use crate::core::go::pclntab::Function;
use rustc_hash::{FxHashMap, FxHashSet};

/// Where the made-up stack lies: no address that a process can have.
const STACK: u64 = 0x7fff << 48;
/// Instructions followed for one deferred call.
const STEPS: u32 = 4000;
/// Calls followed into each other.
const DEPTH: u32 = 3;
/// Larger functions are not followed into.
const SMALL: u64 = 1500;
/// Times that the same instruction is passed.
const VISITS: u8 = 2;

/// Arguments that were saved with a deferred call (to 1.17): `(offset, word)`.
pub(in crate::core::go) type Arguments = Vec<(u64, u64)>;

/// A release that a deferred function reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::core::go) struct Released {
    /// Address of the lock.
    pub lock: u64,
    /// Of a read lock.
    pub read: bool,
}

#[derive(Clone)]
struct Path {
    at: u64,
    registers: [Option<u64>; REGISTERS],
    stack: FxHashMap<u64, Option<u64>>,
    /// Locks that this very path took: releasing those gives back nothing that is held now.
    taken: FxHashSet<u64>,
}

struct Interpreter<'a, 'm> {
    go: &'a Go<'m>,
    found: Vec<Released>,
    steps: u32,
}

impl Go<'_> {
    /// What calling the closure at `closure` would release.
    pub(in crate::core::go) fn releases(&self, closure: u64, arguments: &Arguments) -> Vec<Released> {
        let Some(function) = self.memory.u64(closure).ok().and_then(|entry| self.function_at(entry)) else {
            return Vec::new();
        };
        if let Action::Release { read } = names::action(self.table.name(&function)) {
            // Up to 1.16 the deferred method itself, its receiver among the saved arguments.
            let receiver = arguments.iter().find(|(offset, _)| *offset == 0);
            return receiver.map(|&(_, lock)| Released { lock, read }).into_iter().collect();
        }
        if !self.may_release(&function, DEPTH) {
            return Vec::new();
        }
        let mut start = Path {
            at: function.entry,
            registers: [None; REGISTERS],
            stack: FxHashMap::default(),
            taken: FxHashSet::default(),
        };
        start.set(self.sp_register(), Some(STACK));
        start.set(self.context_register(), Some(closure));
        start.stack.extend(arguments.iter().map(|&(offset, word)| (STACK + 8 + offset, Some(word))));
        let allowed = u64::from(STEPS).min(self.interpretable.get()) as u32;
        let mut interpreter = Interpreter { go: self, found: Vec::new(), steps: allowed };
        interpreter.run(&function, start, DEPTH);
        self.interpretable.set(self.interpretable.get() - u64::from(allowed - interpreter.steps));
        interpreter.found
    }

    /// Whether deferred calls were left alone since there are too many of them.
    pub fn deferred_calls_skipped(&self) -> bool {
        self.interpretable.get() == 0
    }

    /// Whether a release is reachable at all; most deferred functions have none, and need no interpreting.
    fn may_release(&self, function: &Function, depth: u32) -> bool {
        if let Some(&known) = self.releasing.borrow().get(&function.entry) {
            return known;
        }
        let code = self.decoded(function);
        let may = code.instructions.iter().flat_map(|i| code.ops(i)).any(|op| match op {
            Op::Call(Target::At(at)) | Op::Jump(Target::At(at)) => {
                let callee =
                    self.function_at(*at).filter(|callee| callee.entry == *at && callee.entry != function.entry);
                callee.is_some_and(|callee| {
                    let name = self.table.name(&callee);
                    match names::action(name) {
                        Action::Release { .. } => true,
                        _ if name.starts_with("runtime.") || depth == 0 => false,
                        _ => callee.end - callee.entry <= SMALL && self.may_release(&callee, depth - 1),
                    }
                })
            }
            Op::Call(_) => true,
            Op::Jump(Target::Of(_) | Target::In(_)) => true,
            _ => false,
        });
        self.releasing.borrow_mut().insert(function.entry, may);
        may
    }
}

impl Path {
    fn get(&self, register: Reg) -> Option<u64> {
        self.registers.get(usize::from(register)).copied().flatten()
    }

    fn set(&mut self, register: Reg, value: Option<u64>) {
        if let Some(slot) = self.registers.get_mut(usize::from(register)) {
            *slot = value;
        }
    }

    fn address(&self, at: &Address) -> Option<u64> {
        let base = at.base.map_or(Some(0), |register| self.get(register))?;
        let index =
            at.index.map_or(Some(0), |(register, scale)| Some(self.get(register)?.wrapping_mul(u64::from(scale))))?;
        Some(base.wrapping_add(index).wrapping_add(at.displacement))
    }

    fn value(&self, value: &Value) -> Option<u64> {
        match *value {
            Value::Unknown => None,
            Value::Is(value) => Some(value),
            Value::Of(register) => self.get(register),
            Value::Sum(a, b) => Some(self.get(a)?.wrapping_add(self.get(b)?)),
            Value::Difference(a, b) => Some(self.get(a)?.wrapping_sub(self.get(b)?)),
            Value::Address(at) => self.address(&at),
        }
    }
}

fn on_stack(address: u64) -> bool {
    matches!(address >> 48, 0x7ffe | 0x7fff)
}

impl Interpreter<'_, '_> {
    fn run(&mut self, function: &Function, start: Path, depth: u32) {
        let code = self.go.decoded(function);
        let mut visits: FxHashMap<u64, u8> = FxHashMap::default();
        let mut paths = vec![start];
        while let Some(mut path) = paths.pop() {
            while let Some(instruction) = code.at(path.at).and_then(|i| code.instructions.get(i)) {
                let visits = visits.entry(path.at).or_default();
                if *visits > VISITS || self.steps == 0 {
                    break;
                }
                *visits += 1;
                self.steps -= 1;
                path.at = instruction.next;
                let mut ended = false;
                for op in code.ops(instruction) {
                    match op {
                        Op::Return | Op::Trap => ended = true,
                        Op::Jump(Target::At(to)) if code.at(*to).is_some() => path.at = *to,
                        Op::Jump(target) => {
                            self.call(target, &path, true, depth);
                            ended = true;
                        }
                        Op::Branch(to) => {
                            if code.at(*to).is_some() {
                                paths.push(Path { at: *to, ..path.clone() });
                            }
                        }
                        Op::Call(target) => {
                            if let Some(taken) = self.call(target, &path, false, depth) {
                                path.taken.insert(taken);
                            }
                            for register in 0..REGISTERS as Reg {
                                if !self.go.survives(register) {
                                    path.set(register, None);
                                }
                            }
                        }
                        other => self.step(other, &mut path),
                    }
                }
                if ended {
                    break;
                }
            }
        }
    }

    fn step(&self, op: &Op, path: &mut Path) {
        match op {
            Op::Set(register, value) => {
                let value = path.value(value);
                path.set(*register, value);
            }
            Op::Load(register, at, size) => {
                let value = path.address(at).and_then(|at| self.load(at, *size, path));
                path.set(*register, value);
            }
            Op::Store(at, value, size) => {
                let Some(at) = path.address(at) else { return };
                let value = if *size == 8 { path.value(value) } else { None };
                for word in 0..u64::from(*size).div_ceil(8) {
                    path.stack.insert(at.wrapping_add(8 * word), value);
                }
            }
            // An inlined Lock begins so.
            Op::Atomic { at, swaps: true } => path.taken.extend(path.address(at)),
            _ => {}
        }
    }

    fn load(&self, at: u64, size: u8, path: &Path) -> Option<u64> {
        if let Some(stored) = path.stack.get(&at) {
            return stored.filter(|_| size == 8);
        }
        if on_stack(at) {
            return None;
        }
        match size {
            8 => self.go.memory.u64(at).ok(),
            4 => self.go.memory.u32(at).ok().map(u64::from),
            _ => None,
        }
    }

    /// Follows a call; returns the lock that it takes, if it takes one.
    fn call(&mut self, target: &Target, path: &Path, tail: bool, depth: u32) -> Option<u64> {
        let go = self.go;
        let to = match target {
            Target::At(to) => *to,
            Target::Of(register) => path.get(*register)?,
            Target::In(at) => self.load(path.address(at)?, 8, path)?,
            Target::Unknown => return None,
        };
        let callee = go.function_at(to).filter(|callee| callee.entry == to)?;
        let name = go.table.name(&callee);
        let sp = path.get(go.sp_register())?;
        // Before the call pushes the return address, arguments start at the stack pointer (arm64: above the saved link).
        let area = sp.wrapping_add(if tail || go.arch == crate::core::elf::Arch::Arm64 { 8 } else { 0 });
        let receiver = match go.first_argument() {
            Some(register) => path.get(register),
            None => path.stack.get(&area).copied().flatten(),
        };
        match names::action(name) {
            Action::Acquire { .. } => return receiver,
            Action::Release { read } => {
                if let Some(lock) = receiver.filter(|lock| !path.taken.contains(lock)) {
                    let released = Released { lock, read };
                    if !self.found.contains(&released) {
                        self.found.push(released);
                    }
                }
                return None;
            }
            Action::None => {}
        }
        if name.starts_with("runtime.") || depth == 0 || callee.end - callee.entry > SMALL {
            return None;
        }
        let mut inner = Path { at: callee.entry, ..path.clone() };
        if go.arch == crate::core::elf::Arch::Amd64 && !tail {
            inner.set(go.sp_register(), Some(sp.wrapping_sub(8)));
        }
        self.run(&callee, inner, depth - 1);
        None
    }
}
