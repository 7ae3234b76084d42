//! Finding the executable that a core lacks: by build id among the given files, by path under a sysroot.

use super::elf::Elf;
use super::program::Program;
use super::unpack;
use crate::ReadOptions;
use crate::evidence::Problem;
use std::path::{Path, PathBuf};

/// Files looked at in a folder that was given as `--exe`.
const FOLDER: usize = 10_000;

/// An executable that fits the core.
#[derive(Debug, Clone)]
pub struct Executable {
    /// Where it was found.
    pub path: PathBuf,
    /// The file.
    pub elf: Elf,
    /// What to add to its addresses.
    pub bias: u64,
    /// Whether build ids were compared; otherwise only the entry point fits.
    pub verified: bool,
}

/// What comparing a file with the core's program said.
enum Fit {
    Yes { bias: u64, verified: bool },
    No(String),
}

/// Looks for the program's executable; what was refused, and why, goes to `problems`.
pub fn find(
    program: &Program,
    options: &ReadOptions,
    arch: super::elf::Arch,
    problems: &mut Vec<Problem>,
) -> Option<Executable> {
    let mut refused = Vec::new();
    let given = options.exe.iter().flat_map(|path| expand(path));
    let under_root =
        options.sysroot.iter().flat_map(|root| program.path.iter().flat_map(move |path| places(root, path)));
    for path in given.chain(under_root) {
        match candidate(&path, program, arch, problems) {
            Ok(found) => return Some(found),
            Err(Some(why)) => refused.push(why),
            Err(None) => {}
        }
    }
    problems.extend(refused.into_iter().take(3).map(|why| Problem::warning(None, why)));
    None
}

/// `Err(None)`: not there, or no executable of this kind at all.
fn candidate(
    path: &Path,
    program: &Program,
    arch: super::elf::Arch,
    problems: &mut Vec<Problem>,
) -> Result<Executable, Option<String>> {
    let name = path.display();
    let (data, _, trouble) = match unpack::map(path) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && path.is_relative() => {
            return Err(Some(format!("{name}: {error}")));
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(None),
        Err(error) => return Err(Some(format!("{name}: {error}"))),
    };
    let elf = Elf::parse(data).map_err(|error| Some(format!("{name}: {error}")))?;
    if elf.is_core {
        return Err(Some(format!("{name} is itself a core, not an executable")));
    }
    if elf.arch != arch {
        return Err(Some(format!("{name} is for {}, the core is of {}", elf.arch.as_str(), arch.as_str())));
    }
    match compare(&elf, program) {
        Fit::No(why) => Err(Some(format!("{name} is not the program of this core: {why}"))),
        Fit::Yes { .. } if elf.is_debug_file() => {
            Err(Some(format!("{name} fits, but holds debug information only: the executable itself is needed")))
        }
        Fit::Yes { bias, verified } => {
            problems.extend(trouble);
            if !verified {
                problems.push(Problem::note(
                    None,
                    format!("{name} is used because its entry point fits; the core holds no build id to compare with"),
                ));
            }
            Ok(Executable { path: path.to_owned(), elf, bias, verified })
        }
    }
}

fn compare(elf: &Elf, program: &Program) -> Fit {
    let own = elf.build_id();
    let bias = match (program.entry, program.headers, elf.headers_at) {
        _ if !elf.is_position_independent => 0,
        (Some(entry), ..) => entry.wrapping_sub(elf.entry),
        (None, Some(at), Some(unrelocated)) => at.wrapping_sub(unrelocated),
        _ => 0,
    };
    match own.matches(&program.build_id) {
        Some(true) => Fit::Yes { bias, verified: true },
        Some(false) => {
            let (own, wanted) = own.compared(&program.build_id);
            Fit::No(format!("its build id is {own}, the core's is {wanted}"))
        }
        None => match program.entry {
            Some(entry) if elf.entry.wrapping_add(bias) != entry || bias % 4096 != 0 => {
                Fit::No(format!("its entry point is {:#x}, the process started at {entry:#x}", elf.entry))
            }
            // Neither a build id nor an entry point: believed, since somebody named it.
            _ => Fit::Yes { bias, verified: false },
        },
    }
}

/// A folder stands for the files in it.
pub(super) fn expand(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    let (mut files, mut folders) = (Vec::new(), vec![path.to_owned()]);
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        let mut entries: Vec<_> = entries.flatten().collect();
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() && files.len() < FOLDER => files.push(entry.path()),
                _ => {}
            }
        }
    }
    files
}

/// Where `path` of the process may lie under `root`: as it is, and where distributions merged `/usr` over time.
pub(super) fn places(root: &Path, path: &str) -> Vec<PathBuf> {
    let relative = path.trim_start_matches('/');
    // `..` has no business in a mapped file's name, and would lead out of the root.
    if relative.is_empty() || Path::new(relative).components().any(|c| c.as_os_str() == "..") {
        return Vec::new();
    }
    let other = match relative.strip_prefix("usr/") {
        Some(rest) => rest.to_owned(),
        None => format!("usr/{relative}"),
    };
    vec![root.join(relative), root.join(other)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_stay_under_the_root() {
        assert_eq!(places(Path::new("/r"), "/usr/bin/x"), [PathBuf::from("/r/usr/bin/x"), PathBuf::from("/r/bin/x")]);
        assert!(places(Path::new("/r"), "/usr/../../etc/x").is_empty());
        assert!(places(Path::new("/r"), "").is_empty());
    }
}
