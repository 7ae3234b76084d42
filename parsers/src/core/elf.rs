//! An ELF file, a core or an executable, reduced to what is needed here: kind, segments, notes, symbols.

use crate::evidence::Text;
use object::elf::{ET_CORE, ET_DYN, FileHeader64, PT_LOAD, PT_NOTE, PT_PHDR, ProgramHeader64};
use object::read::elf::{FileHeader, NoteIterator, ProgramHeader, SectionHeader};
use object::{Endianness, elf};

/// Processors whose Go cores can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Arch {
    Amd64,
    Arm64,
}

impl Arch {
    /// GOARCH.
    pub fn as_str(self) -> &'static str {
        match self {
            Arch::Amd64 => "amd64",
            Arch::Arm64 => "arm64",
        }
    }
}

/// The first page of a program, which kernels write to cores for its build id's sake.
pub(crate) const PAGE: u64 = 4096;

/// A `PT_LOAD` or `PT_NOTE` program header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Where it starts in the file.
    pub offset: u64,
    /// Bytes of it in the file, as the header says; a truncated file may have fewer.
    pub file_size: u64,
    /// Where it starts in memory, before relocation.
    pub address: u64,
    /// Bytes of it in memory.
    pub memory_size: u64,
    /// `PF_X`, `PF_W`, `PF_R`.
    pub flags: u32,
}

/// Build ids of a program. Either kind identifies it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BuildId {
    /// `NT_GNU_BUILD_ID` in hex. Go writes one since 1.24, external linkers before.
    pub gnu: Option<String>,
    /// Go's own (`go tool buildid`).
    pub go: Option<String>,
}

impl BuildId {
    /// The one to show: GNU's if there is one.
    pub fn best(&self) -> Option<&str> {
        self.gnu.as_deref().or(self.go.as_deref())
    }

    /// Whether both name the same program; `None` when they share no kind.
    pub fn matches(&self, other: &BuildId) -> Option<bool> {
        let (own, other) = self.compared(other);
        if own.is_empty() || other.is_empty() { None } else { Some(own == other) }
    }

    /// The ids of the kind that both have; empty if there is none.
    pub fn compared<'a>(&'a self, other: &'a BuildId) -> (&'a str, &'a str) {
        match (&self.gnu, &other.gnu, &self.go, &other.go) {
            (Some(a), Some(b), _, _) | (_, _, Some(a), Some(b)) => (a, b),
            _ => ("", ""),
        }
    }

    /// Looks for a GNU build id in a program's first page: Go's own linker puts it there, but into no note segment.
    pub fn search(page: &[u8]) -> Option<String> {
        // Lengths of name and id, type, name.
        const HEAD: &[u8] = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0";
        let at = memchr::memmem::find(page, HEAD)? + HEAD.len();
        Some(hex(page.get(at..at + 20)?))
    }

    /// Reads the ids out of a note segment.
    pub fn from_notes(data: &[u8], endian: Endianness) -> Self {
        let mut ids = BuildId::default();
        let Ok(mut notes) = NoteIterator::<FileHeader64<Endianness>>::new(endian, 4, data) else {
            return ids;
        };
        while let Ok(Some(note)) = notes.next() {
            match (note.name(), note.n_type(endian).0) {
                (b"GNU", 3) if ids.gnu.is_none() => {
                    ids.gnu = Some(hex(note.desc()));
                }
                (b"Go", 4) if ids.go.is_none() => {
                    ids.go = Some(String::from_utf8_lossy(note.desc()).trim_end_matches('\0').to_owned());
                }
                _ => {}
            }
        }
        ids
    }
}

/// Why a file is not an ELF file that can be read here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ElfError {
    /// No ELF magic.
    #[error("not an ELF file")]
    NotElf,
    /// Some other word size, byte order or processor.
    #[error("{0} is not supported: only 64-bit little-endian amd64 and arm64 are")]
    Unsupported(String),
    /// The program headers, without which nothing can be found, are not in the file.
    #[error("the program headers are missing: the file is cut after {0} bytes")]
    NoProgramHeaders(u64),
}

/// A parsed ELF file over shared bytes.
#[derive(Debug, Clone)]
pub struct Elf {
    /// The file.
    pub data: Text,
    /// Processor.
    pub arch: Arch,
    /// A core, not an executable.
    pub is_core: bool,
    /// Loaded anywhere (PIE, shared library).
    pub is_position_independent: bool,
    /// Entry point, before relocation.
    pub entry: u64,
    /// Address of the program headers before relocation (`PT_PHDR`), if it says so.
    pub headers_at: Option<u64>,
    /// `PT_LOAD`, in file order.
    pub loads: Vec<Segment>,
    /// `PT_NOTE`, in file order.
    pub notes: Vec<Segment>,
}

