//! What other tools print about goroutines, where people paste that instead of the runtime's own text.
//!
//! Each form has a file of its own, which reads lines into [`Found`] goroutines; here they become a snapshot of
//! [`Form::OtherTool`] whose problems say what the form lacks. `gops stack` prints the runtime's own text.

mod deadlock;
mod delve;
mod gdb;
mod panicparse;

use super::lines::Line;
use crate::envelope::Stream;
use crate::evidence::{
    CreatedBy, Flags, Form, Frame, Goroutine, Problem, Site, SiteId, SiteKind, Snapshot, StatedLock,
};
use crate::limits;
use rustc_hash::FxHashMap;

/// A goroutine as another tool shows it.
#[derive(Debug, Default)]
struct Found {
    id: Option<u64>,
    count: u32,
    state: String,
    minutes: Option<u32>,
    flags: Flags,
    frames: Vec<FoundFrame>,
    created_by: Option<FoundFrame>,
    /// Line in the stream, from 1.
    line: u32,
    /// Where its block begins and ends, in bytes of the stream.
    span: (usize, usize),
}

/// A frame, or a `go` statement.
#[derive(Debug, Default, Clone)]
struct FoundFrame {
    function: String,
    file: String,
    file_line: u32,
    /// Line in the stream, from 1.
    line: u32,
    /// Offset and length in the stream of what stands between the parentheses.
    arguments: (usize, usize),
}

impl Found {
    fn new(id: Option<u64>, line: &Line<'_>) -> Self {
        Found { id, count: 1, line: line.number, span: (line.start, line.end()), ..Found::default() }
    }
}

/// What one tool's output holds.
#[derive(Debug, Default)]
struct Output {
    goroutines: Vec<Found>,
    locks: Vec<StatedLock>,
    /// What the form does not say, and (at a line of the stream) what is missing here.
    notes: Vec<(Option<u32>, String)>,
    /// Whether all goroutines of the process are there.
    whole: bool,
}

/// Adds to `snapshots`, those of the runtime's own text in `stream`, what other tools say there.
pub(super) fn add(stream: &Stream, snapshots: &mut Vec<Snapshot>) {
    let text = stream.text.bytes();
    for read in [panicparse::read, delve::read, gdb::read] {
        if let Some(output) = read(text) {
            snapshots.push(build(stream, output, empty(stream)));
        }
    }
    if let Some(output) = deadlock::read(text) {
        // The report quotes the runtime's text of goroutines: they are of the same moment.
        let first = output.goroutines.iter().map(|g| g.span.0).min().unwrap_or(0);
        let quoted = snapshots.iter().position(|s| {
            matches!(s.form, Form::StackAll | Form::Panic) && offset_in(stream, s).is_some_and(|at| at >= first)
        });
        let base = quoted.map(|at| within_stream(stream, snapshots.remove(at)));
        snapshots.push(build(stream, output, base.unwrap_or_else(|| empty(stream))));
    }
}

fn empty(stream: &Stream) -> Snapshot {
    Snapshot {
        input: stream.lines.place(1).map_or(0, |place| place.input),
        process: stream.process.clone(),
        taken_at: stream.written_at,
        text: stream.text.clone(),
        lines: stream.lines.clone(),
        ..Snapshot::default()
    }
}

