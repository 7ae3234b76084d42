//! Where a frame stands with respect to a lock: did it take it, give it back, or neither, before its program counter?
//!
//! A forward data flow over the frame's function. Receivers are compared: registers are followed from the entry on, and
//! a value that the function keeps in its frame is read from there, for what is needed after a blocking call is on the
//! stack. An operation whose receiver stays unknown counts for every lock, so that doubt is never taken for proof.

use super::graph;
use super::names::{self, Action, READER_COUNT};
use crate::core::elf::Arch;
use crate::core::go::Go;
use crate::core::go::machine::{Address, Code, Instruction, Op, REGISTERS, Reg, Target, Value};
use crate::core::go::pclntab::Function;
use crate::core::go::unwind::Frame;
use rustc_hash::FxHashMap;

/// Instructions of a function that is looked at.
const LARGEST: usize = 20_000;
const PCDATA_INLINE: u32 = 2;
/// Functions that are called and work on locks for their callers: how deep, how large, how many a caller.
const HELPERS_DEPTH: u32 = 2;
const HELPER: u64 = 2048;
const HELPERS: usize = 64;
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
    /// Calls of functions that work on locks themselves.
    helpers: FxHashMap<usize, Flow>,
    /// Inlined operations: which instruction belongs to which, and the operations.
    inlined: FxHashMap<usize, i32>,
    sites: FxHashMap<i32, Operation>,
    /// Successors of each instruction.
    next: Next,
    /// Instructions that return.
    returns: Vec<usize>,
    /// The instruction that the frame stands in.
    here: Option<usize>,
}

type Registers = [Option<u64>; REGISTERS];
type Next = Vec<graph::Successors>;

