//! Peeling what carried a dump, back to the runtime's own text.
//!
//! Each envelope is recognised by content, in a file of its own, and taken off one at a time until none is found, so
//! they may be stacked in any order. A text without an envelope passes through as it is: same bytes, identity map.

mod bytes;
mod escapes;
mod interleaved;
mod journald;
mod json;
mod json_log;
mod klog;
mod layout;
mod log_lines;
mod log_prefix;
mod loss;
mod mail;
mod markup;
mod prefix;
mod recover;
mod regions;
mod sample;
mod shape;
mod stamp;

use crate::evidence::{LineMap, Place, Problem, ProcessHint, Text};
use crate::limits;
use jiff::Timestamp;
use sample::Sample;

/// One process's text as it was before anything wrapped it.
#[derive(Debug, Default)]
pub struct Stream {
    /// The recovered text: all lines of the process, those of its log too.
    pub text: Text,
    /// From its lines to the user's file.
    pub lines: LineMap,
    /// What was peeled, outermost first.
    pub envelopes: Vec<String>,
    /// What the envelope says of the process.
    pub process: ProcessHint,
    /// When the first line was written, if the envelope says so.
    pub written_at: Option<Timestamp>,
    /// When lines were written: (first line from 1, instant), ascending by line. Empty if no envelope says so.
    pub times: Vec<(u32, Timestamp)>,
    /// What was repaired or lost.
    pub problems: Vec<Problem>,
    /// Where lines of `text` go on that stood in several lines of the user's file: offset, and where the rest stood.
    pub seams: Vec<(usize, Place)>,
}

impl Stream {
    /// When `line` (from 1) was written, if the envelope says so.
    pub fn time_at(&self, line: u32) -> Option<Timestamp> {
        let next = self.times.partition_point(|&(from, _)| from <= line);
        self.times.get(next.checked_sub(1)?).map(|&(_, time)| time)
    }
}

/// Envelopes that may be stacked; nobody has seen more than five.
const LAYERS: usize = 12;
/// Streams that one file may fall into.
const STREAMS: usize = 10_000;

/// Takes the envelopes off `text`, which stands in `input`. Interleaved processes become streams of their own.
pub fn peel(text: Text, input: u32) -> Vec<Stream> {
    if text.bytes().len() <= limits::WHOLE_TEXT {
        return peel_all(Stream { text, lines: LineMap::identity(input), ..Stream::default() });
    }
    let parts = regions::around_dumps(&text, input);
    let streams = parts.into_iter().flat_map(|(text, lines)| {
        let problem =
            Problem::note(None, "the file is large: of its log only the parts around goroutine dumps were read");
        peel_all(Stream { text, lines, problems: vec![problem], ..Stream::default() })
    });
    streams.collect()
}

fn peel_all(whole: Stream) -> Vec<Stream> {
    let mut done = Vec::new();
    // Depth first, so that streams keep the order in which they began.
    let mut under_way = vec![(whole, 0)];
    while let Some((stream, depth)) = under_way.pop() {
        match (depth < LAYERS && done.len() + under_way.len() < STREAMS).then(|| peel_once(&stream)).flatten() {
            Some(inner) => under_way.extend(inner.into_iter().rev().map(|s| (s, depth + 1))),
            None => {
                let mut stream = stream;
                loss::tell(&mut stream);
                done.push(stream);
            }
        }
    }
    done
}

/// Takes off the outermost envelope; `None` if there is none.
fn peel_once(stream: &Stream) -> Option<Vec<Stream>> {
    let bytes = stream.text.bytes();
    if bytes.is_empty() || is_profile(bytes) {
        return None;
    }
    if let Some(streams) = bytes::utf16(stream).or_else(|| journald::export(stream)).or_else(|| bytes::clean(stream)) {
        return Some(streams);
    }
    let sample = Sample::of(bytes);
    journald::verbose(stream)
        .or_else(|| json_log::peel(stream, &sample))
        .or_else(|| mail::quoted_printable(stream, &sample))
        .or_else(|| escapes::peel_repeated(stream, &sample))
        .or_else(|| log_lines::peel(stream, &sample))
        .or_else(|| prefix::before_json(stream, &sample))
        .or_else(|| markup::html(stream, &sample))
        .or_else(|| escapes::octal(stream, &sample))
        .or_else(|| escapes::peel(stream))
        .or_else(|| bytes::unicode(stream, &sample))
        .or_else(|| markup::markdown(stream, &sample))
        .or_else(|| mail::csv(stream, &sample))
        .or_else(|| layout::carets(stream, &sample))
        .or_else(|| prefix::peel(stream, &sample))
        .or_else(|| layout::reversed(stream, &sample))
        .or_else(|| layout::double_spaced(stream, &sample))
        .or_else(|| layout::wrapped(stream, &sample))
        .or_else(|| klog::peel(stream))
        .or_else(|| interleaved::refuse(stream))
}

/// Whether `bytes` are a pprof profile in protobuf (`debug=0`, unpacked): `sample_type`, field 1, comes first
/// (`runtime/pprof/protomem.go`, `profile.proto`).
fn is_profile(bytes: &[u8]) -> bool {
    matches!(bytes, [0x0a, len, 0x08, _, 0x10, ..] if (4..=16).contains(len))
}
