//! Where a frame stands with respect to a lock: did it take it, give it back, or neither, before its program counter?
//!
//! A forward data flow over the frame's function. Receivers are compared: registers are followed from the entry on, and
//! a value that the function keeps in its frame is read from there, for what is needed after a blocking call is on the
//! stack. An operation whose receiver stays unknown counts for every lock, so that doubt is never taken for proof.

use super::graph;
use super::names::{self, Action, READER_COUNT};
use crate::core::elf::Arch;
use crate::core::go::Go;
use crate::core::go::machine::{Address, Code, Op, REGISTERS, Reg, Target, Value};
use crate::core::go::unwind::Frame;
use rustc_hash::FxHashMap;

/// Instructions of a function that is looked at.
const LARGEST: usize = 20_000;
const PCDATA_INLINE: u32 = 2;
/// Bytes above a frame in which its function keeps its own arguments.
const SPILLED: u64 = 128;
/// Instructions between an atomic instruction and the slow part of its operation.
const BETWEEN: usize = 64;

/// What may have come last before the program counter; several where paths join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Position {
    /// It took the lock.
    pub taken: bool,
    /// It gave it back.
    pub given: bool,
    /// Neither.
    pub untouched: bool,
    /// Some operation had a receiver that is known to be this lock.
    pub certain: bool,
}

const TAKEN: u8 = 1;
const GIVEN: u8 = 2;
const UNTOUCHED: u8 = 4;

/// A lock operation in a function's code: where, what, and on which lock if that can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Operation {
    action: Action,
    receiver: Option<u64>,
}

/// A function as one frame sees it.
pub(super) struct Flow {
    /// Operations by instruction: calls, which take effect behind themselves.
    calls: FxHashMap<usize, Operation>,
    /// Inlined operations: which instruction belongs to which, and the operations.
    inlined: FxHashMap<usize, i32>,
    sites: FxHashMap<i32, Operation>,
    /// Successors of each instruction.
    next: Next,
    /// The instruction that the frame stands in.
    here: Option<usize>,
}

type Registers = [Option<u64>; REGISTERS];
type Next = Vec<graph::Successors>;

