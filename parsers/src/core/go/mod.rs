//! The Go runtime in a core, without symbols and without DWARF.
//!
//! The way in: [`buildinfo`] names the release and so the [`layouts`]; [`pclntab`] and [`moduledata`] are found by
//! their looks and by each other; [`code`](code) of known functions leads to the runtime's variables. What is found
//! that way is checked by content, so that an unknown release is noticed rather than misread.

mod args;
mod buildinfo;
mod code;
mod defers;
mod goroutines;
pub mod layouts;
mod locks;
mod machine;
mod moduledata;
pub mod pclntab;
mod print;
mod symbols;
mod threads;
mod unwind;

use super::CoreFile;
use super::elf::Arch;
use super::memory::Memory;
use super::notes::Thread;
use crate::evidence::Problem;
use layouts::Layout;
use pclntab::{Function, Pclntab};
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

pub use buildinfo::Version;
pub use defers::Pending;
pub use goroutines::Goroutine;
pub use moduledata::ModuleData;
pub use print::Level;
pub use symbols::{Call, Site};
pub use threads::Machine;
pub use unwind::Frame;

/// Frames walked for one core altogether; 100,000 goroutines with 100 frames, printed, take a tenth.
const STEPS: u64 = 200_000_000;

/// Instructions of deferred calls that are followed for one core: about a second's worth.
const INTERPRETED: u64 = 30_000_000;

/// Why the Go runtime was not found in a core.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GoError {
    /// Nothing of a Go program is there.
    #[error("no Go program")]
    NotGo,
    /// A Go program, whose symbol table the core does not hold.
    #[error("a Go program ({0}) whose function table is neither in the core nor in an executable at hand")]
    NoTable(String),
}

/// A Go process: the runtime's view of a core.
pub struct Go<'m> {
    /// Its memory.
    pub memory: &'m Memory,
    /// Processor.
    pub arch: Arch,
    /// Release, if the program says so.
    pub version: Option<Version>,
    /// `N` of `go1.N` by which it is read.
    pub minor: u32,
    /// Offsets of that release.
    pub layout: &'static Layout,
    /// Function table.
    pub table: Pclntab<'m>,
    /// Where text and data lie.
    pub module: ModuleData,
    /// Every goroutine that is alive, in the runtime's order.
    pub goroutines: Vec<Goroutine>,
    /// The runtime's threads by address.
    pub machines: FxHashMap<u64, Machine>,
    /// The core's threads.
    pub threads: &'m [Thread],
    /// `nanotime` of the last moment that the runtime noted.
    pub now: u64,
    /// What could not be read.
    pub problems: Vec<Problem>,
    sites: RefCell<FxHashMap<u64, Rc<Site>>>,
    deltas: RefCell<FxHashMap<u64, i32>>,
    functions: RefCell<FxHashMap<u64, Option<Function>>>,
    codes: RefCell<FxHashMap<u64, Rc<machine::Code>>>,
    releasing: RefCell<FxHashMap<u64, bool>>,
    touching: RefCell<FxHashMap<u64, bool>>,
    interpretable: Cell<u64>,
    steps: Cell<u64>,
}

impl<'m> Go<'m> {
    /// Finds the runtime and reads its lists of goroutines and threads.
    ///
    /// # Errors
    /// The process is no Go program, or nothing tells where its functions are.
    pub fn find(core: &'m CoreFile) -> Result<Go<'m>, GoError> {
        let memory = &core.memory;
        let image = image(core);
        let version = Version::find(memory, &image);
        let Some(mut table) = Pclntab::find(memory, core.arch, &image) else {
            return Err(version.map_or(GoError::NotGo, |v| GoError::NoTable(v.text)));
        };
        let Some(module) = ModuleData::find(memory, &table, &image) else {
            return Err(GoError::NoTable(version.map_or_else(|| "unknown release".into(), |v| v.text)));
        };
        let mut problems = Vec::new();
        let minor = choose_minor(version.as_ref(), &table, &mut problems);
        match module.tail(memory, minor) {
            Ok(tail) => table.locate(module.text, tail.sections, tail.gofunc, minor >= 17),
            Err(_) => table.locate(module.text, Vec::new(), 0, minor >= 17),
        }
        let mut go = Go {
            memory,
            arch: core.arch,
            version,
            minor,
            layout: Layout::nearest(minor),
            table,
            module,
            goroutines: Vec::new(),
            machines: FxHashMap::default(),
            threads: &core.notes.threads,
            now: 0,
            problems,
            sites: RefCell::default(),
            deltas: RefCell::default(),
            functions: RefCell::default(),
            codes: RefCell::default(),
            releasing: RefCell::default(),
            touching: RefCell::default(),
            interpretable: Cell::new(INTERPRETED),
            steps: Cell::new(STEPS),
        };
        let mut problems = Vec::new();
        go.goroutines = go.read_goroutines(&mut problems);
        go.machines = go.read_machines(&core.notes.threads);
        go.now = go.latest_tick(&go.machines);
        go.problems.extend(problems);
        Ok(go)
    }

    /// Takes a step out of the common allowance; false when it is used up.
    fn spend(&self) -> bool {
        let left = self.steps.get();
        self.steps.set(left.saturating_sub(1));
        left > 0
    }
}

/// Where the program's own segments lie; everything, if nothing says so.
fn image(core: &CoreFile) -> Vec<Range<u64>> {
    match core.program.image.as_slice() {
        [] => std::iter::once(0..u64::MAX).collect(),
        known => known.to_vec(),
    }
}

fn choose_minor(version: Option<&Version>, table: &Pclntab<'_>, problems: &mut Vec<Problem>) -> u32 {
    let newest = table.format.newest_minor();
    match version.map(|v| (v.minor, v.text.as_str())) {
        Some((Some(minor), text)) => {
            let nearest = Layout::nearest(minor).minor;
            if nearest != minor {
                problems.push(Problem::warning(
                    None,
                    format!("{text} is not known to this program: read as go1.{nearest}; states and wait reasons may be wrong"),
                ));
            }
            minor
        }
        Some((None, text)) => {
            problems.push(Problem::warning(
                None,
                format!("{text} names no release: read as go1.{newest}; details may be wrong"),
            ));
            newest
        }
        None => {
            problems.push(Problem::warning(
                None,
                format!("the Go release is not in the core: read as go1.{newest}, by the format of its function table; details may be wrong"),
            ));
            newest
        }
    }
}
