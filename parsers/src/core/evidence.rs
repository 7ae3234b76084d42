//! A core as evidence: the same snapshot that a dump of that moment would give, and a row for each thread.

use super::CoreFile;
use super::go::{Go, GoError, Level};
use crate::envelope::Stream;
use crate::evidence::{Form, LineMap, NativeLock, Problem, ProcessHint, Snapshot, StackFrame, Text, ThreadStack};
use crate::goroutines;
use rustc_hash::FxHashMap;
use std::io;

/// Frames of a thread's own stack that are kept.
const THREAD_FRAMES: usize = 200;

/// What a core says.
#[derive(Debug, Default)]
pub struct CoreEvidence {
    /// The goroutines; `None` if it is no Go program, or its function table is not at hand.
    pub snapshot: Option<Snapshot>,
    /// One for each thread.
    pub threads: Vec<ThreadStack>,
    /// Locks of the C library that threads wait for.
    pub locks: Vec<NativeLock>,
    /// What is missing, and what to fetch.
    pub problems: Vec<Problem>,
}

impl CoreFile {
    /// Reads everything that the core says. `input` is the index of its file among the evidence's inputs.
    pub fn evidence(&self, input: u32) -> CoreEvidence {
        let mut problems = self.problems.clone();
        let (mut snapshot, mut threads, mut locks) = (None, self.threads(input), Vec::new());
        match Go::find(self) {
            Ok(go) => {
                let text = self.render(&go);
                snapshot = Some(self.parse(&go, text, input));
                for (row, thread) in threads.iter_mut().zip(&self.notes.threads) {
                    let frames = go.thread_frames(thread, THREAD_FRAMES).into_iter();
                    row.frames = frames.map(|function| StackFrame { function, ..StackFrame::default() }).collect();
                }
                if go.deferred_calls_skipped() {
                    let message =
                        "there are too many pending deferred calls to follow all: holders of some locks are not shown";
                    problems.push(Problem::warning(None, message));
                }
                problems.extend(go.problems);
            }
            Err(GoError::NotGo) => {
                let native = self.native(input);
                for (row, stack) in threads.iter_mut().zip(&native.stacks) {
                    row.frames = stack.iter().map(|frame| frame.to_stack_frame(&self.modules)).collect();
                }
                locks = native.locks;
                problems.extend(native.missing.into_iter().map(|what| Problem::warning(None, what)));
            }
            Err(error) => problems.push(Problem::error(None, format!("goroutines cannot be read: {error}"))),
        }
        CoreEvidence { snapshot, threads, locks, problems }
    }

    /// The goroutines as a snapshot, as [`CoreFile::evidence`] has them.
    pub fn snapshot(&self, input: u32) -> (Option<Snapshot>, Vec<Problem>) {
        let evidence = self.evidence(input);
        (evidence.snapshot, evidence.problems)
    }

    /// Writes the text that the runtime would have printed.
    ///
    /// # Errors
    /// No Go runtime was found ([`GoError`] within), or `out` failed.
    pub fn dump(&self, level: Level, out: &mut impl io::Write) -> io::Result<()> {
        let go = Go::find(self).map_err(io::Error::other)?;
        go.dump(level, out)
    }

    /// What the core says of its process.
    pub fn process(&self) -> ProcessHint {
        let path_name = self.program.path.as_deref().and_then(|path| path.rsplit('/').next());
        ProcessHint {
            pid: self.notes.pid.or_else(|| self.notes.threads.first().map(|thread| thread.tid)),
            // `comm` is cut to 15 bytes.
            name: path_name.map(str::to_owned).or_else(|| self.notes.name.clone()),
            build_id: self.program.build_id.best().map(str::to_owned),
            arch: Some(self.arch.as_str().to_owned()),
            command: self.notes.command.clone(),
            ..ProcessHint::default()
        }
    }

    fn render(&self, go: &Go<'_>) -> Vec<u8> {
        let mut text = Vec::new();
        // Writing to memory cannot fail.
        let _ = go.dump(Level::Crash, &mut text);
        text
    }

    fn parse(&self, go: &Go<'_>, text: Vec<u8>, input: u32) -> Snapshot {
        let text = Text::from_vec(text);
        let stream = Stream { text: text.clone(), lines: LineMap::identity(input), ..Stream::default() };
        let mut snapshot = goroutines::parse(&stream).into_iter().next().unwrap_or_default();
        snapshot.input = input;
        snapshot.form = Form::Core;
        snapshot.lines = LineMap::default();
        snapshot.process = ProcessHint { go_version: go.version.as_ref().map(|v| v.text.clone()), ..self.process() };
        let lost = |problem: &Problem| problem.severity > crate::evidence::Severity::Note;
        snapshot.complete = !self.problems.iter().chain(&go.problems).any(lost);
        snapshot.memory = Some(go.memory_facts());
        let by_id: FxHashMap<u64, _> = go.goroutines.iter().map(|g| (g.id, g)).collect();
        for parsed in &mut snapshot.goroutines {
            let Some(g) = parsed.id.and_then(|id| by_id.get(&id)) else { continue };
            parsed.gp = g.address;
            let m = if g.m != 0 { g.m } else { g.locked_m };
            if let Some(machine) = go.machines.get(&m) {
                parsed.m = Some(machine.id);
                parsed.tid = machine.thread.and_then(|i| go.threads.get(i)).map(|thread| thread.tid);
            }
            let labels = go.labels(g);
            if !labels.is_empty() {
                let pairs: Vec<String> = labels.iter().map(|(key, value)| format!("{key}: {value}")).collect();
                parsed.labels = snapshot.names.intern(&pairs.join(", "));
            }
        }
        snapshot
    }

    fn threads(&self, input: u32) -> Vec<ThreadStack> {
        let row = |thread: &super::notes::Thread| ThreadStack {
            pid: self.notes.pid,
            tid: Some(thread.tid),
            comm: self.notes.name.clone(),
            native: true,
            memory: Some((input, thread.sp)),
            ..ThreadStack::default()
        };
        self.notes.threads.iter().map(row).collect()
    }
}
