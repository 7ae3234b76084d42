//! The notes of a core: threads and their registers, the process's name and arguments, its mapped files.
//!
//! Layouts: `struct elf_prstatus`, `struct elf_prpsinfo` of Linux's `include/linux/elfcore.h` (64-bit), the register
//! orders of `struct user_regs_struct` (x86-64) and `struct user_pt_regs` (arm64), `fill_files_note` of `fs/binfmt_elf.c`.

use super::elf::{Arch, Elf};
use crate::evidence::Problem;
use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::NoteIterator;

const NT_PRSTATUS: u32 = 1;
const NT_PRPSINFO: u32 = 3;
const NT_AUXV: u32 = 6;
const NT_FILE: u32 = 0x4649_4c45;
const NT_SIGINFO: u32 = 0x5349_4749;
const NT_ARM_TLS: u32 = 0x401;

/// Names of the amd64 registers in the order of `user_regs_struct`.
const AMD64: [&str; 27] = [
    "r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi", "orig_rax",
    "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs",
];

/// A thread as the kernel saw it when the core was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Thread id: in the process's own PID namespace (kernel cores), or the host's (gdb's gcore from outside).
    pub tid: u32,
    /// Signal it was stopped by; 0 if none.
    pub signal: u16,
    /// Program counter.
    pub pc: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer (rbp, x29).
    pub fp: u64,
    /// Link register (arm64); 0 on amd64.
    pub lr: u64,
    /// Thread-local storage: `fs_base`, `TPIDR_EL0`; 0 if the core does not say.
    pub tls: u64,
    /// All general registers in the kernel's order; see [`Thread::registers`].
    pub words: Vec<u64>,
}

impl Thread {
    /// The general registers by name.
    pub fn registers(&self, arch: Arch) -> Vec<(String, u64)> {
        let name = |i: usize| match (arch, i) {
            (Arch::Amd64, i) => AMD64.get(i).map_or_else(|| format!("r{i}?"), |name| (*name).to_owned()),
            (Arch::Arm64, 0..=30) => format!("x{i}"),
            (Arch::Arm64, 31) => "sp".into(),
            (Arch::Arm64, 32) => "pc".into(),
            (Arch::Arm64, _) => "pstate".into(),
        };
        self.words.iter().enumerate().map(|(i, &word)| (name(i), word)).collect()
    }

    /// Where Go keeps `g`: r14 in Go code on amd64 since 1.17 (not used: unreliable in C), x28 on arm64.
    pub fn word(&self, index: usize) -> u64 {
        self.words.get(index).copied().unwrap_or(0)
    }
}

/// A mapped file (`NT_FILE`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedFile {
    /// First address.
    pub start: u64,
    /// Behind the last address.
    pub end: u64,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Path as the process saw it; a deleted file's ends in ` (deleted)`.
    pub path: String,
}

/// Everything the notes say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes {
    /// Threads; the first is the one that died (kernel cores).
    pub threads: Vec<Thread>,
    /// Auxiliary vector: `(type, value)`.
    pub auxv: Vec<(u64, u64)>,
    /// Mapped files.
    pub files: Vec<MappedFile>,
    /// Process id.
    pub pid: Option<u32>,
    /// Parent.
    pub ppid: Option<u32>,
    /// Name (`comm`, at most 15 bytes).
    pub name: Option<String>,
    /// Command line (at most 80 bytes).
    pub command: Option<String>,
    /// `si_signo`, `si_code` of the signal that made the core.
    pub signal: Option<(i32, i32)>,
}

