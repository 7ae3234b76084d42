//! What the node itself says: one file a kind of evidence, one pass over the text.
//!
//! The pass looks for the few words that every kind of evidence cannot do without (a column's title, `blocked for
//! more than`, `[<`); each is handed, with its line, to the parser that knows it, which either reads on to the end of
//! its section or says that this is nothing of its own. What no word marks is never looked at.

mod anchors;
mod clock;
mod kernel_log;
mod lines;
mod mounts;
mod proc_stack;
mod ps;

use crate::envelope::Stream;
use crate::evidence::{InputKind, NodeEvidence};
use anchors::Class;
use jiff::Timestamp;
use lines::{Line, Lines, Stop};
use proc_stack::Whose;

/// Larger texts are not searched for what has no word to be found by (rows without a header, strace).
const UNMARKED: usize = 16 << 20;

/// What is known besides the text.
pub(crate) struct Context {
    /// A moment that completes times without a year.
    reference: Option<Timestamp>,
    /// Whose a file of `/proc` is, by its path.
    whose: Whose,
    comm: Option<String>,
}

/// Reads the node evidence in `stream`; `None` when there is none.
///
/// `path` is the file's name as the user gave it: it helps (a pid in `proc/12/stack`, a year), the content decides.
/// One text may hold several kinds (a ticket with `ps`, stacks and `dmesg`); the kind returned is that of most lines.
///
/// Logs are best given as they stand in the file: their prefixes hold the time of each line. Where that recognises
/// nothing (a quoted or escaped paste), give the peeled streams.
pub fn parse(stream: &Stream, path: &str, input: u32) -> Option<(InputKind, NodeEvidence)> {
    let lines = Lines::new(stream.text.bytes(), &stream.lines, input);
    let whose = proc_stack::whose_path(path);
    let reference = clock::in_name(path).or(stream.written_at);
    let context = Context { reference, whose, comm: None };
    let mut out = NodeEvidence::default();
    let mut tally = Tally::default();

    if proc_stack::read_tiny(&lines, path, &context, &mut out).is_some() {
        return Some((InputKind::KernelStack, out));
    }
    let mut cursor = Stop { start: 0, number: 1 };
    let mut tried: Option<(usize, Class)> = None;
    for (at, class) in anchors::find(lines.bytes()) {
        if at < cursor.start {
            continue;
        }
        let Some(line) = line_around(&lines, &mut cursor, at) else {
            break;
        };
        if tried == Some((line.start, class)) || at.saturating_sub(line.start) > crate::limits::LINE {
            continue;
        }
        tried = Some((line.start, class));
        if let Some(stop) = section(class, &lines, &line, &context, &mut out, &mut tally) {
            cursor = stop;
        }
    }
    if out.is_empty() && lines.bytes().len() <= UNMARKED {
        unmarked(&lines, &mut out, &mut tally);
    }
    if out.is_empty() {
        return None;
    }
    out.taken_at.sort_by(|a, b| b.0.cmp(&a.0));
    Some((tally.kind(), out))
}

/// The line that holds byte `at`; moves `cursor` to its start, counting the lines in between.
fn line_around<'a>(lines: &Lines<'a>, cursor: &mut Stop, at: usize) -> Option<Line<'a>> {
    let between = lines.bytes().get(cursor.start..at)?;
    if let Some(last) = memchr::memrchr(b'\n', between) {
        let passed = memchr::memchr_iter(b'\n', between).count();
        cursor.number = cursor.number.saturating_add(u32::try_from(passed).unwrap_or(u32::MAX));
        cursor.start += last + 1;
    }
    lines.at(cursor.start, cursor.number)
}

/// Lines by what they were taken for.
#[derive(Default)]
struct Tally {
    counts: Vec<(InputKind, u32)>,
}

impl Tally {
    fn add(&mut self, kind: InputKind, lines: u32) {
        match self.counts.iter_mut().find(|(k, _)| *k == kind) {
            Some((_, count)) => *count = count.saturating_add(lines),
            None => self.counts.push((kind, lines)),
        }
    }
    fn kind(&self) -> InputKind {
        self.counts.iter().max_by_key(|(_, count)| *count).map_or(InputKind::Other, |(kind, _)| *kind)
    }
}

fn section(
    class: Class,
    lines: &Lines<'_>,
    line: &Line<'_>,
    context: &Context,
    out: &mut NodeEvidence,
    tally: &mut Tally,
) -> Option<Stop> {
    let (kind, stop) = match class {
        Class::PidColumn => (InputKind::Ps, ps::read(lines, line, out)),
        Class::ProcStack => (InputKind::KernelStack, proc_stack::read(lines, line, context, out)),
        Class::ProcStatus => (InputKind::Ps, proc_stack::read_status(lines, line, out)),
        Class::Kernel => {
            let task = kernel_log::read(lines, line, context, out);
            (InputKind::KernelLog, task.or_else(|| kernel_log::report(lines, line, context, out)))
        }
        Class::Mount => (InputKind::Mounts, mounts::read(lines, line, out)),
        Class::Findmnt => (InputKind::Mounts, mounts::read_findmnt(lines, line, out)),
    };
    let stop = stop?;
    tally.add(kind, stop.number.saturating_sub(line.number));
    Some(stop)
}

/// Evidence that only the shape of its lines tells.
fn unmarked(lines: &Lines<'_>, out: &mut NodeEvidence, tally: &mut Tally) {
    let Some(first) = lines.at(0, 1) else { return };
    for line in lines.from(&first) {
        if ps::headerless(lines, &line, out).is_some() {
            tally.add(InputKind::Ps, 1);
        }
    }
}
