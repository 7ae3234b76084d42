//! The user's own lines: those that evidence points at, and goroutines as they were printed.

use holdup_analysis::diagnosis::Source;
use holdup_parsers::evidence::{Evidence, Goroutine, Snapshot};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Lines of one quotation at most.
const LINES: u32 = 14;
/// Bytes of one quoted line at most.
const LINE: usize = 600;

/// Finds quoted lines; each file is walked once, up to the last line that is wanted.
#[derive(Debug, Default)]
pub struct Quotes<'a> {
    starts: BTreeMap<(usize, u32), &'a [u8]>,
}

/// A quoted line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// From 1.
    pub number: u32,
    /// Without its end.
    pub bytes: &'a [u8],
    /// Shortened.
    pub cut: bool,
}

impl<'a> Quotes<'a> {
    /// Prepares the quotation of `sources`.
    pub fn new<'s>(evidence: &'a Evidence, sources: impl Iterator<Item = &'s Source>) -> Self {
        let mut wanted: Vec<(usize, u32)> = sources.filter_map(|s| Some((s.input, s.line_start?))).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut starts = BTreeMap::new();
        for of_input in wanted.chunk_by(|a, b| a.0 == b.0) {
            let Some((input, _)) = of_input.first() else { continue };
            let Some(text) = evidence.inputs.get(*input).map(|input| input.raw.bytes()) else { continue };
            let mut ends = memchr::memchr_iter(b'\n', text);
            let (mut line, mut at) = (1u32, 0usize);
            for &(input, number) in of_input {
                while line < number {
                    let Some(end) = ends.next() else { break };
                    (line, at) = (line + 1, end + 1);
                }
                if line == number && at < text.len() {
                    starts.insert((input, number), &text[at..]);
                }
            }
        }
        Quotes { starts }
    }

    /// The lines of a source; none for a core or a file that is not at hand.
    pub fn lines(&self, source: &Source) -> Vec<Line<'a>> {
        let Some(first) = source.line_start else { return Vec::new() };
        let Some(&text) = self.starts.get(&(source.input, first)) else { return Vec::new() };
        let last = source.line_end.unwrap_or(first).max(first);
        let count = (last - first).saturating_add(1).min(LINES);
        let lines = text.split(|&b| b == b'\n').take(count as usize);
        let lines = lines.zip(first..).map(|(bytes, number)| {
            let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
            Line { number, bytes: &bytes[..bytes.len().min(LINE)], cut: bytes.len() > LINE }
        });
        lines.collect()
    }
}

/// A goroutine as it was printed; one from a core as the runtime would have printed it.
pub fn block<'a>(snapshot: &'a Snapshot, goroutine: &Goroutine) -> Cow<'a, [u8]> {
    let text = snapshot.block(goroutine);
    if !text.is_empty() {
        let end = text.iter().rposition(|b| !b.is_ascii_whitespace()).map_or(0, |last| last + 1);
        return Cow::Borrowed(&text[..end]);
    }
    let mut out = String::new();
    let id = goroutine.id.map(|id| id.to_string()).unwrap_or_default();
    let minutes = goroutine.minutes.map(|m| format!(", {m} minutes")).unwrap_or_default();
    let _ = writeln!(out, "goroutine {id} [{}{minutes}]:", snapshot.names.get(goroutine.state));
    let frames = snapshot.frames_of(goroutine).iter().map(|frame| (frame.site, ""));
    let created = goroutine.created_by.iter().map(|by| (by.site, "created by "));
    for (site, before) in frames.chain(created) {
        let site = snapshot.site(site);
        let _ = writeln!(
            out,
            "{before}{}\n\t{}:{}",
            snapshot.names.get(site.func),
            snapshot.names.get(site.file),
            site.line
        );
    }
    out.truncate(out.trim_end().len());
    Cow::Owned(out.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_parsers::evidence::{Input, Text};

    #[test]
    fn lines_are_found_by_number() {
        let raw = Text::from_vec(b"one\r\ntwo\nthree\nfour".to_vec());
        let evidence = Evidence { inputs: vec![Input { raw, ..Input::default() }], ..Evidence::default() };
        let source = |start, end| Source { input: 0, line_start: Some(start), line_end: end, address: None };
        let sources = [source(4, None), source(1, Some(2)), source(9, None)];
        let quotes = Quotes::new(&evidence, sources.iter());
        let texts = |source: &Source| -> Vec<(u32, String)> {
            quotes.lines(source).iter().map(|l| (l.number, String::from_utf8_lossy(l.bytes).into_owned())).collect()
        };
        assert_eq!(texts(&sources[0]), [(4, "four".to_owned())]);
        assert_eq!(texts(&sources[1]), [(1, "one".to_owned()), (2, "two".to_owned())]);
        assert!(texts(&sources[2]).is_empty());
    }
}
