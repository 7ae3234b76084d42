//! The text that the runtime would have printed: `runtime/traceback.go` of the release that built the program.

use super::Go;
use super::args::push_hex;
use super::goroutines::{Goroutine, status};
use super::symbols::Call;
use super::unwind::{Frame, Unwinder};
use std::io::{self, Write};

/// Which of the runtime's own forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// `runtime.Stack`: without the runtime's frames and goroutines.
    Stack,
    /// A crash: everything, with fp, sp and pc.
    Crash,
}

/// `tracebackInnerFrames`, `tracebackOuterFrames`.
const INNER: usize = 50;
const OUTER: usize = 50;
/// Limit of physical frames up to 1.20.
const OLD_LIMIT: usize = 100;

/// Wait reasons of goroutines that a synctest bubble takes for idle (`isIdleInSynctest` of 1.25 to 1.27).
const IDLE_IN_SYNCTEST: [&str; 8] = [
    "chan receive (nil chan)",
    "chan send (nil chan)",
    "select (no cases)",
    "sleep",
    "sync.Cond.Wait",
    "coroutine",
    "synctest.Run",
    "synctest.Wait",
];

impl<'m> Go<'m> {
    /// Writes all goroutines in the order of the runtime's list. `runtime.Stack` leaves out the runtime's own.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn dump(&self, level: Level, out: &mut impl Write) -> io::Result<()> {
        let mut block = Vec::with_capacity(8 << 10);
        let mut first = true;
        for g in &self.goroutines {
            if level == Level::Stack && self.is_system(g) {
                continue;
            }
            block.clear();
            if !first {
                block.push(b'\n');
            }
            first = false;
            self.print(g, level, &mut block);
            out.write_all(&block)?;
        }
        Ok(())
    }

    /// Prints one goroutine's block.
    pub fn print(&self, g: &Goroutine, level: Level, out: &mut Vec<u8>) {
        self.header(g, level, out);
        match self.start(g) {
            Some(start) => {
                let unwinder = Unwinder::new(self, start);
                if self.stack(&unwinder, level, false, out) == 0 {
                    self.stack(&unwinder, level, true, out);
                }
            }
            None => out.extend_from_slice(b"\tgoroutine running on other thread; stack unavailable\n"),
        }
        if g.id != 1 {
            self.created_by(g.go_pc, g.parent, level, out);
        }
        self.ancestors(g, level, out);
    }

    /// `isSystemGoroutine`. The finalizer's and the cleaners' goroutines count as the user's while they run user code.
    pub fn is_system(&self, g: &Goroutine) -> bool {
        let Some(function) = self.function_at(g.start_pc) else {
            return false;
        };
        let ids = &self.layout.ids;
        let id = Some(function.id);
        if [ids.runtime_main, ids.corostart, ids.handle_async_event].contains(&id) {
            return false;
        }
        if !self.table.name(&function).starts_with("runtime.") {
            return false;
        }
        let runs_user_code = (id == ids.run_finalizers || id == ids.run_cleanups)
            && self
                .frames(g, INNER + OUTER)
                .iter()
                .any(|frame| !self.table.name(&frame.function).starts_with("runtime."));
        !runs_user_code
    }

    fn header(&self, g: &Goroutine, level: Level, out: &mut Vec<u8>) {
        let _ = write!(out, "goroutine {}", g.id);
        if level == Level::Crash && self.minor >= 22 {
            out.extend_from_slice(b" gp=");
            push_hex(out, g.address);
            match self.machines.get(&g.m) {
                Some(machine) => {
                    let _ = write!(out, " m={} mp=", machine.id);
                    push_hex(out, g.m);
                }
                None => out.extend_from_slice(b" m=nil"),
            }
        }
        let state = self.state(g);
        let _ = write!(out, " [{state}");
        if g.status == status::LEAKED && self.minor >= 26 {
            out.extend_from_slice(b" (leaked)");
        }
        if g.scan {
            out.extend_from_slice(b" (scan)");
        }
        if g.bubble != 0 && self.minor >= 25 && g.status == status::WAITING && IDLE_IN_SYNCTEST.contains(&state) {
            out.extend_from_slice(b" (durable)");
        }
        if let Some(minutes) = self.minutes(g) {
            let _ = write!(out, ", {minutes} minutes");
        }
        if g.locked_m != 0 {
            out.extend_from_slice(b", locked to thread");
        }
        if let Some(bubble) = self.bubble(g) {
            let what = if self.minor == 24 { "group" } else { "bubble" };
            let _ = write!(out, ", synctest {what} {bubble}");
        }
        out.push(b']');
        // The setting `tracebacklabels` itself is not looked for: its default is taken.
        if self.minor >= 27 {
            let labels = self.labels(g);
            if !labels.is_empty() {
                out.extend_from_slice(b" {");
                for (i, (key, value)) in labels.iter().enumerate() {
                    out.extend_from_slice(if i > 0 { b", " } else { b"" });
                    push_label(out, key);
                    out.extend_from_slice(b": ");
                    push_label(out, value);
                }
                out.push(b'}');
            }
        }
        out.extend_from_slice(b":\n");
    }

    /// Status or wait reason, as printed.
    pub fn state(&self, g: &Goroutine) -> &'static str {
        let of = |texts: &[&'static str], index: usize| texts.get(index).copied();
        if (g.status == status::WAITING || g.status == status::LEAKED) && g.wait_reason != 0 {
            return of(self.layout.wait_reasons, usize::from(g.wait_reason)).unwrap_or("unknown wait reason");
        }
        of(self.layout.statuses, g.status as usize).unwrap_or("???")
    }

    /// Whole minutes since a collection found it waiting: at least so many, since a core has no clock and "now" is
    /// the latest moment that a processor noted.
    pub fn minutes(&self, g: &Goroutine) -> Option<u64> {
        if g.wait_since == 0 || (g.status != status::WAITING && g.status != status::SYSCALL) {
            return None;
        }
        Some(self.now.saturating_sub(g.wait_since) / 60_000_000_000).filter(|&minutes| minutes >= 1)
    }

    fn bubble(&self, g: &Goroutine) -> Option<u64> {
        if g.bubble == 0 || self.minor < 24 {
            return None;
        }
        if let Some(offset) = self.layout.bubble_id {
            return self.memory.u64(g.bubble.wrapping_add(u64::from(offset))).ok();
        }
        None
    }

    /// Profiler labels of a goroutine (1.24 and later, where they are a plain list of string pairs).
    pub fn labels(&self, g: &Goroutine) -> Vec<(String, String)> {
        if g.labels == 0 || self.minor < 24 {
            return Vec::new();
        }
        let word = |i: u64| self.memory.u64(g.labels.wrapping_add(8 * i)).unwrap_or(0);
        let (list, count) = (word(0), word(1).min(1000));
        let pair = |i: u64| {
            let at = list.wrapping_add(32 * i);
            Some((self.memory.go_string(at, 4096).ok()?, self.memory.go_string(at.wrapping_add(16), 4096).ok()?))
        };
        (0..count).map_while(pair).collect()
    }

    /// Prints a stack; returns how many calls were printed.
    fn stack(&self, unwinder: &Unwinder<'_, 'm>, level: Level, everything: bool, out: &mut Vec<u8>) -> usize {
        let mut printer = Printer { go: self, level, everything, out };
        if self.minor < 21 {
            // The limit counted physical frames, the note printed ones.
            let mut walk = unwinder.clone();
            let printed = printer.run(&mut walk, 0, usize::MAX, OLD_LIMIT).0;
            if printed == OLD_LIMIT {
                printer.out.extend_from_slice(b"...additional frames elided...\n");
            }
            return printed;
        }
        let mut walk = unwinder.clone();
        let (printed, last, rest) = printer.run(&mut walk, 0, INNER, usize::MAX);
        let Some(rest) = rest else { return printed };
        // Counts the calls of the frame in which the printing stopped, too.
        let remaining = printer.count(&mut rest.clone());
        let elided = remaining.saturating_sub(last).saturating_sub(OUTER);
        if elided > 0 {
            let _ = writeln!(printer.out, "...{elided} frames elided...");
        }
        printer.run(&mut rest.clone(), last + elided, OUTER, usize::MAX);
        printed
    }

    fn created_by(&self, pc: u64, parent: u64, level: Level, out: &mut Vec<u8>) {
        if pc == 0 {
            return;
        }
        let Some(function) = self.function_at(pc) else {
            return;
        };
        let back = match self.arch {
            crate::core::elf::Arch::Amd64 => 1,
            crate::core::elf::Arch::Arm64 => 4,
        };
        let lookup = if pc > function.entry { pc - back } else { pc };
        let site = self.site(&function, lookup);
        let Some(call) = site.calls.last() else {
            return;
        };
        if level < Level::Crash && !self.shows(call, false, 0) {
            return;
        }
        let name = &call.printed;
        let name = if self.minor < 21 && name == "panic" { "runtime.gopanic" } else { name };
        let _ = write!(out, "created by {name}");
        if self.minor >= 21 && parent != 0 {
            let _ = write!(out, " in goroutine {parent}");
        }
        // Not the inlined call: the runtime looks up the outermost function's own tables here.
        let (file, line) = self.table.file_line(&function, lookup);
        let _ = write!(out, "\n\t{file}:{line}");
        push_offset(out, pc, function.entry);
        out.push(b'\n');
    }

    /// `GODEBUG=tracebackancestors=N`: who started the one that started this one.
    fn ancestors(&self, g: &Goroutine, level: Level, out: &mut Vec<u8>) {
        if g.ancestors == 0 {
            return;
        }
        // *[]ancestorInfo; ancestorInfo is pcs []uintptr, goid, gopc.
        let word = |at: u64| self.memory.u64(at).unwrap_or(0);
        let (list, count) = (word(g.ancestors), word(g.ancestors.wrapping_add(8)).min(100));
        for i in 0..count {
            let at = list.wrapping_add(40 * i);
            let (pcs, length) = (word(at), word(at.wrapping_add(8)).min(OLD_LIMIT as u64));
            let _ = writeln!(out, "[originating from goroutine {}]:", word(at.wrapping_add(24)));
            for k in 0..length {
                let pc = word(pcs.wrapping_add(8 * k));
                let Some(function) = self.function_at(pc) else {
                    continue;
                };
                let site = self.site(&function, pc);
                let Some(call) = site.calls.first() else {
                    continue;
                };
                if level == Level::Crash || self.shows(call, k == 0, 0) {
                    let _ = write!(out, "{}(...)\n\t{}:{}", call.printed, call.file, call.line);
                    push_offset(out, pc, function.entry);
                    out.push(b'\n');
                }
            }
            let limit = if self.minor >= 21 { INNER } else { OLD_LIMIT };
            if length == limit as u64 {
                out.extend_from_slice(b"...additional frames elided...\n");
            }
            if word(at.wrapping_add(24)) != 1 {
                self.created_by(word(at.wrapping_add(32)), 0, level, out);
            }
        }
    }

    /// `showfuncinfo`: whether a call belongs into `runtime.Stack`.
    fn shows(&self, call: &Call, first: bool, callee: u8) -> bool {
        let ids = &self.layout.ids;
        let (id, callee) = (Some(call.id), Some(callee));
        // A wrapper is left out unless it called a panic instead of what it wraps.
        if id == ids.wrapper && ![ids.gopanic, ids.sigpanic, ids.panicwrap].contains(&callee) {
            return false;
        }
        if self.minor >= 25 && (id == ids.run_finalizers || id == ids.run_cleanups) {
            return true;
        }
        call.shown || (call.name == "runtime.gopanic" && !first)
    }
}

