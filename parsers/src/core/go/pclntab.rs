//! The runtime's own symbol table, which no `strip` removes: functions, frame sizes, files and lines.
//!
//! Sources: `runtime/symtab.go` and `cmd/link/internal/ld/pcln.go` of Go 1.13 to 1.27.

use crate::core::elf::Arch;
use crate::core::memory::{Memory, Read};
use std::borrow::Cow;
use std::cell::Cell;
use std::ops::Range;

/// Format of the table, named after the first release that wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Format {
    V1_2,
    V1_16,
    V1_18,
    V1_20,
}

/// Largest table that is believed; that of the largest known binaries is a tenth of it.
const LARGEST: u64 = 1 << 30;

impl Format {
    fn of_magic(magic: u32) -> Option<Format> {
        Some(match magic {
            0xffff_fffb => Format::V1_2,
            0xffff_fffa => Format::V1_16,
            0xffff_fff0 => Format::V1_18,
            0xffff_fff1 => Format::V1_20,
            _ => return None,
        })
    }

    /// Bytes of a function table entry's half.
    fn width(self) -> usize {
        if self >= Format::V1_18 { 4 } else { 8 }
    }

    /// The newest Go release that is known to write it.
    pub fn newest_minor(self) -> u32 {
        match self {
            Format::V1_2 => 15,
            Format::V1_16 => 17,
            Format::V1_18 => 19,
            Format::V1_20 => 27,
        }
    }
}

/// A function (`runtime._func`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Function {
    /// Index in the function table.
    pub index: u32,
    /// First address.
    pub entry: u64,
    /// Behind the last address.
    pub end: u64,
    name: u32,
    /// Bytes of arguments and results on the stack; negative if unknown.
    pub args: i32,
    pub deferreturn: u32,
    pcsp: u32,
    pcfile: u32,
    pcln: u32,
    npcdata: u32,
    cu: u32,
    /// `funcID`.
    pub id: u8,
    /// `funcFlag`, 0 before 1.17.
    pub flag: u8,
    nfuncdata: u8,
    /// Where the pcdata offsets start, in the table's bytes.
    data_at: usize,
}

/// A text section (`runtime.textsect`); only huge or externally linked programs have more than one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextSection {
    /// Start relative to the first section, before relocation.
    pub offset: u64,
    /// End, likewise.
    pub end: u64,
    /// Where it really starts.
    pub base: u64,
}

/// The table, and what `moduledata` says about it.
#[derive(Debug)]
pub struct Pclntab<'m> {
    /// Its format.
    pub format: Format,
    /// Where it stands.
    pub address: u64,
    /// Number of functions.
    pub functions: u32,
    data: Cow<'m, [u8]>,
    quantum: u64,
    names: usize,
    cu: usize,
    files: usize,
    pctab: usize,
    functab: usize,
    /// Address that function offsets count from (1.18 and later).
    text: u64,
    sections: Vec<TextSection>,
    /// Address that funcdata offsets count from (1.18 and later).
    gofunc: u64,
    /// Whether `_func` has a flag byte (1.17 and later).
    has_flags: bool,
    budget: Cell<u64>,
}

