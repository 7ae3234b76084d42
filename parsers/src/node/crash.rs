//! Output of the `crash` utility on a vmcore: `bt`, `foreach bt`, `ps`.
//!
//! Forms after crash's `task.c` (`print_task_header`, `show_ps_data`) and `x86_64.c` (`x86_64_print_stack_entry`,
//! `x86_64_exception_frame`).

use super::lines::{Line, Lines, Stop, words};
use super::ps;
use crate::evidence::{NodeEvidence, ProcessRow, StackFrame, ThreadStack};
use regex::Regex;
use std::sync::LazyLock;

static HEADER: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"^PID:\s+(\d+)\s+TASK:\s+[0-9a-f]+\s+CPU:\s+\d+\s+COMMAND:\s+"(.*?)"?\s*$"#).ok());
// ` #3 [ffffc90001b5bd50] nfs_wait_bit_killable at ffffffffc0a1b2c3 [nfs]`
static FRAME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^\s*#\d+ \[[0-9a-f]+\] ([\w.]+)(?:\+0x[0-9a-f]+|\+\d+)? at [0-9a-f]+(?: \[(\w+)\])?").ok()
});

/// Reads the back traces that begin at `line`.
pub(super) fn read_bt(lines: &Lines<'_>, line: &Line<'_>, out: &mut NodeEvidence) -> Option<Stop> {
    let (header, frame) = (HEADER.as_ref()?, FRAME.as_ref()?);
    let found = header.captures(&line.text)?;
    let mut stack = ThreadStack {
        tid: found.get(1)?.as_str().parse().ok(),
        comm: Some(found.get(2)?.as_str().to_string()),
        place: lines.place(line.number),
        last_line: lines.source_line(line.number),
        ..ThreadStack::default()
    };
    let mut stop = Stop::after(line);
    for row in lines.from(line).skip(1).take(400) {
        let text = row.text.trim();
        if let Some(found) = frame.captures(&row.text) {
            stack.frames.push(StackFrame {
                function: found.get(1)?.as_str().to_string(),
                module: found.get(2).map(|m| m.as_str().to_string()),
                line: lines.source_line(row.number),
            });
        } else if let Some(at) = text.find("ORIG_RAX: ") {
            let word = text.get(at + 10..).and_then(|t| t.split_whitespace().next()).unwrap_or("");
            stack.syscall = u64::from_str_radix(word, 16).ok().filter(|n| *n < 1 << 16);
        } else if !is_register_line(text) {
            break;
        }
        stack.last_line = lines.source_line(row.number);
        stop = Stop::after(&row);
    }
    out.threads.push(stack);
    Some(stop)
}

fn is_register_line(text: &str) -> bool {
    [
        "RIP:",
        "RSP:",
        "RAX:",
        "RBX:",
        "RCX:",
        "RDX:",
        "RSI:",
        "RDI:",
        "RBP:",
        "R8:",
        "R9:",
        "R10:",
        "R12:",
        "R13:",
        "R14:",
        "R15:",
        "CS:",
        "[exception RIP",
    ]
    .iter()
    .any(|name| text.starts_with(name))
}

/// Reads crash's `ps`: `PID PPID CPU TASK ST %MEM VSZ RSS COMM`, the running ones marked `>`.
pub(super) fn read_ps(lines: &Lines<'_>, line: &Line<'_>, out: &mut NodeEvidence) -> Option<Stop> {
    let names: Vec<&str> = line.text.split_whitespace().collect();
    if names.get(..5)? != ["PID", "PPID", "CPU", "TASK", "ST"] {
        return None;
    }
    let before = out.processes.len();
    let mut stop = Stop::after(line);
    for row in lines.from(line).skip(1) {
        let text = row.text.strip_prefix('>').unwrap_or(&row.text);
        let fields = words(text);
        let word = |i: usize| fields.get(i).map(|(_, w)| *w);
        let (Some(pid), Some(ppid)) = (word(0).and_then(|w| w.parse().ok()), word(1).and_then(|w| w.parse().ok()))
        else {
            break;
        };
        // crash's own words for states (task.c, task_state_string).
        let state = match word(4) {
            Some("RU") => 'R',
            Some("IN") => 'S',
            Some("UN") => 'D',
            Some("ZO") => 'Z',
            Some("ST") => 'T',
            Some("TR") => 't',
            Some("ID") => 'I',
            Some("DE") => 'X',
            Some("SW" | "WA" | "PA" | "NE") => 'W',
            _ => break,
        };
        let command = fields.get(8).and_then(|(at, _)| text.get(*at..)).unwrap_or("").trim_end();
        if pid != 0 {
            out.processes.push(ProcessRow {
                pid,
                ppid: Some(ppid),
                state: Some(state),
                comm: ps::name_of_command(command),
                command: command.to_string(),
                place: lines.place(row.number),
                ..ProcessRow::default()
            });
        }
        stop = Stop::after(&row);
    }
    (out.processes.len() > before).then_some(stop)
}
