//! The same evidence without names: text in, text out, nothing is analyzed.
//!
//! First every text is looked through for names ([`learn`]): hosts, users, pods, containers, images, mounts, in the
//! places where such names stand. Then each is rewritten ([`rewrite`]): what has a form of its own (ids, addresses,
//! tokens, see [`patterns`]), and every name that was learned wherever it stands. The same original gets the same
//! pseudonym in all files ([`pseudonym`]). Lines keep their number, ids and hosts their length and structure; Go
//! function names, source paths, addresses of memory, times and pids are kept.

mod embedded;
mod learn;
mod patterns;
mod pseudonym;
mod rewrite;

pub use pseudonym::{Kind, Replaced};

use crate::evidence::Evidence;
use pseudonym::Pseudonyms;
use rewrite::Rewriter;

/// Replaces names consistently over many texts.
#[derive(Debug)]
pub struct Anonymizer {
    names: Pseudonyms,
}

/// What a file's bytes are, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// Text, or text in UTF-16.
    Text,
    /// Something else: names in it could not be found, so it must not be handed on.
    Binary,
}

impl Anonymizer {
    /// Knows nothing yet. `seed` makes pseudonyms of ids that cannot be traced back; it must not be known to others.
    pub fn new(seed: u64) -> Self {
        Anonymizer { names: Pseudonyms::new(seed) }
    }

    /// Learns the names that stand in structured evidence: mounts, containers, hosts of log lines.
    pub fn learn(&mut self, evidence: &Evidence) {
        learn::from_evidence(evidence, &mut self.names);
    }

    /// Learns the names that stand in a text. All texts must be learned before the first is rewritten.
    pub fn learn_text(&mut self, text: &[u8]) {
        let text = embedded::plain(text);
        learn::from_text(&text, &mut self.names);
        for inner in embedded::decoded(&text) {
            learn::from_text(&inner, &mut self.names);
        }
    }

    /// Ends the learning: what comes after can rewrite.
    pub fn ready(self) -> Ready {
        Ready { rewriter: Rewriter::new(self.names) }
    }
}

/// An [`Anonymizer`] that has learned everything.
#[derive(Debug)]
pub struct Ready {
    rewriter: Rewriter,
}

impl Ready {
    /// The text without names. UTF-16 comes out as UTF-8.
    pub fn text(&mut self, text: &[u8]) -> Vec<u8> {
        self.rewriter.text(&embedded::plain(text))
    }

    /// A file's name without names.
    pub fn path(&mut self, path: &str) -> String {
        String::from_utf8_lossy(&self.rewriter.text(path.as_bytes())).into_owned()
    }

    /// What was replaced by what, and how often.
    pub fn replaced(&self) -> Vec<Replaced> {
        self.rewriter.replaced()
    }
}

/// Whether the names in `bytes` can be found.
pub fn sort(bytes: &[u8]) -> Sort {
    const LOOKED_AT: usize = 256 * 1024;
    let text = embedded::plain(bytes.get(..bytes.len().min(LOOKED_AT)).unwrap_or(bytes));
    // Padding of a file that was cut by a crash is no sign of a binary.
    let shown = text.iter().filter(|&&b| b != 0);
    let (mut all, mut odd) = (0usize, 0usize);
    for &byte in shown {
        all += 1;
        odd += usize::from(byte < 0x20 && !matches!(byte, b'\n' | b'\r' | b'\t' | 0x1b | 0x0c | 0x08));
    }
    let invalid: usize = text.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    if odd * 50 > all || invalid * 5 > all { Sort::Binary } else { Sort::Text }
}

#[cfg(test)]
mod tests;