impl<'m> Pclntab<'m> {
    /// Looks for the table in `ranges`, and checks what it finds through the whole memory.
    pub fn find(memory: &'m Memory, arch: Arch, ranges: &[Range<u64>]) -> Option<Pclntab<'m>> {
        let quantum = match arch {
            Arch::Amd64 => 1u8,
            Arch::Arm64 => 4,
        };
        let tail = [0xff, 0xff, 0xff, 0, 0, quantum, 8];
        for (start, bytes) in memory.searched(ranges) {
            for hit in memchr::memmem::find_iter(bytes, &tail) {
                let address = (start + hit as u64).wrapping_sub(1);
                if address.is_multiple_of(8)
                    && let Some(table) = Pclntab::at(memory, address, u64::from(quantum))
                {
                    return Some(table);
                }
            }
        }
        None
    }

    fn at(memory: &'m Memory, address: u64, quantum: u64) -> Option<Pclntab<'m>> {
        let format = Format::of_magic(memory.u32(address).ok()?)?;
        let count = memory.u64(address + 8).ok()?;
        if !(2..10_000_000).contains(&count) {
            return None;
        }
        let data = memory.up_to(address, LARGEST);
        let mut table = Pclntab {
            format,
            address,
            functions: count as u32,
            data,
            quantum,
            names: 0,
            cu: 0,
            files: 0,
            pctab: 0,
            functab: 16,
            text: 0,
            sections: Vec::new(),
            gofunc: 0,
            has_flags: false,
            budget: Cell::new(1 << 31),
        };
        if format == Format::V1_2 {
            // Everything is relative to the table's start.
            let after = 16 + 16 * count as usize + 8;
            table.files = table.u32(after)? as usize;
        } else {
            let at = if format == Format::V1_16 { 24 } else { 32 };
            let mut offsets = [0usize; 5];
            for (i, offset) in offsets.iter_mut().enumerate() {
                *offset = usize::try_from(table.u64(at + 8 * i)?).ok()?;
            }
            let [names, cu, files, pctab, functab] = offsets;
            if !(0 < names && names < cu && cu <= files && files < pctab && pctab < functab && functab < 1 << 32) {
                return None;
            }
            (table.names, table.cu, table.files, table.pctab, table.functab) = (names, cu, files, pctab, functab);
        }
        // The first function repeats the entry that the table gives for it.
        let (first, offset) = (table.entry_word(0)?, table.function_offset(0)?);
        let repeated = match format.width() {
            4 => u64::from(table.u32(offset)?),
            _ => table.u64(offset)?,
        };
        (first == repeated).then_some(table)
    }

    /// Takes over what `moduledata` and the Go release say.
    pub(super) fn locate(&mut self, text: u64, sections: Vec<TextSection>, gofunc: u64, has_flags: bool) {
        (self.text, self.sections, self.gofunc, self.has_flags) = (text, sections, gofunc, has_flags);
    }

    /// Addresses of name table, pctab and function table: what `moduledata` must repeat.
    pub(super) fn landmarks(&self) -> (u64, u64, u64) {
        let at = |offset: usize| self.address + offset as u64;
        (at(self.names), at(self.pctab), at(self.functab))
    }

    fn u32(&self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(*self.data.get(at..)?.first_chunk()?))
    }

    fn i32(&self, at: usize) -> Option<i32> {
        self.u32(at).map(|v| v as i32)
    }

    fn u64(&self, at: usize) -> Option<u64> {
        Some(u64::from_le_bytes(*self.data.get(at..)?.first_chunk()?))
    }

    fn text_at(&self, at: usize) -> &str {
        let bytes = self.data.get(at..).unwrap_or(&[]);
        let bytes = bytes.get(..bytes.len().min(crate::limits::LINE)).unwrap_or(&[]);
        let end = memchr::memchr(0, bytes).unwrap_or(0);
        bytes.get(..end).and_then(|b| std::str::from_utf8(b).ok()).unwrap_or("?")
    }

    fn entry_word(&self, index: usize) -> Option<u64> {
        let width = self.format.width();
        let at = self.functab.checked_add(index.checked_mul(2 * width)?)?;
        if width == 4 { self.u32(at).map(u64::from) } else { self.u64(at) }
    }

    fn function_offset(&self, index: usize) -> Option<usize> {
        let width = self.format.width();
        let at = self.functab.checked_add(index.checked_mul(2 * width)?)?.checked_add(width)?;
        let offset = if width == 4 { u64::from(self.u32(at)?) } else { self.u64(at)? };
        let base = if self.format == Format::V1_2 { 0 } else { self.functab };
        base.checked_add(usize::try_from(offset).ok()?)
    }

    /// Address of the function at `index`; that of index [`Pclntab::functions`] is the end of the text.
    fn entry(&self, index: usize) -> Option<u64> {
        let word = self.entry_word(index)?;
        if self.format.width() == 8 {
            return Some(word);
        }
        if self.sections.len() > 1
            && let Some(section) =
                self.sections.iter().find(|s| (s.offset..s.end).contains(&word)).or(self.sections.last())
        {
            return Some(section.base.wrapping_add(word - section.offset.min(word)));
        }
        Some(self.text.wrapping_add(word))
    }

    /// The function that `pc` lies in.
    pub fn function_at(&self, pc: u64) -> Option<Function> {
        let count = self.functions as usize;
        if pc < self.entry(0)? || pc >= self.entry(count)? {
            return None;
        }
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.entry(middle)? <= pc {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        self.function(low.checked_sub(1)?)
    }

    /// The function at `index` of the table.
    pub fn function(&self, index: usize) -> Option<Function> {
        let (entry, end) = (self.entry(index)?, self.entry(index + 1)?);
        let start = self.function_offset(index)?;
        let at = start.checked_add(self.format.width())?;
        let (has_cu, has_line) = (self.format != Format::V1_2, self.format == Format::V1_20);
        let tail = at + 28 + if has_cu { 4 } else { 0 } + if has_line { 4 } else { 0 };
        let [id, flag, _, nfuncdata] = *self.data.get(tail..)?.first_chunk::<4>()?;
        Some(Function {
            index: index as u32,
            entry,
            end,
            name: self.u32(at)?,
            args: self.i32(at + 4)?,
            deferreturn: self.u32(at + 8)?,
            pcsp: self.u32(at + 12)?,
            pcfile: self.u32(at + 16)?,
            pcln: self.u32(at + 20)?,
            npcdata: self.u32(at + 24)?,
            cu: if has_cu { self.u32(at + 28)? } else { 0 },
            id,
            flag: if self.has_flags { flag } else { 0 },
            nfuncdata,
            data_at: tail + 4,
        })
    }

    /// Full name of a function, generic shapes included.
    pub fn name(&self, function: &Function) -> &str {
        self.name_at(function.name)
    }

    /// The name at an offset of the name table.
    pub fn name_at(&self, offset: u32) -> &str {
        self.text_at(self.names.saturating_add(offset as usize))
    }

    /// All functions whose name is wanted. One pass over the table.
    pub fn by_names<'n>(&self, wanted: &[&'n str]) -> Vec<(&'n str, Function)> {
        let mut found = Vec::new();
        for index in 0..self.functions as usize {
            let Some(start) = self.function_offset(index) else {
                break;
            };
            let Some(name) = self.u32(start + self.format.width()) else {
                continue;
            };
            let bytes = self.data.get(self.names.saturating_add(name as usize)..).unwrap_or(&[]);
            // Names end in a zero byte; comparing with it spares measuring every name.
            let hit = wanted.iter().find(|w| bytes.starts_with(w.as_bytes()) && bytes.get(w.len()) == Some(&0));
            if let Some(wanted) = hit
                && let Some(function) = self.function(index)
            {
                found.push((*wanted, function));
            }
        }
        found
    }

