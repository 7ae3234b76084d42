//! Which goroutines belong to one moment: from the items of a scan to drafts of snapshots.
//!
//! A new dump begins with a line that only opens dumps (`SIGQUIT: quit`, `panic:`, `fatal error:`, a `BEGIN` marker), with
//! a second goroutine that is `[running]` (in a `runtime.Stack` text only the caller is, and it stands first), or with an
//! id that was there already. Behind `-----` the threads of a crash dump follow: their goroutines are the same again.

use super::block::Block;
use super::notices::RawNotice;
use super::profile::Profile;
use super::race::Race;
use super::scan::{Item, Mark, MarkKind, RawProblem, Scan};
use crate::evidence::{Flags, Form, NoticeKind, Severity};
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;

/// What one snapshot will be made of.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub form: Form,
    pub notices: Vec<RawNotice>,
    pub blocks: Vec<Block>,
    /// Offsets in the scanned text of the first byte and behind the last.
    pub span: (usize, usize),
    /// First and last line.
    pub lines: (u32, u32),
    pub arch: Option<&'static str>,
    /// The register block at the end of signal dumps was seen.
    pub registers: bool,
    /// A marker or a notice stands before the first goroutine.
    pub opened: bool,
    /// Somebody took lines out.
    pub cut: bool,
    pub contents: Contents,
    ids: FxHashMap<u64, usize>,
    /// The first goroutine is `[running]`.
    first_running: bool,
    /// The threads of a crash dump follow.
    threads: bool,
    /// It begins where an id occurred again, not where the text says that a dump begins.
    by_repeat: bool,
    /// Two processes wrote their dumps at once: which line is whose cannot be told.
    pub tangled: bool,
}

/// Forms that are no goroutine blocks.
#[derive(Debug, Default)]
pub(super) enum Contents {
    #[default]
    Blocks,
    Profile(Profile),
    Race(Race),
}

/// Foreign lines behind a notice after which it explains no dump.
const EXPLAINS: u32 = 20;

/// Puts the items of `scan` together.
pub(super) fn drafts(scan: &mut Scan<'_>, text: &[u8]) -> Vec<Draft> {
    let items = std::mem::take(&mut scan.items);
    let mut assembly =
        Assembly { text, drafts: Vec::new(), draft: None, pending: Vec::new(), gap: 0, problems: Vec::new() };
    for item in items {
        assembly.take(item);
    }
    assembly.settle();
    assembly.close();
    scan.problems.append(&mut assembly.problems);
    scan.problems.sort_by_key(|p| p.line);
    untangled(assembly.drafts)
}

/// Joins again what was parted because ids repeated, where it was parted more often than any id occurs: dumps one behind
/// the other part cleanly, but of dumps that were written at the same time neither piece is a dump.
fn untangled(drafts: Vec<Draft>) -> Vec<Draft> {
    let mut joined: Vec<Draft> = Vec::with_capacity(drafts.len());
    let mut run: Vec<Draft> = Vec::new();
    for draft in drafts {
        if !draft.by_repeat {
            joined.append(&mut untangled_run(std::mem::take(&mut run)));
        }
        run.push(draft);
    }
    joined.append(&mut untangled_run(run));
    joined
}

fn untangled_run(run: Vec<Draft>) -> Vec<Draft> {
    let mut occurs: FxHashMap<u64, usize> = FxHashMap::default();
    for block in run.iter().flat_map(|d| &d.blocks) {
        if let Some(id) = block.id {
            *occurs.entry(id).or_default() += 1;
        }
    }
    if run.len() <= occurs.values().copied().max().unwrap_or(0) || run.len() < 2 {
        return run;
    }
    let mut pieces = run.into_iter();
    let Some(mut whole) = pieces.next() else { return Vec::new() };
    whole.tangled = true;
    for piece in pieces {
        whole.extend(piece.span, piece.lines.1);
        whole.registers |= piece.registers;
        whole.arch = whole.arch.or(piece.arch);
        whole.notices.extend(piece.notices);
        for block in piece.blocks {
            if let Some(Entry::Vacant(free)) = block.id.map(|id| whole.ids.entry(id)) {
                free.insert(whole.blocks.len());
                whole.blocks.push(block);
            }
        }
    }
    whole.blocks.retain(|block| block.id.is_some());
    vec![whole]
}

