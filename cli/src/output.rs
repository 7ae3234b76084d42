//! Results to standard output, reports to files: whole or not at all.

use crate::exit::{Exit, say};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Prints a result. That the reader has closed the pipe (`| head`) is no error.
pub fn to_stdout(bytes: &[u8]) -> Exit {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Exit::Done,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
        Err(error) => failed("standard output", &error),
    }
}

/// Says that something could not be written.
pub fn failed(what: &str, error: &io::Error) -> Exit {
    say(format_args!("cannot write {what}: {error}"));
    Exit::Trouble
}

/// Writes a report. A reader of `path` sees the old content or all of the new: it goes to a temporary file beside
/// it, which then takes its name. What is no regular file (`/dev/stdout`, a named pipe) is written straight.
pub fn to_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"));
        }
        Ok(meta) if !meta.is_file() => return write_straight(path, bytes),
        _ => {}
    }
    // A symbolic link stays one: its target is replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let (temporary, mut file) = create_beside(&target)?;
    let written = file
        .write_all(bytes)
        .and_then(|()| match fs::metadata(&target) {
            Ok(meta) => file.set_permissions(meta.permissions()),
            Err(_) => Ok(()),
        })
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&temporary, &target));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn write_straight(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match OpenOptions::new().write(true).open(path)?.write_all(bytes) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

fn create_beside(target: &Path) -> io::Result<(PathBuf, File)> {
    let mut attempt = 0u32;
    loop {
        let mut name = std::ffi::OsString::from(".");
        name.push(target.file_name().unwrap_or_default());
        name.push(format!(".{}-{attempt}.tmp", std::process::id()));
        let temporary = target.with_file_name(name);
        match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Ok(file) => return Ok((temporary, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 100 => attempt += 1,
            Err(error) => return Err(error),
        }
    }
}