impl Go<'_> {
    /// Reads the lock operations of a frame's function, and of functions that it calls if `helpers`; `None` if it has
    /// none, or its code is absent.
    pub(super) fn flow(&self, frame: &Frame, helpers: bool) -> Option<Flow> {
        let mut entry: Registers = [None; REGISTERS];
        let sp = match self.arch {
            Arch::Amd64 => frame.fp.wrapping_sub(8),
            Arch::Arm64 => frame.fp,
        };
        set(&mut entry, self.sp_register(), Some(sp));
        self.flow_of(&frame.function, entry, Some(frame), if helpers { HELPERS_DEPTH } else { 0 })
    }

    /// The same for a function that was called with these registers and has returned.
    fn helper(&self, entry: u64, mut registers: Registers, depth: u32) -> Option<Flow> {
        let function = self.function_at(entry).filter(|function| function.entry == entry)?;
        if depth == 0 || function.end - function.entry > HELPER || self.is_library(&function) {
            return None;
        }
        // Its stack is gone.
        set(&mut registers, self.sp_register(), None);
        self.flow_of(&function, registers, None, depth - 1).filter(|flow| !flow.is_empty())
    }

    fn flow_of(&self, function: &Function, entry: Registers, frame: Option<&Frame>, depth: u32) -> Option<Flow> {
        let ranges = self.inlined_operations(function);
        let code = self.decoded(function);
        if code.instructions.is_empty() || code.instructions.len() > LARGEST {
            return None;
        }
        if ranges.is_none() && !self.may_touch_locks(&code, depth) {
            return None;
        }
        let site_at = |address: u64| ranges.as_ref().and_then(|ranges| ranges.site(address));
        let next = self.successors(&code);
        let stands = |pc: u64| code.instructions.iter().position(|i| i.address < pc && pc <= i.next);
        let here = frame.and_then(|frame| stands(frame.pc));
        let passed = here.map_or_else(Vec::new, |here| graph::passed(&next, here));
        let states = self.registers(frame, &code, &next, &passed, entry);
        let returns = |i: &Instruction| code.ops(i).iter().any(|op| matches!(op, Op::Return));
        let mut flow = Flow {
            calls: FxHashMap::default(),
            helpers: FxHashMap::default(),
            inlined: FxHashMap::default(),
            sites: FxHashMap::default(),
            returns: code.instructions.iter().enumerate().filter(|(_, i)| returns(i)).map(|(index, _)| index).collect(),
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
                        let Some(to) = to else { continue };
                        let Some(action) = self.lock_action(to) else {
                            if site.is_none()
                                && flow.helpers.len() < HELPERS
                                && let Some(helper) = self.helper(to, registers, depth)
                            {
                                flow.helpers.insert(index, helper);
                            }
                            self.apply(op, &mut registers, frame, false);
                            continue;
                        };
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

    /// Whether anything in the code may be an operation on a lock, itself or in a function that it calls.
    fn may_touch_locks(&self, code: &Code, depth: u32) -> bool {
        code.instructions.iter().flat_map(|i| code.ops(i)).any(|op| match op {
            Op::Call(Target::At(to)) => self.lock_action(*to).is_some() || (depth > 0 && self.touches_locks(*to)),
            Op::Call(_) => true,
            _ => false,
        })
    }

    /// Whether a small function works on locks itself. Asked often, so kept.
    fn touches_locks(&self, entry: u64) -> bool {
        if let Some(&known) = self.touching.borrow().get(&entry) {
            return known;
        }
        let function = self.function_at(entry).filter(|f| f.entry == entry && f.end - f.entry <= HELPER);
        let touches = function.filter(|function| !self.is_library(function)).is_some_and(|function| {
            let code = self.decoded(&function);
            let mut ops = code.instructions.iter().flat_map(|i| code.ops(i));
            self.inlined_operations(&function).is_some()
                || ops.any(|op| matches!(op, Op::Call(Target::At(to)) if self.lock_action(*to).is_some()))
        });
        self.touching.borrow_mut().insert(entry, touches);
        touches
    }

    fn lock_action(&self, to: u64) -> Option<Action> {
        let callee = self.function_at(to).filter(|callee| callee.entry == to)?;
        Some(names::action(self.table.name(&callee))).filter(|action| *action != Action::None)
    }

    /// Ranges of inlined lock operations; `None` if there are none.
    fn inlined_operations(&self, function: &Function) -> Option<Ranges> {
        let steps = self.table.pcdata_steps(function, PCDATA_INLINE);
        let mut actions: FxHashMap<i32, Option<(i32, Action)>> = FxHashMap::default();
        let mut ranges = Vec::with_capacity(steps.len());
        let mut any = false;
        let mut start = function.entry;
        for (end, index) in steps {
            let found = match index {
                0.. => *actions.entry(index).or_insert_with(|| self.outermost_operation(function, start)),
                _ => None,
            };
            any |= found.is_some();
            ranges.push((end, found));
            start = end;
        }
        any.then_some(Ranges(ranges))
    }

    /// The outermost lock operation among the calls inlined at `pc`, named by where it was inlined.
    fn outermost_operation(&self, function: &Function, pc: u64) -> Option<(i32, Action)> {
        let site = self.site(function, pc);
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
                        Op::Return | Op::Trap | Op::Jump(Target::Of(_) | Target::In(_) | Target::Unknown) => {
                            falls = false
                        }
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
    fn registers(
        &self,
        frame: Option<&Frame>,
        code: &Code,
        next: &Next,
        passed: &[bool],
        entry: Registers,
    ) -> Vec<Option<Registers>> {
        let mut states: Vec<Option<Registers>> = vec![None; code.instructions.len()];
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
    fn apply(&self, op: &Op, registers: &mut Registers, frame: Option<&Frame>, passed: bool) {
        match op {
            Op::Set(register, value) => set(registers, *register, evaluate(value, registers)),
            Op::Load(register, at, 8) => {
                let value = address(at, registers).and_then(|at| self.memory.u64(at).ok());
                set(registers, *register, value);
            }
            Op::Load(register, ..) => set(registers, *register, None),
            Op::Store(at, Value::Of(register), 8) if passed => {
                // What it keeps in its frame stands there still.
                let Some(frame) = frame else { return };
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
        let Some(here) = self.here else { return Position::default() };
        let state = self.states(lock).get(here).copied().unwrap_or(0);
        Position {
            taken: state & TAKEN != 0,
            given: state & GIVEN != 0,
            untouched: state & UNTOUCHED != 0,
            certain: self.is_certain(lock),
        }
    }

    /// What may have come last before each instruction, as bits.
    fn states(&self, lock: u64) -> Vec<u8> {
        let mut states = vec![0u8; self.next.len()];
        if let Some(first) = states.first_mut() {
            *first = UNTOUCHED;
        }
        let helpers: FxHashMap<usize, u8> =
            self.helpers.iter().map(|(&index, helper)| (index, helper.result(lock))).collect();
        let mut work = vec![0usize];
        while let Some(index) = work.pop() {
            let before = states.get(index).copied().unwrap_or(0);
            let mut after = before;
            if let Some(operation) = self.calls.get(&index).filter(|operation| operation.touches(lock)) {
                after = operation.effect();
            } else if let Some(&result) = helpers.get(&index) {
                after = result & !UNTOUCHED | if result & UNTOUCHED != 0 { before } else { 0 };
            }
            let own = self.inlined.get(&index);
            for successor in self.next.get(index).into_iter().flatten().flatten() {
                let successor = *successor as usize;
                // An inlined operation has happened where it is left.
                let left = own.filter(|site| self.inlined.get(&successor) != Some(site));
                let state = match left.and_then(|site| self.sites.get(site)).filter(|operation| operation.touches(lock))
                {
                    Some(operation) => operation.effect(),
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
        states
    }

    /// What calling this function did to `lock`: bits of the states in which it may return.
    ///
    /// One whose receivers are unknown counts only if it takes a lock for its caller and gives none back.
    fn result(&self, lock: u64) -> u8 {
        let states = self.states(lock);
        let result = self.returns.iter().fold(0, |bits, &index| bits | states.get(index).copied().unwrap_or(0));
        if result != 0 && (self.is_certain(lock) || result == TAKEN) { result } else { UNTOUCHED }
    }

    fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.calls.values().chain(self.sites.values())
    }

    fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.sites.is_empty() && self.helpers.is_empty()
    }

    /// Whether an operation is known to be on `lock`.
    fn is_certain(&self, lock: u64) -> bool {
        self.operations().any(|operation| operation.receiver == Some(lock))
            || self.helpers.values().any(|helper| helper.is_certain(lock))
    }

    /// Whether any operation may concern `lock`.
    pub(super) fn concerns(&self, lock: u64) -> bool {
        self.operations().any(|operation| operation.touches(lock))
            || self.helpers.values().any(|helper| helper.concerns(lock))
    }
}

impl Operation {
    fn touches(&self, lock: u64) -> bool {
        self.receiver.is_none_or(|receiver| receiver == lock)
    }

    fn effect(&self) -> u8 {
        match self.action {
            Action::Acquire { .. } => TAKEN,
            Action::Release { .. } => GIVEN,
            Action::None => 0,
        }
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