struct Printer<'a, 'm, 'o> {
    go: &'a Go<'m>,
    level: Level,
    everything: bool,
    out: &'o mut Vec<u8>,
}

impl<'m> Printer<'_, 'm, '_> {
    /// `traceback2`: skips `skip` calls and prints at most `most`, over at most `frames` physical frames.
    ///
    /// Returns how many calls were skipped or printed, how many of them of the last frame, and, if it stopped before
    /// the end, the walk as it stood before that frame.
    fn run<'a>(
        &mut self,
        walk: &mut Unwinder<'a, 'm>,
        mut skip: usize,
        mut most: usize,
        frames: usize,
    ) -> (usize, usize, Option<Unwinder<'a, 'm>>) {
        let mut n = 0;
        for _ in 0..frames {
            let before = walk.clone();
            let Some(frame) = walk.next() else { break };
            let site = self.go.site(&frame.function, frame.lookup_pc);
            let (mut callee, mut last) = (frame.callee, 0);
            for call in &site.calls {
                let called = std::mem::replace(&mut callee, call.id);
                if !self.wants(call, n == 0, called) {
                    continue;
                }
                if skip == 0 && most == 0 {
                    return (n, last, Some(before));
                }
                n += 1;
                last += 1;
                if skip > 0 {
                    skip -= 1;
                    continue;
                }
                most -= 1;
                self.print(&frame, call, &site.arguments);
            }
        }
        (n, 0, None)
    }

    fn count(&self, walk: &mut Unwinder<'_, 'm>) -> usize {
        let mut n = 0;
        for frame in walk {
            let site = self.go.site(&frame.function, frame.lookup_pc);
            let mut callee = frame.callee;
            for call in &site.calls {
                let called = std::mem::replace(&mut callee, call.id);
                n += usize::from(self.wants(call, n == 0, called));
            }
        }
        n
    }

    fn wants(&self, call: &Call, first: bool, callee: u8) -> bool {
        self.everything || self.level == Level::Crash || self.go.shows(call, first, callee)
    }

    fn print(&mut self, frame: &Frame, call: &Call, arguments: &super::args::ArgumentPlan) {
        let out = &mut *self.out;
        // Only the outermost call of a frame was printed as `panic` before 1.21; none is inlined there.
        out.extend_from_slice(call.printed.as_bytes());
        out.push(b'(');
        if call.inlined {
            out.extend_from_slice(b"...");
        } else {
            arguments.print(self.go.memory, frame.argp, out);
        }
        let _ = write!(out, ")\n\t{}:{}", call.file, call.line);
        if !call.inlined {
            push_offset(out, frame.pc, frame.function.entry);
            if self.level == Level::Crash {
                for (name, value) in [(" fp=", frame.fp), (" sp=", frame.sp), (" pc=", frame.pc)] {
                    out.extend_from_slice(name.as_bytes());
                    push_hex(out, value);
                }
            }
        }
        out.push(b'\n');
    }
}

fn push_offset(out: &mut Vec<u8>, pc: u64, entry: u64) {
    if pc > entry {
        out.extend_from_slice(b" +");
        push_hex(out, pc - entry);
    }
}

/// A label, quoted only if a character asks for it (`tracebackStringNeedsQuoting`).
fn push_label(out: &mut Vec<u8>, text: &str) {
    if text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'/' | b'_')) {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    let _ = write!(out, "{text:?}");
}
