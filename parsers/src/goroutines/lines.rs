//! Walking a text line by line, with offsets and numbers, and what blanks mean.

use memchr::memchr;

/// A line without its newline.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'t> {
    /// The bytes as they stand, up to the newline.
    pub raw: &'t [u8],
    /// Offset of the first byte in the text.
    pub start: usize,
    /// From 1.
    pub number: u32,
}

impl<'t> Line<'t> {
    /// Without blanks at the end (`\r` of Windows files, padding of mail programs).
    pub fn without_tail(&self) -> &'t [u8] {
        trim_end(self.raw)
    }

    /// Without blanks at either end: dumps lose, gain and change their indent on the way.
    pub fn trimmed(&self) -> &'t [u8] {
        trim_start(trim_end(self.raw))
    }

    /// Whether nothing but blanks stands here.
    pub fn is_blank(&self) -> bool {
        self.trimmed().is_empty()
    }

    /// Whether the line begins with a blank.
    pub fn is_indented(&self) -> bool {
        self.raw.first().is_some_and(|&b| is_blank(b))
    }

    /// Offset in the text of `part`, a slice of this line.
    pub fn offset_of(&self, part: &[u8]) -> usize {
        self.start + (part.as_ptr() as usize).saturating_sub(self.raw.as_ptr() as usize).min(self.raw.len())
    }

    /// Offset behind the last byte.
    pub fn end(&self) -> usize {
        self.start + self.raw.len()
    }
}

/// A place in a text from which lines can be read; copies look ahead.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lines<'t> {
    text: &'t [u8],
    at: usize,
    number: u32,
}

impl<'t> Lines<'t> {
    /// All lines of `text`.
    pub fn new(text: &'t [u8]) -> Self {
        Lines { text, at: 0, number: 1 }
    }

    /// Offset of the next line.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// Number of the next line, from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The next line that is not blank, skipping at most `limit` blank ones.
    pub fn next_filled(&mut self, limit: usize) -> Option<Line<'t>> {
        for _ in 0..=limit {
            let line = self.next()?;
            if !line.is_blank() {
                return Some(line);
            }
        }
        None
    }
}

impl<'t> Iterator for Lines<'t> {
    type Item = Line<'t>;

    #[inline]
    fn next(&mut self) -> Option<Line<'t>> {
        let rest = self.text.get(self.at..)?;
        if rest.is_empty() {
            return None;
        }
        let (raw, step) = match memchr(b'\n', rest) {
            Some(len) => (rest.get(..len)?, len + 1),
            None => (rest, rest.len()),
        };
        let line = Line { raw, start: self.at, number: self.number };
        self.at += step;
        self.number = self.number.saturating_add(1);
        Some(line)
    }
}

/// Blanks of ASCII within a line.
pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c)
}

/// Without blanks at the end.
#[inline]
pub(super) fn trim_end(mut bytes: &[u8]) -> &[u8] {
    while let [rest @ .., last] = bytes {
        if !is_blank(*last) {
            break;
        }
        bytes = rest;
    }
    bytes
}

/// Without blanks at the start.
#[inline]
pub(super) fn trim_start(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes {
        if !is_blank(*first) {
            break;
        }
        bytes = rest;
    }
    bytes
}

/// `bytes` as text, with what is not UTF-8 replaced.
pub(super) fn text_of(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
