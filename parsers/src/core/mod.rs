//! ELF cores: the memory of a process that has died, or was frozen for a moment.
//!
//! [`open`] maps the file (unpacking it to a sparse temporary file if it is compressed), reads its notes, and looks for
//! the executable whose pages the core left out. What is Go in it is read by [`go`], everything else by [`native`].
//!
//! Cost follows the number of goroutines and threads, never the size of the core: segments are only touched where
//! something points into them.

pub mod elf;
mod evidence;
pub mod exe;
pub mod go;
pub mod memory;
pub mod native;
pub mod notes;
pub mod program;
pub mod unpack;

use crate::ReadOptions;
use crate::evidence::{Problem, Text};
pub use evidence::CoreEvidence;

use elf::{Arch, Elf, ElfError};
use exe::Executable;
use memory::Memory;
use notes::Notes;
use program::Program;
use std::io;
use std::path::Path;

/// Why a file could not be opened as a core.
#[derive(Debug, thiserror::Error)]
pub enum CoreError {
    /// It could not be read or unpacked.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is no ELF file of a supported kind, or cut too early.
    #[error("{0}")]
    Elf(#[from] ElfError),
    /// An ELF file, but an executable or library.
    #[error("an executable or library, not a core: give it with --exe")]
    NotACore,
}

/// An opened core.
#[derive(Debug)]
pub struct CoreFile {
    /// Processor.
    pub arch: Arch,
    /// Threads, process name, mapped files.
    pub notes: Notes,
    /// The main program as the core knows it.
    pub program: Program,
    /// The executable, if it was found.
    pub executable: Option<Executable>,
    /// The program and its libraries: what lies where.
    pub modules: native::Modules,
    /// Memory: the core's, and the executable's where the core has none.
    pub memory: Memory,
    /// What was peeled off: `zstd`.
    pub envelope: Option<&'static str>,
    /// What is missing or was refused so far.
    pub problems: Vec<Problem>,
}

/// Opens the core at `path`, compressed or not, and finds its executable.
///
/// # Errors
/// The file is not a readable core at all. Whatever else is missing is a problem of the result.
pub fn open(path: &Path, options: &ReadOptions) -> Result<CoreFile, CoreError> {
    let (data, envelope, problems) = unpack::map(path)?;
    let mut core = from_text(data, options)?;
    core.envelope = envelope;
    core.problems.splice(0..0, problems);
    Ok(core)
}

/// The same for a core that is already mapped or unpacked.
///
/// # Errors
/// As [`open`].
pub fn from_text(data: Text, options: &ReadOptions) -> Result<CoreFile, CoreError> {
    let core = Elf::parse(data)?;
    if !core.is_core {
        return Err(CoreError::NotACore);
    }
    let mut problems = Vec::new();
    let notes = Notes::read(&core, &mut problems);
    let mut memory = Memory::default();
    memory.add(&core.data, core.loads.iter().map(|s| (s.address, s.offset, s.file_size)));
    note_truncation(&core, &mut problems);
    let mut program = Program::identify(&memory, &notes);
    let executable = exe::find(&program, options, core.arch, &mut problems);
    if let Some(found) = &executable {
        // The core first: it has what relocation and the program itself have written.
        let bias = found.bias;
        memory.add(
            &found.elf.data,
            found.elf.loads.iter().map(|s| (s.address.wrapping_add(bias), s.offset, s.file_size)),
        );
        program.image = found
            .elf
            .loads
            .iter()
            .map(|s| s.address.wrapping_add(bias)..s.address.wrapping_add(bias).saturating_add(s.memory_size))
            .collect();
        let own = found.elf.build_id();
        program.build_id.gnu = program.build_id.gnu.take().or(own.gnu);
        program.build_id.go = program.build_id.go.take().or(own.go);
    } else {
        problems.push(Problem::warning(None, what_to_fetch(&program, &notes)));
    }
    let modules = native::Modules::find(&memory, &notes, executable.as_ref(), options, &mut problems);
    Ok(CoreFile { arch: core.arch, notes, program, executable, modules, memory, envelope: None, problems })
}

/// Whether bytes look like the start of an ELF core.
pub fn is_core(head: &[u8]) -> bool {
    head.starts_with(b"\x7fELF") && head.get(16..18) == Some(&[4, 0])
}

fn note_truncation(core: &Elf, problems: &mut Vec<Problem>) {
    let have = core.data.bytes().len() as u64;
    let want = core.loads.iter().map(|s| s.offset.saturating_add(s.file_size)).max().unwrap_or(0);
    if want > have {
        problems.push(Problem::warning(
            None,
            format!("the core is cut: it should have {want} bytes and has {have}; goroutines whose memory is behind the cut are missing"),
        ));
    }
}

fn what_to_fetch(program: &Program, notes: &Notes) -> String {
    let path = program.path.as_deref().or(notes.name.as_deref()).unwrap_or("the program");
    let id = program.build_id.best().map_or(String::new(), |id| format!(" (build id {id})"));
    format!(
        "the core does not hold the program's code: give the executable {path}{id} with --exe, or the root it lies under with --sysroot"
    )
}
