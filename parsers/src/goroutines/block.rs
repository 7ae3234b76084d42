//! A goroutine's block: a header, frames, its creator, and perhaps its ancestors.
//!
//! The block ends at the next header, an empty line, registers, `-----`, or the end of the text. Empty lines get lost
//! (journald) or doubled (rich text), and log lines come between, so the block is followed as far as its lines are
//! those of a traceback, and what stands between is a problem with its line.

use super::frame::{self, Function, Pointers};
use super::header::{self, Header};
use super::lines::{Line, Lines, text_of, trim_start};
use super::scan::{Item, Mark, MarkKind, RawAncestor, Scan};
use super::{marks, notices, profile, race};
use crate::evidence::{CreatedBy, Flags, Frame, Severity, SiteId, SiteKind};
use crate::limits;
use memchr::memrchr;
use std::ops::Range;

/// A goroutine as it stands in the text. Offsets are those of the scanned text, lines too.
#[derive(Debug, Default, Clone)]
pub(super) struct Block {
    pub id: Option<u64>,
    pub gp: u64,
    pub m: Option<i64>,
    /// Where its state stands.
    pub state: Range<usize>,
    /// Where its labels stand.
    pub labels: Range<usize>,
    pub minutes: Option<u32>,
    pub flags: Flags,
    pub start: usize,
    pub end: usize,
    pub line: u32,
    pub last_line: u32,
    pub first_frame: u32,
    pub frame_count: u32,
    /// Site of the scan, line of the text.
    pub created_by: Option<CreatedBy>,
    /// Whether frames have `fp=` and `sp=`, as those of system-level dumps do.
    pub registers: bool,
    /// Range of the scan's ancestors.
    pub ancestors: Range<u32>,
}

/// Lines foreign to a block after which it is given up.
const PATIENCE: u32 = 64;

/// A function line that waits for its file line.
#[derive(Clone, Copy)]
struct Pending<'t> {
    function: Function<'t>,
    line: Line<'t>,
}

/// In which part of a block the reader is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Frames,
    /// Behind `created by` and its file: only ancestors may follow.
    Created,
    Ancestor,
}

/// Reads one block.
struct Reader<'s, 't> {
    scan: &'s mut Scan<'t>,
    block: Block,
    part: Part,
    pending: Option<Pending<'t>>,
    /// Foreign lines since the last one that belonged.
    gap: Option<(u32, u32, bool)>,
    /// An empty line was met since the last one that belonged.
    blank: bool,
    /// Empty lines stand between the lines of this block.
    spaced: bool,
    /// Registers and site of the last frame that had any.
    below: Option<(Pointers, u32)>,
    complained: bool,
}

impl<'t> Scan<'t> {
    /// Reads the block that begins with `line`, its header if there is one, and the lines behind.
    pub(super) fn block(&mut self, header: Option<Header<'t>>, line: Line<'t>) {
        let block = match &header {
            Some(header) => Block::of_header(header, &line),
            None => Block::headless(&line),
        };
        let (id, unknown) = (block.id, header.as_ref().and_then(|h| h.unknown));
        if let Some(part) = unknown {
            let message = format!("'{}' in a goroutine's header is not known to this version", text_of(part));
            self.problem(Severity::Note, line.number, message);
        }
        let first_frame = self.frames.len();
        let mut reader = Reader::new(self, block);
        if header.is_none() {
            // The line that was taken for the first frame is read again, as one.
            reader.take_frame_of(line);
        }
        let block = reader.run();
        if id == Some(0) {
            // A thread's scheduler stack: no goroutine, but it tells that this is a dump.
            self.frames.truncate(first_frame);
            self.ancestors.truncate(block.ancestors.start as usize);
            let kind = MarkKind::ThreadStack(block.flags.has(Flags::CUT));
            let mark = Mark { kind, line: block.line, span: (block.start, block.end) };
            self.items.push(Item::Mark(mark));
        } else {
            self.items.push(Item::Goroutine(block));
        }
    }

