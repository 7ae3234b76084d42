//! A bounded look at a text: its start, and the surroundings of a few dump headers.

use super::recover::lines;
use super::shape;

/// Lines looked at in one window.
const WINDOW: usize = 60;
/// How much of a very long line is looked at by most peelers.
const REACH: usize = 16 * 1024;

/// Some lines of a text that stand together.
pub(crate) struct Window<'a> {
    pub lines: Vec<&'a [u8]>,
}

impl<'a> Window<'a> {
    /// The lines that are not empty.
    pub fn filled(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        self.lines.iter().copied().filter(|line| !line.trim_ascii().is_empty())
    }

    /// Whether at least `part` of 100 lines that are not empty satisfy `test`; never for fewer than `least` such lines.
    pub fn mostly(&self, part: usize, least: usize, test: impl Fn(&[u8]) -> bool) -> bool {
        let (mut all, mut good) = (0usize, 0usize);
        for line in self.filled() {
            all += 1;
            good += usize::from(test(line));
        }
        good >= least && good * 100 >= all * part
    }
}

/// The windows of a text, and whether anything in it looks like a dump.
pub(crate) struct Sample<'a> {
    /// The first lines.
    pub head: Window<'a>,
    /// Lines around headers, each beginning a few lines before one.
    pub around: Vec<Window<'a>>,
    /// Offsets of the headers that the windows were made for.
    pub headers: Vec<usize>,
}

impl<'a> Sample<'a> {
    pub fn of(bytes: &'a [u8]) -> Self {
        let head = window(bytes, 0);
        let mut headers: Vec<usize> = shape::headers_in(bytes).take(3).collect();
        if let Some(&first) = headers.first() {
            // A text may change its envelope on the way (files glued together), so a later part is looked at too.
            for part in [2, 4] {
                let from = first + (bytes.len() - first) * part / 5;
                let rest = bytes.get(from..).unwrap_or(&[]);
                headers.extend(shape::headers_in(rest).next().map(|at| from + at));
            }
            headers.dedup();
        }
        let around = headers.iter().map(|&at| window(bytes, before(bytes, at, 3))).collect();
        Sample { head, around, headers }
    }

    /// All windows.
    pub fn all(&self) -> impl Iterator<Item = &Window<'a>> {
        std::iter::once(&self.head).chain(&self.around)
    }
}

fn window(bytes: &[u8], from: usize) -> Window<'_> {
    let text = bytes.get(from..).unwrap_or(&[]);
    Window {
        lines: lines(text).take(WINDOW).map(|(_, line)| line.get(..line.len().min(REACH)).unwrap_or(line)).collect(),
    }
}

/// Start of the line that lies `count` lines before the one with offset `at`.
fn before(bytes: &[u8], at: usize, count: usize) -> usize {
    let mut start = line_start(bytes, at);
    for _ in 0..count {
        if start == 0 {
            break;
        }
        start = line_start(bytes, start - 1);
    }
    start
}

/// Start of the line that offset `at` lies in.
pub(crate) fn line_start(bytes: &[u8], at: usize) -> usize {
    memchr::memrchr(b'\n', bytes.get(..at).unwrap_or(&[])).map_or(0, |newline| newline + 1)
}

/// End of the line that offset `at` lies in, without its line end.
pub(crate) fn line_end(bytes: &[u8], at: usize) -> usize {
    memchr::memchr(b'\n', bytes.get(at..).unwrap_or(&[])).map_or(bytes.len(), |newline| at + newline)
}