impl Go<'_> {
    /// Reads the lock operations of a frame's function; `None` if it has none, or its code is absent.
    pub(super) fn flow(&self, frame: &Frame) -> Option<Flow> {
        let ranges = self.inlined_operations(frame);
        let code = self.decoded(&frame.function);
        if code.instructions.is_empty() || code.instructions.len() > LARGEST {
            return None;
        }
        let has_calls = ranges.is_some() || self.may_call_locks(&code);
        if !has_calls {
            return None;
        }
        let site_at = |address: u64| ranges.as_ref().and_then(|ranges| ranges.site(address));
        let next = self.successors(&code);
        let here = code.instructions.iter().position(|i| i.address < frame.pc && frame.pc <= i.next);
        let passed = here.map_or_else(Vec::new, |here| graph::passed(&next, here));
        let states = self.registers(frame, &code, &next, &passed);
        let mut flow = Flow {
            calls: FxHashMap::default(),
            inlined: FxHashMap::default(),
            sites: FxHashMap::default(),
            here,
            next,
        };
        for (index, instruction) in code.instructions.iter().enumerate() {
            let site = site_at(instruction.address);
            if let Some((site, action)) = site {
                flow.inlined.insert(index, site);
                flow.sites.entry(site).or_insert(Operation { action, receiver: None });
            }
            let Some(mut registers) = states.get(index).copied().flatten() else { continue };
            for op in code.ops(instruction) {
                match op {
                    Op::Call(target) | Op::Jump(target @ Target::At(_)) => {
                        let to = match target {
                            Target::At(to) => Some(*to),
                            Target::Of(register) => get(&registers, *register),
                            // Through an interface: its table says which method.
                            Target::In(at) => address(at, &registers).and_then(|at| self.memory.u64(at).ok()),
                            Target::Unknown => None,
                        };
                        let Some(action) = to.and_then(|to| self.lock_action(to)) else { continue };
                        let receiver =
                            self.first_argument().and_then(|r| registers.get(usize::from(r)).copied().flatten());
                        match site {
                            Some((site, _)) => merge(&mut flow.sites, site, receiver),
                            None => {
                                flow.calls.insert(index, Operation { action, receiver });
                            }
                        }
                    }
                    Op::Atomic { at, .. } => {
                        if let Some((site, action)) = site {
                            let read =
                                matches!(action, Action::Acquire { read: true } | Action::Release { read: true });
                            let offset = if read { READER_COUNT } else { 0 };
                            merge(&mut flow.sites, site, address(at, &registers).map(|at| at.wrapping_sub(offset)));
                        }
                    }
                    other => self.apply(other, &mut registers, frame, was_passed(&passed, index)),
                }
            }
        }
        flow.join_slow_parts(&code);
        Some(flow)
    }

    fn may_call_locks(&self, code: &Code) -> bool {
        code.instructions.iter().flat_map(|i| code.ops(i)).any(|op| match op {
            Op::Call(Target::At(to)) => self.lock_action(*to).is_some(),
            Op::Call(_) => true,
            _ => false,
        })
    }

    fn lock_action(&self, to: u64) -> Option<Action> {
        let callee = self.function_at(to).filter(|callee| callee.entry == to)?;
        Some(names::action(self.table.name(&callee))).filter(|action| *action != Action::None)
    }

    /// Ranges of inlined lock operations; `None` if there are none.
    fn inlined_operations(&self, frame: &Frame) -> Option<Ranges> {
        let steps = self.table.pcdata_steps(&frame.function, PCDATA_INLINE);
        let mut actions: FxHashMap<i32, Option<(i32, Action)>> = FxHashMap::default();
        let mut ranges = Vec::with_capacity(steps.len());
        let mut any = false;
        let mut start = frame.function.entry;
        for (end, index) in steps {
            let found = match index {
                0.. => *actions.entry(index).or_insert_with(|| self.outermost_operation(frame, start)),
                _ => None,
            };
            any |= found.is_some();
            ranges.push((end, found));
            start = end;
        }
        any.then_some(Ranges(ranges))
    }

    /// The outermost lock operation among the calls inlined at `pc`, named by where it was inlined.
    fn outermost_operation(&self, frame: &Frame, pc: u64) -> Option<(i32, Action)> {
        let site = self.site(&frame.function, pc);
        let mut found = None;
        for (depth, call) in site.calls.iter().enumerate().filter(|(_, call)| call.inlined) {
            let action = names::action(&call.name);
            if action != Action::None {
                found = Some((depth, action));
            }
        }
        let (depth, action) = found?;
        // Where control returns to names the operation: each inlining has a place of its own.
        let place = site.parents.get(depth).copied().unwrap_or(0);
        Some((place, action))
    }

    fn successors(&self, code: &Code) -> Next {
        let index = |address: u64| code.at(address).map(|i| i as u32);
        code.instructions
            .iter()
            .map(|instruction| {
                let (mut falls, mut jumps) = (true, None);
                for op in code.ops(instruction) {
                    match op {
                        Op::Stop | Op::Jump(Target::Of(_) | Target::In(_) | Target::Unknown) => falls = false,
                        Op::Jump(Target::At(to)) => (falls, jumps) = (false, index(*to)),
                        Op::Branch(to) => jumps = index(*to),
                        _ => {}
                    }
                }
                [if falls { index(instruction.next) } else { None }, jumps]
            })
            .collect()
    }

    /// Registers before each instruction, as far as all paths agree; `None` for what no path reaches.
    fn registers(&self, frame: &Frame, code: &Code, next: &Next, passed: &[bool]) -> Vec<Option<Registers>> {
        let mut states: Vec<Option<Registers>> = vec![None; code.instructions.len()];
        let mut entry: Registers = [None; REGISTERS];
        let sp = match self.arch {
            Arch::Amd64 => frame.fp.wrapping_sub(8),
            Arch::Arm64 => frame.fp,
        };
        if let Some(slot) = entry.get_mut(usize::from(self.sp_register())) {
            *slot = Some(sp);
        }
        if let Some(first) = states.first_mut() {
            *first = Some(entry);
        }
        let mut work = vec![0u32];
        while let Some(index) = work.pop() {
            let index = index as usize;
            let (Some(instruction), Some(Some(state))) = (code.instructions.get(index), states.get(index)) else {
                continue;
            };
            let mut registers = *state;
            for op in code.ops(instruction) {
                self.apply(op, &mut registers, frame, was_passed(passed, index));
            }
            for successor in next.get(index).into_iter().flatten().flatten() {
                let Some(slot) = states.get_mut(*successor as usize) else { continue };
                let joined = match slot {
                    None => registers,
                    Some(old) => join(old, &registers),
                };
                if *slot != Some(joined) {
                    *slot = Some(joined);
                    work.push(*successor);
                }
            }
        }
        states
    }

    /// `passed`: the way to where the frame stands led through this instruction for sure.
    fn apply(&self, op: &Op, registers: &mut Registers, frame: &Frame, passed: bool) {
        match op {
            Op::Set(register, value) => set(registers, *register, evaluate(value, registers)),
            Op::Load(register, at, 8) => {
                let value = address(at, registers).and_then(|at| self.memory.u64(at).ok());
                set(registers, *register, value);
            }
            Op::Load(register, ..) => set(registers, *register, None),
            Op::Store(at, Value::Of(register), 8) if passed => {
                // What it keeps in its frame stands there still.
                let kept = |at: &u64| {
                    (frame.sp..frame.varp).contains(at) || (frame.argp..frame.argp.saturating_add(SPILLED)).contains(at)
                };
                let slot = address(at, registers).filter(kept);
                if get(registers, *register).is_none()
                    && let Some(kept) = slot.and_then(|at| self.memory.u64(at).ok())
                {
                    set(registers, *register, Some(kept));
                }
            }
            Op::Call(_) => {
                for register in (0..REGISTERS as Reg).filter(|&register| !self.survives(register)) {
                    set(registers, register, None);
                }
            }
            _ => {}
        }
    }
}