struct Assembly<'t> {
    text: &'t [u8],
    drafts: Vec<Draft>,
    draft: Option<Draft>,
    /// Notices that wait for the goroutines that they explain.
    pending: Vec<RawNotice>,
    /// Foreign lines since the last item of a dump.
    gap: u32,
    problems: Vec<RawProblem>,
}

impl Assembly<'_> {
    fn take(&mut self, item: Item) {
        match item {
            Item::Goroutine(block) => self.goroutine(block),
            Item::Notice(notice) => self.notice(notice),
            Item::Mark(mark) => self.mark(mark),
            Item::Foreign { lines } => {
                self.gap = self.gap.saturating_add(lines);
                if self.gap > EXPLAINS {
                    self.settle();
                }
            }
            Item::Profile(profile) => {
                let (span, lines) = (profile.span, profile.lines);
                self.alone(Form::ProfileCounts, span, lines, Contents::Profile(profile));
            }
            Item::Race(race) => {
                let (span, lines) = (race.span, race.lines);
                self.alone(Form::Race, span, lines, Contents::Race(race));
            }
        }
    }

    /// A form that is a snapshot by itself.
    fn alone(&mut self, form: Form, span: (usize, usize), lines: (u32, u32), contents: Contents) {
        self.settle();
        self.close();
        self.drafts.push(Draft { form, span, lines, contents, opened: true, ..Draft::default() });
    }

    fn notice(&mut self, notice: RawNotice) {
        if let Some(draft) = self.draft.as_mut().filter(|d| d.threads)
            && (notice.kind == NoticeKind::Signal || !notice.opens)
        {
            draft.extend(notice.span, notice.last_line);
            return;
        }
        self.gap = 0;
        self.pending.push(notice);
    }

    fn mark(&mut self, mark: Mark) {
        match mark.kind {
            MarkKind::Begin => {
                self.settle();
                self.close();
                self.draft = Some(Draft::at(&mark));
            }
            MarkKind::End => {
                if let Some(draft) = &mut self.draft {
                    draft.extend(mark.span, mark.line);
                }
                self.settle();
                self.close();
            }
            MarkKind::Rule => {
                if let Some(draft) = self.draft.as_mut().filter(|d| d.form == Form::Signal || d.registers) {
                    draft.threads = true;
                    draft.extend(mark.span, mark.line);
                }
            }
            MarkKind::Registers(arch) => {
                if let Some(draft) = &mut self.draft {
                    draft.registers = true;
                    draft.arch = draft.arch.or(arch);
                    draft.extend(mark.span, mark.line);
                }
            }
            MarkKind::ThreadStack(cut) => {
                let draft = self.draft_for(None, mark.span.0, mark.line);
                draft.cut |= cut;
                draft.extend(mark.span, mark.line);
            }
            MarkKind::Cut => {
                if let Some(draft) = &mut self.draft {
                    draft.cut = true;
                    draft.extend(mark.span, mark.line);
                    let message = "lines were taken out here; what stood in them is not known".to_owned();
                    self.problems.push(RawProblem { severity: Severity::Warning, line: mark.line, message });
                }
            }
        }
        self.gap = 0;
    }

    fn goroutine(&mut self, block: Block) {
        let text = self.text;
        let draft = self.draft_for(Some(&block), block.start, block.line);
        draft.extend((block.start, block.end), block.last_line);
        if draft.blocks.is_empty() {
            draft.first_running = is_running(&block, text);
        }
        match block.id.map(|id| draft.ids.entry(id)) {
            Some(Entry::Occupied(known)) => {
                if let Some(before) = draft.blocks.get_mut(*known.get()) {
                    merge(before, block);
                }
            }
            Some(Entry::Vacant(free)) => {
                free.insert(draft.blocks.len());
                draft.blocks.push(block);
            }
            None => draft.blocks.push(block),
        }
        self.gap = 0;
    }

    /// The draft that what stands at `start` belongs to, a new one if need be.
    fn draft_for(&mut self, block: Option<&Block>, start: usize, line: u32) -> &mut Draft {
        let repeats = self.repeats(block);
        if self.pending.iter().any(|n| n.opens) || block.is_some_and(|b| self.is_second_caller(b)) || repeats {
            self.close();
        }
        let by_repeat = repeats && self.pending.is_empty();
        if by_repeat && !block.is_some_and(|b| is_running(b, self.text)) {
            let message = "a goroutine occurs for the second time: from here on this is taken for another dump";
            self.problems.push(RawProblem { severity: Severity::Note, line, message: message.to_owned() });
        }
        let fresh = || Draft { span: (start, start), lines: (line, line), by_repeat, ..Draft::default() };
        let draft = self.draft.get_or_insert_with(fresh);
        for notice in self.pending.drain(..) {
            draft.add(notice);
        }
        draft
    }

    fn repeats(&self, block: Option<&Block>) -> bool {
        let Some(draft) = self.draft.as_ref().filter(|d| !d.threads) else {
            return false;
        };
        let known = block.and_then(|b| b.id).and_then(|id| draft.ids.get(&id)).and_then(|&at| draft.blocks.get(at));
        // Two threads that throw at once: the second prints its own goroutine behind the dump of the first.
        known.is_some_and(|known| !(known.flags.has(Flags::UNAVAILABLE) && draft.form != Form::StackAll))
    }

    /// Whether `block` is the caller of another `runtime.Stack`.
    fn is_second_caller(&self, block: &Block) -> bool {
        let Some(draft) = self.draft.as_ref().filter(|d| !d.threads && !d.blocks.is_empty()) else {
            return false;
        };
        if block.flags.has(Flags::UNAVAILABLE) || !is_running(block, self.text) {
            return false;
        }
        self.gap > 0 || (draft.form == Form::StackAll && draft.first_running)
    }

    /// Notices behind which no goroutine came.
    fn settle(&mut self) {
        if self.pending.iter().any(|n| n.suffices) {
            self.close();
            let first = self.pending.first().map(|n| (n.span, n.line)).unwrap_or_default();
            let mut draft = Draft { span: first.0, lines: (first.1, first.1), ..Draft::default() };
            for notice in self.pending.drain(..) {
                draft.add(notice);
            }
            self.drafts.push(draft);
        }
        self.pending.clear();
    }

    fn close(&mut self) {
        self.gap = 0;
        if let Some(draft) = self.draft.take()
            && draft.is_worth_keeping()
        {
            self.drafts.push(draft);
        }
    }
}