    /// Value of a pc-value table at `pc`; `None` where it has none.
    ///
    /// Corrupt tables end at the function's end, at the table's end, or when the whole reader has used up its budget.
    fn value(&self, function: &Function, offset: u32, pc: u64) -> Option<i32> {
        self.steps(function, offset).find(|(end, _)| pc < *end).map(|(_, value)| value).filter(|&v| v != -1)
    }

    /// The steps of a pc-value table: `(end address, value)`, ascending.
    fn steps<'t>(&'t self, function: &Function, offset: u32) -> impl Iterator<Item = (u64, i32)> + use<'t, 'm> {
        let mut bytes = match offset {
            0 => &[][..],
            _ => self.data.get(self.pctab.saturating_add(offset as usize)..).unwrap_or(&[]),
        };
        let (mut pc, mut value, mut first) = (function.entry, -1i32, true);
        let (end, mut left) = (function.end, (function.end.saturating_sub(function.entry)).saturating_add(16));
        std::iter::from_fn(move || {
            if pc >= end || left == 0 || self.budget.get() == 0 {
                return None;
            }
            left -= 1;
            self.budget.set(self.budget.get() - 1);
            let delta = varint(&mut bytes)?;
            if delta == 0 && !first {
                return None;
            }
            first = false;
            // Zigzag: the lowest bit is the sign.
            let step = (delta >> 1) as i32 ^ -((delta & 1) as i32);
            value = value.wrapping_add(step);
            pc = pc.saturating_add(u64::from(varint(&mut bytes)?).saturating_mul(self.quantum));
            Some((pc, value))
        })
    }

    /// Bytes between the stack pointer and the frame's end at `pc` (without the return address on amd64).
    pub fn stack_delta(&self, function: &Function, pc: u64) -> Option<i32> {
        self.value(function, function.pcsp, pc)
    }

    /// Whether the function has frame sizes at all; C functions in the table have none.
    pub fn has_frame_sizes(&self, function: &Function) -> bool {
        function.pcsp != 0
    }

    /// File and line at `pc`.
    pub fn file_line(&self, function: &Function, pc: u64) -> (&str, i32) {
        let file = self.value(function, function.pcfile, pc);
        let line = self.value(function, function.pcln, pc).unwrap_or(-1);
        let name = match (file, self.format) {
            (None, _) => return ("?", 0),
            (Some(file), Format::V1_2) => match file {
                1.. => self.u32(self.files.saturating_add(4 * file as usize)).map(|at| self.text_at(at as usize)),
                _ => None,
            },
            (Some(file), _) => {
                let slot = (function.cu as usize).saturating_add(file as usize).saturating_mul(4);
                let offset = self.u32(self.cu.saturating_add(slot)).filter(|&offset| offset != u32::MAX);
                offset.map(|offset| self.text_at(self.files.saturating_add(offset as usize)))
            }
        };
        (name.unwrap_or("?"), line)
    }

    /// Value of pcdata table `table` at `pc`.
    pub fn pcdata(&self, function: &Function, table: u32, pc: u64) -> Option<i32> {
        self.value(function, self.pcdata_offset(function, table)?, pc)
    }

    /// The steps of pcdata table `table`.
    pub fn pcdata_steps(&self, function: &Function, table: u32) -> Vec<(u64, i32)> {
        self.pcdata_offset(function, table).map_or_else(Vec::new, |offset| self.steps(function, offset).collect())
    }

    fn pcdata_offset(&self, function: &Function, table: u32) -> Option<u32> {
        if table >= function.npcdata {
            return None;
        }
        self.u32(function.data_at.checked_add(4 * table as usize)?)
    }

    /// Address of funcdata `kind`, if the function has it.
    pub fn funcdata(&self, function: &Function, kind: u8) -> Option<u64> {
        if kind >= function.nfuncdata {
            return None;
        }
        let at = function.data_at.checked_add((function.npcdata as usize).checked_mul(4)?)?;
        if self.format.width() == 4 {
            let offset = self.u32(at + 4 * kind as usize)?;
            return (offset != u32::MAX).then(|| self.gofunc.wrapping_add(u64::from(offset)));
        }
        // Pointers, aligned as addresses.
        let aligned = (self.address + at as u64).next_multiple_of(8) - self.address;
        self.u64(aligned as usize + 8 * kind as usize).filter(|&address| address != 0)
    }

    /// Text of the whole table's function at `index`, read through `memory`.
    pub fn code<'a>(&self, memory: &'a Memory, function: &Function) -> Read<Cow<'a, [u8]>> {
        memory.bytes(function.entry, function.end.saturating_sub(function.entry).min(1 << 20))
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u32> {
    let mut value = 0u32;
    for shift in (0..35).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u32::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}