    /// Reads `runtime stack:`, the scheduler's stack of a thread that threw; its frames are not kept.
    pub(super) fn thread_stack(&mut self, line: Line<'t>) {
        let header = Header { state: b"", ..Header::default() };
        self.block(Some(header), line);
    }
}

impl Block {
    fn of_header(header: &Header<'_>, line: &Line<'_>) -> Self {
        let span = |part: &[u8]| {
            if part.is_empty() { 0..0 } else { line.offset_of(part)..line.offset_of(part) + part.len() }
        };
        let mut block = Block {
            id: Some(header.id),
            gp: header.gp,
            m: header.m,
            state: span(header.state),
            labels: span(header.labels),
            minutes: header.minutes,
            flags: header.flags,
            ..Block::at(line)
        };
        if header.cut {
            block.flags.set(Flags::CUT);
        }
        block
    }

    fn headless(line: &Line<'_>) -> Self {
        let mut block = Block::at(line);
        block.flags.set(Flags::HEADLESS | Flags::CUT);
        block
    }

    fn at(line: &Line<'_>) -> Self {
        let (start, number) = (line.offset_of(line.trimmed()), line.number);
        Block { start, end: line.end(), line: number, last_line: number, ..Block::default() }
    }
}

impl<'s, 't> Reader<'s, 't> {
    fn new(scan: &'s mut Scan<'t>, mut block: Block) -> Self {
        block.first_frame = scan.frames.len() as u32;
        let ancestors = scan.ancestors.len() as u32;
        block.ancestors = ancestors..ancestors;
        Reader {
            scan,
            block,
            part: Part::Frames,
            pending: None,
            gap: None,
            blank: false,
            spaced: false,
            below: None,
            complained: false,
        }
    }

    /// Reads lines until the block ends, and leaves the scan behind its last.
    fn run(mut self) -> Block {
        let mut at = self.scan.lines;
        loop {
            let mut ahead = at;
            let Some(line) = ahead.next() else { break };
            if let Some(behind) = self.fast(&line, ahead) {
                at = behind;
                self.scan.lines = at;
                continue;
            }
            match self.slow(&line, ahead) {
                Step::Took => self.scan.lines = ahead,
                Step::Skipped => {}
                Step::End => break,
            }
            at = ahead;
        }
        self.finish()
    }