impl Draft {
    fn at(mark: &Mark) -> Self {
        Draft { span: mark.span, lines: (mark.line, mark.line), opened: true, ..Draft::default() }
    }

    fn extend(&mut self, span: (usize, usize), last_line: u32) {
        self.span = (self.span.0.min(span.0), self.span.1.max(span.1));
        self.lines.1 = self.lines.1.max(last_line);
    }

    fn add(&mut self, notice: RawNotice) {
        let form = match notice.kind {
            NoticeKind::Signal => Form::Signal,
            NoticeKind::Fatal => Form::Fatal,
            NoticeKind::Panic => Form::Panic,
            _ => self.form,
        };
        // The first word counts: a fatal error during a panic is still that panic's.
        if self.form == Form::StackAll {
            self.form = form;
        }
        self.opened |= notice.opens;
        self.lines.0 = self.lines.0.min(notice.line);
        self.extend(notice.span, notice.last_line);
        self.notices.push(notice);
    }

    /// Frames without any header around them are somebody's stack trace in a log, a header alone is talk of a goroutine.
    fn is_worth_keeping(&self) -> bool {
        let told = |b: &Block| b.frame_count > 0 || b.created_by.is_some() || b.flags.has(Flags::UNAVAILABLE);
        let is_dump = self.blocks.len() > 1 || self.blocks.iter().any(told);
        is_dump && self.blocks.iter().any(|b| b.id.is_some()) || self.opened && !self.notices.is_empty()
    }
}

/// The same goroutine, printed again with the thread that runs it: keep what tells more.
fn merge(before: &mut Block, again: Block) {
    if again.frame_count > before.frame_count || before.flags.has(Flags::UNAVAILABLE) && again.frame_count > 0 {
        let minutes = again.minutes.or(before.minutes);
        *before = Block { minutes, ..again };
    }
}

/// Whether the goroutine's state is `running`.
pub(super) fn is_running(block: &Block, text: &[u8]) -> bool {
    text.get(block.state.clone()) == Some(b"running")
}
