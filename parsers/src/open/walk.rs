//! Finding the files under a path that a user names.

use super::budget::Budget;
use crate::evidence::Problem;
use std::fs::{self, FileType};
use std::io;
use std::path::{Path, PathBuf};

/// Folders within folders.
const DEPTH: usize = 64;

/// A file to be opened, or something that was skipped.
#[derive(Debug)]
pub(crate) struct Found {
    pub path: PathBuf,
    pub kind: Kind,
    /// The user named it, rather than a folder that holds it.
    pub named: bool,
}

#[derive(Debug)]
pub(crate) enum Kind {
    File,
    /// Standard input or a named pipe: read once, to its end.
    Stream,
    Skipped(Problem),
}

/// Everything under `path`, sorted.
///
/// # Errors
/// A message for the user when `path` itself cannot be read.
pub(crate) fn find(path: &Path, budget: &Budget) -> Result<Vec<Found>, String> {
    if path == Path::new("-") {
        return Ok(vec![Found { path: path.into(), kind: Kind::Stream, named: true }]);
    }
    // A link that the user names is followed; those within folders are not.
    let meta = fs::metadata(path).map_err(|error| explain(&error))?;
    let mut found = Vec::new();
    if meta.is_dir() {
        folder(path, 0, budget, &mut found).map_err(|error| explain(&error))?;
    } else if meta.is_file() {
        found.push(Found { path: path.into(), kind: Kind::File, named: true });
    } else if is_readable_stream(meta.file_type(), path) {
        found.push(Found { path: path.into(), kind: Kind::Stream, named: true });
    } else {
        return Err(format!("{}, not a file", what(meta.file_type())));
    }
    Ok(found)
}

fn folder(path: &Path, depth: usize, budget: &Budget, found: &mut Vec<Found>) -> io::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(path)?.filter_map(Result::ok).collect();
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        let path = entry.path();
        let skipped = |problem| Found { path: path.clone(), kind: Kind::Skipped(problem), named: false };
        let kind = match entry.file_type() {
            Ok(kind) => kind,
            Err(error) => {
                found.push(skipped(Problem::error(None, format!("not read: {}", explain(&error)))));
                continue;
            }
        };
        if !budget.member() {
            found.push(skipped(Problem::error(None, "too many files: this one and all after it were not read")));
            return Ok(());
        }
        if kind.is_dir() {
            if depth >= DEPTH {
                found.push(skipped(Problem::error(None, "not read: too many folders within each other")));
            } else if let Err(error) = folder(&path, depth + 1, budget, found) {
                found.push(skipped(Problem::error(None, format!("not read: {}", explain(&error)))));
            }
        } else if kind.is_file() {
            found.push(Found { path, kind: Kind::File, named: false });
        } else {
            let message = match kind.is_symlink() {
                true => "a link: not followed, name its target to have it read".to_string(),
                false => format!("{}: not read", what(kind)),
            };
            found.push(skipped(Problem::note(None, message)));
        }
    }
    Ok(())
}

/// What an I/O error means for the reader.
pub(crate) fn explain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or folder".into(),
        io::ErrorKind::PermissionDenied => "permission denied: try as root, or copy it".into(),
        _ => error.to_string(),
    }
}

#[cfg(unix)]
fn what(kind: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    match () {
        () if kind.is_fifo() => "a named pipe",
        () if kind.is_socket() => "a socket",
        () if kind.is_block_device() || kind.is_char_device() => "a device",
        () => "something special",
    }
}

#[cfg(not(unix))]
fn what(_: FileType) -> &'static str {
    "something special"
}

/// A pipe that the user names (`<(journalctl …)`, `/dev/stdin`) is read; a device is not.
#[cfg(unix)]
fn is_readable_stream(kind: FileType, path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    kind.is_fifo() || (kind.is_char_device() && (path == Path::new("/dev/stdin") || path == Path::new("/dev/fd/0")))
}

#[cfg(not(unix))]
fn is_readable_stream(_: FileType, _: &Path) -> bool {
    false
}
