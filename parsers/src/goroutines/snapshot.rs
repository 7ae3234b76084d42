//! From a draft to a snapshot: interned names, frames of its own, and a judgement of what is missing.

use super::block::Block;
use super::dump::{Contents, Draft, is_running};
use super::hints;
use super::lines::text_of;
use super::pairing;
use super::scan::Scan;
use super::sites::RawSite;
use crate::envelope::Stream;
use crate::evidence::{
    Ancestor, CreatedBy, Flags, Form, Frame, Goroutine, Notice, Problem, Severity, Site, SiteId, Snapshot, Sym,
};
use crate::limits;
use rustc_hash::FxHashSet;
use std::ops::Range;

/// Lines of a stream before a dump within which the stream's first stamp is the dump's.
const SAME_MOMENT: u32 = 10;

/// Turns drafts into snapshots.
pub(super) fn snapshots(stream: &Stream, scan: Scan<'_>, drafts: Vec<Draft>) -> Vec<Snapshot> {
    let Scan { frames, sites, ancestors, problems, .. } = scan;
    let sites = sites.into_sites();
    let mut builder = Builder::new(stream, &frames, &sites);
    let mut problems = problems.into_iter().peekable();
    let mut found = Vec::with_capacity(drafts.len());
    for mut draft in drafts {
        let mut own = Vec::new();
        while let Some(problem) = problems.next_if(|p| p.line <= draft.lines.1) {
            if problem.line >= draft.lines.0 {
                own.push(problem);
            }
        }
        let mut snapshot = builder.begin(&draft);
        for problem in own {
            let line = stream.lines.place(problem.line).map(|p| p.line);
            snapshot.problems.push(Problem::new(problem.severity, line, problem.message));
        }
        match std::mem::take(&mut draft.contents) {
            Contents::Blocks => {
                for block in &draft.blocks {
                    builder.goroutine(&mut snapshot, &draft, block);
                    let of = (snapshot.goroutines.len() - 1) as u32;
                    let range = block.ancestors.start as usize..block.ancestors.end as usize;
                    for raw in ancestors.get(range).unwrap_or_default() {
                        let sites = raw.sites.iter().map(|&s| builder.site(&mut snapshot, s)).collect();
                        snapshot.ancestors.push(Ancestor { of, id: raw.id, sites });
                    }
                }
                builder.doubt(&mut snapshot);
                judge(&mut snapshot, &draft, stream);
            }
            Contents::Profile(profile) => profile.fill(&mut snapshot, &mut builder, &draft),
            Contents::Race(race) => race.fill(&mut snapshot, &mut builder, &draft),
        }
        builder.end(&mut snapshot, &draft);
        found.push(snapshot);
    }
    found
}

/// What all snapshots of a stream share while they are built.
pub(super) struct Builder<'b, 't> {
    stream: &'b Stream,
    frames: &'b [Frame],
    sites: &'b [RawSite<'t>],
    /// From a site of the scan to one of the snapshot being built.
    map: Vec<u32>,
    /// Which entries of `map` are set.
    seen: Vec<u32>,
    /// Sites of the snapshot of which the function does not stand in the file.
    misfits: FxHashSet<SiteId>,
}