impl Elf {
    /// Parses headers; touches no segment.
    ///
    /// # Errors
    /// Not an ELF file, not of a supported machine, or cut before the end of its program headers.
    pub fn parse(data: Text) -> Result<Elf, ElfError> {
        let bytes = data.bytes();
        if !bytes.starts_with(b"\x7fELF") {
            return Err(ElfError::NotElf);
        }
        if bytes.get(4) == Some(&1) {
            return Err(ElfError::Unsupported("a 32-bit process".into()));
        }
        if bytes.get(5) == Some(&2) {
            return Err(ElfError::Unsupported("a big-endian process".into()));
        }
        let header =
            FileHeader64::<Endianness>::parse(bytes).map_err(|_| ElfError::NoProgramHeaders(bytes.len() as u64))?;
        let endian = Endianness::Little;
        let arch = match header.e_machine(endian) {
            elf::EM_X86_64 => Arch::Amd64,
            elf::EM_AARCH64 => Arch::Arm64,
            other => return Err(ElfError::Unsupported(format!("ELF machine {}", other.0))),
        };
        let kind = header.e_type(endian);
        let headers = program_headers(header, bytes);
        if headers.is_empty() {
            return Err(ElfError::NoProgramHeaders(bytes.len() as u64));
        }
        let segment = |h: &ProgramHeader64<Endianness>| Segment {
            offset: h.p_offset(endian),
            file_size: h.p_filesz(endian),
            address: h.p_vaddr(endian),
            memory_size: h.p_memsz(endian),
            flags: h.p_flags(endian).0,
        };
        let of = |wanted| headers.iter().filter(move |h| h.p_type(endian) == wanted).map(segment);
        Ok(Elf {
            arch,
            is_core: kind == ET_CORE,
            is_position_independent: kind == ET_DYN,
            entry: header.e_entry(endian),
            headers_at: of(PT_PHDR).next().map(|s| s.address),
            loads: of(PT_LOAD).collect(),
            notes: of(PT_NOTE).collect(),
            data: data.clone(),
        })
    }

    /// The bytes of a segment that are really in the file.
    pub fn bytes_of(&self, segment: &Segment) -> &[u8] {
        clip(self.data.bytes(), segment.offset, segment.file_size)
    }

    /// Build ids of an executable.
    pub fn build_id(&self) -> BuildId {
        let mut ids = BuildId::default();
        for segment in &self.notes {
            let found = BuildId::from_notes(self.bytes_of(segment), Endianness::Little);
            ids.gnu = ids.gnu.or(found.gnu);
            ids.go = ids.go.or(found.go);
        }
        if ids.gnu.is_none() {
            ids.gnu = BuildId::search(clip(self.data.bytes(), 0, PAGE));
        }
        ids
    }

    /// Whether the sections' contents were split off into this file: nothing of the text is in it.
    pub fn is_debug_file(&self) -> bool {
        let bytes = self.data.bytes();
        let Ok(header) = FileHeader64::<Endianness>::parse(bytes) else {
            return false;
        };
        let Ok(sections) = header.sections(Endianness::Little, bytes) else {
            return false;
        };
        sections.section_by_name(Endianness::Little, b".text").is_some_and(|(_, section)| {
            section.sh_type(Endianness::Little) == elf::SHT_NOBITS && section.sh_size(Endianness::Little) > 0
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The program headers that are in the file, even when it was cut and the count (for very many mappings kept in
/// section header 0, which the kernel writes at the end) is lost.
fn program_headers<'data>(
    header: &'data FileHeader64<Endianness>,
    bytes: &'data [u8],
) -> &'data [ProgramHeader64<Endianness>] {
    let endian = Endianness::Little;
    if let Ok(headers) = header.program_headers(endian, bytes) {
        return headers;
    }
    let start = header.e_phoff(endian);
    let all = clip(bytes, start, u64::MAX);
    let size = size_of::<ProgramHeader64<Endianness>>();
    let mut count = usize::from(header.e_phnum(endian));
    if count == usize::from(elf::PN_XNUM) {
        // The first segment (the notes) follows the headers directly.
        let Ok((first, _)) = object::pod::from_bytes::<ProgramHeader64<Endianness>>(all) else {
            return &[];
        };
        count = (first.p_offset(endian).saturating_sub(start) / size as u64) as usize;
    }
    let count = count.min(all.len() / size);
    object::pod::slice_from_bytes(all, count).map_or(&[], |(headers, _)| headers)
}

/// `bytes[offset..offset + size]` as far as they exist.
pub(crate) fn clip(bytes: &[u8], offset: u64, size: u64) -> &[u8] {
    let length = bytes.len() as u64;
    let start = offset.min(length);
    let end = start.saturating_add(size).min(length);
    bytes.get(start as usize..end as usize).unwrap_or(&[])
}
