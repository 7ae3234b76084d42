//! Large texts, read by all cores: parted at headers, scanned apart, joined again.
//!
//! Where a text is parted depends on its bytes alone, never on the machine, so the result is the same everywhere.

use super::block::Block;
use super::header;
use super::lines::Lines;
use super::scan::{Item, Scan};
use super::{block, frame};
use memchr::memmem;
use rayon::prelude::*;

/// Texts below this are read in one piece.
const LARGE: usize = 4 << 20;
/// Size of a part.
const PART: usize = 1 << 20;

/// Reads all of `text`.
pub(super) fn scan(text: &[u8]) -> Scan<'_> {
    if text.len() < LARGE {
        return Scan::of(text);
    }
    join(parts(text, PART).into_par_iter().map(Scan::of).collect())
}

/// Parts `text` about every `size` bytes, each part but the first beginning with a header that stands in a dump.
fn parts(text: &[u8], size: usize) -> Vec<&[u8]> {
    let finder = memmem::Finder::new(b"\ngoroutine ");
    let mut found = Vec::new();
    let (mut start, mut from) = (0, size);
    while let Some(rest) = text.get(from..) {
        let Some(at) = finder.find(rest).map(|at| from + at + 1) else { break };
        if begins_goroutine(text.get(at..).unwrap_or_default()) {
            found.push(text.get(start..at).unwrap_or_default());
            start = at;
            from = at + size;
        } else {
            from = at;
        }
    }
    found.push(text.get(start..).unwrap_or_default());
    found
}

/// Whether a scan takes what stands here for a header wherever it comes from.
fn begins_goroutine(text: &[u8]) -> bool {
    let mut lines = Lines::new(text);
    let is_header = lines.next().is_some_and(|line| header::is_plain_header(line.trimmed()));
    is_header
        && lines.next().is_some_and(|line| {
            let text = line.trimmed();
            frame::function(text).is_some() && block::is_dump_line(text)
        })
}

/// Puts scans of consecutive parts together.
fn join(parts: Vec<Scan<'_>>) -> Scan<'_> {
    let mut parts = parts.into_iter();
    let Some(mut whole) = parts.next() else { return Scan::of(b"") };
    let mut rest: Vec<Scan<'_>> = parts.collect();
    // Sites are few: one table first, then all parts can be rewritten to it at once.
    let maps: Vec<Vec<u32>> = rest.iter_mut().map(|part| whole.sites.absorb(std::mem::take(&mut part.sites))).collect();
    let mut shift = Shift { bytes: 0, lines: 0, frames: 0, ancestors: 0 };
    shift.advance(&whole);
    let shifts: Vec<Shift> = rest
        .iter()
        .map(|part| {
            let at = shift;
            shift.advance(part);
            at
        })
        .collect();
    rest.par_iter_mut().zip(maps).zip(shifts).for_each(|((part, map), shift)| shift.apply(part, &map));
    whole.frames.reserve(rest.iter().map(|part| part.frames.len()).sum());
    for mut part in rest {
        whole.items.append(&mut part.items);
        whole.frames.append(&mut part.frames);
        whole.ancestors.append(&mut part.ancestors);
        whole.problems.append(&mut part.problems);
    }
    whole
}

/// How far a part lies behind the start of the text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shift {
    pub bytes: usize,
    pub lines: u32,
    pub frames: usize,
    pub ancestors: u32,
}

impl Shift {
    fn advance(&mut self, part: &Scan<'_>) {
        self.bytes += part.lines.offset();
        self.lines = self.lines.saturating_add(part.lines.number().saturating_sub(1));
        self.frames += part.frames.len();
        self.ancestors = self.ancestors.saturating_add(part.ancestors.len() as u32);
    }

    fn apply(self, part: &mut Scan<'_>, map: &[u32]) {
        let site = |site: u32| map.get(site as usize).copied().unwrap_or(site);
        for frame in &mut part.frames {
            frame.site.0 = site(frame.site.0);
            frame.line = frame.line.saturating_add(self.lines);
        }
        for ancestor in &mut part.ancestors {
            ancestor.sites.iter_mut().for_each(|s| *s = site(*s));
        }
        for problem in &mut part.problems {
            problem.line = problem.line.saturating_add(self.lines);
        }
        for item in &mut part.items {
            match item {
                Item::Goroutine(block) => self.block(block, site),
                Item::Notice(notice) => {
                    notice.line = notice.line.saturating_add(self.lines);
                    notice.last_line = notice.last_line.saturating_add(self.lines);
                    self.span(&mut notice.span);
                }
                Item::Mark(mark) => {
                    mark.line = mark.line.saturating_add(self.lines);
                    self.span(&mut mark.span);
                }
                Item::Profile(profile) => profile.shift(self),
                Item::Race(race) => race.shift(self),
                Item::Foreign { .. } => {}
            }
        }
    }

    fn block(self, block: &mut Block, site: impl Fn(u32) -> u32) {
        for range in [&mut block.state, &mut block.labels] {
            self.range(range);
        }
        block.start += self.bytes;
        block.end += self.bytes;
        block.line = block.line.saturating_add(self.lines);
        block.last_line = block.last_line.saturating_add(self.lines);
        block.first_frame = block.first_frame.saturating_add(self.frames as u32);
        block.ancestors.start = block.ancestors.start.saturating_add(self.ancestors);
        block.ancestors.end = block.ancestors.end.saturating_add(self.ancestors);
        if let Some(created) = &mut block.created_by {
            created.site.0 = site(created.site.0);
            created.line = created.line.saturating_add(self.lines);
        }
    }

    /// Shifts offsets of the text.
    pub fn span(self, span: &mut (usize, usize)) {
        *span = (span.0 + self.bytes, span.1 + self.bytes);
    }

    /// Shifts offsets of the text.
    pub fn range(self, range: &mut std::ops::Range<usize>) {
        if range.start >= range.end {
            return;
        }
        *range = range.start + self.bytes..range.end + self.bytes;
    }

    /// Shifts indices of frames.
    pub fn frames(self, range: &mut std::ops::Range<usize>) {
        *range = range.start + self.frames..range.end + self.frames;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_joined_are_the_whole() {
        let mut text = String::from("SIGQUIT: quit\nPC=0x1 m=0 sigcode=0\n\n");
        for id in 1..200 {
            text += &format!(
                "goroutine {id} [select, {id} minutes]:\nmain.f{}(0x{id:x})\n\t/x/a.go:{} +0x1\n",
                id % 7,
                id % 5
            );
            text += &format!("created by main.main in goroutine {}\n\t/x/m.go:1 +0x2\n", id % 3);
            if id % 50 == 0 {
                text += "[originating from goroutine 3]:\nmain.a(...)\n\t/x/a.go:9 +0x3\n";
            }
            text += "\n";
        }
        text += "rax    0x1\n";
        let bytes = text.as_bytes();
        let whole = Scan::of(bytes);
        for size in [1, 100, 333, 5000] {
            let pieces = parts(bytes, size);
            assert!(pieces.len() > 2 && pieces.concat() == bytes);
            let joined = join(pieces.into_iter().map(Scan::of).collect());
            for (joined, whole) in joined.items.iter().zip(&whole.items) {
                assert_eq!(format!("{joined:?}"), format!("{whole:?}"));
            }
            assert_eq!(joined.items.len(), whole.items.len());
            assert_eq!(format!("{:?}", joined.ancestors), format!("{:?}", whole.ancestors));
            assert_eq!(joined.frames, whole.frames);
            assert_eq!(joined.sites.into_sites().len(), Scan::of(bytes).sites.into_sites().len());
        }
    }
}
