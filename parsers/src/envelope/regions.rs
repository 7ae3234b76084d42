//! The parts of a huge log that hold dumps: the rest is searched for headers, but neither peeled nor copied.

use super::sample::line_start;
use super::shape;
use crate::evidence::{LineMap, Place, Text};

/// Kept before a first header: signal lines, a panic's message, the log's prefix.
const BEFORE: usize = 64 * 1024;
/// Kept after a last header, and how far apart two headers of one region may be.
const AFTER: usize = 1 << 20;

/// The parts of `text` around dumps, with the maps of their lines.
pub(crate) fn around_dumps(text: &Text, input: u32) -> Vec<(Text, LineMap)> {
    let bytes = text.bytes();
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for at in shape::headers_in(bytes) {
        match ranges.last_mut() {
            Some((_, end)) if at <= *end => *end = at.saturating_add(AFTER),
            _ => ranges.push((at.saturating_sub(BEFORE), at.saturating_add(AFTER))),
        }
    }
    let (mut counted, mut line) = (0usize, 1u32);
    let mut parts = Vec::new();
    for (from, to) in ranges {
        let from = line_start(bytes, from);
        let to = bytes
            .get(to.min(bytes.len())..)
            .and_then(|rest| memchr::memchr(b'\n', rest))
            .map_or(bytes.len(), |at| to + at + 1);
        let newlines = memchr::memchr_iter(b'\n', bytes.get(counted..from).unwrap_or(&[])).count();
        line = line.saturating_add(u32::try_from(newlines).unwrap_or(u32::MAX));
        counted = from.max(counted);
        let mut map = LineMap::default();
        map.push(1, Place { input, line });
        parts.push((text.slice(from..to), map));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_dump_and_its_lines_between_megabytes_of_log() {
        let filler = "a log line that says nothing at all\n".repeat(60_000);
        let dump = "goroutine 1 [running]:\nmain.main()\n\t/x.go:1 +0x1\n";
        let text = Text::from_vec(format!("{filler}{dump}{filler}{dump}").into_bytes());
        let parts = around_dumps(&text, 3);
        assert_eq!(parts.len(), 2);
        for ((part, map), header) in parts.iter().zip([60_001, 120_004]) {
            let before = memchr::memmem::find(part.bytes(), b"goroutine 1").expect("the dump");
            let line = part.bytes()[..before].iter().filter(|&&b| b == b'\n').count() as u32 + 1;
            assert_eq!(map.place(line), Some(Place { input: 3, line: header }));
        }
    }
}
