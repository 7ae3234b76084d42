//! arm64: the instructions that Go's compiler moves pointers with (Arm ARM, C4.1); the rest forgets its destination.

use super::{Address, Code, Op, Reg, Target, Value};

const SP: Reg = 31;

pub(super) fn decode(bytes: &[u8], entry: u64) -> Code {
    let (mut code, mut ops) = (Code::default(), Vec::new());
    for (i, word) in bytes.chunks_exact(4).enumerate() {
        let word = word.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let pc = entry.wrapping_add(4 * i as u64);
        ops.clear();
        translate(word, pc, &mut ops);
        code.push(pc, pc.wrapping_add(4), &ops);
    }
    code
}

fn bits(word: u32, from: u32, count: u32) -> u32 {
    word >> from & ((1 << count) - 1)
}

fn signed(word: u32, from: u32, count: u32) -> i64 {
    i64::from(bits(word, from, count)) << (64 - count) >> (64 - count)
}

/// x31 as an operand of data processing is zero.
fn operand(register: u32) -> Value {
    if register == 31 { Value::Is(0) } else { Value::Of(register as Reg) }
}

fn translate(w: u32, pc: u64, ops: &mut Vec<Op>) {
    let (rd, rn, rm) = (bits(w, 0, 5), bits(w, 5, 5), bits(w, 16, 5));
    let near = |words: i64| pc.wrapping_add_signed(words << 2);
    let set = |value: Value, ops: &mut Vec<Op>| {
        if rd != 31 {
            ops.push(Op::Set(rd as Reg, value));
        }
    };
    let long = w >> 31 == 1;
    match () {
        () if w >> 26 == 0b00_0101 => ops.push(Op::Jump(Target::At(near(signed(w, 0, 26))))),
        () if w >> 26 == 0b10_0101 => ops.push(Op::Call(Target::At(near(signed(w, 0, 26))))),
        () if w & 0xff00_0010 == 0x5400_0000 || w & 0x7e00_0000 == 0x3400_0000 => {
            ops.push(Op::Branch(near(signed(w, 5, 19))))
        }
        () if w & 0x7e00_0000 == 0x3600_0000 => ops.push(Op::Branch(near(signed(w, 5, 14)))),
        () if w & 0xffff_fc1f == 0xd61f_0000 => ops.push(Op::Jump(Target::Of(rn as Reg))),
        () if w & 0xffff_fc1f == 0xd63f_0000 => ops.push(Op::Call(Target::Of(rn as Reg))),
        () if w & 0xffff_fc1f == 0xd65f_0000 => ops.push(Op::Return),
        // brk; udf.
        () if w & 0xffe0_001f == 0xd420_0000 || w >> 16 == 0 => ops.push(Op::Trap),
        () if w & 0x1f00_0000 == 0x1000_0000 => {
            let immediate = signed(w, 5, 19) << 2 | i64::from(bits(w, 29, 2));
            let address = if long {
                (pc & !0xfff).wrapping_add_signed(immediate << 12)
            } else {
                pc.wrapping_add_signed(immediate)
            };
            set(Value::Is(address), ops);
        }
        () if w & 0x1f00_0000 == 0x1100_0000 => add_immediate(w, ops),
        () if w & 0x1f20_0000 == 0x0b00_0000 => {
            // add, sub (shifted register); only unshifted ones matter.
            let plain = long && bits(w, 10, 6) == 0 && rn != 31 && rm != 31;
            set(
                match (plain, bits(w, 30, 1)) {
                    (true, 0) => Value::Sum(rn as Reg, rm as Reg),
                    (true, _) => Value::Difference(rn as Reg, rm as Reg),
                    _ => Value::Unknown,
                },
                ops,
            );
        }
        // orr with the zero register: mov.
        () if w & 0x7f20_0000 == 0x2a00_0000 && rn == 31 && bits(w, 10, 6) == 0 => {
            set(if long { operand(rm) } else { Value::Unknown }, ops);
        }
        // movz.
        () if w & 0x7f80_0000 == 0x5280_0000 => set(Value::Is(u64::from(bits(w, 5, 16)) << (16 * bits(w, 21, 2))), ops),
        () if w & 0x3a00_0000 == 0x2800_0000 => pair(w, ops),
        () if w & 0x3b00_0000 == 0x3900_0000 => {
            single(w, Address::at(rn as Reg, i64::from(bits(w, 10, 12)) << (w >> 30)), ops);
        }
        // Unscaled, or with the base updated before or after.
        () if w & 0x3b20_0000 == 0x3800_0000 => {
            let (offset, mode) = (signed(w, 12, 9), bits(w, 10, 2));
            single(w, Address::at(rn as Reg, if mode == 1 { 0 } else { offset }), ops);
            if mode & 1 == 1 {
                ops.push(Op::Set(rn as Reg, Value::Address(Address::at(rn as Reg, offset))));
            }
        }
        // ldadd, swp and their kin.
        () if w & 0x3b20_0c00 == 0x3820_0000 => {
            ops.push(Op::Atomic { at: Address::at(rn as Reg, 0), swaps: false });
            set(Value::Unknown, ops);
        }
        // Exclusive loads and stores, compare-and-swap.
        () if w & 0x3f00_0000 == 0x0800_0000 => {
            let (compares, exclusive_load) = (w & 0x00a0_7c00 == 0x00a0_7c00, w & 0x00e0_0000 == 0x0040_0000);
            if compares || exclusive_load {
                ops.push(Op::Atomic { at: Address::at(rn as Reg, 0), swaps: true });
            }
            for register in [rd, rm].into_iter().filter(|&register| register != 31) {
                ops.push(Op::Set(register as Reg, Value::Unknown));
            }
        }
        // Vector stores and loads with register offsets change no general register.
        () if w & 0x0e00_0000 == 0x0c00_0000 => {}
        () => set(Value::Unknown, ops),
    }
}

