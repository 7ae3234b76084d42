//! Reports of the race detector.
//!
//! ```text
//! WARNING: DATA RACE
//! Write at 0x00c000098020 by goroutine 8:
//!   main.f()
//!       /go/main.go:15 +0xbc
//!
//! Goroutine 8 (running) created at:
//!   main.main()
//!       /go/main.go:22 +0x10c
//! ==================
//! ```
//!
//! The text is ThreadSanitizer's (`compiler-rt/lib/tsan/rtl/tsan_report.cpp`, the part for Go), the same in all
//! versions. `[failed to restore the stack]` stands in for frames. What accessed the data are goroutines here; where
//! they were created is their creator.

use super::dump::Draft;
use super::frame;
use super::lines::{Line, text_of};
use super::parts::Shift;
use super::scan::Scan;
use super::snapshot::Builder;
use crate::evidence::{CreatedBy, Flags, Frame, Goroutine, Notice, NoticeKind, SiteId, Snapshot};
use std::ops::Range;

/// A report as it stands in the text.
#[derive(Debug)]
pub(super) struct Race {
    pub span: (usize, usize),
    pub lines: (u32, u32),
    sections: Vec<Section>,
}

/// A heading and the frames below it.
#[derive(Debug)]
struct Section {
    kind: SectionKind,
    id: Option<u64>,
    heading: String,
    start: usize,
    end: usize,
    line: u32,
    /// Range of the scan's frames.
    frames: Range<usize>,
    /// Where the word in parentheses stands: `running`, `finished`.
    state: Range<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SectionKind {
    /// `Write at 0x… by goroutine 8:`.
    Access,
    /// `Goroutine 8 (running) created at:`.
    Created,
    /// `As if synchronized via sleep:`, `Mutex M1 created at:`.
    Other,
}

/// The rule around reports.
const RULE: &[u8] = b"==================";

/// Whether `text` begins a report.
pub(super) fn opens(text: &[u8]) -> bool {
    text == b"WARNING: DATA RACE"
}

impl Race {
    /// Reads a report that begins with `line`.
    pub fn read<'t>(scan: &mut Scan<'t>, line: Line<'t>, text: &'t [u8]) -> Option<Self> {
        if !opens(text) {
            return None;
        }
        let mut race = Race { span: (line.start, line.end()), lines: (line.number, line.number), sections: Vec::new() };
        let mut at = scan.lines;
        while let Some(line) = at.next() {
            let text = line.trimmed();
            if opens(text) || super::header::is_plain_header(text) {
                break;
            }
            if !text.is_empty() && text != RULE {
                if let Some(section) = Section::read(&line, text, scan.frames.len()) {
                    race.sections.push(section);
                } else if !race.frame(scan, &line, text, &mut at) {
                    break;
                }
            }
            let end = race.sections.last().map_or(0, |section| section.end);
            race.span.1 = line.end().max(end);
            race.lines.1 = at.number().saturating_sub(1);
            scan.lines = at;
            if text == RULE {
                break;
            }
        }
        Some(race)
    }

