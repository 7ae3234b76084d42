//! pprof's `debug=1` text of the goroutine and goroutineleak profiles.
//!
//! ```text
//! goroutine profile: total 101
//! 3 @ 0x48b90a 0x4667f2
//! # labels: {"pod":"kube-system/coredns-x"}
//! #  0x48cec4  internal/sync.runtime_SemacquireMutex+0x24  /usr/go/src/runtime/sema.go:95
//! ```
//!
//! Equal stacks are one group; there are no ids, states, arguments or creators (`runtime/pprof/pprof.go`,
//! `printCountProfile`). Groups are sorted by count since Go 1.7, labels came with 1.15, `goroutineleak` with 1.26.
//! Columns are padded with tabs, which may have become blanks on the way.

use super::dump::Draft;
use super::frame::{self, Function};
use super::lines::{Line, is_blank, text_of, trim_start};
use super::marks;
use super::parts::Shift;
use super::scan::Scan;
use super::snapshot::Builder;
use crate::evidence::{Flags, Frame, Goroutine, Notice, NoticeKind, Problem, Severity, SiteId, SiteKind, Snapshot};
use crate::limits;
use std::ops::Range;

/// A profile as it stands in the text.
#[derive(Debug)]
pub(super) struct Profile {
    pub span: (usize, usize),
    pub lines: (u32, u32),
    /// The first line.
    title: String,
    total: u64,
    groups: Vec<Group>,
}

/// Goroutines with the same stack and labels.
#[derive(Debug)]
struct Group {
    count: u32,
    labels: Range<usize>,
    start: usize,
    end: usize,
    line: u32,
    /// Range of the scan's frames.
    frames: Range<usize>,
    cut: bool,
}

/// The total of a profile's first line: `goroutine profile: total 101`.
pub(super) fn total(text: &[u8]) -> Option<u64> {
    let rest = text.strip_prefix(b"goroutine").map(|t| t.strip_prefix(b"leak").unwrap_or(t))?;
    let digits = rest.strip_prefix(b" profile: total ")?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

impl Profile {
    /// Reads a profile that begins with `line`.
    pub fn read<'t>(scan: &mut Scan<'t>, line: Line<'t>, text: &'t [u8]) -> Option<Self> {
        let total = total(text)?;
        let mut profile = Profile {
            span: (line.start, line.end()),
            lines: (line.number, line.number),
            title: text_of(text).into_owned(),
            total,
            groups: Vec::new(),
        };
        let mut at = scan.lines;
        while let Some(line) = at.next() {
            let text = line.trimmed();
            if !text.is_empty() {
                if !profile.line(scan, &line, text) {
                    break;
                }
                profile.span.1 = line.end();
                profile.lines.1 = line.number;
            }
            scan.lines = at;
        }
        Some(profile)
    }

    /// Reads a line; `false` if it is none of a profile.
    fn line<'t>(&mut self, scan: &mut Scan<'t>, line: &Line<'t>, text: &'t [u8]) -> bool {
        if let Some(count) = group_count(text) {
            let frames = scan.frames.len()..scan.frames.len();
            let (start, end) = (line.offset_of(text), line.end());
            self.groups.push(Group { count, labels: 0..0, start, end, line: line.number, frames, cut: false });
            return true;
        }
        if marks::is_cut(text) {
            scan.problem(Severity::Warning, line.number, "lines of the profile were taken out here");
            if let Some(group) = self.groups.last_mut() {
                group.cut = true;
            }
            return true;
        }
        let (Some(rest), Some(group)) = (text.strip_prefix(b"#").map(trim_start), self.groups.last_mut()) else {
            return false;
        };
        group.end = line.end();
        if let Some(labels) = rest.strip_prefix(b"labels:").map(trim_start) {
            let inner = labels.strip_prefix(b"{").and_then(|l| l.strip_suffix(b"}")).unwrap_or(labels);
            group.labels = line.offset_of(inner)..line.offset_of(inner) + inner.len();
            return true;
        }
        let Some(read) = read_frame(rest) else {
            group.cut = true;
            let message = "a line of the profile is not whole or not understood; its frame is left out";
            scan.problem(Severity::Warning, line.number, message);
            return true;
        };
        if group.frames.len() >= limits::FRAMES_PER_GOROUTINE as usize {
            return true;
        }
        let function = Function { name: read.name, args: b"", kind: SiteKind::Go, creator: None, cut: false };
        let location = frame::location(read.place, true);
        let location = location.map(|l| frame::Location { offset: read.offset, ..l });
        let site = scan.sites.intern(&function, read.pc, location);
        let end_of_name = line.offset_of(read.name) + read.name.len();
        let args_start = u32::try_from(end_of_name.saturating_sub(group.start)).unwrap_or(u32::MAX);
        scan.frames.push(Frame { site: SiteId(site), line: line.number, args_start, args_len: 0 });
        group.frames.end = scan.frames.len();
        true
    }

    /// Moves a profile that was read in a part of the text to its place in the whole.
    pub fn shift(&mut self, shift: Shift) {
        shift.span(&mut self.span);
        self.lines = (self.lines.0.saturating_add(shift.lines), self.lines.1.saturating_add(shift.lines));
        for group in &mut self.groups {
            shift.range(&mut group.labels);
            shift.frames(&mut group.frames);
            group.start += shift.bytes;
            group.end += shift.bytes;
            group.line = group.line.saturating_add(shift.lines);
        }
    }

    /// Fills `snapshot` with the groups.
    pub fn fill(self, snapshot: &mut Snapshot, builder: &mut Builder<'_, '_>, draft: &Draft) {
        let before = draft.lines.0.saturating_sub(1);
        snapshot.notices.push(Notice { kind: NoticeKind::ProfileTotal, text: self.title, line: 1 });
        let mut counted = 0u64;
        let mut whole = true;
        for group in &self.groups {
            counted += u64::from(group.count);
            whole &= !group.cut;
            let first_frame = snapshot.frames.len() as u32;
            builder.copy_frames(snapshot, group.frames.clone(), before);
            let mut flags = Flags::default();
            if group.cut {
                flags.set(Flags::CUT);
            }
            let labels = builder.name(snapshot, &group.labels);
            snapshot.goroutines.push(Goroutine {
                count: group.count,
                flags,
                labels,
                first_frame,
                frame_count: snapshot.frames.len() as u32 - first_frame,
                text_start: group.start.saturating_sub(draft.span.0),
                text_len: group.end.saturating_sub(group.start),
                line: group.line.saturating_sub(before),
                ..Goroutine::default()
            });
        }
        if counted != self.total {
            whole = false;
            let line = snapshot.place(self.lines.1.saturating_sub(before)).map(|p| p.line);
            let message =
                format!("the profile counts {} goroutines, its groups only {counted}: some are missing", self.total);
            snapshot.problems.push(Problem::warning(line, message));
        }
        snapshot.complete = whole;
    }
}

