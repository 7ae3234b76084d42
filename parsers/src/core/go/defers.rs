//! Deferred calls that are still to run: the bits of open-coded ones in their frames, and `_defer` records.
//!
//! Sources: `cmd/compile/internal/ssagen/ssa.go` (`emitOpenDeferInfo`), `runtime/panic.go`, Go 1.13 to 1.27.

use super::Go;
use super::goroutines::Goroutine;
use super::machine::Arguments;
use super::unwind::Frame;
use crate::core::memory::Read;

/// Records of one goroutine that are read.
const RECORDS: usize = 100_000;
/// Words of arguments saved with a call that are read (to 1.17).
const WORDS: u64 = 64;

/// A deferred call that has not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// Address of the closure.
    pub closure: u64,
    /// Arguments saved with it (to 1.17), by offset.
    pub arguments: Arguments,
    /// Where that stands: the record, or the slot in the frame.
    pub at: u64,
    /// Index of the frame whose return runs it, among the goroutine's.
    pub frame: Option<usize>,
}

impl Go<'_> {
    fn open_coded_kind(&self) -> u8 {
        if self.minor >= 16 { 4 } else { 5 }
    }

    /// All pending deferred calls of a goroutine with these frames.
    pub fn pending(&self, g: &Goroutine, frames: &[Frame]) -> Vec<Pending> {
        let mut found = Vec::new();
        if self.minor >= 14 {
            for (index, frame) in frames.iter().enumerate() {
                // What is absent was not said; the rest still is.
                let _ = self.open_coded(frame, index, &mut found);
            }
        }
        let mut at = g.defer;
        for _ in 0..RECORDS {
            if at == 0 {
                break;
            }
            match self.record(at, frames, &mut found) {
                Ok(next) if next != at => at = next,
                _ => break,
            }
        }
        found
    }

    fn open_coded(&self, frame: &Frame, index: usize, found: &mut Vec<Pending>) -> Read<()> {
        let Some(mut info) = self.table.funcdata(&frame.function, self.open_coded_kind()) else { return Ok(()) };
        let memory = self.memory;
        let mut varint = || -> Read<u64> {
            let (mut value, mut shift) = (0u64, 0u32);
            loop {
                let byte = memory.u8(info)?;
                info = info.wrapping_add(1);
                value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
                shift += 7;
                if byte < 0x80 || shift > 63 {
                    return Ok(value);
                }
            }
        };
        let slot = |offset: u64| frame.varp.wrapping_sub(offset);
        let mut take = |at: u64, arguments: Arguments| -> Read<()> {
            let closure = memory.u64(at)?;
            found.push(Pending { closure, arguments, at, frame: Some(index) });
            Ok(())
        };
        if self.minor <= 17 {
            varint()?; // size of the largest argument area
        }
        let bits = memory.u8(slot(varint()?))?;
        if self.minor >= 22 {
            let slots = varint()?;
            for i in (0..8).rev().filter(|i| bits >> i & 1 == 1) {
                take(slot(slots).wrapping_add(8 * i), Vec::new())?;
            }
            return Ok(());
        }
        let count = varint()?.min(8);
        for i in (0..count).rev() {
            let mut arguments = Arguments::new();
            let closure;
            if self.minor <= 17 {
                varint()?; // size of its arguments
                closure = varint()?;
                for _ in 0..varint()?.min(WORDS) {
                    let (offset, length, to) = (varint()?, varint()?, varint()?);
                    for word in 0..(length / 8).min(WORDS) {
                        arguments.push((to + 8 * word, memory.u64(slot(offset).wrapping_add(8 * word))?));
                    }
                }
            } else {
                closure = varint()?;
            }
            if bits >> i & 1 == 1 {
                take(slot(closure), arguments)?;
            }
        }
        Ok(())
    }

    /// Reads a `_defer` record; returns the next one's address.
    fn record(&self, at: u64, frames: &[Frame], found: &mut Vec<Pending>) -> Read<u64> {
        let (memory, layout) = (self.memory, &self.layout.defer);
        let word = |at: u64, offset: u16| memory.u64(at.wrapping_add(u64::from(offset)));
        let flag = |offset: Option<u16>| match offset {
            Some(offset) => memory.u8(at.wrapping_add(u64::from(offset))).map(|byte| byte != 0),
            None => Ok(false),
        };
        let link = word(at, layout.link)?;
        let sp = word(at, layout.sp)?;
        let frame = frames.iter().position(|frame| frame.sp == sp);
        if flag(layout.range_func)? {
            // A loop over a function: the calls hang on a list of their own.
            let mut next = match layout.head {
                Some(head) => memory.u64(word(at, head)?)?,
                None => 0,
            };
            for _ in 0..RECORDS {
                let Ok(closure) = word(next, layout.fun) else { break };
                if closure != 0 {
                    found.push(Pending { closure, arguments: Vec::new(), at: next, frame });
                }
                match word(next, layout.link) {
                    Ok(link) if link != 0 && link != next => next = link,
                    _ => break,
                }
            }
            return Ok(link);
        }
        let closure = word(at, layout.fun)?;
        // Records of open-coded calls (made while panicking, to 1.21) repeat their frame's bits.
        if closure != 0 && !flag(layout.open_coded)? {
            let mut arguments = Arguments::new();
            if let Some(offset) = layout.siz {
                let size = u64::from(memory.u32(at.wrapping_add(u64::from(offset)))?);
                let area = at.wrapping_add(u64::from(self.layout.defer_size));
                for i in 0..(size / 8).min(WORDS) {
                    arguments.push((8 * i, memory.u64(area.wrapping_add(8 * i))?));
                }
            }
            found.push(Pending { closure, arguments, at, frame });
        }
        Ok(link)
    }
}
