//! `runtime.moduledata`: where the program's text and data lie. Found by what it must repeat from pclntab.

use super::pclntab::{Format, Pclntab, TextSection};
use crate::core::memory::{Memory, Read};
use std::ops::Range;

/// The parts of `moduledata` that are needed. All addresses are relocated.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ModuleData {
    /// Where it stands.
    pub address: u64,
    pub min_pc: u64,
    pub max_pc: u64,
    pub text: u64,
    pub etext: u64,
    /// `noptrdata` to `enoptrbss`: all variables.
    pub variables: Range<u64>,
    pub bss: Range<u64>,
    /// Behind `enoptrbss`, where the releases differ.
    tail: u64,
}

/// The rest, which only a release's layout can read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tail {
    pub gofunc: u64,
    pub sections: Vec<TextSection>,
}

impl ModuleData {
    /// Looks for the one word in `ranges` that is the table's address and stands at the head of its `moduledata`.
    pub fn find(memory: &Memory, table: &Pclntab<'_>, ranges: &[Range<u64>]) -> Option<ModuleData> {
        memory.find_words(ranges, table.address).find_map(|at| ModuleData::at(memory, table, at).ok().flatten())
    }

    fn at(memory: &Memory, table: &Pclntab<'_>, address: u64) -> Read<Option<ModuleData>> {
        let word = |index: u64| memory.u64(address.wrapping_add(8 * index));
        let (names, pctab, functab) = table.landmarks();
        let functions = u64::from(table.functions);
        // pclntable, ftab and filetab slices; from 1.16: pcHeader, then funcnametab, cutab, filetab, pctab,
        // pclntable and ftab slices.
        let after = match table.format {
            Format::V1_2 if word(3)? == functab && word(4)? == functions + 1 => 9,
            Format::V1_2 => return Ok(None),
            _ if word(1)? == names && word(10)? == pctab && word(16)? == functab && word(17)? == functions + 1 => 19,
            _ => return Ok(None),
        };
        let mut words = [0u64; 13];
        for (i, slot) in words.iter_mut().enumerate() {
            *slot = word(after + i as u64)?;
        }
        let [_findfunctab, min_pc, max_pc, text, etext, noptrdata, _, data, _, bss, ebss, noptrbss, enoptrbss] = words;
        let _ = noptrbss;
        if !(min_pc <= max_pc && text <= min_pc && min_pc < etext && noptrdata.min(data) < ebss.max(enoptrbss)) {
            return Ok(None);
        }
        Ok(Some(ModuleData {
            address,
            min_pc,
            max_pc,
            text,
            etext,
            variables: noptrdata.min(data)..ebss.max(enoptrbss),
            bss: bss..ebss.max(bss),
            tail: address.wrapping_add(8 * (after + 13)),
        }))
    }

    /// Reads what lies behind the stable part, as `go1.minor` arranges it.
    pub(super) fn tail(&self, memory: &Memory, minor: u32) -> Read<Tail> {
        let mut at = self.tail;
        let mut skip = |words: u64| {
            let here = at;
            at = at.wrapping_add(8 * words);
            here
        };
        if minor >= 20 {
            skip(2); // covctrs, ecovctrs
        }
        skip(3); // end, gcdata, gcbss
        skip(if minor >= 27 { 5 } else { 2 }); // types, (typedesclen,) etypes, (itaboffset, itabsize)
        let mut gofunc = 0;
        if minor >= 18 {
            skip(1); // rodata
            gofunc = memory.u64(skip(1))?;
        }
        if minor >= 26 {
            skip(1); // epclntab
        }
        let map = skip(3);
        let mut sections = Vec::new();
        let (start, count) = (memory.u64(map)?, memory.u64(map.wrapping_add(8))?);
        if (2..1000).contains(&count) {
            for i in 0..count {
                let at = start.wrapping_add(24 * i);
                sections.push(TextSection {
                    offset: memory.u64(at)?,
                    end: memory.u64(at.wrapping_add(8))?,
                    base: memory.u64(at.wrapping_add(16))?,
                });
            }
        }
        Ok(Tail { gofunc, sections })
    }
}
