//! amd64, decoded by iced-x86.

use super::{Address, Code, Op, Reg, Target, Value};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

const RSP: Reg = 4;
const RAX: Reg = 0;

pub(super) fn decode(bytes: &[u8], entry: u64) -> Code {
    let mut decoder = Decoder::with_ip(64, bytes, entry, DecoderOptions::NONE);
    let (mut code, mut instruction, mut ops) = (Code::default(), Instruction::default(), Vec::new());
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        ops.clear();
        translate(&instruction, &mut ops);
        code.push(instruction.ip(), instruction.next_ip(), &ops);
    }
    code
}

fn translate(i: &Instruction, ops: &mut Vec<Op>) {
    match i.flow_control() {
        FlowControl::Next => {}
        FlowControl::UnconditionalBranch => return ops.push(Op::Jump(Target::At(i.near_branch_target()))),
        FlowControl::ConditionalBranch => return ops.push(Op::Branch(i.near_branch_target())),
        FlowControl::Call => return ops.push(Op::Call(Target::At(i.near_branch_target()))),
        FlowControl::IndirectCall => return ops.push(Op::Call(target(i))),
        FlowControl::IndirectBranch => return ops.push(Op::Jump(target(i))),
        FlowControl::Return => return ops.push(Op::Return),
        _ => return ops.push(Op::Trap),
    }
    if i.has_lock_prefix() || matches!(i.mnemonic(), Mnemonic::Xchg | Mnemonic::Xadd | Mnemonic::Cmpxchg) {
        let swaps = i.mnemonic() == Mnemonic::Cmpxchg;
        if let Some(at) = memory(i) {
            ops.push(Op::Atomic { at, swaps });
        }
        if swaps {
            ops.push(Op::Set(RAX, Value::Unknown));
        }
        for operand in 0..i.op_count() {
            ops.extend(register(i, operand).map(|r| Op::Set(r, Value::Unknown)));
        }
        return;
    }
    match i.mnemonic() {
        Mnemonic::Mov => copy(i, ops),
        Mnemonic::Lea => {
            let value = memory(i).map_or(Value::Unknown, Value::Address);
            ops.extend(register(i, 0).map(|r| Op::Set(r, wide(i, value))));
        }
        Mnemonic::Add | Mnemonic::Sub => sum(i, ops),
        Mnemonic::Xor if i.op0_kind() == OpKind::Register && i.op1_kind() == OpKind::Register => {
            let value = if i.op0_register() == i.op1_register() { Value::Is(0) } else { Value::Unknown };
            ops.extend(register(i, 0).map(|r| Op::Set(r, value)));
        }
        Mnemonic::Push => {
            let value = value(i, 0);
            ops.push(Op::Set(RSP, Value::Address(Address::at(RSP, -8))));
            ops.push(Op::Store(Address::at(RSP, 0), value, 8));
        }
        Mnemonic::Pop => {
            ops.extend(register(i, 0).map(|r| Op::Load(r, Address::at(RSP, 0), 8)));
            ops.push(Op::Set(RSP, Value::Address(Address::at(RSP, 8))));
        }
        Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Nop | Mnemonic::Bt | Mnemonic::Prefetcht0 => {}
        _ => forget(i, ops),
    }
}

/// Anything else overwrites its first operand with something unknown.
fn forget(i: &Instruction, ops: &mut Vec<Op>) {
    match i.op0_kind() {
        OpKind::Register => ops.extend(register(i, 0).map(|r| Op::Set(r, Value::Unknown))),
        OpKind::Memory => {
            let size = i.memory_size().size().clamp(1, 64) as u8;
            ops.extend(memory(i).map(|at| Op::Store(at, Value::Unknown, size)));
        }
        _ => {}
    }
}

fn copy(i: &Instruction, ops: &mut Vec<Op>) {
    let size = i.memory_size().size() as u8;
    match (i.op0_kind(), i.op1_kind()) {
        (OpKind::Register, OpKind::Memory) => {
            let Some(to) = register(i, 0) else { return };
            ops.push(match memory(i) {
                Some(at) if size >= 4 => Op::Load(to, at, size),
                _ => Op::Set(to, Value::Unknown),
            });
        }
        (OpKind::Memory, _) => ops.extend(memory(i).map(|at| Op::Store(at, value(i, 1), size))),
        (OpKind::Register, _) => ops.extend(register(i, 0).map(|to| Op::Set(to, wide(i, value(i, 1))))),
        _ => {}
    }
}

fn sum(i: &Instruction, ops: &mut Vec<Op>) {
    let Some(to) = register(i, 0).filter(|_| i.op0_kind() == OpKind::Register) else { return forget(i, ops) };
    let adds = i.mnemonic() == Mnemonic::Add;
    let sum = match value(i, 1) {
        Value::Is(n) if adds => Value::Address(Address::at(to, n as i64)),
        Value::Is(n) => Value::Address(Address::at(to, (n as i64).wrapping_neg())),
        Value::Of(other) if adds => Value::Sum(to, other),
        Value::Of(other) => Value::Difference(to, other),
        _ => Value::Unknown,
    };
    ops.push(Op::Set(to, wide(i, sum)));
}

/// Only whole registers carry pointers; a 32-bit constant is good as it is.
fn wide(i: &Instruction, value: Value) -> Value {
    match (i.op0_register().size(), value) {
        (8, value) | (4, value @ Value::Is(_)) => value,
        _ => Value::Unknown,
    }
}

fn value(i: &Instruction, operand: u32) -> Value {
    match i.op_kind(operand) {
        OpKind::Register => match register(i, operand) {
            Some(register) if i.op_register(operand).size() == 8 => Value::Of(register),
            _ => Value::Unknown,
        },
        OpKind::Memory => Value::Unknown,
        _ => i.try_immediate(operand).map_or(Value::Unknown, Value::Is),
    }
}

fn register(i: &Instruction, operand: u32) -> Option<Reg> {
    if i.op_kind(operand) != OpKind::Register {
        return None;
    }
    number(i.op_register(operand))
}

fn number(register: Register) -> Option<Reg> {
    register.is_gpr().then(|| register.full_register().number() as Reg)
}

fn memory(i: &Instruction) -> Option<Address> {
    if matches!(i.segment_prefix(), Register::FS | Register::GS) {
        return None;
    }
    if i.is_ip_rel_memory_operand() {
        return Some(Address::fixed(i.ip_rel_memory_address()));
    }
    let part = |register: Register| if register == Register::None { Some(None) } else { number(register).map(Some) };
    let index = part(i.memory_index())?.map(|register| (register, i.memory_index_scale() as u8));
    Some(Address { base: part(i.memory_base())?, index, displacement: i.memory_displacement64() })
}

fn target(i: &Instruction) -> Target {
    match i.op0_kind() {
        OpKind::Register => register(i, 0).map_or(Target::Unknown, Target::Of),
        OpKind::Memory => memory(i).map_or(Target::Unknown, Target::In),
        _ => Target::Unknown,
    }
}