fn add_immediate(w: u32, ops: &mut Vec<Op>) {
    let (rd, rn) = (bits(w, 0, 5), bits(w, 5, 5));
    let (flags, subtracts) = (bits(w, 29, 1) == 1, bits(w, 30, 1) == 1);
    if rd == 31 && flags {
        return; // cmp
    }
    let amount = i64::from(bits(w, 10, 12)) << (12 * bits(w, 22, 1));
    let value = match w >> 31 {
        1 => Value::Address(Address::at(rn as Reg, if subtracts { -amount } else { amount })),
        _ => Value::Unknown,
    };
    ops.push(Op::Set(if rd == 31 { SP } else { rd as Reg }, value));
}

/// ldr, str of any size.
fn single(w: u32, at: Address, ops: &mut Vec<Op>) {
    let (rt, size) = (bits(w, 0, 5), 1u8 << (w >> 30));
    let vector = bits(w, 26, 1) == 1;
    match (bits(w, 22, 2), vector) {
        (0, false) => ops.push(Op::Store(at, operand(rt), size)),
        (0 | 2, true) => ops.push(Op::Store(at, Value::Unknown, 16)),
        (_, true) => {}
        (1, false) if rt != 31 => ops.push(Op::Load(rt as Reg, at, size)),
        (_, false) if rt != 31 => ops.push(Op::Set(rt as Reg, Value::Unknown)),
        _ => {}
    }
}

/// ldp, stp.
fn pair(w: u32, ops: &mut Vec<Op>) {
    let (first, second, rn) = (bits(w, 0, 5), bits(w, 10, 5), bits(w, 5, 5) as Reg);
    let (loads, vector, mode) = (bits(w, 22, 1) == 1, bits(w, 26, 1) == 1, bits(w, 23, 2));
    let size: i64 = match (vector, w >> 30) {
        (true, opc) => 4 << opc,
        (false, 2) => 8,
        _ => 4,
    };
    let offset = signed(w, 15, 7) * size;
    let start = if mode == 1 { 0 } else { offset };
    for (register, at) in [(first, start), (second, start + size)] {
        let at = Address::at(rn, at);
        match (loads, vector) {
            (false, true) => ops.push(Op::Store(at, Value::Unknown, size as u8)),
            (false, false) => ops.push(Op::Store(at, operand(register), size as u8)),
            (true, false) if register != 31 => ops.push(Op::Load(register as Reg, at, size as u8)),
            _ => {}
        }
    }
    if mode & 1 == 1 {
        ops.push(Op::Set(rn, Value::Address(Address::at(rn, offset))));
    }
}