    /// The ordinary case, a frame that stands at a known site: no grammar, no allocation.
    #[inline]
    fn fast(&mut self, line: &Line<'t>, mut ahead: Lines<'t>) -> Option<Lines<'t>> {
        if self.part == Part::Created || self.blank || self.pending.is_some() {
            return None;
        }
        let text = line.trimmed();
        let open = memrchr(b'(', text.strip_suffix(b")")?)?;
        let (name, args) = (text.get(..open)?, text.get(open + 1..text.len() - 1)?);
        let next = ahead.next()?;
        let (core, pointers) = frame::split_registers(next.without_tail());
        let core = trim_start(core);
        let kind = if frame::is_ellipsis(args) { SiteKind::Inlined } else { SiteKind::Go };
        let site = self.scan.sites.find(name, core, kind).filter(|_| !core.is_empty())?;
        self.close_gap();
        self.push(site, line, args, pointers);
        self.extend(&next);
        Some(ahead)
    }

    /// Everything else, one line at a time.
    fn slow(&mut self, line: &Line<'t>, mut ahead: Lines<'t>) -> Step {
        if line.raw.len() > limits::LINE {
            return self.foreign(line);
        }
        let text = line.trimmed();
        if text.is_empty() {
            self.blank = true;
            return Step::Skipped;
        }
        if text.starts_with(b"goroutine ") {
            if text.starts_with(b"goroutine running on other thread") {
                return self.note_unavailable(line);
            }
            if header::header(text).is_some_and(|h| h.cut || h.trailing.is_empty() || self.is_frame_next(ahead)) {
                return Step::End;
            }
        }
        if self.part == Part::Created && self.pending.is_none() {
            return match ancestor(text) {
                Some(id) => self.open_ancestor(id, line),
                None => Step::End,
            };
        }
        if let Some(id) = ancestor(text) {
            return self.open_ancestor(id, line);
        }
        if marks::is_elision(text) {
            self.block.flags.set(Flags::ELIDED);
            self.below = None;
            return self.take(line);
        }
        // After an empty line a frame is the next goroutine's, its header lost, unless all lines are that far apart.
        let is_apart = self.blank && !self.spaced && self.block.frame_count > 0 && self.pending.is_none();
        let (core, pointers) = frame::split_registers(line.without_tail());
        if let Some(location) = frame::location(core, self.pending.is_some() && line.is_indented()) {
            if is_apart {
                return Step::End;
            }
            return self.location(line, trim_start(core), location, pointers);
        }
        if let Some(function) = frame::created_by(text) {
            return self.function(function, line);
        }
        if is_apart || ends_block(text) {
            return Step::End;
        }
        if let Some(function) = frame::function(text).filter(|f| f.name.contains(&b'.') || self.is_location_next(ahead))
        {
            return self.function(function, line);
        }
        if marks::is_cut(text) {
            self.cut(line, "lines were taken out of this goroutine's stack");
            return Step::Took;
        }
        if marks::is_broken_stack(text) {
            if !self.complained {
                let message = format!("the runtime could not walk this stack to its end: {}", text_of(text));
                self.scan.problem(Severity::Warning, line.number, message);
            }
            self.complained = true;
            self.block.flags.set(Flags::CUT);
            return self.take(line);
        }
        if let Some(function) = frame::cut_function(text)
            && is_cut_here(&mut ahead)
        {
            return self.function(function, line);
        }
        if let Some(function) = c_function(text, ahead).or_else(|| behind_log_prefix(text, ahead)) {
            return self.function(function, line);
        }
        self.foreign(line)
    }

    /// A function line, or `created by`: it waits for its file line.
    fn function(&mut self, function: Function<'t>, line: &Line<'t>) -> Step {
        if self.part == Part::Frames && self.block.created_by.is_some() {
            return Step::End;
        }
        self.drop_pending();
        self.close_gap();
        self.pending = Some(Pending { function, line: *line });
        if self.blank {
            self.spaced = true;
        }
        self.extend(line);
        Step::Took
    }

    /// A file line: completes the function before it.
    fn location(&mut self, line: &Line<'t>, core: &'t [u8], at: frame::Location<'t>, regs: Option<Pointers>) -> Step {
        let Some(Pending { function, line: above }) = self.pending.take() else {
            self.cut(line, "a file line without its function: at least one line of this stack is missing");
            return Step::Took;
        };
        if self.blank {
            self.spaced = true;
        }
        self.close_gap();
        let site = self.scan.sites.intern(&function, core, Some(at));
        self.place(site, function, &above, regs);
        self.extend(line);
        Step::Took
    }

    /// Puts a complete function where it belongs: among the frames, an ancestor's sites, or as the creator.
    fn place(&mut self, site: u32, function: Function<'t>, line: &Line<'t>, regs: Option<Pointers>) {
        if function.kind == SiteKind::CreatedBy {
            if self.part == Part::Frames {
                let created = CreatedBy { site: SiteId(site), line: line.number, goroutine: function.creator };
                self.block.created_by = Some(created);
            }
            self.part = Part::Created;
            return;
        }
        if function.cut {
            self.cut(line, "the arguments of a function are cut off");
        }
        self.push(site, line, function.args, regs);
    }

    #[inline]
    fn push(&mut self, site: u32, line: &Line<'t>, args: &[u8], regs: Option<Pointers>) {
        if self.part == Part::Ancestor {
            if let Some(ancestor) = self.scan.ancestors.last_mut() {
                ancestor.sites.push(site);
            }
            return;
        }
        if self.block.frame_count >= limits::FRAMES_PER_GOROUTINE {
            if self.block.frame_count == limits::FRAMES_PER_GOROUTINE && !self.block.flags.has(Flags::ELIDED) {
                self.scan.problem(
                    Severity::Warning,
                    line.number,
                    "this stack is too deep; its outer frames are left out",
                );
            }
            self.block.flags.set(Flags::ELIDED);
            return;
        }
        if let Some(regs) = regs {
            self.check(regs, site, line);
        }
        let args_start = line.offset_of(args).saturating_sub(self.block.start);
        self.scan.frames.push(Frame {
            site: SiteId(site),
            line: line.number,
            args_start: u32::try_from(args_start).unwrap_or(u32::MAX),
            args_len: args.len() as u32,
        });
        self.block.frame_count += 1;
    }

    /// A frame begins where the one that it called ends. If it does not, lines of the stack were lost or put in another
    /// order. Few functions of the runtime move to another stack.
    #[inline]
    fn check(&mut self, regs: Pointers, site: u32, line: &Line<'t>) {
        let is_break =
            self.below.is_some_and(|(below, site)| regs.sp != below.fp && !self.scan.sites.switches_stack(site));
        if is_break && regs.sp != 0 && !self.complained {
            self.complained = true;
            self.cut(line, "the stack pointer jumps here: lines of this stack were lost or put in another order");
        }
        self.below = Some((regs, site));
        self.block.registers = true;
    }

    fn note_unavailable(&mut self, line: &Line<'t>) -> Step {
        self.block.flags.set(Flags::UNAVAILABLE);
        self.take(line)
    }

    fn open_ancestor(&mut self, id: u64, line: &Line<'t>) -> Step {
        self.drop_pending();
        self.scan.ancestors.push(RawAncestor { id, sites: Vec::new() });
        self.block.ancestors.end = self.scan.ancestors.len() as u32;
        self.part = Part::Ancestor;
        self.take(line)
    }

    /// A line that belongs to the block and is not kept.
    fn take(&mut self, line: &Line<'t>) -> Step {
        self.close_gap();
        if self.blank {
            self.spaced = true;
        }
        self.extend(line);
        Step::Took
    }

    /// A line that is none of a traceback: perhaps a log line between, perhaps the end of the dump.
    fn foreign(&mut self, line: &Line<'t>) -> Step {
        if self.blank && self.pending.is_none() {
            return Step::End;
        }
        let logged = marks::is_log_line(line.trimmed());
        let (first, count, all_logged) = self.gap.unwrap_or((line.number, 0, true));
        if count >= PATIENCE {
            return Step::End;
        }
        self.gap = Some((first, count + 1, all_logged && logged));
        Step::Skipped
    }

    /// The block goes on behind foreign lines: say so.
    #[inline]
    fn close_gap(&mut self) {
        let Some((first, count, logged)) = self.gap.take() else {
            return;
        };
        let (severity, what) = if logged {
            (Severity::Note, "log lines stand within this stack and were passed over")
        } else {
            (Severity::Warning, "lines within this stack are no part of a traceback and were passed over")
        };
        self.scan.problem(severity, first, format!("{what} ({count})"));
    }

    /// A function whose file line never came: the frame is kept, without a place in a source file.
    fn drop_pending(&mut self) {
        let Some(Pending { function, line }) = self.pending.take() else {
            return;
        };
        let site = self.scan.sites.intern(&function, b"", None);
        if !function.cut {
            self.cut(&line, "the file line of a function is missing");
        }
        self.place(site, function, &line, None);
    }

    fn cut(&mut self, line: &Line<'t>, why: &str) {
        self.close_gap();
        self.block.flags.set(Flags::CUT);
        self.scan.problem(Severity::Warning, line.number, why);
        self.extend(line);
    }

    #[inline]
    fn extend(&mut self, line: &Line<'t>) {
        self.blank = false;
        if line.end() > self.block.end {
            self.block.end = line.end();
            self.block.last_line = line.number;
        }
    }

    fn finish(mut self) -> Block {
        // What stood behind the last line that belonged was no gap but the end.
        self.gap = None;
        self.drop_pending();
        self.block
    }

    fn take_frame_of(&mut self, line: Line<'t>) {
        if let Some(function) = frame::function(line.trimmed()) {
            self.pending = Some(Pending { function, line });
        }
    }

    fn is_frame_next(&self, mut ahead: Lines<'t>) -> bool {
        ahead.next_filled(1).is_some_and(|l| frame::function(l.trimmed()).is_some())
    }

    fn is_location_next(&self, mut ahead: Lines<'t>) -> bool {
        ahead.next_filled(1).is_some_and(|l| super::scan::is_location(&l))
    }
}

