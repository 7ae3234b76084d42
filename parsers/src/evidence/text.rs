//! Text that evidence points into, and the way from a recovered line back to the user's file.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A shared, immutable range of bytes: a mapped file, or what was recovered from an envelope.
#[derive(Clone)]
pub struct Text {
    data: Arc<dyn AsRef<[u8]> + Send + Sync>,
    range: Range<usize>,
}

impl Text {
    /// Takes bytes that are already in memory.
    pub fn from_vec(bytes: Vec<u8>) -> Self {
        let range = 0..bytes.len();
        Text { data: Arc::new(bytes), range }
    }

    /// Shares anything that lends bytes, such as a mapped file.
    pub fn from_shared(data: Arc<dyn AsRef<[u8]> + Send + Sync>) -> Self {
        let range = 0..(*data).as_ref().len();
        Text { data, range }
    }

    /// A part of this text, clamped to its bounds; shares the bytes.
    pub fn slice(&self, range: Range<usize>) -> Self {
        let len = self.range.len();
        let start = self.range.start + range.start.min(len);
        let end = self.range.start + range.end.clamp(range.start.min(len), len);
        Text { data: Arc::clone(&self.data), range: start..end }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        (*self.data).as_ref().get(self.range.clone()).unwrap_or(&[])
    }
}

impl Default for Text {
    fn default() -> Self {
        Text::from_vec(Vec::new())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Text({} bytes)", self.range.len())
    }
}

/// A line of a user's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Index into [`Evidence::inputs`](super::Evidence::inputs).
    pub input: u32,
    /// From 1.
    pub line: u32,
}

/// Maps each line of a recovered text (from 1) to where it stood in the user's file.
///
/// Kept as runs, so a text that was not wrapped costs one entry.
#[derive(Debug, Clone, Default)]
pub struct LineMap {
    runs: Vec<Run>,
}

#[derive(Debug, Clone, Copy)]
struct Run {
    /// First recovered line of the run, from 1.
    from: u32,
    at: Place,
    /// Source lines advanced a recovered line: 1 in plain text, 0 where one source line held many.
    step: u32,
}

impl LineMap {
    /// The map of a text that stands in `input` as it is.
    pub fn identity(input: u32) -> Self {
        LineMap { runs: vec![Run { from: 1, at: Place { input, line: 1 }, step: 1 }] }
    }

    /// Says that recovered line `line` (not less than any given before) came from `at`.
    pub fn push(&mut self, line: u32, at: Place) {
        if let Some(last) = self.runs.last_mut() {
            let ahead = line.saturating_sub(last.from);
            if last.at.input == at.input && at.line == last.at.line.saturating_add(ahead.saturating_mul(last.step)) {
                return;
            }
            // A run of one line may still become a run of a single source line.
            if ahead == 1 && last.at == at {
                last.step = 0;
                return;
            }
        }
        self.runs.push(Run { from: line, at, step: 1 });
    }

    /// Where recovered line `line` (from 1) stood; `None` only for an empty map.
    pub fn place(&self, line: u32) -> Option<Place> {
        let next = self.runs.partition_point(|run| run.from <= line);
        let run = self.runs.get(next.saturating_sub(1))?;
        let ahead = line.saturating_sub(run.from).saturating_mul(run.step);
        Some(Place { input: run.at.input, line: run.at.line.saturating_add(ahead) })
    }

    /// The map of the text's lines from `first` on, renumbered to start at 1.
    pub fn tail(&self, first: u32) -> Self {
        let mut runs = Vec::new();
        if let Some(at) = self.place(first) {
            let next = self.runs.partition_point(|run| run.from <= first);
            let step = self.runs.get(next.saturating_sub(1)).map_or(1, |run| run.step);
            runs.push(Run { from: 1, at, step });
            for run in &self.runs[next..] {
                runs.push(Run { from: run.from - first + 1, ..*run });
            }
        }
        LineMap { runs }
    }

    /// The map of the text's lines from `first` to `last`, renumbered to start at 1. Costs what the part holds, not
    /// what the whole map does: a log may hold thousands of dumps.
    pub fn part(&self, first: u32, last: u32) -> Self {
        let mut runs = Vec::new();
        if let Some(at) = self.place(first) {
            let next = self.runs.partition_point(|run| run.from <= first);
            let step = self.runs.get(next.saturating_sub(1)).map_or(1, |run| run.step);
            runs.push(Run { from: 1, at, step });
            let inside = self.runs.get(next..).unwrap_or_default().iter().take_while(|run| run.from <= last);
            runs.extend(inside.map(|run| Run { from: run.from - first + 1, ..*run }));
        }
        LineMap { runs }
    }

    /// The map with `outer` applied: `self` leads into a text that itself was recovered through `outer`.
    ///
    /// `last` is the number of lines of the text that `self` describes.
    pub fn through(&self, outer: &LineMap, last: u32) -> LineMap {
        let mut map = LineMap::default();
        for line in 1..=last {
            if let Some(at) = self.place(line).and_then(|inner| outer.place(inner.line)) {
                map.push(line, at);
            }
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_both_steps_are_followed() {
        let mut map = LineMap::default();
        let at = |line| Place { input: 3, line };
        for (line, source) in [(1, 10), (2, 11), (3, 20), (4, 20), (5, 20), (6, 21), (7, 22)] {
            map.push(line, at(source));
        }
        let back: Vec<u32> = (1..=7).map(|l| map.place(l).expect("a place").line).collect();
        assert_eq!(back, [10, 11, 20, 20, 20, 21, 22]);
        assert_eq!(map.tail(4).place(1), Some(at(20)));
        assert_eq!(map.tail(4).place(3), Some(at(21)));
        assert_eq!(map.part(3, 6).place(1), Some(at(20)));
        assert_eq!(map.part(3, 6).place(4), Some(at(21)));
    }
}
