//! Which program a core is of: read from what the core itself holds of it.

use super::elf::{BuildId, PAGE};
use super::memory::Memory;
use super::notes::Notes;
use object::Endianness;
use std::ops::Range;

const AT_PHDR: u64 = 3;
const AT_PHNUM: u64 = 5;
const AT_ENTRY: u64 = 9;
const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
const PT_PHDR: u32 = 6;
/// Size of an `Elf64_Phdr`.
const HEADER: u64 = 56;

/// The main program as the core knows it. Everything may be unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Program {
    /// Its build ids, from the note segment in its first page.
    pub build_id: BuildId,
    /// Its path as the process saw it.
    pub path: Option<String>,
    /// Entry point in memory (`AT_ENTRY`).
    pub entry: Option<u64>,
    /// Address of its program headers in memory (`AT_PHDR`).
    pub headers: Option<u64>,
    /// Where its segments lie in memory, after relocation.
    pub image: Vec<Range<u64>>,
}

impl Program {
    /// Finds the program through the auxiliary vector. `memory` is that of the core alone.
    pub fn identify(memory: &Memory, notes: &Notes) -> Program {
        let (entry, headers) = (notes.aux(AT_ENTRY), notes.aux(AT_PHDR));
        let mut program = Program { entry, headers, ..Program::default() };
        let inside = |address: u64| notes.files.iter().find(|file| (file.start..file.end).contains(&address));
        if let Some(file) = headers.and_then(inside).or(entry.and_then(inside)) {
            program.path = Some(file.path.trim_end_matches(" (deleted)").to_owned());
        }
        if let Some(at) = headers {
            program.read_headers(memory, at, notes.aux(AT_PHNUM).unwrap_or(0).min(256));
        }
        if program.image.is_empty() {
            program.image = same_file(notes, program.path.as_deref());
        }
        program
    }

    fn read_headers(&mut self, memory: &Memory, at: u64, count: u64) {
        let header = |i: u64| {
            let at = at.checked_add(i * HEADER)?;
            let word = |offset: u64| memory.u64(at.checked_add(offset)?).ok();
            // Type, virtual address, memory size.
            Some((memory.u32(at).ok()?, word(16)?, word(40)?))
        };
        let headers: Vec<_> = (0..count).map_while(header).collect();
        let of = |wanted: u32| headers.iter().filter(move |(kind, ..)| *kind == wanted);
        // Without PT_PHDR the headers stand right behind the ELF header of the first segment.
        let unrelocated =
            of(PT_PHDR).next().map(|h| h.1).or_else(|| of(PT_LOAD).map(|h| h.1).min().map(|a| (a & !0xfff) + 64));
        let bias = at.wrapping_sub(unrelocated.unwrap_or(at));
        self.image = of(PT_LOAD)
            .map(|&(_, address, size)| {
                let start = address.wrapping_add(bias);
                start..start.saturating_add(size)
            })
            .collect();
        for &(_, address, size) in of(PT_NOTE) {
            if let Ok(data) = memory.bytes(address.wrapping_add(bias), size.min(1 << 16)) {
                let found = BuildId::from_notes(&data, Endianness::Little);
                self.build_id.gnu = self.build_id.gnu.take().or(found.gnu);
                self.build_id.go = self.build_id.go.take().or(found.go);
            }
        }
        if self.build_id.gnu.is_none()
            && let Some(first) = self.image.iter().map(|range| range.start).min()
        {
            self.build_id.gnu = BuildId::search(&memory.up_to(first & !(PAGE - 1), PAGE));
        }
    }
}

/// The mappings of `path`, each taken to reach up to a page-aligned 16 MiB of anonymous memory behind it (its .bss).
fn same_file(notes: &Notes, path: Option<&str>) -> Vec<Range<u64>> {
    let Some(path) = path else { return Vec::new() };
    let mine: Vec<_> = notes.files.iter().filter(|f| f.path.trim_end_matches(" (deleted)") == path).collect();
    let last = mine.iter().map(|f| f.end).max().unwrap_or(0);
    mine.iter().map(|f| f.start..if f.end == last { f.end.saturating_add(16 << 20) } else { f.end }).collect()
}