impl<'b, 't> Builder<'b, 't> {
    fn new(stream: &'b Stream, frames: &'b [Frame], sites: &'b [RawSite<'t>]) -> Self {
        let map = vec![u32::MAX; sites.len()];
        Builder { stream, frames, sites, map, seen: Vec::new(), misfits: FxHashSet::default() }
    }

    fn begin(&mut self, draft: &Draft) -> Snapshot {
        for &site in &self.seen {
            if let Some(slot) = self.map.get_mut(site as usize) {
                *slot = u32::MAX;
            }
        }
        self.seen.clear();
        self.misfits.clear();
        let (first, last) = draft.lines;
        let lines = self.stream.lines.part(first, last);
        let input = lines.place(1).map_or(0, |place| place.input);
        let notices = draft.notices.iter().map(|n| Notice {
            kind: n.kind,
            text: n.text.clone(),
            line: n.line.saturating_sub(first) + 1,
        });
        Snapshot {
            input,
            form: draft.form,
            process: self.stream.process.clone(),
            taken_at: self.stream.written_at.filter(|_| first <= SAME_MOMENT),
            notices: notices.collect(),
            text: self.stream.text.slice(draft.span.0..draft.span.1),
            lines,
            complete: true,
            ..Snapshot::default()
        }
    }

    fn end(&mut self, snapshot: &mut Snapshot, draft: &Draft) {
        hints::fill(snapshot, draft.arch);
        snapshot.problems.truncate(limits::PROBLEMS);
    }

    /// The snapshot's site for a site of the scan.
    #[inline]
    pub fn site(&mut self, snapshot: &mut Snapshot, raw: u32) -> SiteId {
        match self.map.get(raw as usize) {
            Some(&known) if known != u32::MAX => SiteId(known),
            _ => self.new_site(snapshot, raw),
        }
    }

    fn new_site(&mut self, snapshot: &mut Snapshot, raw: u32) -> SiteId {
        let id = snapshot.sites.len() as u32;
        let site = self.sites.get(raw as usize).map(|site| Site {
            func: snapshot.names.intern(&text_of(site.name)),
            file: snapshot.names.intern(&text_of(site.file)),
            line: site.line,
            offset: site.offset,
            kind: site.kind,
        });
        let (Some(site), Some(slot)) = (site, self.map.get_mut(raw as usize)) else {
            return SiteId(u32::MAX);
        };
        if !pairing::fits(snapshot.names.get(site.func), snapshot.names.get(site.file)) {
            self.misfits.insert(SiteId(id));
        }
        snapshot.sites.push(site);
        *slot = id;
        self.seen.push(raw);
        SiteId(id)
    }

    /// Copies frames of the scan to the snapshot; `before` is the number of lines before the dump.
    pub fn copy_frames(&mut self, snapshot: &mut Snapshot, range: Range<usize>, before: u32) {
        let frames = self.frames;
        for frame in frames.get(range).unwrap_or_default() {
            let site = self.site(snapshot, frame.site.0);
            snapshot.frames.push(Frame { site, line: frame.line.saturating_sub(before), ..*frame });
        }
    }

    /// A frame of the scan.
    pub fn frame(&self, index: usize) -> Option<Frame> {
        self.frames.get(index).copied()
    }

    /// Marks goroutines with a function that met the file line of another.
    fn doubt(&self, snapshot: &mut Snapshot) {
        if self.misfits.is_empty() {
            return;
        }
        for index in 0..snapshot.goroutines.len() {
            let Some(goroutine) = snapshot.goroutines.get(index) else { break };
            let frames = snapshot.frames_of(goroutine).iter().map(|f| (f.site, f.line));
            let mut all = frames.chain(goroutine.created_by.map(|c| (c.site, c.line)));
            let Some((_, at)) = all.find(|(site, _)| self.misfits.contains(site)) else { continue };
            let line = snapshot.place(at).map(|p| p.line);
            let message = "this function does not stand in the file below it: lines between them were lost";
            snapshot.problems.push(Problem::warning(line, message));
            if let Some(goroutine) = snapshot.goroutines.get_mut(index) {
                goroutine.flags.set(Flags::CUT);
            }
        }
    }

    /// The symbol of what stands in `range` of the scanned text.
    pub fn name(&self, snapshot: &mut Snapshot, range: &Range<usize>) -> Sym {
        let bytes = self.stream.text.bytes().get(range.clone()).unwrap_or_default();
        if bytes.is_empty() { Sym(0) } else { snapshot.names.intern(&text_of(bytes)) }
    }

    fn goroutine(&mut self, snapshot: &mut Snapshot, draft: &Draft, block: &Block) {
        let before = draft.lines.0.saturating_sub(1);
        let first_frame = snapshot.frames.len() as u32;
        let range = block.first_frame as usize..(block.first_frame + block.frame_count) as usize;
        self.copy_frames(snapshot, range, before);
        let created_by = block.created_by.map(|created| CreatedBy {
            site: self.site(snapshot, created.site.0),
            line: created.line.saturating_sub(before),
            ..created
        });
        let state = self.name(snapshot, &block.state);
        let labels = self.name(snapshot, &block.labels);
        snapshot.goroutines.push(Goroutine {
            id: block.id,
            count: 1,
            state,
            minutes: block.minutes,
            flags: block.flags,
            labels,
            gp: block.gp,
            m: block.m,
            tid: None,
            first_frame,
            frame_count: block.frame_count,
            created_by,
            text_start: block.start.saturating_sub(draft.span.0),
            text_len: block.end.saturating_sub(block.start),
            line: block.line.saturating_sub(before),
        });
    }
}

