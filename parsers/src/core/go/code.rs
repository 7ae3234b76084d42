//! Which variables a function's code refers to. No instruction patterns of particular releases: every address that is
//! formed counts, and the caller tests what stands there.

use crate::core::elf::Arch;
use iced_x86::{Decoder, DecoderOptions, Instruction};
use std::ops::Range;

/// Addresses within `wanted` that `code`, which stands at `entry`, forms; ascending, each once.
pub(super) fn references(arch: Arch, code: &[u8], entry: u64, wanted: &Range<u64>) -> Vec<u64> {
    let mut found = match arch {
        Arch::Amd64 => amd64(code, entry),
        Arch::Arm64 => arm64(code, entry),
    };
    found.retain(|address| wanted.contains(address));
    found.sort_unstable();
    found.dedup();
    found
}

fn amd64(code: &[u8], entry: u64) -> Vec<u64> {
    let mut decoder = Decoder::with_ip(64, code, entry, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut found = Vec::new();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction.is_ip_rel_memory_operand() {
            found.push(instruction.ip_rel_memory_address());
        }
    }
    found
}

/// Follows `adrp`/`adr` through `add` immediates and into loads and stores (Arm ARM, C4.1).
fn arm64(code: &[u8], entry: u64) -> Vec<u64> {
    let mut pages: [Option<u64>; 32] = [None; 32];
    let mut found = Vec::new();
    for (i, word) in code.chunks_exact(4).enumerate() {
        let word = word.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let pc = entry.wrapping_add(4 * i as u64);
        let (rd, rn) = ((word & 31) as usize, (word >> 5 & 31) as usize);
        let base = pages[rn];
        if word & 0x1f00_0000 == 0x1000_0000 {
            // adr, adrp: a signed 21-bit immediate in two parts.
            let immediate = i64::from((word >> 5 & 0x7_ffff) << 2 | word >> 29 & 3) << 43 >> 43;
            let target = match word >> 31 {
                0 => pc.wrapping_add_signed(immediate),
                _ => (pc & !0xfff).wrapping_add_signed(immediate << 12),
            };
            if word >> 31 == 0 {
                found.push(target);
            }
            pages[rd] = Some(target);
        } else if word & 0xff80_0000 == 0x9100_0000 {
            // add (immediate), 64 bit.
            let shift = if word >> 22 & 1 == 1 { 12 } else { 0 };
            let target = base.map(|base| base.wrapping_add(u64::from(word >> 10 & 0xfff) << shift));
            found.extend(target);
            pages[rd] = target;
        } else if word & 0x3b00_0000 == 0x3900_0000 {
            // ldr, str (unsigned immediate), scaled by the size of the access.
            if let Some(base) = base {
                found.push(base.wrapping_add(u64::from(word >> 10 & 0xfff) << (word >> 30)));
            }
            // Loads overwrite a general register.
            if word >> 22 & 3 != 0 && word >> 26 & 1 == 0 {
                pages[rd] = None;
            }
        } else if word & 0x3800_0000 == 0x2800_0000 {
            // ldp, stp: a signed 7-bit immediate, scaled by 4 or 8.
            let scale = if word >> 31 == 1 { 3 } else { 2 };
            let immediate = (i64::from(word >> 15 & 0x7f) << 57 >> 57) << scale;
            if let Some(base) = base {
                found.push(base.wrapping_add_signed(immediate));
            }
        } else if word & 0xfc00_0000 != 0x1400_0000
            && word & 0xff00_0010 != 0x5400_0000
            && word & 0x7e00_0000 != 0x3400_0000
        {
            // Anything but a branch may overwrite its destination.
            pages[rd] = None;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_machines() {
        // lea rax,[rip+0x100]; mov rcx,[rip+0x10]; ret
        let code = [0x48, 0x8d, 0x05, 0, 1, 0, 0, 0x48, 0x8b, 0x0d, 0x10, 0, 0, 0, 0xc3];
        assert_eq!(references(Arch::Amd64, &code, 0x1000, &(0..u64::MAX)), [0x101e, 0x1107]);
        // adrp x27, +0x2000; ldr x0, [x27, #0x18]; add x1, x27, #0x20; str x2, [x1, #8]
        let words: [u32; 4] = [0xd000_001b, 0xf940_0f60, 0x9100_8361, 0xf900_0422];
        let code: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        assert_eq!(references(Arch::Arm64, &code, 0x1_0000, &(0..u64::MAX)), [0x1_2018, 0x1_2020, 0x1_2028]);
    }
}