/// What became of a line.
enum Step {
    /// It belongs to the block.
    Took,
    /// It may be passed over, if the block goes on behind it.
    Skipped,
    /// The block ended before it.
    End,
}

/// Whether `text` is a line of a goroutine's block or a header.
pub(super) fn is_dump_line(text: &[u8]) -> bool {
    header::is_plain_header(text)
        || frame::function(text).is_some_and(|f| f.name.contains(&b'.') || f.name == b"panic")
        || frame::cut_function(text).is_some()
        || frame::created_by(text).is_some()
        || text.starts_with(b"goroutine running on other thread")
        || marks::is_elision(text)
        || marks::is_cut(text)
        || marks::is_broken_stack(text)
        || ancestor(text).is_some()
        || frame::location(frame::split_registers(text).0, false).is_some_and(|l| l.offset.is_some())
}

/// `[originating from goroutine N]:` (`GODEBUG=tracebackancestors`, Go 1.11 and later).
fn ancestor(text: &[u8]) -> Option<u64> {
    let id = text.strip_prefix(b"[originating from goroutine ")?.strip_suffix(b"]:")?;
    std::str::from_utf8(id).ok()?.parse().ok()
}

/// Lines behind which no frame of this block can follow.
fn ends_block(text: &[u8]) -> bool {
    match marks::mark(text) {
        Some(MarkKind::Cut) | None => notices::opens_dump(text) || race::opens(text) || profile::total(text).is_some(),
        Some(_) => true,
    }
}