impl Notes {
    /// Reads all note segments of a core. A note that is damaged or cut ends its segment.
    pub fn read(core: &Elf, problems: &mut Vec<Problem>) -> Notes {
        let mut notes = Notes::default();
        for segment in &core.notes {
            let data = core.bytes_of(segment);
            if (data.len() as u64) < segment.file_size {
                problems.push(Problem::warning(
                    None,
                    "the core is cut within its notes: threads and mapped files may be missing",
                ));
            }
            let Ok(mut iterator) = NoteIterator::<FileHeader64<Endianness>>::new(Endianness::Little, 4, data) else {
                continue;
            };
            loop {
                match iterator.next() {
                    Ok(Some(note)) => {
                        let kind = note.n_type(Endianness::Little).0;
                        match note.name() {
                            b"CORE" => notes.take_core(core.arch, kind, note.desc()),
                            b"LINUX" if kind == NT_ARM_TLS => {
                                if let (Some(thread), Some(tls)) = (notes.threads.last_mut(), word(note.desc(), 0)) {
                                    thread.tls = tls;
                                }
                            }
                            _ => {}
                        }
                    }
                    Ok(None) => break,
                    Err(_) => {
                        problems.push(Problem::warning(
                            None,
                            "a note of the core is damaged; the notes after it are not read",
                        ));
                        break;
                    }
                }
            }
        }
        if notes.threads.is_empty() {
            problems.push(Problem::warning(
                None,
                "the core has no thread registers (NT_PRSTATUS): goroutines that were running are shown without their stacks",
            ));
        }
        notes
    }

    fn take_core(&mut self, arch: Arch, kind: u32, data: &[u8]) {
        match kind {
            NT_PRSTATUS => self.threads.extend(thread(arch, data)),
            NT_AUXV => self.auxv = data.chunks_exact(16).filter_map(|c| Some((word(c, 0)?, word(c, 8)?))).collect(),
            NT_FILE => self.files = mapped_files(data),
            NT_SIGINFO if self.signal.is_none() => {
                // signo, errno, code.
                self.signal = half(data, 0).zip(half(data, 8)).map(|(signo, code)| (signo as i32, code as i32));
            }
            NT_PRPSINFO => {
                self.pid = half(data, 24);
                self.ppid = half(data, 28);
                self.name = text(data.get(40..56));
                self.command = text(data.get(56..136));
            }
            _ => {}
        }
    }

    /// A value of the auxiliary vector.
    pub fn aux(&self, kind: u64) -> Option<u64> {
        self.auxv.iter().find(|(k, _)| *k == kind).map(|&(_, value)| value)
    }
}

fn thread(arch: Arch, data: &[u8]) -> Option<Thread> {
    let tid = half(data, 32)?;
    let signal = u16::from_le_bytes(*data.get(12..)?.first_chunk()?);
    let count = match arch {
        Arch::Amd64 => 27,
        Arch::Arm64 => 34,
    };
    let words: Vec<u64> = (0..count).map_while(|i| word(data, 112 + 8 * i)).collect();
    let at = |i: usize| words.get(i).copied();
    let (pc, sp, fp, lr, tls) = match arch {
        Arch::Amd64 => (at(16)?, at(19)?, at(4)?, 0, at(21)?),
        Arch::Arm64 => (at(32)?, at(31)?, at(29)?, at(30)?, 0),
    };
    Some(Thread { tid, signal, pc, sp, fp, lr, tls, words })
}

fn mapped_files(data: &[u8]) -> Vec<MappedFile> {
    let (Some(count), Some(page)) = (word(data, 0), word(data, 8)) else {
        return Vec::new();
    };
    // Each entry takes 24 bytes and at least an empty name.
    let count = (count as usize).min(data.len() / 25);
    let names = data.get(16 + 24 * count..).unwrap_or(&[]);
    let mut files = Vec::with_capacity(count);
    for (i, name) in names.split(|&b| b == 0).take(count).enumerate() {
        let at = 16 + 24 * i;
        let (Some(start), Some(end), Some(offset)) = (word(data, at), word(data, at + 8), word(data, at + 16)) else {
            break;
        };
        let path = String::from_utf8_lossy(name).into_owned();
        files.push(MappedFile { start, end, offset: offset.saturating_mul(page), path });
    }
    files
}

fn word(data: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*data.get(at..)?.first_chunk()?))
}

fn half(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*data.get(at..)?.first_chunk()?))
}

fn text(data: Option<&[u8]>) -> Option<String> {
    let data = data?;
    let end = data.iter().position(|&b| b == 0).unwrap_or(data.len());
    let text = String::from_utf8_lossy(data.get(..end)?).trim_end().to_owned();
    (!text.is_empty()).then_some(text)
}
