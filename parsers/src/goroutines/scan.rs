//! From text to items: goroutines, the lines around them, and what is foreign to a dump.
//!
//! A scan knows nothing of snapshots. It reads what stands there, in order; [`super::dump`] then decides what belongs
//! together. Scans of parts of a text that begin at headers can be joined, which is how large dumps use all cores.

use super::block::Block;
use super::header::{self, Header};
use super::lines::{Line, Lines};
use super::notices::{self, RawNotice};
use super::profile::Profile;
use super::race::Race;
use super::sites::SiteTable;
use super::{frame, marks};
use crate::evidence::{Frame, Severity};
use memchr::memmem;

/// Something that a scan met, in the order of the text.
#[derive(Debug)]
pub(super) enum Item {
    /// A goroutine's block.
    Goroutine(Block),
    /// A line that says why the dump was made.
    Notice(RawNotice),
    /// A line that structures dumps.
    Mark(Mark),
    /// `debug=1` output.
    Profile(Profile),
    /// A report of the race detector.
    Race(Race),
    /// Lines that belong to no dump.
    Foreign { lines: u32 },
}

/// A line that structures dumps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    pub kind: MarkKind,
    pub line: u32,
    /// Offsets of its first byte and behind its last.
    pub span: (usize, usize),
}

/// What a [`Mark`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MarkKind {
    /// `-----` between the threads of a crash dump.
    Rule,
    /// A block of registers, and the architecture that it tells.
    Registers(Option<&'static str>),
    /// `runtime stack:` or goroutine 0, with its frames; whether lines of it are missing.
    ThreadStack(bool),
    /// `=== BEGIN goroutine stack dump ===`.
    Begin,
    /// `=== END goroutine stack dump ===`.
    End,
    /// `[... cut ...]`: somebody took lines out.
    Cut,
}

/// A problem of a scan, by the line of the scanned text.
#[derive(Debug, Clone)]
pub(super) struct RawProblem {
    pub severity: Severity,
    pub line: u32,
    pub message: String,
}

/// An ancestor's block within a goroutine's.
#[derive(Debug)]
pub(super) struct RawAncestor {
    pub id: u64,
    pub sites: Vec<u32>,
}

/// What was read of a text, or of a part of it that begins at a header.
#[derive(Debug)]
pub(super) struct Scan<'t> {
    pub items: Vec<Item>,
    pub frames: Vec<Frame>,
    pub sites: SiteTable<'t>,
    pub ancestors: Vec<RawAncestor>,
    pub problems: Vec<RawProblem>,
    /// What has not been read yet.
    pub(super) lines: Lines<'t>,
}

/// Foreign lines since the last goroutine within which a header is believed more readily.
const NEAR: u32 = 3;

impl<'t> Scan<'t> {
    /// Reads all of `text`.
    pub fn of(text: &'t [u8]) -> Self {
        let mut scan = Scan {
            items: Vec::new(),
            frames: Vec::new(),
            sites: SiteTable::default(),
            ancestors: Vec::new(),
            problems: Vec::new(),
            lines: Lines::new(text),
        };
        while let Some(line) = scan.lines.next() {
            scan.outside(line);
        }
        scan
    }

    pub(super) fn problem(&mut self, severity: Severity, line: u32, message: impl Into<String>) {
        // Twice the limit, since problems of many dumps share this list before they are handed out.
        if self.problems.len() < 2 * crate::limits::PROBLEMS {
            self.problems.push(RawProblem { severity, line, message: message.into() });
        }
    }

    /// Reads a line that stands in no goroutine's block.
    fn outside(&mut self, line: Line<'t>) {
        let text = line.trimmed();
        let Some(&first) = text.first() else { return };
        if first == b'g' && self.opens_goroutine(line, text) {
            return;
        }
        if let Some(kind) = marks::mark(text) {
            self.mark(kind, line);
            return;
        }
        if let Some(profile) = Profile::read(self, line, text) {
            self.items.push(Item::Profile(profile));
            return;
        }
        if let Some(race) = Race::read(self, line, text) {
            self.items.push(Item::Race(race));
            return;
        }
        if let Some(notice) = notices::read(&mut self.lines, line) {
            self.items.push(Item::Notice(notice));
            return;
        }
        if text.ends_with(b")") && self.continues_headless(line, text) {
            return;
        }
        if self.opens_behind_prefix(line, text) {
            return;
        }
        match self.items.last_mut() {
            Some(Item::Foreign { lines }) => *lines = lines.saturating_add(1),
            _ => self.items.push(Item::Foreign { lines: 1 }),
        }
    }