impl Flow {
    /// Adds to each inlined operation what lies between its atomic instruction and its slow part: values are saved
    /// there on behalf of the function around it, but the operation is not over.
    fn join_slow_parts(&mut self, code: &Code) {
        let before = graph::predecessors(&self.next);
        let is = |index: usize, wanted: fn(&Op) -> bool| {
            code.instructions.get(index).is_some_and(|instruction| code.ops(instruction).iter().any(wanted))
        };
        let slow: Vec<(usize, i32)> = self
            .inlined
            .iter()
            .filter(|(index, _)| is(**index, |op| matches!(op, Op::Call(_))))
            .map(|(&index, &site)| (index, site))
            .collect();
        for (call, site) in slow {
            let mut work = vec![call];
            let mut between = Vec::new();
            while let Some(index) = work.pop() {
                for &previous in before.get(index).into_iter().flatten() {
                    let previous = previous as usize;
                    let atomic = is(previous, |op| matches!(op, Op::Atomic { .. }));
                    if !atomic && !between.contains(&previous) && between.len() < BETWEEN {
                        between.push(previous);
                        work.push(previous);
                    }
                }
            }
            if between.len() < BETWEEN {
                for index in between {
                    self.inlined.entry(index).or_insert(site);
                }
            }
        }
    }