    /// Reads a function's line and the file line behind it; `false` if this is none.
    fn frame<'t>(
        &mut self,
        scan: &mut Scan<'t>,
        line: &Line<'t>,
        text: &'t [u8],
        at: &mut super::lines::Lines<'t>,
    ) -> bool {
        let Some(section) = self.sections.last_mut() else { return false };
        if text.starts_with(b"[failed to restore the stack]") {
            return true;
        }
        let Some(function) = frame::function(text) else { return false };
        let mut ahead = *at;
        let core = ahead.next().map(|next| (next.trimmed(), next)).unwrap_or((b"", *line));
        let location = frame::location(core.0, false);
        if location.is_some() {
            *at = ahead;
            section.end = core.1.end();
        }
        let site = scan.sites.intern(&function, if location.is_some() { core.0 } else { b"" }, location);
        let start = line.offset_of(function.args).saturating_sub(section.start);
        scan.frames.push(Frame {
            site: SiteId(site),
            line: line.number,
            args_start: u32::try_from(start).unwrap_or(u32::MAX),
            args_len: function.args.len() as u32,
        });
        section.frames.end = scan.frames.len();
        true
    }

    /// Moves a report that was read in a part of the text to its place in the whole.
    pub fn shift(&mut self, shift: Shift) {
        shift.span(&mut self.span);
        self.lines = (self.lines.0.saturating_add(shift.lines), self.lines.1.saturating_add(shift.lines));
        for section in &mut self.sections {
            shift.range(&mut section.state);
            shift.frames(&mut section.frames);
            section.start += shift.bytes;
            section.end += shift.bytes;
            section.line = section.line.saturating_add(shift.lines);
        }
    }

    /// Fills `snapshot` with the goroutines that accessed the data.
    pub fn fill(self, snapshot: &mut Snapshot, builder: &mut Builder<'_, '_>, draft: &Draft) {
        let before = draft.lines.0.saturating_sub(1);
        for section in self.sections.iter().filter(|s| s.kind == SectionKind::Access) {
            let line = section.line.saturating_sub(before);
            snapshot.notices.push(Notice { kind: NoticeKind::Race, text: section.heading.clone(), line });
            if snapshot.goroutines.iter().any(|g| g.id == section.id) {
                continue;
            }
            let first_frame = snapshot.frames.len() as u32;
            builder.copy_frames(snapshot, section.frames.clone(), before);
            let frame_count = snapshot.frames.len() as u32 - first_frame;
            let created = self.sections.iter().find(|s| s.kind == SectionKind::Created && s.id == section.id);
            let state = created.map(|c| builder.name(snapshot, &c.state)).unwrap_or_default();
            let created_by = created.and_then(|c| builder.frame(c.frames.start)).map(|frame| CreatedBy {
                site: builder.site(snapshot, frame.site.0),
                line: frame.line.saturating_sub(before),
                goroutine: None,
            });
            let mut flags = Flags::default();
            if frame_count == 0 {
                flags.set(Flags::UNAVAILABLE);
            }
            snapshot.goroutines.push(Goroutine {
                id: section.id,
                count: 1,
                state,
                flags,
                first_frame,
                frame_count,
                created_by,
                text_start: section.start.saturating_sub(draft.span.0),
                text_len: section.end.saturating_sub(section.start),
                line,
                ..Goroutine::default()
            });
        }
        // A report shows two goroutines of many by design; it is whole when both are there.
        snapshot.complete = snapshot.goroutines.len() >= 2;
    }
}

impl Section {
    fn read(line: &Line<'_>, text: &[u8], first_frame: usize) -> Option<Self> {
        let heading = std::str::from_utf8(text).ok()?.strip_suffix(':')?;
        let id_after = |mark: &str| {
            let rest = heading.get(heading.find(mark)? + mark.len()..)?;
            rest.split(' ').next()?.parse::<u64>().ok()
        };
        let mut state = 0..0;
        let (kind, id) = if heading.contains(" by goroutine ") {
            (SectionKind::Access, id_after(" by goroutine "))
        } else if heading.ends_with(" by main goroutine") {
            (SectionKind::Access, Some(1))
        } else if heading.starts_with("Goroutine ") && heading.ends_with("created at") {
            if let (Some(open), Some(close)) = (heading.find('('), heading.find(')')) {
                let start = line.offset_of(text);
                state = start + open + 1..start + close.max(open + 1);
            }
            (SectionKind::Created, id_after("Goroutine "))
        } else if heading.ends_with("created at") || heading.starts_with("As if synchronized") {
            (SectionKind::Other, None)
        } else {
            return None;
        };
        Some(Section {
            kind,
            id,
            heading: text_of(heading.as_bytes()).into_owned(),
            start: line.offset_of(text),
            end: line.end(),
            line: line.number,
            frames: first_frame..first_frame,
            state,
        })
    }
}