/// The count of `3 @ 0x48b90a 0x4667f2`.
fn group_count(text: &[u8]) -> Option<u32> {
    let at = text.iter().position(|&b| b == b'@')?;
    let rest = trim_start(text.get(at + 1..)?);
    if !(rest.is_empty() || rest.starts_with(b"0x")) {
        return None;
    }
    std::str::from_utf8(text.get(..at)?).ok()?.trim().parse().ok()
}

/// A frame's line, without its `#`.
struct Read<'t> {
    pc: &'t [u8],
    name: &'t [u8],
    offset: Option<u32>,
    /// `FILE:LINE`.
    place: &'t [u8],
}

/// Reads `0x48cec4 main.f+0x24 /go/x.go:95`; an address alone is a frame without a function.
fn read_frame(text: &[u8]) -> Option<Read<'_>> {
    let (pc, rest) = word(text);
    if !pc.starts_with(b"0x") {
        return None;
    }
    let rest = trim_start(rest);
    if rest.is_empty() {
        return Some(Read { pc, name: pc, offset: None, place: b"" });
    }
    // The offset ends the function's name, which may hold blanks (unnamed struct types).
    let plus = memchr::memmem::find(rest, b"+0x")?;
    let (name, tail) = rest.split_at(plus);
    let (offset, place) = word(tail);
    let place = trim_start(place);
    let digits = offset.strip_prefix(b"+0x")?;
    if place.is_empty() {
        return None;
    }
    let offset = u32::try_from(super::header::hex_value(digits)).ok().filter(|&o| o != 0);
    Some(Read { pc, name, offset, place })
}

fn word(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.iter().position(|&b| is_blank(b)).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_profile() {
        assert_eq!(total(b"goroutine profile: total 101"), Some(101));
        assert_eq!(total(b"goroutineleak profile: total 1"), Some(1));
        assert_eq!(total(b"threadcreate profile: total 12"), None);
        assert_eq!(group_count(b"3 @ 0x48b90a 0x4667f2"), Some(3));
        assert_eq!(group_count(b"3 users @ home"), None);
        let read = read_frame(b"0x48cec4\tinternal/sync.(*M[...]).f+0x24\t\t/a b/c.go:95").expect("a frame");
        assert_eq!((read.name, read.offset), (&b"internal/sync.(*M[...]).f"[..], Some(0x24)));
        assert_eq!(read.place, b"/a b/c.go:95");
        assert!(read_frame(b"0x48cec4\tinternal/sync.f+0x2").is_none());
        assert_eq!(read_frame(b"0x401234").map(|r| r.name), Some(&b"0x401234"[..]));
    }
}
