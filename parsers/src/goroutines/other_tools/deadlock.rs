//! Reports of go-deadlock (`github.com/sasha-s/go-deadlock`, `deadlock.go` and `stacktraces.go`), which replaces the
//! locks of `sync` and knows who took each.
//!
//! ```text
//! POTENTIAL DEADLOCK:
//! Previous place where the lock was grabbed
//! goroutine 240 lock 0xc820160440
//! inmem.go:799 bttest.(*table).gc { t.mu.RLock() } <<<<<
//! inmem_test.go:221 bttest.Test.func5 { t.gc() }
//!
//! Have been trying to lock it again for more than 30s
//! goroutine 68 lock 0xc820160440
//! inmem.go:785 bttest.(*table).mutableRow { t.mu.Lock() } <<<<<
//!
//! Other goroutines holding locks:
//! goroutine 1142 lock 0xc421ef64c0
//! policy.go:717 endpoint.(*Endpoint).regenerate ??? <<<<<
//! ```
//!
//! Of several readers of one RWMutex it knows the last only.

use super::{Found, FoundFrame, Output, file_and_line, text_of};
use crate::evidence::StatedLock;
use crate::goroutines::lines::{Line, Lines};
use memchr::memmem;

pub(super) fn read(text: &[u8]) -> Option<Output> {
    memmem::find(text, b" lock 0x")?;
    let mut output = Output::default();
    let mut holds = None;
    let mut open: Option<(Found, StatedLock)> = None;
    let mut recursive: Option<(u64, u64)> = None;
    for line in Lines::new(text) {
        let Some(text) = text_of(&line) else { continue };
        if let Some((id, lock)) = section(text) {
            close(&mut output, open.take());
            let Some(holds) = holds else { continue };
            recursive = text.starts_with("current ").then_some((id, lock));
            open = Some(begin(&line, id, lock, holds));
        } else if let Some(frame) = frame(&line, text) {
            if let Some((found, stated)) = &mut open {
                stated.reads |= found.frames.is_empty() && text.contains("RLock()");
                found.span.1 = line.end();
                found.frames.push(frame);
            }
        } else if !text.is_empty() {
            close(&mut output, open.take());
            holds = heading(text);
            // The earlier stack of the same goroutine has no line of its own that names the lock.
            if let (Some((id, lock)), true) = (recursive, text.ends_with("(same goroutine)")) {
                open = Some(begin(&line, id, lock, true));
            }
        }
    }
    close(&mut output, open);
    if output.locks.is_empty() {
        return None;
    }
    output.notes.push((
        output.goroutines.first().map(|g| g.line),
        "go-deadlock wrote this: it shows the goroutines that hold or want locks, where they took or want them; \
         what the others do is not here"
            .to_string(),
    ));
    Some(output)
}

/// Whether the sections below a heading hold the lock (or want it); `None` below any other line.
fn heading(text: &str) -> Option<bool> {
    if text.starts_with("Previous place where the lock was grabbed") || text == "Other goroutines holding locks:" {
        Some(true)
    } else if text.starts_with("Have been trying to lock it again") || text.ends_with("Recursive locking:") {
        Some(false)
    } else {
        None
    }
}

/// `goroutine 1142 lock 0xc421ef64c0`, `current goroutine 7 lock 0xc421ef64c0`.
fn section(text: &str) -> Option<(u64, u64)> {
    let rest = text.strip_prefix("current ").unwrap_or(text).strip_prefix("goroutine ")?;
    let (id, lock) = rest.split_once(" lock 0x")?;
    Some((id.parse().ok()?, u64::from_str_radix(lock, 16).ok()?))
}

fn begin(line: &Line<'_>, goroutine: u64, lock: u64, holds: bool) -> (Found, StatedLock) {
    let found = Found::new(Some(goroutine), line);
    (found, StatedLock { goroutine, lock, holds, reads: false, line: line.number })
}

fn close(output: &mut Output, open: Option<(Found, StatedLock)>) {
    let Some((mut found, stated)) = open else { return };
    if !stated.holds {
        found.state = if stated.reads { "sync.RWMutex.RLock" } else { "sync.Mutex.Lock" }.to_string();
    }
    // A goroutine that holds one lock and wants another stands where it waits.
    match output.goroutines.iter_mut().find(|g| g.id == found.id) {
        Some(known) if !stated.holds => *known = found,
        Some(_) => {}
        None => output.goroutines.push(found),
    }
    output.locks.push(stated);
}

/// `/x/policy.go:717 endpoint.(*Endpoint).regenerate { e.lock() } <<<<<`; `???` where the source is not at hand.
fn frame(line: &Line<'_>, text: &str) -> Option<FoundFrame> {
    let (place, rest) = text.split_once(' ')?;
    let (file, file_line) = file_and_line(place)?;
    let end = [" {", " ???", " <<<<<"].iter().filter_map(|mark| rest.find(mark)).min().unwrap_or(rest.len());
    let function = rest.get(..end)?.trim();
    if function.is_empty() || !function.contains('.') {
        return None;
    }
    let (function, file) = (function.to_string(), file.to_string());
    Some(FoundFrame { function, file, file_line, line: line.number, arguments: (line.start, 0) })
}
