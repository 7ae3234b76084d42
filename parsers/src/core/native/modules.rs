//! Which file lies where in the dead process, and where that file is now.

use super::cfi::CallFrames;
use super::symbols::Symbols;
use crate::ReadOptions;
use crate::core::elf::{Elf, PAGE, Segment};
use crate::core::exe::{self, Executable};
use crate::core::memory::Memory;
use crate::core::notes::{MappedFile, Notes};
use crate::core::unpack;
use crate::evidence::{Problem, Text};
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// `AT_SYSINFO_EHDR`: where the kernel mapped the vDSO (`include/uapi/linux/auxvec.h`).
const AT_SYSINFO_EHDR: u64 = 33;
/// Largest vDSO that is looked at.
const VDSO: u64 = 64 << 10;
/// Largest file that is tried as a library or debug file.
const LARGEST: u64 = 4 << 30;

/// A program or library of the process.
#[derive(Debug)]
pub struct Module {
    /// Base name of its path: `libc.so.6`.
    pub name: String,
    /// As the process saw it.
    pub path: String,
    /// Its mappings.
    pub ranges: Vec<Range<u64>>,
    /// Its build id, from the first page that the core holds of it.
    pub build_id: Option<String>,
    /// The file, if it was found.
    pub file: Option<File>,
}

/// A module's file.
#[derive(Debug)]
pub struct File {
    /// The file itself.
    pub elf: Elf,
    /// What was split off from it: symbols and debug frames.
    pub debug: Option<Elf>,
    /// What to add to its addresses.
    pub bias: u64,
    symbols: OnceLock<Symbols>,
    frames: OnceLock<CallFrames>,
}

impl File {
    fn new(elf: Elf, debug: Option<Elf>, bias: u64) -> File {
        File { elf, debug, bias, symbols: OnceLock::new(), frames: OnceLock::new() }
    }

    /// Its function symbols, read once.
    pub fn symbols(&self) -> &Symbols {
        self.symbols.get_or_init(|| Symbols::read(&self.elf, self.debug.as_ref()))
    }

    /// Its call-frame information, indexed once.
    pub fn frames(&self) -> &CallFrames {
        self.frames.get_or_init(|| CallFrames::read(&self.elf, self.debug.as_ref()))
    }
}

impl Module {
    /// Distance of an address from where the module begins; from its link address where the file is known.
    pub fn offset_of(&self, address: u64) -> u64 {
        let start = match &self.file {
            Some(file) => file.bias,
            None => self.ranges.iter().map(|range| range.start).min().unwrap_or(0),
        };
        address.wrapping_sub(start)
    }
}

/// The modules of a process.
#[derive(Debug, Default)]
pub struct Modules {
    /// The program, its libraries and the vDSO.
    pub all: Vec<Module>,
    /// `(start, end, module)`, sorted.
    by_address: Vec<(u64, u64, usize)>,
}

impl Modules {
    /// Lists what the core's `NT_FILE` note maps, and looks for the files: by build id among the given ones, by path
    /// (and below `usr/lib/debug`) under the sysroot. What does not fit by its build id goes to `problems`.
    pub fn find(
        memory: &Memory,
        notes: &Notes,
        executable: Option<&Executable>,
        options: &ReadOptions,
        problems: &mut Vec<Problem>,
    ) -> Modules {
        let mut modules = Modules::default();
        modules.list(memory, notes);
        modules.add_program(executable);
        modules.add_vdso(memory, notes);
        let given = Given::read(&modules, options);
        for module in &mut modules.all {
            if module.file.is_none() {
                module.file = file_of(module, &notes.files, executable, &given, options, problems);
            }
        }
        for (index, module) in modules.all.iter().enumerate() {
            modules.by_address.extend(module.ranges.iter().map(|range| (range.start, range.end, index)));
        }
        modules.by_address.sort_unstable();
        modules
    }

    fn list(&mut self, memory: &Memory, notes: &Notes) {
        let mut by_path: FxHashMap<&str, usize> = FxHashMap::default();
        for file in &notes.files {
            let path = file.path.trim_end_matches(" (deleted)");
            let slot = *by_path.entry(path).or_insert_with(|| {
                let name = path.rsplit('/').next().unwrap_or(path).to_owned();
                self.all.push(Module { name, path: path.to_owned(), ranges: Vec::new(), build_id: None, file: None });
                self.all.len() - 1
            });
            let Some(module) = self.all.get_mut(slot) else { continue };
            module.ranges.push(file.start..file.end);
            if file.offset == 0 && module.build_id.is_none() {
                module.build_id = build_id_in(memory, file.start);
            }
        }
    }

    /// Cores of emulators have no `NT_FILE` note: the program is found all the same.
    fn add_program(&mut self, executable: Option<&Executable>) {
        let Some(found) = executable.filter(|_| self.all.is_empty()) else { return };
        let name = found.path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
        let bias = found.bias;
        let ranges = found.elf.loads.iter().map(|load| {
            let start = load.address.wrapping_add(bias);
            start..start.saturating_add(load.memory_size)
        });
        let file = File::new(found.elf.clone(), None, bias);
        let ranges = ranges.collect();
        self.all.push(Module {
            path: name.clone(),
            name,
            ranges,
            build_id: found.elf.build_id().gnu,
            file: Some(file),
        });
    }

