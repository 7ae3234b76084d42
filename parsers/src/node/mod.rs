//! What the node itself says: one file a kind of evidence, one pass over the text.
//!
//! The pass looks for the few words that every kind of evidence cannot do without (a column's title, `blocked for
//! more than`, `[<`); each is handed, with its line, to the parser that knows it, which either reads on to the end of
//! its section or says that this is nothing of its own. What no word marks is never looked at.

mod anchors;
mod clock;
mod crash;
mod file_locks;
mod kernel_log;
mod lines;
mod listings;
mod mounts;
mod native;
mod proc_stack;
mod ps;
mod service_log;
mod sockets;
mod strace;

use crate::envelope::Stream;
use crate::evidence::{InputKind, NodeEvidence};
use crate::limits;
use anchors::Class;
use jiff::Timestamp;
use lines::{Line, Lines, Stop};
use proc_stack::Whose;
use std::cell::Cell;

/// Larger texts are not searched for what has no word to be found by (rows without a header, strace).
const UNMARKED: usize = 16 << 20;

/// What is known besides the text.
pub(crate) struct Context {
    /// A moment that completes times without a year.
    reference: Option<Timestamp>,
    /// Whose a file of `/proc` is, by its path.
    whose: Whose,
    comm: Option<String>,
    /// The daemon that the file's name speaks of.
    program: Option<String>,
    /// How far the parser at work has read without finding anything.
    barrier: Cell<usize>,
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
    let context =
        Context { reference, whose, comm: None, program: service_log::program_in_name(path), barrier: Cell::new(0) };
    let mut out = NodeEvidence::default();

    if proc_stack::read_tiny(&lines, path, &context, &mut out).is_some() {
        return Some((InputKind::KernelStack, out));
    }
    let mut found = Found { tally: Tally::default(), log: service_log::Found::default() };
    let mut cursor = Stop { start: 0, number: 1 };
    let mut tried: Vec<Class> = Vec::new();
    let mut current: Option<Line<'_>> = None;
    let mut barriers: Vec<(Class, usize)> = Vec::new();
    for (at, classes) in anchors::find(lines.bytes()) {
        if at < cursor.start {
            continue;
        }
        // Long lines hold many words: the line is looked up once, and what stands deep inside is left alone.
        if current.as_ref().is_none_or(|line| line.start != cursor.start || at >= line.next) {
            current = line_around(&lines, &mut cursor, at);
            tried.clear();
        }
        let Some(line) = current.as_ref() else { break };
        if at.saturating_sub(line.start) > limits::LINE {
            cursor = Stop::after(line);
            continue;
        }
        for class in classes {
            if tried.contains(class) || barriers.iter().any(|(c, until)| c == class && line.start < *until) {
                continue;
            }
            tried.push(*class);
            context.barrier.set(0);
            if let Some(stop) = section(*class, &lines, line, &context, &mut out, &mut found) {
                cursor = stop;
                break;
            }
            // A parser that read far in vain need not begin again at each of the lines it has seen.
            if context.barrier.get() > line.next {
                barriers.retain(|(c, _)| c != class);
                barriers.push((*class, context.barrier.get()));
            }
        }
    }
    let Found { mut tally, log } = found;
    out.log_lines = log.into_lines();
    if out.is_empty() && lines.bytes().len() <= UNMARKED {
        unmarked(&lines, &context, &mut out, &mut tally);
    }
    let rest = lines.bytes().get(cursor.start..).unwrap_or(&[]);
    let last_line = cursor.number.saturating_add(count_lines(rest)).saturating_sub(1);
    let kind = if out.is_empty() { service_log::kind_of_log(&lines, &context)? } else { tally.kind() };
    if matches!(kind, InputKind::ServiceLog | InputKind::KernelLog) {
        service_log::taken_at(&lines, last_line, &context, &mut out);
    }
    out.taken_at.sort_by_key(|taken| std::cmp::Reverse(taken.0));
    Some((kind, out))
}

/// Lines in `bytes`, the last perhaps without its end.
fn count_lines(bytes: &[u8]) -> u32 {
    let whole = memchr::memchr_iter(b'\n', bytes).count();
    let open = usize::from(bytes.last().is_some_and(|b| *b != b'\n'));
    u32::try_from(whole + open).unwrap_or(u32::MAX)
}

/// What the pass gathers besides the evidence.
struct Found {
    tally: Tally,
    log: service_log::Found,
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
    found: &mut Found,
) -> Option<Stop> {
    let (kind, stop) = match class {
        Class::PidColumn => pid_column(lines, line, out)?,
        Class::ProcStack => (InputKind::KernelStack, proc_stack::read(lines, line, context, out)?),
        Class::ProcStatus => (InputKind::Ps, proc_stack::read_status(lines, line, out)?),
        Class::Kernel => {
            let task = kernel_log::read(lines, line, context, out);
            (InputKind::KernelLog, task.or_else(|| kernel_log::report(lines, line, context, out))?)
        }
        Class::Mount => (InputKind::Mounts, mounts::read(lines, line, out)?),
        Class::Findmnt => (InputKind::Mounts, mounts::read_findmnt(lines, line, out)?),
        Class::Log => (InputKind::ServiceLog, service_log::read(lines, line, context, &mut found.log)?),
        Class::Crash => (InputKind::KernelStack, crash::read_bt(lines, line, out)?),
        Class::Native => (InputKind::NativeStack, native::read(lines, line, context, out)?),
        Class::Ss => (InputKind::Other, sockets::read_ss(lines, line, out)?),
        Class::ProcLocks => (InputKind::Other, file_locks::read_proc(lines, line, out)?),
        Class::Strace => (InputKind::NativeStack, strace::read(lines, line, context, out)?),
        Class::Containers => (InputKind::Other, listings::read_containers(lines, line, out)?),
        Class::Conditions => (InputKind::Other, listings::read_conditions(lines, line, out)?),
        Class::Unit => (InputKind::ServiceLog, listings::read_unit(lines, line, out)?),
        Class::Jobs => (InputKind::ServiceLog, listings::read_jobs(lines, line, out)?),
    };
    found.tally.add(kind, stop.number.saturating_sub(line.number));
    Some(stop)
}

/// The tables that have a column `PID`; their other columns tell them apart.
fn pid_column(lines: &Lines<'_>, line: &Line<'_>, out: &mut NodeEvidence) -> Option<(InputKind, Stop)> {
    if let Some(stop) = ps::read(lines, line, out).or_else(|| crash::read_ps(lines, line, out)) {
        return Some((InputKind::Ps, stop));
    }
    let stop = sockets::read_lsof(lines, line, out)
        .or_else(|| file_locks::read_lslocks(lines, line, out))
        .or_else(|| listings::read_busctl(lines, line, out))?;
    Some((InputKind::Other, stop))
}

/// Evidence that only the shape of its lines tells.
fn unmarked(lines: &Lines<'_>, context: &Context, out: &mut NodeEvidence, tally: &mut Tally) {
    let Some(first) = lines.at(0, 1) else { return };
    if strace::is_call(&first.text) && strace::read(lines, &first, context, out).is_some() {
        tally.add(InputKind::NativeStack, 1);
        return;
    }
    for line in lines.from(&first) {
        if ps::headerless(lines, &line, out).is_some() {
            tally.add(InputKind::Ps, 1);
        }
    }
}