/// Tells whether head, middle and end of a dump are there, and what form it has where no notice said so.
fn judge(snapshot: &mut Snapshot, draft: &Draft, stream: &Stream) {
    let text = stream.text.bytes();
    let last = snapshot.goroutines.len().saturating_sub(1);
    // A finalizer's goroutine has no root at user level, so one without is a loss only where losses are known.
    let lossy = draft.cut || draft.blocks.iter().any(|b| b.flags.has(Flags::CUT));
    for (index, block) in draft.blocks.iter().enumerate() {
        let Some(goroutine) = snapshot.goroutines.get(index) else {
            break;
        };
        if block.flags.has(Flags::CUT) || has_root(snapshot, goroutine) {
            continue;
        }
        let message = match goroutine.frame_count {
            0 => "a goroutine without any frame: its stack is missing",
            _ if index == last => {
                "the last goroutine has neither an outermost function nor a creator: the dump's end is missing"
            }
            _ if lossy || block.registers => {
                "a goroutine has neither an outermost function nor a creator: lines of it are missing"
            }
            _ => continue,
        };
        let line = snapshot.place(goroutine.line).map(|p| p.line);
        snapshot.problems.push(Problem::warning(line, message));
        if let Some(goroutine) = snapshot.goroutines.get_mut(index) {
            goroutine.flags.set(Flags::CUT);
        }
    }
    if snapshot.form == Form::StackAll {
        if draft.registers || snapshot.goroutines.iter().any(|g| g.gp != 0) {
            snapshot.form = Form::Signal;
        } else if let [only] = snapshot.goroutines.as_slice() {
            let panics = |f: &Frame| matches!(snapshot.function(f.site), "panic" | "runtime.gopanic");
            if snapshot.frames_of(only).iter().any(panics) {
                snapshot.form = Form::Panic;
            }
        }
    }
    let first_line = stream.lines.place(draft.lines.0).map(|p| p.line);
    if draft.tangled {
        for goroutine in &mut snapshot.goroutines {
            goroutine.flags.set(Flags::CUT);
        }
        let message = "two processes wrote their dumps here at once, and nothing tells which line is whose: no stack here can be relied on";
        snapshot.problems.insert(0, Problem::error(first_line, message));
    }
    if is_disordered(snapshot) {
        refuse_stacks(snapshot);
        let message = "the lines of this dump are in another order than the runtime prints: its stacks cannot be read";
        snapshot.problems = vec![Problem::error(first_line, message)];
    }
    let last_line = stream.lines.place(draft.lines.1).map(|p| p.line);
    let has_head = draft.opened || draft.blocks.first().is_some_and(|b| is_running(b, text));
    if !has_head {
        let message =
            "the dump's first lines are missing: it begins neither with its cause nor with the goroutine that wrote it";
        snapshot.problems.push(Problem::new(Severity::Note, first_line, message));
    }
    let has_end = snapshot.form != Form::Signal || draft.registers || snapshot.goroutines.is_empty();
    if !has_end {
        let message = "the registers that end a signal's dump are missing: goroutines may be missing before them";
        snapshot.problems.push(Problem::warning(last_line, message));
    }
    let is_whole = snapshot.goroutines.iter().all(|g| !g.flags.has(Flags::CUT));
    snapshot.complete = has_head && has_end && is_whole && !draft.cut && !snapshot.goroutines.is_empty();
}

/// Whether a goroutine's outermost line is there: its creator, or a function that nobody calls.
fn has_root(snapshot: &Snapshot, goroutine: &Goroutine) -> bool {
    let flags = goroutine.flags;
    if goroutine.created_by.is_some() || flags.has(Flags::UNAVAILABLE) || flags.has(Flags::ELIDED) {
        return true;
    }
    let Some(outermost) = snapshot.frames_of(goroutine).last() else {
        return false;
    };
    let name = snapshot.function(outermost.site);
    // Goroutines of the runtime show no creator at user level, those of C threads have none.
    name == "main.main"
        || name.starts_with("main.init")
        || name.starts_with("runtime.")
        || name.starts_with("_cgoexp_")
        || name.contains("._Cfunc_")
        || flags.has(Flags::LOCKED)
}

/// Whether the lines were sorted or shuffled: headers stand together, and functions and files apart from each other.
fn is_disordered(snapshot: &Snapshot) -> bool {
    let with_frames = snapshot.goroutines.iter().filter(|g| g.frame_count > 0).count();
    let bare = snapshot.frames.iter().filter(|f| snapshot.site(f.site).line == 0).count();
    snapshot.goroutines.len() > 2 && with_frames == 1 && bare * 2 > snapshot.frames.len() && bare > 4
}

fn refuse_stacks(snapshot: &mut Snapshot) {
    snapshot.frames.clear();
    for goroutine in &mut snapshot.goroutines {
        goroutine.first_frame = 0;
        goroutine.frame_count = 0;
        goroutine.created_by = None;
        goroutine.flags.set(Flags::CUT);
    }
}
