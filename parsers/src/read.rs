//! From paths to evidence: the crate's front door.

use crate::envelope::{self, Stream};
use crate::evidence::{Evidence, Input, InputKind, Text};
use crate::goroutines;
use std::path::PathBuf;

/// What the caller knows beyond the paths.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// Executables and debug files, matched to cores by build id.
    pub exe: Vec<PathBuf>,
    /// Where executables and libraries lie under their own paths.
    pub sysroot: Option<PathBuf>,
}

/// A path that was named but could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// As given.
    pub path: String,
    /// Why, and what to do.
    pub message: String,
}

/// Reads everything under `paths` as one incident. `-` is standard input.
///
/// What could be read is in the evidence even if some path could not.
pub fn read(paths: &[PathBuf], options: &ReadOptions) -> (Evidence, Vec<Unreadable>) {
    let _ = options;
    let mut evidence = Evidence::default();
    let mut unreadable = Vec::new();
    for path in paths {
        let name = path.display().to_string();
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) => {
                unreadable.push(Unreadable { path: name, message: error.to_string() });
                continue;
            }
        };
        let index = evidence.inputs.len() as u32;
        let mut input = Input { path: name, bytes: bytes.len() as u64, ..Input::default() };
        input.raw = Text::from_vec(bytes);
        for stream in envelope::peel(input.raw.clone(), index) {
            let Stream { envelopes, problems, .. } = &stream;
            input.envelopes.extend(envelopes.iter().cloned());
            input.problems.extend(problems.iter().cloned());
            let snapshots = goroutines::parse(&stream);
            if !snapshots.is_empty() {
                input.kind = InputKind::GoroutineDump;
            }
            for snapshot in snapshots {
                input.problems.extend(snapshot.problems.iter().cloned());
                evidence.snapshots.push(snapshot);
            }
        }
        evidence.inputs.push(input);
    }
    (evidence, unreadable)
}
