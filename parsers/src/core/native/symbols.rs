//! Function names: `.symtab` of the file or of what was split off from it, Fedora's `.gnu_debugdata`, `.dynsym`.

use crate::core::elf::Elf;
use crate::evidence::Text;
use object::elf::{STB_GLOBAL, STB_WEAK, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE};
use object::read::elf::{ElfFile64, FileHeader, Sym};
use object::{Endianness, Object, ObjectSection};
use std::cmp::Reverse;
use std::io::Read;

/// Symbols of one file at most.
const MOST: usize = 4_000_000;
/// Largest unpacked `.gnu_debugdata`.
const MINI: u64 = 256 << 20;

/// Functions of a file, by address before relocation.
#[derive(Debug, Default)]
pub struct Symbols {
    sorted: Vec<Symbol>,
}

#[derive(Debug)]
struct Symbol {
    start: u64,
    size: u64,
    /// Higher is the name that people know: without leading underscores before with, global before local.
    rank: (Reverse<usize>, u8, Reverse<usize>),
    name: String,
}

impl Symbols {
    /// Reads all symbol tables there are.
    pub fn read(elf: &Elf, debug: Option<&Elf>) -> Symbols {
        let mut symbols = Symbols::default();
        symbols.take(elf.data.bytes());
        if let Some(debug) = debug {
            symbols.take(debug.data.bytes());
        }
        if let Some(mini) = mini_debug_info(&elf.data) {
            symbols.take(&mini);
        }
        symbols.sorted.sort_by(|a, b| (a.start, &b.rank).cmp(&(b.start, &a.rank)));
        symbols.sorted.dedup_by(|later, first| later.start == first.start && later.size <= first.size);
        symbols
    }

    fn take(&mut self, bytes: &[u8]) {
        type Header = object::elf::FileHeader64<Endianness>;
        let endian = Endianness::Little;
        let Ok(header) = Header::parse(bytes) else { return };
        let Ok(sections) = header.sections(endian, bytes) else { return };
        for kind in [object::elf::SHT_SYMTAB, object::elf::SHT_DYNSYM] {
            let Ok(table) = sections.symbols(endian, bytes, kind) else { continue };
            for symbol in table.iter().take(MOST) {
                let kind = symbol.st_type();
                let wanted =
                    matches!(kind, STT_FUNC | STT_GNU_IFUNC) || kind == STT_NOTYPE && symbol.st_size(endian) > 0;
                if !wanted || symbol.is_undefined(endian) || self.sorted.len() >= MOST {
                    continue;
                }
                let Ok(name) = table.symbol_name(endian, symbol) else { continue };
                let name = String::from_utf8_lossy(name);
                // `memcpy@@GLIBC_2.14`
                let name = name.split('@').next().unwrap_or("").to_owned();
                if name.is_empty() {
                    continue;
                }
                let binding = match symbol.st_bind() {
                    STB_GLOBAL => 2,
                    STB_WEAK => 1,
                    _ => 0,
                };
                let underscores = name.len() - name.trim_start_matches('_').len();
                let rank = (Reverse(underscores), binding, Reverse(name.len()));
                self.sorted.push(Symbol { start: symbol.st_value(endian), size: symbol.st_size(endian), rank, name });
            }
        }
    }

    /// The function that `address` (before relocation) lies in. Symbols without a size (hand-written assembly) reach
    /// up to the next symbol.
    pub fn at(&self, address: u64) -> Option<&str> {
        let next = self.sorted.partition_point(|symbol| symbol.start <= address);
        // An inner symbol may end before the address while the one around it does not.
        let before = self.sorted.get(..next)?.iter().rev().take(8);
        let inside = |symbol: &&Symbol| address < symbol.start.saturating_add(symbol.size);
        let nearest = self.sorted.get(next.checked_sub(1)?)?;
        if nearest.size == 0 {
            return Some(&nearest.name);
        }
        before.into_iter().find(inside).map(|symbol| symbol.name.as_str())
    }
}

/// The xz-packed ELF file with the local symbols that Fedora and its kin leave in stripped programs.
fn mini_debug_info(data: &Text) -> Option<Vec<u8>> {
    let file = ElfFile64::<Endianness>::parse(data.bytes()).ok()?;
    let section = file.section_by_name(".gnu_debugdata")?;
    let mut unpacked = Vec::new();
    xz2::read::XzDecoder::new(section.data().ok()?).take(MINI).read_to_end(&mut unpacked).ok()?;
    Some(unpacked)
}
