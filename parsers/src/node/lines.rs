//! The lines of a text, each with its number and the way back to the user's file.

use crate::evidence::{LineMap, Place};
use crate::limits;
use std::borrow::Cow;

/// A text, seen as lines.
#[derive(Clone, Copy)]
pub(super) struct Lines<'a> {
    bytes: &'a [u8],
    map: &'a LineMap,
    input: u32,
}

/// One line.
#[derive(Clone)]
pub(super) struct Line<'a> {
    /// Without its end, cut at [`limits::LINE`]; what is not UTF-8 is replaced.
    pub text: Cow<'a, str>,
    /// Line number in the text, from 1.
    pub number: u32,
    /// Where it begins.
    pub start: usize,
    /// Where the next line begins.
    pub next: usize,
}

impl<'a> Lines<'a> {
    pub(super) fn new(bytes: &'a [u8], map: &'a LineMap, input: u32) -> Self {
        Lines { bytes, map, input }
    }

    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The line that begins at `start`; `None` at the end of the text.
    pub(super) fn at(&self, start: usize, number: u32) -> Option<Line<'a>> {
        let rest = self.bytes.get(start..).filter(|r| !r.is_empty())?;
        let len = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let next = start.saturating_add(len).saturating_add(1).min(self.bytes.len());
        let mut raw = rest.get(..len.min(limits::LINE)).unwrap_or(&[]);
        if let Some(without) = raw.strip_suffix(b"\r") {
            raw = without;
        }
        Some(Line { text: String::from_utf8_lossy(raw), number, start, next })
    }

    /// The line behind `line`.
    pub(super) fn after(&self, line: &Line<'a>) -> Option<Line<'a>> {
        self.at(line.next, line.number.saturating_add(1))
    }

    /// The line before `line`.
    pub(super) fn before(&self, line: &Line<'a>) -> Option<Line<'a>> {
        let end = line.start.checked_sub(1)?;
        let start = memchr::memrchr(b'\n', self.bytes.get(..end)?).map_or(0, |at| at + 1);
        self.at(start, line.number.saturating_sub(1))
    }

    /// The lines from `line` on, itself included.
    pub(super) fn from(self, line: &Line<'a>) -> impl Iterator<Item = Line<'a>> + use<'a> {
        let mut next = Some(line.clone());
        std::iter::from_fn(move || {
            let line = next.take()?;
            next = self.after(&line);
            Some(line)
        })
    }

    /// Where line `number` of the text stands in the user's file.
    pub(super) fn place(&self, number: u32) -> Option<Place> {
        self.map.place(number).or(Some(Place { input: self.input, line: number }))
    }

    /// The line of the user's file, for records that keep only the line.
    pub(super) fn source_line(&self, number: u32) -> u32 {
        self.place(number).map_or(number, |p| p.line)
    }
}

/// Where a parser stopped: the first line that is no longer its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stop {
    pub start: usize,
    pub number: u32,
}

impl Stop {
    /// Behind `line`.
    pub(super) fn after(line: &Line<'_>) -> Self {
        Stop { start: line.next, number: line.number.saturating_add(1) }
    }
}

/// Whitespace-separated words with the byte at which each begins.
pub(super) fn words(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut at = 0;
    for word in text.split([' ', '\t', '\u{a0}']) {
        if !word.is_empty() {
            found.push((at, word));
        }
        at += word.len();
        // The separator itself: one byte, but two for a no-break space.
        at += text.get(at..).and_then(|t| t.chars().next()).map_or(0, char::len_utf8);
    }
    found
}
