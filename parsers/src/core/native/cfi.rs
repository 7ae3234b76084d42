//! Call-frame information of a file: how to get from a frame to its caller's.

use crate::core::elf::Elf;
use crate::evidence::Text;
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, DebugFrame, EhFrame, EndianSlice, LittleEndian, RegisterRule, UnwindContext,
    UnwindExpression, UnwindSection,
};
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection};

/// Entries of one file at most.
const MOST: usize = 4_000_000;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// How the caller's registers are found from a frame's (DWARF 5, 6.4.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    /// The canonical frame address.
    pub cfa: Cfa,
    /// Registers that have a rule.
    pub rules: Vec<(u16, Rule)>,
    /// Register that the return address is in.
    pub return_register: u16,
    /// The frame was pushed by the kernel for a signal handler.
    pub signal: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cfa {
    Register(u16, i64),
    Expression(Vec<u8>),
}

/// Where a register of the caller is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Rule {
    Undefined,
    Same,
    /// In memory, so far from the CFA.
    Offset(i64),
    /// It is the CFA plus this.
    ValOffset(i64),
    Register(u16),
    /// In memory where the expression says.
    Expression(Vec<u8>),
    ValExpression(Vec<u8>),
    Constant(u64),
}

/// A section of call-frame information and where its entries are.
#[derive(Debug, Default)]
struct Frames {
    section: Text,
    bases: BaseAddresses,
    /// `(start, end, offset in the section)`, sorted by start.
    entries: Vec<(u64, u64, usize)>,
}

/// The call-frame information of a file; addresses are those before relocation.
#[derive(Debug, Default)]
pub struct CallFrames {
    eh: Frames,
    debug: Frames,
}

impl CallFrames {
    /// Indexes `.eh_frame` of the file, and `.debug_frame` of the file or of what was split off.
    pub fn read(elf: &Elf, debug: Option<&Elf>) -> CallFrames {
        let mut frames = CallFrames::default();
        if let Some(found) = Frames::load(elf, ".eh_frame") {
            frames.eh = found;
            frames.eh.entries = index(&EhFrame::new(frames.eh.section.bytes(), LittleEndian), &frames.eh.bases);
        }
        for file in [Some(elf), debug].into_iter().flatten() {
            if frames.debug.entries.is_empty()
                && let Some(found) = Frames::load(file, ".debug_frame")
            {
                frames.debug = found;
                frames.debug.entries = index(&debug_frame(&frames.debug), &frames.debug.bases);
            }
        }
        frames
    }

    /// The row for `address`.
    pub(super) fn row(&self, address: u64) -> Option<Row> {
        if let Some(offset) = self.eh.entry(address) {
            let section = EhFrame::new(self.eh.section.bytes(), LittleEndian);
            return row(&section, &self.eh.bases, offset, address);
        }
        let offset = self.debug.entry(address)?;
        row(&debug_frame(&self.debug), &self.debug.bases, offset, address)
    }
}

fn debug_frame(frames: &Frames) -> DebugFrame<Slice<'_>> {
    let mut section = DebugFrame::new(frames.section.bytes(), LittleEndian);
    section.set_address_size(8);
    section
}

impl Frames {
    fn load(elf: &Elf, name: &str) -> Option<Frames> {
        let file = ElfFile64::<Endianness>::parse(elf.data.bytes()).ok()?;
        let address = |name: &str| file.section_by_name(name).map_or(0, |section| section.address());
        let section = file.section_by_name(name)?;
        let bytes = match section.uncompressed_data().ok()? {
            std::borrow::Cow::Owned(bytes) => Text::from_vec(bytes),
            std::borrow::Cow::Borrowed(_) => {
                let (offset, size) = section.file_range()?;
                elf.data.slice(usize::try_from(offset).ok()?..usize::try_from(offset.saturating_add(size)).ok()?)
            }
        };
        let bases = BaseAddresses::default()
            .set_eh_frame(section.address())
            .set_text(address(".text"))
            .set_got(address(".got"));
        Some(Frames { section: bytes, bases, entries: Vec::new() })
    }

    fn entry(&self, address: u64) -> Option<usize> {
        let next = self.entries.partition_point(|(start, ..)| *start <= address);
        let &(_, end, offset) = self.entries.get(next.checked_sub(1)?)?;
        (address < end).then_some(offset)
    }
}

fn index<'a, S: UnwindSection<Slice<'a>>>(section: &S, bases: &BaseAddresses) -> Vec<(u64, u64, usize)> {
    let mut found = Vec::new();
    let mut entries = section.entries(bases);
    // A damaged entry ends the section: where the next one begins cannot be known.
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let Ok(fde) = partial.parse(S::cie_from_offset) else { continue };
        // What was left out by the linker has length or address 0.
        if fde.len() > 0 && fde.initial_address() > 0 && found.len() < MOST {
            found.push((fde.initial_address(), fde.end_address(), fde.offset()));
        }
    }
    found.sort_unstable();
    found
}

fn row<'a, S: UnwindSection<Slice<'a>>>(
    section: &S,
    bases: &BaseAddresses,
    offset: usize,
    address: u64,
) -> Option<Row> {
    let fde = section.fde_from_offset(bases, S::Offset::from(offset), S::cie_from_offset).ok()?;
    let mut context = UnwindContext::new();
    let row = fde.unwind_info_for_address(section, bases, &mut context, address).ok()?;
    let bytes = |expression: UnwindExpression<usize>| {
        expression.get(section).ok().map(|expression| expression.0.slice().to_vec())
    };
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => Cfa::Register(register.0, *offset),
        CfaRule::Expression(expression) => Cfa::Expression(bytes(*expression)?),
    };
    let mut rules = Vec::new();
    for (register, rule) in row.registers() {
        let rule = match rule {
            RegisterRule::SameValue => Rule::Same,
            RegisterRule::Offset(offset) => Rule::Offset(*offset),
            RegisterRule::ValOffset(offset) => Rule::ValOffset(*offset),
            RegisterRule::Register(register) => Rule::Register(register.0),
            RegisterRule::Expression(expression) => Rule::Expression(bytes(*expression)?),
            RegisterRule::ValExpression(expression) => Rule::ValExpression(bytes(*expression)?),
            RegisterRule::Constant(value) => Rule::Constant(*value),
            _ => Rule::Undefined,
        };
        rules.push((register.0, rule));
    }
    Some(Row { cfa, rules, return_register: fde.cie().return_address_register().0, signal: fde.is_signal_trampoline() })
}
