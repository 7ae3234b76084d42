//! Building a recovered text line by line, with the map back to where each line stood.

use super::Stream;
use crate::evidence::{LineMap, Place, Problem, ProcessHint, Severity, Text};
use jiff::Timestamp;

/// Lines of `bytes` with their number from 1, without line ends.
pub(crate) fn lines(bytes: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    let mut rest = Some(bytes).filter(|b| !b.is_empty());
    let mut number = 0u32;
    std::iter::from_fn(move || {
        let text = rest?;
        number = number.saturating_add(1);
        let (line, tail) = match memchr::memchr(b'\n', text) {
            Some(at) => (text.get(..at)?, text.get(at + 1..).filter(|t| !t.is_empty())),
            None => (text, None),
        };
        rest = tail;
        Some((number, line))
    })
}

/// A text under construction: the lines of `outer` without what wrapped them.
pub(crate) struct Recovered<'a> {
    outer: &'a Stream,
    out: Vec<u8>,
    lines: LineMap,
    next: u32,
    times: Vec<(u32, Timestamp)>,
    stamped: bool,
    process: Option<ProcessHint>,
    problems: super::loss::Tally,
    seams: Vec<(usize, Place)>,
}

impl<'a> Recovered<'a> {
    pub fn of(outer: &'a Stream) -> Self {
        Recovered {
            outer,
            out: Vec::new(),
            lines: LineMap::default(),
            next: 1,
            times: Vec::new(),
            stamped: false,
            process: None,
            problems: super::loss::Tally::default(),
            seams: Vec::new(),
        }
    }

    pub fn reserve(&mut self, bytes: usize) {
        self.out.reserve(bytes);
    }

    /// Appends one line that stood in line `from` of the outer text.
    pub fn line(&mut self, line: &[u8], from: u32) {
        if let Some(at) = self.outer.lines.place(from) {
            self.lines.push(self.next, at);
        }
        if !self.stamped
            && !self.outer.times.is_empty()
            && let Some(time) = self.outer.time_at(from)
        {
            self.push_time(time);
        }
        self.next = self.next.saturating_add(1);
        self.out.extend_from_slice(line);
        self.out.push(b'\n');
    }

    /// Appends to the last line, which was split, what stood in line `from` of the outer text.
    pub fn join(&mut self, rest: &[u8], from: u32) {
        if self.out.last() == Some(&b'\n') {
            self.out.pop();
        }
        if let Some(at) = self.outer.lines.place(from) {
            self.seams.push((self.out.len(), at));
        }
        self.out.extend_from_slice(rest);
        self.out.push(b'\n');
    }

    /// Appends text that may hold several lines, all from line `from` of the outer text.
    pub fn text(&mut self, text: &[u8], from: u32) {
        if text.is_empty() {
            self.line(b"", from);
        }
        for (_, line) in lines(text) {
            self.line(line, from);
        }
    }

    /// Appends text that may hold several lines, all from `at` in the user's file.
    pub fn text_at(&mut self, text: &[u8], at: Option<Place>) {
        for (_, line) in lines(text) {
            if let Some(at) = at {
                self.lines.push(self.next, at);
            }
            self.next = self.next.saturating_add(1);
            self.out.extend_from_slice(line);
            self.out.push(b'\n');
        }
    }

    /// Says when the next line was written; from then on the envelope's times count, not the outer text's.
    pub fn written_at(&mut self, time: Timestamp) {
        self.stamped = true;
        self.push_time(time);
    }

    fn push_time(&mut self, time: Timestamp) {
        if self.times.last().is_none_or(|&(_, last)| last != time) {
            self.times.push((self.next, time));
        }
    }

    /// Says which process wrote it; what is not told stays as the outer text had it.
    pub fn process(&mut self, process: ProcessHint) {
        self.process = Some(process);
    }

    /// A problem at line `from` of the outer text.
    pub fn problem_at(&mut self, severity: Severity, from: u32, message: impl Into<String>) {
        let line = self.outer.lines.place(from).map(|at| at.line);
        self.problems.add(Problem::new(severity, line, message));
    }

    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    pub fn has_problems(&self) -> bool {
        !self.problems.is_empty()
    }

    /// The last line appended.
    pub fn last_line(&self) -> &[u8] {
        let body = self.out.strip_suffix(b"\n").unwrap_or(&self.out);
        let start = memchr::memrchr(b'\n', body).map_or(0, |at| at + 1);
        body.get(start..).unwrap_or(&[])
    }

    /// The stream that the outer text held in an envelope called `name`.
    pub fn finish(self, name: &str) -> Stream {
        let outer = self.outer;
        let told = self.process.unwrap_or_default();
        let mut stream = Stream {
            text: Text::from_vec(self.out),
            lines: self.lines,
            envelopes: outer.envelopes.clone(),
            process: ProcessHint {
                pid: told.pid.or(outer.process.pid),
                name: told.name.or_else(|| outer.process.name.clone()),
                host: told.host.or_else(|| outer.process.host.clone()),
                ..outer.process.clone()
            },
            written_at: self.times.first().map(|&(_, time)| time).or(outer.written_at),
            times: self.times,
            problems: outer.problems.clone(),
            seams: self.seams,
        };
        if !name.is_empty() && !stream.envelopes.iter().any(|known| known == name) {
            stream.envelopes.push(name.to_string());
        }
        for problem in self.problems.into_problems() {
            super::loss::keep(&mut stream.problems, problem);
        }
        stream
    }
}
