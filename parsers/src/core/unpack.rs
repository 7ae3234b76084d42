//! A core or an executable as bytes: mapped, and unpacked to a sparse temporary file first if it is compressed.

use crate::evidence::{Problem, Text};
use crate::limits;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

/// Block of a file system; zero blocks of this size become holes.
const BLOCK: usize = 4096;
static ZEROS: [u8; BLOCK] = [0; BLOCK];

/// Maps the file at `path`; a gzip, zstd, xz or bzip2 file is unpacked to an unlinked temporary file before.
///
/// Returns the bytes, the compression's name if there was one, and what went wrong on the way without being fatal
/// (a stream that ends too early).
///
/// # Errors
/// The file cannot be opened, read or unpacked at all.
pub fn map(path: &Path) -> io::Result<(Text, Option<&'static str>, Vec<Problem>)> {
    match reader(path)? {
        (None, _) => Ok((map_file(&File::open(path)?)?, None, Vec::new())),
        (Some(kind), reader) => {
            let (file, problems) = unpack(reader, kind)?;
            Ok((map_file(&file)?, Some(kind), problems))
        }
    }
}

/// The file's contents unpacked, and the name of the compression if there is one.
fn reader(path: &Path) -> io::Result<(Option<&'static str>, Box<dyn Read>)> {
    let mut file = File::open(path)?;
    let mut head = [0u8; 6];
    let got = read_up_to(&mut file, &mut head)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(match head.get(..got).unwrap_or(&[]) {
        [0x28, 0xb5, 0x2f, 0xfd, ..] => (Some("zstd"), Box::new(zstd::stream::read::Decoder::new(file)?)),
        [0x1f, 0x8b, ..] => (Some("gzip"), Box::new(flate2::read::MultiGzDecoder::new(file))),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => (Some("xz"), Box::new(xz2::read::XzDecoder::new_multi_decoder(file))),
        [b'B', b'Z', b'h', ..] => (Some("bzip2"), Box::new(bzip2::read::MultiBzDecoder::new(file))),
        _ => (None, Box::new(file)),
    })
}

/// Unpacks `reader` to a sparse temporary file: a core is mostly zeros, and zeros cost neither memory nor disk.
fn unpack(mut reader: impl Read, kind: &str) -> io::Result<(File, Vec<Problem>)> {
    let mut file = temporary_file()?;
    let mut problems = Vec::new();
    let mut buffer = vec![0u8; 64 * BLOCK];
    let (mut length, mut written) = (0u64, 0u64);
    loop {
        let got = match read_up_to(&mut reader, &mut buffer) {
            Ok(got) => got,
            Err(error) if length > 0 => {
                problems.push(Problem::warning(
                    None,
                    format!(
                        "the {kind} stream ends too early or is damaged ({error}): {length} bytes could be unpacked"
                    ),
                ));
                break;
            }
            Err(error) => return Err(error),
        };
        if got == 0 {
            break;
        }
        for block in buffer[..got].chunks(BLOCK) {
            if Some(block) != ZEROS.get(..block.len()) {
                file.seek(SeekFrom::Start(length))?;
                file.write_all(block)?;
                written += block.len() as u64;
            }
            length += block.len() as u64;
        }
        // Zeros are free on disk but not in time; data is neither.
        if length > limits::EXPANDED || written > limits::EXPANDED / 4 {
            problems.push(Problem::warning(
                None,
                format!("unpacking was stopped after {length} bytes; the rest is not read"),
            ));
            break;
        }
    }
    file.set_len(length)?;
    Ok((file, problems))
}

/// An unlinked file for something large: `/tmp` is often memory, `/var/tmp` is not.
fn temporary_file() -> io::Result<File> {
    if std::env::var_os("TMPDIR").is_none()
        && let Ok(file) = tempfile::tempfile_in("/var/tmp")
    {
        return Ok(file);
    }
    tempfile::tempfile()
}

fn read_up_to(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(got) => filled += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // What came before the error is good; the error will come again.
            Err(_) if filled > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[allow(unsafe_code)]
fn map_file(file: &File) -> io::Result<Text> {
    if file.metadata()?.len() == 0 {
        return Ok(Text::default());
    }
    // SAFETY: the mapping is private and read-only. As with every mapped file, somebody who shortens the file at the
    // same time makes reads beyond its new end fail with SIGBUS; evidence is not written to while it is analyzed.
    let map = unsafe { memmap2::Mmap::map(file)? };
    Ok(Text::from_shared(Arc::new(map)))
}
