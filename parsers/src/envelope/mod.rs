//! Peeling what carried a dump, back to the runtime's own text.

use crate::evidence::{LineMap, Problem, ProcessHint, Text};
use jiff::Timestamp;

/// One process's text as it was before anything wrapped it.
#[derive(Debug, Default)]
pub struct Stream {
    /// The recovered text.
    pub text: Text,
    /// From its lines to the user's file.
    pub lines: LineMap,
    /// What was peeled, outermost first.
    pub envelopes: Vec<String>,
    /// What the envelope says of the process.
    pub process: ProcessHint,
    /// When the first line was written, if the envelope says so.
    pub written_at: Option<Timestamp>,
    /// What was repaired or lost.
    pub problems: Vec<Problem>,
}

/// Takes the envelopes off `text`, which stands in `input`. Interleaved processes become streams of their own.
pub fn peel(text: Text, input: u32) -> Vec<Stream> {
    vec![Stream { text, lines: LineMap::identity(input), ..Stream::default() }]
}