    /// Where the frame stands with respect to `lock`.
    pub(super) fn position(&self, lock: u64) -> Position {
        let mut position = Position::default();
        let Some(here) = self.here else { return position };
        let touches = |operation: &Operation| operation.receiver.is_none_or(|receiver| receiver == lock);
        let effect = |operation: &Operation| match operation.action {
            Action::Acquire { .. } => TAKEN,
            Action::Release { .. } => GIVEN,
            Action::None => 0,
        };
        let all = self.calls.values().chain(self.sites.values());
        position.certain = all.into_iter().any(|operation| operation.receiver == Some(lock));
        let mut states = vec![0u8; self.next.len()];
        if let Some(first) = states.first_mut() {
            *first = UNTOUCHED;
        }
        let mut work = vec![0usize];
        while let Some(index) = work.pop() {
            let before = states.get(index).copied().unwrap_or(0);
            let after = match self.calls.get(&index).filter(|operation| touches(operation)) {
                Some(operation) => effect(operation),
                None => before,
            };
            let own = self.inlined.get(&index);
            for successor in self.next.get(index).into_iter().flatten().flatten() {
                let successor = *successor as usize;
                // An inlined operation has happened where it is left.
                let left = own.filter(|site| self.inlined.get(&successor) != Some(site));
                let state = match left.and_then(|site| self.sites.get(site)).filter(|operation| touches(operation)) {
                    Some(operation) => effect(operation),
                    None => after,
                };
                if let Some(slot) = states.get_mut(successor)
                    && *slot | state != *slot
                {
                    *slot |= state;
                    work.push(successor);
                }
            }
        }
        let state = states.get(here).copied().unwrap_or(0);
        position.taken = state & TAKEN != 0;
        position.given = state & GIVEN != 0;
        position.untouched = state & UNTOUCHED != 0;
        position
    }

    /// Whether any operation may concern `lock`.
    pub(super) fn concerns(&self, lock: u64) -> bool {
        self.calls.values().chain(self.sites.values()).any(|operation| operation.receiver.is_none_or(|r| r == lock))
    }
}

/// `(end, operation)` over a function's code.
struct Ranges(Vec<(u64, Option<(i32, Action)>)>);

impl Ranges {
    fn site(&self, address: u64) -> Option<(i32, Action)> {
        let next = self.0.partition_point(|(end, _)| *end <= address);
        self.0.get(next).and_then(|(_, found)| *found)
    }
}

/// Two receivers seen for one operation must agree; one that is not known adds nothing.
fn merge(sites: &mut FxHashMap<i32, Operation>, site: i32, receiver: Option<u64>) {
    if let Some(operation) = sites.get_mut(&site)
        && operation.receiver.is_none()
    {
        operation.receiver = receiver;
    }
}

fn was_passed(passed: &[bool], index: usize) -> bool {
    passed.get(index).copied().unwrap_or(false)
}

fn join(a: &Registers, b: &Registers) -> Registers {
    let mut joined = *a;
    for (slot, other) in joined.iter_mut().zip(b) {
        if slot != other {
            *slot = None;
        }
    }
    joined
}

fn get(registers: &Registers, register: Reg) -> Option<u64> {
    registers.get(usize::from(register)).copied().flatten()
}

fn set(registers: &mut Registers, register: Reg, value: Option<u64>) {
    if let Some(slot) = registers.get_mut(usize::from(register)) {
        *slot = value;
    }
}

fn address(at: &Address, registers: &Registers) -> Option<u64> {
    let base = at.base.map_or(Some(0), |register| get(registers, register))?;
    let index = at.index.map_or(Some(0), |(r, scale)| Some(get(registers, r)?.wrapping_mul(u64::from(scale))))?;
    Some(base.wrapping_add(index).wrapping_add(at.displacement))
}

fn evaluate(value: &Value, registers: &Registers) -> Option<u64> {
    match value {
        Value::Unknown => None,
        Value::Is(value) => Some(*value),
        Value::Of(register) => get(registers, *register),
        Value::Sum(a, b) => Some(get(registers, *a)?.wrapping_add(get(registers, *b)?)),
        Value::Difference(a, b) => Some(get(registers, *a)?.wrapping_sub(get(registers, *b)?)),
        Value::Address(at) => address(at, registers),
    }
}
