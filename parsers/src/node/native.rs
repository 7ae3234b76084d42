//! Stacks of user space: gdb's `thread apply all bt`, pstack and gstack, `eu-stack`.

use super::Context;
use super::lines::{Line, Lines, Stop};
use crate::evidence::{NodeEvidence, StackFrame, ThreadStack};
use regex::Regex;
use std::sync::LazyLock;

const FRAMES: usize = 2_000;

// Thread 3 (Thread 0x7f23b93756c0 (LWP 25032) "waiters"):
static THREAD: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r#"^\s*Thread \d+ \((?:Thread 0x[0-9a-f]+ )?\(?(?:LWP|process) (\d+)\)?(?: "([^"]*)")?.*\):?\s*$"#).ok()
});
// #1  0x00007f in name (arg=…) at file.c:3   /   from /lib/libc.so.6
static GDB: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^#(\d+)\s+(0x[0-9a-f]+ in )?(\S.*?|\?\?) \((?:.*\) (?:at|from) (\S+))?").ok());
// #1  0x00007f23b9c04ce3 name - /lib/libc.so.6
static EU: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^#(\d+)\s+0x[0-9a-f]{8,16}(?:\s+- \d+)?(?:\s+([^\s-]\S*))?(?:\s+- (\S+))?(?:\s+\(.*\))?\s*$").ok()
});

struct Found {
    index: u32,
    function: String,
    module: Option<String>,
    /// Only a debugger prints this.
    certain: bool,
}

fn frame(text: &str) -> Option<Found> {
    if !text.starts_with('#') {
        return None;
    }
    if let Some(found) = EU.as_ref()?.captures(text) {
        return Some(Found {
            index: found.get(1)?.as_str().parse().ok()?,
            function: found.get(2).map_or("??", |m| m.as_str()).to_string(),
            module: found.get(3).map(|m| m.as_str().to_string()),
            certain: true,
        });
    }
    let found = GDB.as_ref()?.captures(text)?;
    let function = found.get(3)?.as_str();
    // `#1 [internal] load …` of a build, `#12 is fixed (see …)` of a tracker.
    let named = function == "??"
        || (function.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '<' | '~' | '('))
            && (!function.contains(' ') || function.contains(['<', '(', ':']) || found.get(2).is_some()));
    if !named || function.len() > 1_000 {
        return None;
    }
    Some(Found {
        index: found.get(1)?.as_str().parse().ok()?,
        function: function.to_string(),
        module: found.get(4).map(|m| m.as_str().to_string()),
        certain: found.get(2).is_some(),
    })
}

fn eu_thread(text: &str) -> Option<u32> {
    text.strip_prefix("TID ")?.trim_end().strip_suffix(':')?.parse().ok()
}

/// Reads the stacks that begin at `line`: a thread's title, or the first frame of a process with one thread.
pub(super) fn read(lines: &Lines<'_>, line: &Line<'_>, context: &Context, out: &mut NodeEvidence) -> Option<Stop> {
    let before = out.threads.len();
    let mut pid = context.whose.pid.or_else(|| announced(lines, line));
    let attached = attached_live(lines);
    let mut stop = None;
    let mut strangers = 0u8;
    let mut certain = false;
    let mut current: Option<ThreadStack> = None;
    let flush = |current: &mut Option<ThreadStack>, out: &mut NodeEvidence| {
        if let Some(stack) = current.take().filter(|s| !s.frames.is_empty()) {
            out.threads.push(stack);
        }
    };
    for row in lines.from(line) {
        let text = row.text.trim_end();
        if let Some(found) = THREAD.as_ref().and_then(|re| re.captures(text)) {
            flush(&mut current, out);
            certain = true;
            let tid = found.get(1).and_then(|m| m.as_str().parse().ok());
            // gdb numbers the threads of a live process from its first, which has the process's id.
            if attached && text.trim_start().starts_with("Thread 1 ") {
                pid = pid.or(tid);
            }
            let comm = found.get(2).map(|m| m.as_str().to_string());
            current = Some(ThreadStack { tid, comm, ..begin(lines, &row) });
        } else if let Some(tid) = eu_thread(text) {
            flush(&mut current, out);
            current = Some(ThreadStack { tid: Some(tid), ..begin(lines, &row) });
        } else if let Some(found) = frame(text.trim_start()) {
            certain |= found.certain;
            if current.is_none() || (found.index == 0 && current.as_ref().is_some_and(|s| !s.frames.is_empty())) {
                flush(&mut current, out);
                current = Some(ThreadStack { tid: pid, ..begin(lines, &row) });
            }
            if let Some(stack) = current.as_mut() {
                stack.last_line = lines.source_line(row.number);
                if stack.frames.len() < FRAMES {
                    let line = lines.source_line(row.number);
                    stack.frames.push(StackFrame { function: found.function, module: found.module, line });
                }
            }
        } else {
            // Blank lines, wrapped arguments, `[Inferior 1 (process 7) detached]`.
            strangers += 1;
            if strangers > 3 {
                break;
            }
            continue;
        }
        strangers = 0;
        stop = Some(Stop::after(&row));
    }
    flush(&mut current, out);
    let found = out.threads.len() - before;
    let frames: usize = out.threads.iter().skip(before).map(|t| t.frames.len()).sum();
    if found == 0 || !certain || frames < 2 {
        out.threads.truncate(before);
        context.barrier.set(stop.map_or(0, |s: Stop| s.start));
        return None;
    }
    for stack in out.threads.iter_mut().skip(before) {
        stack.pid = stack.pid.or(pid);
    }
    stop
}

fn begin(lines: &Lines<'_>, row: &Line<'_>) -> ThreadStack {
    ThreadStack {
        native: true,
        place: lines.place(row.number),
        last_line: lines.source_line(row.number),
        ..ThreadStack::default()
    }
}

/// The process that a line shortly above names: `PID 25027 - process`, `Attaching to process 7`.
fn announced(lines: &Lines<'_>, line: &Line<'_>) -> Option<u32> {
    let mut row = line.clone();
    for _ in 0..60 {
        row = lines.before(&row)?;
        let text = row.text.trim();
        for (start, end) in [("PID ", " - process"), ("Attaching to process ", ""), ("Attaching to program: ", "")] {
            if let Some(rest) = text.strip_prefix(start)
                && let Some(rest) = if end.is_empty() { Some(rest) } else { rest.strip_suffix(end) }
                && let Some(pid) = rest.rsplit(' ').next().and_then(|w| w.parse().ok())
            {
                return Some(pid);
            }
        }
    }
    None
}

/// gdb attached to a live process, as its first lines tell; of a core the first thread is the one that crashed.
fn attached_live(lines: &Lines<'_>) -> bool {
    let head = lines.bytes().get(..lines.bytes().len().min(16 << 10)).unwrap_or(&[]);
    memchr::memmem::find(head, b"[New LWP ").is_some()
        && memchr::memmem::find(head, b"Core was generated by").is_none()
        && memchr::memmem::find(head, b"warning: core file").is_none()
}