    /// The kernel writes the vDSO to every core; it is a whole ELF file.
    fn add_vdso(&mut self, memory: &Memory, notes: &Notes) {
        let Some(start) = notes.aux(AT_SYSINFO_EHDR).filter(|&at| at != 0) else { return };
        let image = memory.up_to(start, VDSO).into_owned();
        let range = start..start.saturating_add(image.len() as u64);
        let Ok(elf) = Elf::parse(Text::from_vec(image)) else { return };
        let lowest = elf.loads.iter().map(|load| load.address).min().unwrap_or(0);
        let file = File::new(elf, None, start.wrapping_sub(lowest));
        let name = "[vdso]".to_owned();
        self.all.push(Module { path: name.clone(), name, ranges: vec![range], build_id: None, file: Some(file) });
    }

    /// The module that `address` lies in.
    pub fn at(&self, address: u64) -> Option<usize> {
        let next = self.by_address.partition_point(|(start, ..)| *start <= address);
        let &(_, end, module) = self.by_address.get(next.checked_sub(1)?)?;
        (address < end).then_some(module)
    }

    /// Which file would continue a stack, for a person.
    pub(super) fn what_to_fetch(&self, module: usize) -> String {
        let Some(module) = self.all.get(module) else { return String::new() };
        let id = module.build_id.as_ref().map_or(String::new(), |id| format!(" (build id {id})"));
        match &module.file {
            None => format!(
                "stacks end in {}{id}, which is not at hand: give it with --exe, or the root it lies under with --sysroot",
                module.path
            ),
            Some(_) => format!(
                "stacks end in {}{id}, which has no call-frame information there: give its debug file with --exe",
                module.path
            ),
        }
    }
}

/// A GNU build id in the first page of a mapped file, as far as the core has that page.
fn build_id_in(memory: &Memory, start: u64) -> Option<String> {
    let page = memory.up_to(start, PAGE);
    let elf = Elf::parse(Text::from_vec(page.into_owned())).ok()?;
    elf.build_id().gnu
}

/// Files that somebody named, by build id: programs and libraries, and debug files.
#[derive(Default)]
struct Given {
    files: FxHashMap<String, Elf>,
    debug: FxHashMap<String, Elf>,
}

impl Given {
    fn read(modules: &Modules, options: &ReadOptions) -> Given {
        let mut given = Given::default();
        let wanted: Vec<&str> = modules.all.iter().filter_map(|module| module.build_id.as_deref()).collect();
        if wanted.is_empty() {
            return given;
        }
        for path in options.exe.iter().flat_map(|path| exe::expand(path)) {
            let Some((id, elf)) = identified(&path) else { continue };
            if wanted.contains(&id.as_str()) {
                let slot = if elf.is_debug_file() { &mut given.debug } else { &mut given.files };
                slot.entry(id).or_insert(elf);
            }
        }
        given
    }
}

fn identified(path: &Path) -> Option<(String, Elf)> {
    let elf = elf_at(path)?;
    Some((elf.build_id().gnu?, elf))
}

fn elf_at(path: &Path) -> Option<Elf> {
    let size = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?.len();
    if size > LARGEST {
        return None;
    }
    let (data, _, _) = unpack::map(path).ok()?;
    Elf::parse(data).ok().filter(|elf| !elf.is_core)
}

fn file_of(
    module: &Module,
    files: &[MappedFile],
    executable: Option<&Executable>,
    given: &Given,
    options: &ReadOptions,
    problems: &mut Vec<Problem>,
) -> Option<File> {
    let id = module.build_id.as_deref();
    let debug = id.and_then(|id| given.debug.get(id).cloned().or_else(|| debug_under(options, id)));
    let own = executable.filter(|found| match (id, found.elf.build_id().gnu.as_deref()) {
        (Some(wanted), Some(own)) => wanted == own,
        _ => found.path.file_name().is_some_and(|name| name.to_string_lossy() == module.name),
    });
    if let Some(found) = own {
        return Some(File::new(found.elf.clone(), debug, found.bias));
    }
    let named = id.and_then(|id| given.files.get(id).cloned());
    let elf = named.or_else(|| under_root(module, options, problems))?;
    let bias = bias(&elf, module, files)?;
    Some(File::new(elf, debug, bias))
}

fn under_root(module: &Module, options: &ReadOptions, problems: &mut Vec<Problem>) -> Option<Elf> {
    let root = options.sysroot.as_deref()?;
    for place in exe::places(root, &module.path) {
        let Some(elf) = elf_at(&place) else { continue };
        match (module.build_id.as_deref(), elf.build_id().gnu) {
            (Some(wanted), Some(own)) if wanted != own => problems.push(Problem::warning(
                None,
                format!(
                    "{} is not the {} of this core: its build id is {own}, the core's is {wanted}",
                    place.display(),
                    module.name
                ),
            )),
            _ => return Some(elf),
        }
    }
    None
}

/// `usr/lib/debug/.build-id/ab/cdef….debug` under the sysroot, where distributions put split-off debug files.
fn debug_under(options: &ReadOptions, id: &str) -> Option<Elf> {
    let (head, tail) = id.split_at_checked(2)?;
    let relative: PathBuf = ["usr/lib/debug/.build-id", head, &format!("{tail}.debug")].iter().collect();
    let (found, elf) = identified(&options.sysroot.as_deref()?.join(relative))?;
    (found == id).then_some(elf)
}

/// What relocation added: a mapping of the file says where some page of it lies.
fn bias(elf: &Elf, module: &Module, files: &[MappedFile]) -> Option<u64> {
    let page = |address: u64| address & !(PAGE - 1);
    let of_mapping = |load: &Segment| {
        let mapping = files.iter().find(|file| {
            file.offset == page(load.offset) && module.ranges.iter().any(|range| range.start == file.start)
        })?;
        Some(mapping.start.wrapping_sub(page(load.address)))
    };
    let executable = elf.loads.iter().filter(|load| load.flags & 1 != 0);
    executable.chain(&elf.loads).find_map(of_mapping)
}