/// Where a snapshot's text begins in the stream that it was read from.
fn offset_in(stream: &Stream, snapshot: &Snapshot) -> Option<usize> {
    let (whole, part) = (stream.text.bytes(), snapshot.text.bytes());
    let at = (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
    (at + part.len() <= whole.len()).then_some(at)
}

/// The same snapshot with the whole stream for its text.
fn within_stream(stream: &Stream, mut snapshot: Snapshot) -> Snapshot {
    let Some(offset) = offset_in(stream, &snapshot) else { return snapshot };
    let before = stream.text.bytes().get(..offset).unwrap_or_default();
    let lines = u32::try_from(memchr::memchr_iter(b'\n', before).count()).unwrap_or(u32::MAX);
    for goroutine in &mut snapshot.goroutines {
        goroutine.text_start += offset;
        goroutine.line = goroutine.line.saturating_add(lines);
        if let Some(created) = &mut goroutine.created_by {
            created.line = created.line.saturating_add(lines);
        }
    }
    snapshot.frames.iter_mut().for_each(|frame| frame.line = frame.line.saturating_add(lines));
    snapshot.notices.iter_mut().for_each(|notice| notice.line = notice.line.saturating_add(lines));
    snapshot.text = stream.text.clone();
    snapshot.lines = stream.lines.clone();
    snapshot
}

/// Puts what a tool says into `snapshot`, whose text is the whole stream's.
fn build(stream: &Stream, output: Output, mut snapshot: Snapshot) -> Snapshot {
    let mut known: FxHashMap<Site, SiteId> = FxHashMap::default();
    for found in output.goroutines {
        if found.id.is_some() && snapshot.goroutines.iter().any(|g| g.id == found.id) {
            continue;
        }
        let first_frame = snapshot.frames.len() as u32;
        for frame in &found.frames {
            let site = site(&mut snapshot, &mut known, frame, SiteKind::Go);
            let start = frame.arguments.0.saturating_sub(found.span.0);
            snapshot.frames.push(Frame {
                site,
                line: frame.line,
                args_start: u32::try_from(start).unwrap_or(u32::MAX),
                args_len: u32::try_from(frame.arguments.1).unwrap_or(0),
            });
        }
        let created_by = found.created_by.as_ref().map(|created| CreatedBy {
            site: site(&mut snapshot, &mut known, created, SiteKind::CreatedBy),
            line: created.line,
            goroutine: None,
        });
        let state = snapshot.names.intern(&found.state);
        snapshot.goroutines.push(Goroutine {
            id: found.id,
            count: found.count,
            state,
            minutes: found.minutes,
            flags: found.flags,
            first_frame,
            frame_count: found.frames.len() as u32,
            created_by,
            text_start: found.span.0,
            text_len: found.span.1.saturating_sub(found.span.0),
            line: found.line,
            ..Goroutine::default()
        });
    }
    for (line, note) in output.notes {
        let line = line.and_then(|line| stream.lines.place(line)).map(|place| place.line);
        snapshot.problems.push(Problem::note(line, note));
    }
    snapshot.problems.truncate(limits::PROBLEMS);
    snapshot.stated_locks = output.locks;
    snapshot.form = Form::OtherTool;
    snapshot.complete = output.whole;
    snapshot
}

fn site(snapshot: &mut Snapshot, known: &mut FxHashMap<Site, SiteId>, frame: &FoundFrame, kind: SiteKind) -> SiteId {
    let func = snapshot.names.intern(&frame.function);
    let file = snapshot.names.intern(&frame.file);
    let site = Site { func, file, line: frame.file_line, offset: None, kind };
    *known.entry(site).or_insert_with(|| {
        snapshot.sites.push(site);
        SiteId(snapshot.sites.len() as u32 - 1)
    })
}

/// A line as text without blanks around it; `None` if it is none, or too long for what these tools print.
fn text_of<'t>(line: &Line<'t>) -> Option<&'t str> {
    let text = line.trimmed();
    (text.len() <= limits::LINE).then(|| std::str::from_utf8(text).ok()).flatten()
}

/// `store.go:2040` as file and line.
fn file_and_line(text: &str) -> Option<(&str, u32)> {
    let (file, line) = text.rsplit_once(':')?;
    let ends = [".go", ".s", ".c", ".h", ".cc", ".cpp", ".S", "_cgo_gotypes.go", "<autogenerated>"];
    (ends.iter().any(|end| file.ends_with(end))).then_some(())?;
    Some((file, line.parse().ok()?))
}

/// `f(a, b)` as the name and what stands between the last pair of parentheses.
fn call(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_suffix(')')?;
    let mut depth = 1usize;
    for (at, byte) in inner.bytes().enumerate().rev() {
        match byte {
            b')' => depth += 1,
            b'(' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((inner.get(..at)?, inner.get(at + 1..)?));
        }
    }
    None
}
