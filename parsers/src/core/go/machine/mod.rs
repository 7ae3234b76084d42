//! Machine code reduced to what following a pointer needs: copies, addresses, loads, stores, calls and branches.
//!
//! Everything else only forgets its destination. Both processors share one form, so that what is proved from code is
//! written once.

mod amd64;
mod arm64;
mod interpret;

pub(super) use interpret::{Arguments, Released};

use super::Go;
use super::pclntab::Function;
use crate::core::elf::Arch;
use std::rc::Rc;

/// Code longer than this is not looked at.
const LONGEST: u64 = 128 << 10;

/// A general register: amd64 numbers as encoded (rax 0 … r15 15), arm64 x0 to x30 and sp as 31.
pub(super) type Reg = u8;
/// Registers of either machine.
pub(super) const REGISTERS: usize = 32;

/// `base + index * scale + displacement`; unknown segments and the like never come here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Address {
    pub base: Option<Reg>,
    pub index: Option<(Reg, u8)>,
    pub displacement: u64,
}

impl Address {
    fn at(base: Reg, displacement: i64) -> Address {
        Address { base: Some(base), index: None, displacement: displacement as u64 }
    }

    fn fixed(address: u64) -> Address {
        Address { base: None, index: None, displacement: address }
    }
}

/// A value that an operation computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    Unknown,
    Is(u64),
    Of(Reg),
    Sum(Reg, Reg),
    Difference(Reg, Reg),
    Address(Address),
}

/// Where control goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    At(u64),
    Of(Reg),
    In(Address),
    Unknown,
}

/// What an instruction does, as far as it matters; most do one thing, some three.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Set(Reg, Value),
    /// Bytes, zero-extended.
    Load(Reg, Address, u8),
    Store(Address, Value, u8),
    /// An atomic read-modify-write; `swaps` if it is a compare-and-swap (or a load-exclusive), as a Lock begins.
    Atomic {
        at: Address,
        swaps: bool,
    },
    Call(Target),
    Jump(Target),
    /// Conditional.
    Branch(u64),
    /// Returns.
    Return,
    /// Traps: a panic stands before, nothing comes behind.
    Trap,
}

/// A decoded instruction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Instruction {
    pub address: u64,
    /// Address of the one behind it.
    pub next: u64,
    first: u32,
    count: u32,
}

/// A decoded function.
#[derive(Debug, Default)]
pub(super) struct Code {
    pub instructions: Vec<Instruction>,
    ops: Vec<Op>,
}

impl Code {
    pub fn ops(&self, instruction: &Instruction) -> &[Op] {
        let first = instruction.first as usize;
        self.ops.get(first..first + instruction.count as usize).unwrap_or(&[])
    }

    /// Index of the instruction at exactly `address`.
    pub fn at(&self, address: u64) -> Option<usize> {
        self.instructions.binary_search_by_key(&address, |instruction| instruction.address).ok()
    }

    fn push(&mut self, address: u64, next: u64, ops: &[Op]) {
        let (first, count) = (self.ops.len() as u32, ops.len() as u32);
        self.ops.extend_from_slice(ops);
        self.instructions.push(Instruction { address, next, first, count });
    }
}

impl Go<'_> {
    /// A function's code, decoded once; empty if its text is absent.
    pub(super) fn decoded(&self, function: &Function) -> Rc<Code> {
        if let Some(code) = self.codes.borrow().get(&function.entry) {
            return Rc::clone(code);
        }
        let size = function.end.saturating_sub(function.entry);
        let bytes = if size <= LONGEST {
            self.table.code(self.memory, function).unwrap_or_default()
        } else {
            Default::default()
        };
        let code = Rc::new(match self.arch {
            Arch::Amd64 => amd64::decode(&bytes, function.entry),
            Arch::Arm64 => arm64::decode(&bytes, function.entry),
        });
        self.codes.borrow_mut().insert(function.entry, Rc::clone(&code));
        code
    }

    /// The stack pointer's register.
    pub(super) fn sp_register(&self) -> Reg {
        match self.arch {
            Arch::Amd64 => 4,
            Arch::Arm64 => 31,
        }
    }

    /// The register that a called closure finds its context in.
    pub(super) fn context_register(&self) -> Reg {
        match self.arch {
            Arch::Amd64 => 2,
            Arch::Arm64 => 26,
        }
    }

    /// The register of the first argument; `None` where arguments go over the stack (amd64 to 1.16, arm64 to 1.17).
    pub(super) fn first_argument(&self) -> Option<Reg> {
        match (self.arch, self.minor) {
            (Arch::Amd64, 17..) | (Arch::Arm64, 18..) => Some(0),
            _ => None,
        }
    }

    /// Registers that a call leaves alone: stack and frame pointer, `g`.
    pub(super) fn survives(&self, register: Reg) -> bool {
        match self.arch {
            Arch::Amd64 => matches!(register, 4 | 5 | 14),
            Arch::Arm64 => matches!(register, 28 | 29 | 31),
        }
    }
}
