//! The tail of an strace: which call of each thread has not returned.

use super::Context;
use super::lines::{Line, Lines, Stop};
use crate::evidence::{NodeEvidence, ThreadStack};
use regex::Regex;
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// Threads that are followed.
const THREADS: usize = 100_000;

// [pid 25032] 16:51:03.793794 futex(0x5570074800c0, FUTEX_WAIT_PRIVATE, 2, NULL <unfinished ...>
static CALL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^(?:\[pid\s+(\d+)\]\s+|(\d{1,8})\s+)?(?:(?:\d\d:\d\d:\d\d|\d{6,12})(?:\.\d+)?\s+(?:\(\+\s*[\d.]+\)\s+)?)?",
        r"(?:(<\.\.\. )([a-z][a-z0-9_]*) resumed>|([a-z][a-z0-9_]*)\()(.*)$"
    ))
    .ok()
});

/// Reads the trace from `line` on.
pub(super) fn read(lines: &Lines<'_>, line: &Line<'_>, context: &Context, out: &mut NodeEvidence) -> Option<Stop> {
    let call = CALL.as_ref()?;
    let mut open: FxHashMap<Option<u32>, ThreadStack> = FxHashMap::default();
    let mut attached = context.whose.pid;
    let (mut stop, mut calls, mut strangers) = (None, 0u32, 0u8);
    for row in lines.from(line) {
        let text: &str = &row.text;
        if let Some(rest) = text.strip_prefix("strace: Process ") {
            if rest.contains(" attached") && attached.is_none() {
                attached = rest.split(' ').next().and_then(|w| w.parse().ok());
            }
            stop = Some(Stop::after(&row));
            strangers = 0;
            continue;
        }
        let Some(found) = call.captures(text) else {
            let known = ["+++ ", "--- ", " <detached", "strace: ", "[pid "].iter().any(|s| text.starts_with(s));
            strangers = if known { 0 } else { strangers + 1 };
            if strangers > 2 {
                break;
            }
            continue;
        };
        strangers = 0;
        calls += 1;
        stop = Some(Stop::after(&row));
        let tid = found.get(1).or(found.get(2)).and_then(|m| m.as_str().parse().ok());
        let name = found.get(4).or(found.get(5)).map_or("", |m| m.as_str());
        let rest = found.get(6).map_or("", |m| m.as_str());
        // A call that returned shows its result; one that strace left shows none.
        if rest.contains(") = ") || (found.get(3).is_some() && rest.contains(" = ")) {
            open.remove(&tid);
        } else if open.len() < THREADS || open.contains_key(&tid) {
            let number = |word: &str| {
                let word = word.split(['<', ')', ' ']).next()?;
                match word.strip_prefix("0x") {
                    Some(hex) => u64::from_str_radix(hex, 16).ok(),
                    None => word.parse().ok(),
                }
            };
            open.insert(
                tid,
                ThreadStack {
                    tid,
                    native: true,
                    syscall_name: Some(name.to_string()),
                    syscall_args: rest.split(", ").map_while(number).collect(),
                    place: lines.place(row.number),
                    last_line: lines.source_line(row.number),
                    ..ThreadStack::default()
                },
            );
        }
    }
    if calls == 0 || open.is_empty() {
        context.barrier.set(stop.map_or(0, |s: Stop| s.start));
        return None;
    }
    let mut left: Vec<ThreadStack> = open.into_values().collect();
    left.sort_by_key(|t| t.place);
    for mut stack in left {
        stack.pid = attached;
        stack.tid = stack.tid.or(attached);
        out.threads.push(stack);
    }
    stop
}

/// Whether `text` is a line of strace: a call with its result.
pub(super) fn is_call(text: &str) -> bool {
    text.contains(") = ") && CALL.as_ref().is_some_and(|re| re.is_match(text))
}