    /// A header at the start of a line.
    fn opens_goroutine(&mut self, line: Line<'t>, text: &'t [u8]) -> bool {
        let Some(header) = header::header(text) else {
            return false;
        };
        if !self.is_believed(&header, &line) {
            return false;
        }
        self.block(Some(header), line);
        true
    }

    /// A header behind what a log library wrote before it on the same line: `dump stacks: goroutine 1 [running]:`.
    fn opens_behind_prefix(&mut self, line: Line<'t>, text: &'t [u8]) -> bool {
        if text.len() > crate::limits::LINE || !text.ends_with(b":") {
            return false;
        }
        let Some(at) = memmem::rfind(text, b"goroutine ") else {
            return false;
        };
        let tail = text.get(at..).unwrap_or_default();
        let blank_before = at.checked_sub(1).and_then(|b| text.get(b)).is_some_and(|b| !b.is_ascii_alphanumeric());
        let Some(header) = header::header(tail).filter(|h| !h.cut && h.trailing.is_empty()) else {
            return false;
        };
        if !blank_before || !self.frame_follows() {
            return false;
        }
        let start = line.offset_of(tail);
        self.block(Some(header), Line { raw: tail, start, number: line.number });
        true
    }

    /// Frames without a header before them: the start of the dump, or a header, is missing.
    fn continues_headless(&mut self, line: Line<'t>, text: &'t [u8]) -> bool {
        if frame::function(text).is_none_or(|f| !f.name.contains(&b'.')) {
            return false;
        }
        let is_location = self.lines.clone().next().is_some_and(|next| is_strict_location(&next));
        if !is_location {
            return false;
        }
        self.block(None, line);
        true
    }

    /// Whether a header opens a goroutine: what follows it is a traceback, not prose.
    fn is_believed(&self, header: &Header<'t>, line: &Line<'t>) -> bool {
        let near_dump = match self.items.as_slice() {
            [.., Item::Goroutine(_)] | [.., Item::Mark(_)] | [.., Item::Notice(_)] => true,
            [.., Item::Goroutine(_), Item::Foreign { lines }] => *lines <= NEAR,
            _ => false,
        };
        let mut ahead = self.lines;
        if !header.trailing.is_empty() {
            return self.frame_follows();
        }
        if header.cut {
            // Only a text's last line is cut off; and a person's sentence is not.
            return near_dump && !line.is_indented() && ahead.next_filled(4).is_none_or(|l| marks::is_cut(l.trimmed()));
        }
        for _ in 0..4 {
            let Some(next) = ahead.next_filled(2) else {
                return true;
            };
            let text = next.trimmed();
            if super::block::is_dump_line(text) {
                return true;
            }
            if !marks::is_log_line(text) {
                return near_dump;
            }
        }
        near_dump
    }

    /// Whether the next lines are a function and its file.
    fn frame_follows(&self) -> bool {
        let mut ahead = self.lines;
        let is_function = ahead.next_filled(1).is_some_and(|l| frame::function(l.trimmed()).is_some());
        is_function && ahead.next_filled(1).is_some_and(|l| is_location(&l))
    }

    fn mark(&mut self, kind: MarkKind, line: Line<'t>) {
        let mut span = (line.start, line.end());
        if let MarkKind::Registers(arch) = kind {
            let mut arch = arch;
            // The block goes on: one mark for all of it.
            let mut ahead = self.lines;
            while let Some(next) = ahead.next() {
                let Some(MarkKind::Registers(more)) = marks::mark(next.trimmed()) else {
                    break;
                };
                arch = arch.or(more);
                span.1 = next.end();
                self.lines = ahead;
            }
            self.items.push(Item::Mark(Mark { kind: MarkKind::Registers(arch), line: line.number, span }));
            return;
        }
        if matches!(kind, MarkKind::ThreadStack(_)) {
            self.thread_stack(line);
            return;
        }
        self.items.push(Item::Mark(Mark { kind, line: line.number, span }));
    }
}

/// Whether a line is a file line with a known suffix or an offset.
pub(super) fn is_location(line: &Line<'_>) -> bool {
    frame::location(frame::split_registers(line.without_tail()).0, false).is_some()
}

/// Whether a line is a file line as the runtime prints it, with nothing lost.
fn is_strict_location(line: &Line<'_>) -> bool {
    let core = frame::split_registers(line.without_tail()).0;
    line.is_indented() && frame::location(core, false).is_some_and(|l| !l.file.contains(&b' '))
}
