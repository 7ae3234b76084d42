//! Holding what comes out of a stream: in memory, or in an unnamed sparse temporary file when it is large.

use super::budget::FileBudget;
use crate::evidence::{Problem, Text};
use crate::limits;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::atomic::{AtomicU64, Ordering};

const CHUNK: usize = 256 * 1024;

/// Reads `reader` to its end, or as far as the budget and the stream's state allow.
///
/// # Errors
/// Nothing at all could be read, or there is no room for a temporary file.
pub(crate) fn fill(reader: &mut dyn Read, budget: &FileBudget<'_>, sparse: bool) -> io::Result<(Text, Vec<Problem>)> {
    let mut problems = Vec::new();
    let mut spool = Spool { memory: Vec::new(), file: None, length: 0, sparse };
    let mut chunk = vec![0u8; CHUNK];
    let (mut total, mut nul) = (0u64, 0u64);
    loop {
        let got = match full_chunk(reader, &mut chunk) {
            Ok(0) => break,
            Ok(got) => got,
            Err((0, error)) if total == 0 => return Err(error),
            Err((got, error)) => {
                spool.write(chunk.get(..got).unwrap_or(&[]))?;
                let so_far = total + got as u64;
                problems.push(Problem::warning(
                    None,
                    format!(
                        "it ends too early or is damaged ({error}): {so_far} bytes could be unpacked, the rest is lost"
                    ),
                ));
                break;
            }
        };
        total += got as u64;
        let part = chunk.get(..got).unwrap_or(&[]);
        let empty = part.iter().all(|&b| b == 0);
        nul += if empty { got as u64 } else { 0 };
        if let Err(reason) = budget.expand(got as u64) {
            problems.push(Problem::error(None, reason));
            break;
        }
        if empty && !sparse {
            // NUL bytes say nothing in a text, and have no line ends that would have to be counted.
            if nul == total && total > limits::RATIO_FREE {
                problems.push(Problem::error(None, "it holds nothing but NUL bytes; the rest was not unpacked"));
                break;
            }
            continue;
        }
        spool.write(part)?;
    }
    Ok((spool.finish()?, problems))
}

/// Reads until `chunk` is full or the stream ends.
fn full_chunk(reader: &mut dyn Read, chunk: &mut [u8]) -> Result<usize, (usize, io::Error)> {
    let mut got = 0;
    while got < chunk.len() {
        match reader.read(&mut chunk[got..]) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err((got, error)),
        }
    }
    Ok(got)
}

struct Spool {
    memory: Vec<u8>,
    file: Option<File>,
    length: u64,
    sparse: bool,
}

impl Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.file.is_none() && self.memory.len() + bytes.len() <= limits::SPOOL {
            self.memory.extend_from_slice(bytes);
            return Ok(());
        }
        if self.file.is_none() {
            let mut file = unnamed()?;
            file.write_all(&self.memory)?;
            self.length = self.memory.len() as u64;
            self.memory = Vec::new();
            self.file = Some(file);
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        self.length += bytes.len() as u64;
        if self.sparse && bytes.iter().all(|&b| b == 0) {
            file.seek(SeekFrom::Current(bytes.len() as i64))?;
            return Ok(());
        }
        file.write_all(bytes)
    }

    fn finish(self) -> io::Result<Text> {
        match self.file {
            Some(file) => {
                file.set_len(self.length)?;
                super::map(&file)
            }
            None => Ok(Text::from_vec(self.memory)),
        }
    }
}

/// A temporary file that has no name any more.
fn unnamed() -> io::Result<File> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let folder = std::env::temp_dir();
    for _ in 0..100 {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("holdup-{}-{number}.tmp", std::process::id()));
        match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
            Ok(file) => {
                std::fs::remove_file(&path)?;
                return Ok(file);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "no name is free for a temporary file"))
}
