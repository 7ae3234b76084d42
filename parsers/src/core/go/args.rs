//! How a release prints the arguments of a frame.
//!
//! Since 1.17 the compiler describes them (`FUNCDATA_ArgInfo`, `cmd/compile/internal/ssagen.emitArgInfo`), since 1.18
//! also which spill slots still hold what was passed (`FUNCDATA_ArgLiveInfo`); a stale one is printed with `?`.

use super::Go;
use super::pclntab::Function;
use crate::core::memory::Memory;

const ARG_INFO: u8 = 5;
const ARG_LIVE_INFO: u8 = 6;
const PCDATA_ARG_LIVE_INDEX: u32 = 3;

/// Longest description: `TraceArgsMaxLen` of `internal/abi`.
const LONGEST: usize = (5 * 3 + 2) * 10 + 1;
/// Words printed up to 1.16.
const WORDS: u32 = 10;

/// What to print of a frame's arguments; the same for every frame that stands at the same place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArgumentPlan {
    /// The description is not in the core.
    Unknown,
    /// Up to 1.16: so many words, with `...` behind if there are more.
    Words(u32),
    /// Since 1.17.
    Parts(Vec<Part>),
}

/// An element of an argument list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Part {
    Open,
    Close,
    /// `...`: more than are described.
    More,
    /// `_`: too far away to be described.
    Far,
    Value {
        offset: u8,
        size: u8,
        live: bool,
    },
}

impl ArgumentPlan {
    /// Reads the plan for `function`, with liveness as of `pc`.
    pub(super) fn read(go: &Go<'_>, function: &Function, pc: u64) -> ArgumentPlan {
        if go.minor < 17 {
            return ArgumentPlan::Words(u32::try_from(function.args).unwrap_or(0) / 8);
        }
        let memory = go.memory;
        let Some(info) = go.table.funcdata(function, ARG_INFO) else {
            return ArgumentPlan::Parts(Vec::new());
        };
        let live = if go.minor >= 18 { go.table.funcdata(function, ARG_LIVE_INFO) } else { None };
        let index = live.and_then(|_| go.table.pcdata(function, PCDATA_ARG_LIVE_INDEX, pc)).filter(|&index| index > 0);
        let first = live.map_or(0xff, |live| memory.u8(live).unwrap_or(0xff));
        let is_live = |offset: u8, slot: u32| match (live, index) {
            (Some(live), Some(index)) if offset >= first => {
                let at = live.wrapping_add(index as u64 + u64::from(slot / 8));
                memory.u8(at).is_ok_and(|bits| bits >> (slot % 8) & 1 == 1)
            }
            _ => true,
        };
        let (mut parts, mut at, mut slot) = (Vec::new(), info, 0);
        while parts.len() <= LONGEST {
            let mut next = || {
                let byte = memory.u8(at).ok();
                at = at.wrapping_add(1);
                byte
            };
            let part = match next() {
                None => return ArgumentPlan::Unknown,
                Some(0xff) => break,
                Some(0xfe) => Part::Open,
                Some(0xfd) => Part::Close,
                Some(0xfc) => Part::More,
                Some(0xfb) => Part::Far,
                Some(offset) => {
                    let Some(size) = next() else {
                        return ArgumentPlan::Unknown;
                    };
                    let live = is_live(offset, slot);
                    slot += u32::from(offset >= first);
                    Part::Value { offset, size, live }
                }
            };
            parts.push(part);
        }
        ArgumentPlan::Parts(parts)
    }

    /// Prints the arguments of a frame whose argument area starts at `argp`; `...` where its memory is absent.
    pub(super) fn print(&self, memory: &Memory, argp: u64, out: &mut Vec<u8>) {
        let start = out.len();
        let whole = match self {
            ArgumentPlan::Unknown => None,
            ArgumentPlan::Words(words) => print_words(*words, memory, argp, out),
            ArgumentPlan::Parts(parts) => print_parts(parts, memory, argp, out),
        };
        if whole.is_none() {
            out.truncate(start);
            out.extend_from_slice(b"...");
        }
    }
}

fn print_words(words: u32, memory: &Memory, argp: u64, out: &mut Vec<u8>) -> Option<()> {
    for i in 0..words {
        if i >= WORDS {
            out.extend_from_slice(b", ...");
            break;
        }
        if i > 0 {
            out.extend_from_slice(b", ");
        }
        push_hex(out, memory.u64(argp.wrapping_add(8 * u64::from(i))).ok()?);
    }
    Some(())
}

fn print_parts(parts: &[Part], memory: &Memory, argp: u64, out: &mut Vec<u8>) -> Option<()> {
    let mut first = true;
    for part in parts {
        if !first && *part != Part::Close {
            out.extend_from_slice(b", ");
        }
        first = false;
        match *part {
            Part::Open => {
                out.push(b'{');
                first = true;
            }
            Part::Close => out.push(b'}'),
            Part::More => out.extend_from_slice(b"..."),
            Part::Far => out.push(b'_'),
            Part::Value { offset, size, live } => {
                let at = argp.wrapping_add(u64::from(offset));
                // The runtime reads eight bytes and masks; the last ones may lie behind the end of what is mapped.
                let value = match size {
                    8.. => memory.u64(at).ok()?,
                    _ => memory.bytes(at, u64::from(size)).ok()?.iter().rev().fold(0, |v, &b| v << 8 | u64::from(b)),
                };
                push_hex(out, value);
                if !live {
                    out.push(b'?');
                }
            }
        }
    }
    Some(())
}

/// `0x…` without leading zeros.
pub(super) fn push_hex(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(b"0x");
    let digits = (64 - (value | 1).leading_zeros()).div_ceil(4);
    for i in (0..digits).rev() {
        out.push(b"0123456789abcdef"[(value >> (4 * i) & 15) as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Text;

    #[test]
    fn hex_has_no_leading_zeros() {
        let hex = |value| {
            let mut out = Vec::new();
            push_hex(&mut out, value);
            String::from_utf8(out).expect("ASCII")
        };
        assert_eq!(["0x0", "0xf", "0x10", "0xc000012345"].map(str::to_owned), [0, 15, 16, 0xc000012345].map(hex));
        assert_eq!(hex(u64::MAX), "0xffffffffffffffff");
    }

    #[test]
    fn commas_stand_where_the_runtime_puts_them() {
        let mut memory = Memory::default();
        memory.add(&Text::from_vec((1..=32).collect()), [(0x1000, 0, 32)]);
        let value = |offset, size, live| Part::Value { offset, size, live };
        let plan = ArgumentPlan::Parts(vec![
            value(0, 1, true),
            Part::Open,
            value(8, 2, false),
            Part::More,
            Part::Close,
            Part::Open,
            Part::Close,
            Part::Far,
        ]);
        let mut out = Vec::new();
        plan.print(&memory, 0x1000, &mut out);
        assert_eq!(String::from_utf8(out).as_deref(), Ok("0x1, {0xa09?, ...}, {}, _"));
        let mut out = Vec::new();
        plan.print(&memory, 0x101c, &mut out);
        assert_eq!(out, b"...");
    }
}