/// Whether a line without its closing parenthesis was cut: nothing, a mark or a file line follows.
fn is_cut_here(ahead: &mut Lines<'_>) -> bool {
    ahead.next().is_none_or(|next| {
        let text = next.trimmed();
        text.is_empty() || is_dump_line(text) || super::scan::is_location(&next)
    })
}

/// A C frame of a cgo traceback: a bare name, and a file line with ` pc=`; or `non-Go function at pc=0x…`.
fn c_function<'t>(text: &'t [u8], mut ahead: Lines<'t>) -> Option<Function<'t>> {
    let bare = |name| Function { name, args: b"", kind: SiteKind::NoArguments, creator: None, cut: false };
    if text.starts_with(b"non-Go function") {
        return Some(bare(b"non-Go function"));
    }
    let next = ahead.next()?;
    let (name, tail) = (text, next.without_tail());
    let has_pc = memchr::memmem::find(tail, b" pc=0x").is_some() || tail.starts_with(b"\tpc=0x");
    (has_pc && frame::is_name(name) && !name.contains(&b'(')).then(|| bare(name))
}

/// A function behind a prefix that only some lines of a paste have kept: `Aug 04 18:36:09  kubelet[2767716]: created by f`.
fn behind_log_prefix<'t>(text: &'t [u8], mut ahead: Lines<'t>) -> Option<Function<'t>> {
    if !marks::is_log_line(text) {
        return None;
    }
    let at = memchr::memmem::rfind(text, b": ")?;
    let tail = trim_start(text.get(at + 2..)?);
    let function = frame::created_by(tail).or_else(|| frame::function(tail).filter(|f| f.name.contains(&b'.')))?;
    ahead.next().is_some_and(|next| super::scan::is_location(&next)).then_some(function)
}
