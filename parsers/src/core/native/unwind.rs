//! A thread's stack, frame by frame, by call-frame information alone.

use super::cfi::{Cfa, Row, Rule};
use super::expression;
use crate::core::CoreFile;
use crate::core::elf::Arch;
use crate::core::notes::Thread;

/// Frames of one stack at most: a runaway recursion has many more, all alike.
const FRAMES: usize = 1_000;

/// A frame of a thread's own stack.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NativeFrame {
    /// Program counter: where it will go on.
    pub pc: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Index of its module.
    pub module: Option<usize>,
    /// Its function, if a symbol covers it.
    pub function: Option<String>,
}

/// A stack, and why it ends where it does.
#[derive(Debug, Default)]
pub(super) struct Stack {
    pub frames: Vec<NativeFrame>,
    /// Module without whose file it cannot go on.
    pub missing: Option<usize>,
}

/// The registers of a frame, by DWARF number.
#[derive(Debug, Clone)]
struct Registers {
    arch: Arch,
    pc: u64,
    values: [Option<u64>; COUNT],
}

/// amd64 has 16 general registers and the return address (System V ABI, figure 3.36), arm64 31 and the stack pointer
/// (DWARF for the Arm 64-bit Architecture, 4.1).
const COUNT: usize = 34;

/// Positions of the amd64 registers 0 to 15 in the kernel's order: rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15.
const AMD64: [usize; 16] = [10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0];

impl Registers {
    fn of(thread: &Thread, arch: Arch) -> Registers {
        let mut values = [None; COUNT];
        let word = |at: usize| thread.words.get(at).copied();
        match arch {
            Arch::Amd64 => values.iter_mut().zip(AMD64).for_each(|(value, at)| *value = word(at)),
            Arch::Arm64 => values.iter_mut().zip(0..32).for_each(|(value, at)| *value = word(at)),
        }
        Registers { arch, pc: thread.pc, values }
    }

    fn get(&self, number: u16) -> Option<u64> {
        self.values.get(usize::from(number)).copied().flatten()
    }

    fn set(&mut self, number: u16, value: Option<u64>) {
        if let Some(slot) = self.values.get_mut(usize::from(number)) {
            *slot = value;
        }
    }

    fn stack_pointer(&self) -> u16 {
        match self.arch {
            Arch::Amd64 => 7,
            Arch::Arm64 => 31,
        }
    }

    fn sp(&self) -> u64 {
        self.get(self.stack_pointer()).unwrap_or(0)
    }
}

impl CoreFile {
    /// Walks the stack of a thread. It ends at the thread's start, at the first absent word, or where a module's file
    /// is not at hand.
    pub(super) fn unwind(&self, thread: &Thread) -> Stack {
        let mut stack = Stack::default();
        let mut registers = Registers::of(thread, self.arch);
        // A return address may be that of the next function: a call that never returns is a function's last word.
        let mut is_return = false;
        while stack.frames.len() < FRAMES && registers.pc != 0 {
            let looked_up = registers.pc.saturating_sub(u64::from(is_return));
            let module = self.modules.at(looked_up);
            let file = module.and_then(|index| self.modules.all.get(index)?.file.as_ref());
            let own = |file: &super::modules::File| looked_up.wrapping_sub(file.bias);
            let row = file.and_then(|file| file.frames().row(own(file)));
            let signal = row.as_ref().is_some_and(|row| row.signal);
            let function = match signal {
                true => Some("<signal handler called>".to_owned()),
                false => file.and_then(|file| file.symbols().at(own(file)).map(str::to_owned)),
            };
            stack.frames.push(NativeFrame { pc: registers.pc, sp: registers.sp(), module, function });
            let Some(row) = row else {
                stack.missing = module;
                break;
            };
            let Some(caller) = self.caller(&registers, &row, !is_return) else { break };
            // Stacks grow downwards: a caller that is not above is no caller, but a signal may switch stacks.
            if !signal && caller.sp() <= registers.sp() && stack.frames.len() > 1 {
                break;
            }
            registers = caller;
            is_return = !signal;
        }
        stack
    }

    /// `None` at the outermost frame, and where memory is absent.
    fn caller(&self, registers: &Registers, row: &Row, innermost: bool) -> Option<Registers> {
        let evaluate = |code: &[u8], first: Option<u64>| {
            expression::value(code, first, &self.memory, |number| registers.get(number))
        };
        let cfa = match &row.cfa {
            Cfa::Register(number, offset) => registers.get(*number)?.checked_add_signed(*offset)?,
            Cfa::Expression(code) => evaluate(code, None)?,
        };
        let word = |address: u64| self.memory.u64(address).ok();
        let mut caller = registers.clone();
        caller.set(registers.stack_pointer(), Some(cfa));
        let mut told = false;
        for (number, rule) in &row.rules {
            let value = match rule {
                Rule::Undefined => None,
                Rule::Same => registers.get(*number),
                Rule::Offset(offset) => word(cfa.wrapping_add_signed(*offset)),
                Rule::ValOffset(offset) => Some(cfa.wrapping_add_signed(*offset)),
                Rule::Register(other) => registers.get(*other),
                Rule::Expression(code) => evaluate(code, Some(cfa)).and_then(word),
                Rule::ValExpression(code) => evaluate(code, Some(cfa)),
                Rule::Constant(value) => Some(*value),
            };
            told |= *number == row.return_register;
            caller.set(*number, value);
        }
        // A function that calls nobody keeps its return address in the link register and needs no rule for it.
        let leaf = self.arch == Arch::Arm64 && innermost;
        if !told && !leaf {
            return None;
        }
        let back = caller.get(row.return_register)?;
        // Pointer authentication signs return addresses in the bits above user space.
        caller.pc = if self.arch == Arch::Arm64 { back & 0x0000_ffff_ffff_ffff } else { back };
        Some(caller)
    }
}
