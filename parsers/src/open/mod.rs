//! From what a user names to bytes: files, folders, archives, compressed files, standard input.
//!
//! Everything is recognised by content; names only help later. Nothing is written but unnamed temporary files, no link
//! is followed out of a folder or an archive, and every limit that bites is a problem of the input.

mod archive;
mod budget;
pub(crate) mod name;
mod sniff;
mod spool;
mod walk;

use crate::evidence::{Problem, Text};
use crate::limits;
use crate::read::Unreadable;
use budget::Budget;
use rayon::prelude::*;
use sniff::Sort;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Something that was found, ready to be parsed.
#[derive(Debug)]
pub struct Material {
    /// As the user gave it; an archive's member after `!/`.
    pub path: String,
    /// What there is to read.
    pub content: Content,
    /// What was unpacked, outermost first: `gzip`, `tar`.
    pub envelopes: Vec<String>,
    /// Size as found (compressed, if it was).
    pub bytes: u64,
    /// What was lost, cut or refused on the way.
    pub problems: Vec<Problem>,
}

/// What a [`Material`] holds.
#[derive(Debug)]
pub enum Content {
    /// Text, or at least no format that is opened here.
    Text(Text),
    /// An ELF file: a core, executable or debug file. It is not expanded into memory.
    Elf {
        /// `ET_CORE`.
        core: bool,
        /// Where its bytes are.
        source: ElfSource,
    },
    /// Nothing: skipped or unreadable; the problems say why.
    Nothing,
}

/// Where an ELF file's bytes are.
#[derive(Debug)]
pub enum ElfSource {
    /// In a file of its own, perhaps compressed.
    File(PathBuf),
    /// Unpacked from an archive or a stream, to a sparse temporary file if large.
    Unpacked(Text),
}

/// Finds everything under `paths`, in the order given, folders sorted by name.
///
/// What could be read is returned even if some path could not.
pub fn open(paths: &[PathBuf]) -> (Vec<Material>, Vec<Unreadable>) {
    let budget = Budget::default();
    let mut found = Vec::new();
    let mut unreadable = Vec::new();
    for path in paths {
        match walk::find(path, &budget) {
            Ok(files) => found.extend(files),
            Err(message) => unreadable.push(Unreadable { path: path.display().to_string(), message }),
        }
    }
    let opened: Vec<Result<Vec<Material>, Unreadable>> =
        found.into_par_iter().map(|found| open_found(found, &budget)).collect();
    let mut materials = Vec::new();
    for result in opened {
        match result {
            Ok(some) => materials.extend(some),
            Err(error) => unreadable.push(error),
        }
    }
    (materials, unreadable)
}

fn open_found(found: walk::Found, budget: &Budget) -> Result<Vec<Material>, Unreadable> {
    let name = found.path.display().to_string();
    let result = match found.kind {
        walk::Kind::Skipped(problem) => {
            return Ok(vec![Material::nothing(name, problem)]);
        }
        walk::Kind::Stream => open_stream(&found.path, &name, budget),
        walk::Kind::File => open_file(&found.path, &name, budget),
    };
    result.or_else(|error| {
        let message = walk::explain(&error);
        // A file that a folder listed is not what the user named: the rest of the folder counts.
        if found.named {
            Err(Unreadable { path: name, message })
        } else {
            Ok(vec![Material::nothing(name, Problem::error(None, format!("not read: {message}")))])
        }
    })
}

impl Material {
    fn nothing(path: String, problem: Problem) -> Self {
        Material { path, content: Content::Nothing, envelopes: Vec::new(), bytes: 0, problems: vec![problem] }
    }
}

/// Standard input, a pipe.
fn open_stream(path: &Path, name: &str, budget: &Budget) -> io::Result<Vec<Material>> {
    let reader: Box<dyn Read> =
        if path == Path::new("-") { Box::new(io::stdin().lock()) } else { Box::new(File::open(path)?) };
    let mut out = Vec::new();
    let place = Place { path: name.to_string(), file: None, envelopes: Vec::new(), bytes: 0, depth: 0 };
    archive::read(reader, place, &budget.of_file(u64::MAX), &mut out)?;
    Ok(out)
}

fn open_file(path: &Path, name: &str, budget: &Budget) -> io::Result<Vec<Material>> {
    let text = load(path)?;
    let bytes = text.bytes().len() as u64;
    let place = Place { path: name.to_string(), file: Some(path.into()), envelopes: Vec::new(), bytes, depth: 0 };
    let mut out = Vec::new();
    archive::read_text(text, place, &budget.of_file(bytes), &mut out)?;
    Ok(out)
}

/// Where a reader stands on its way into archives.
#[derive(Debug, Clone)]
struct Place {
    path: String,
    /// The file itself, as long as nothing but compression lies around.
    file: Option<PathBuf>,
    envelopes: Vec<String>,
    bytes: u64,
    depth: usize,
}

impl Place {
    fn material(&self, content: Content) -> Material {
        Material {
            path: self.path.clone(),
            content,
            envelopes: self.envelopes.clone(),
            bytes: self.bytes,
            problems: Vec::new(),
        }
    }

    fn within(&self, envelope: &str) -> Self {
        let mut inner = self.clone();
        inner.envelopes.push(envelope.to_string());
        inner.depth += 1;
        inner
    }

    fn member(&self, name: &str, bytes: u64) -> Self {
        Place { path: format!("{}!/{}", self.path, name.trim_start_matches("./")), file: None, bytes, ..self.clone() }
    }
}

/// A file's bytes: read if small (it may be written to meanwhile, and files of `/proc` have no size), else mapped.
fn load(path: &Path) -> io::Result<Text> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    if size >= limits::MAPPED {
        return map(&file);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
    match (&mut file).take(limits::MAPPED * 4).read_to_end(&mut bytes) {
        Err(error) if bytes.is_empty() => Err(error),
        _ => Ok(Text::from_vec(bytes)),
    }
}

/// Maps a whole file.
#[allow(unsafe_code)]
fn map(file: &File) -> io::Result<Text> {
    // SAFETY: the map is read only and private. A file that is truncated while it is read would end the process with
    // SIGBUS; log rotation renames large files, it does not truncate them, and small files are read instead.
    let map = unsafe { memmap2::MmapOptions::new().map_copy_read_only(file)? };
    Ok(Text::from_shared(Arc::new(map)))
}

/// What the first bytes say.
fn sort_of(head: &[u8]) -> Sort {
    sniff::sort(head)
}
