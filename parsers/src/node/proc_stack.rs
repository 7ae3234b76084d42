//! `/proc/PID/task/TID/{stack,wchan,syscall,status}`: as files of their own, or pasted one behind the other.
//!
//! A frame is `[<0>] function+0x12/0x34 [module]` (fs/proc/base.c, `proc_pid_stack`); before 4.15 the brackets held the
//! address. What stands above the frames says whose they are, in many homely forms: a `key value` header, a path, a
//! `==> path <==` of `tail`, a `path:` before every frame of `grep`.

use super::Context;
use super::lines::{Line, Lines, Stop};
use super::ps;
use crate::evidence::{NodeEvidence, ProcessRow, StackFrame, ThreadStack};

/// Most frames of a thread that are kept; the kernel prints at most 64 (`MAX_STACK_TRACE_DEPTH`).
const FRAMES: usize = 512;

/// `request_wait_answer` and its module, of `request_wait_answer+0x126/0x2d0 [fuse]`.
pub(super) fn function_and_module(text: &str) -> Option<(&str, Option<&str>)> {
    let text = text.trim();
    let (symbol, rest) = text.split_once([' ', '\t']).unwrap_or((text, ""));
    let (name, offsets) = symbol.split_once("+0x")?;
    let (offset, size) = offsets.split_once("/0x")?;
    let hex = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_hexdigit());
    let named = !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'$' | b':' | b'-'));
    if !named || !hex(offset) || !hex(size) {
        return None;
    }
    let module = rest.trim().strip_prefix('[').and_then(|m| m.split([']', ' ']).next());
    Some((name, module))
}

/// What follows `[<…>]` of a frame; the sentinel at a stack's end gives an empty name.
fn frame(text: &str) -> Option<(&str, Option<&str>)> {
    let (address, rest) = text.trim_start().strip_prefix("[<")?.split_once(">]")?;
    let address = address.strip_prefix("0x").unwrap_or(address);
    if address.is_empty() || !address.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let rest = rest.trim();
    if let Some(found) = function_and_module(rest.strip_prefix("? ").unwrap_or(rest)) {
        return Some(found);
    }
    if rest.is_empty() || rest.starts_with("0x") {
        return Some(("", None));
    }
    // Without CONFIG_KALLSYMS offsets may be missing; one bare name is still a frame.
    let bare = rest.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.'));
    bare.then_some((rest, None))
}

/// What a line above the frames says of the thread.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Whose {
    pub(super) pid: Option<u32>,
    pub(super) tid: Option<u32>,
}

/// Ids in a path: `/proc/12/task/34/stack`, `proc-12-stack.txt`, `12.stack`, `proc/12/stack`.
pub(super) fn whose_path(path: &str) -> Whose {
    let mut whose = Whose::default();
    let parts: Vec<&str> = path.split(['/', '\\', '-', '_', '.', ':', ' ']).filter(|p| !p.is_empty()).collect();
    let number = |i: usize| parts.get(i).and_then(|p| p.parse::<u32>().ok()).filter(|n| *n > 0);
    for (i, part) in parts.iter().enumerate() {
        match *part {
            "proc" | "pid" => whose.pid = number(i + 1).or(whose.pid),
            "task" | "tid" => whose.tid = number(i + 1).or(whose.tid),
            "stack" | "wchan" | "syscall" | "status" | "kstack" | "stacks"
                if whose.pid.is_none() && whose.tid.is_none() =>
            {
                let before = i.checked_sub(1).and_then(number);
                // `stack-1234.txt` tells a pid, `stack-2026-11-29.txt` a day.
                let alone = parts.get(i + 2).is_none_or(|p| p.parse::<u32>().is_err());
                whose.pid = before.or_else(|| number(i + 1).filter(|_| alone));
            }
            _ => {}
        }
    }
    whose
}

/// The last component of a path names a file of `/proc/PID`.
pub(super) fn is_file_of(path: &str, name: &str) -> bool {
    let last = path.rsplit(['/', '\\']).next().unwrap_or(path);
    last.split(['.', '-', '_']).any(|part| part == name)
}

/// `pid 12 tid 34 comm runc state S (sleeping) wchan f syscall 202 0x1 …`, in any order and with `:` or `=`.
fn key_values(text: &str) -> Option<ThreadStack> {
    let text = text.trim_start_matches(['=', '-', '#', '*', ' ', '>']);
    if text.len() > 4096 {
        return None;
    }
    let clean = text.trim_end_matches([' ', ':', '=', '-', '#', '*']);
    let words: Vec<&str> = clean.split([' ', '\t', '=', ',']).filter(|w| !w.is_empty()).collect();
    let mut stack = ThreadStack::default();
    let mut known = 0usize;
    let mut i = 0;
    let key = |word: &str| {
        let word = word.trim_end_matches(':').to_ascii_lowercase();
        Some(match word.as_str() {
            "pid" | "tgid" | "process" => "pid",
            "tid" | "lwp" | "task" | "thread" => "tid",
            "comm" | "name" => "comm",
            "state" | "stat" => "state",
            "wchan" => "wchan",
            "syscall" => "syscall",
            _ => return None,
        })
    };
    while let Some(word) = words.get(i) {
        i += 1;
        let Some(key) = key(word) else {
            // The text must begin with a key: prose that mentions a pid is no header.
            if known == 0 {
                return None;
            }
            continue;
        };
        known += 1;
        match key {
            "pid" | "tid" => {
                let Some(id) = words.get(i).and_then(|w| w.trim_matches([':', '(', ')']).parse::<u32>().ok()) else {
                    continue;
                };
                if key == "pid" {
                    stack.pid = Some(id);
                } else {
                    stack.tid = Some(id);
                }
                i += 1;
            }
            "comm" => {
                let end = (i..words.len()).find(|&j| {
                    words.get(j).is_some_and(|w| matches!(*w, "state" | "wchan" | "syscall" | "pid" | "tid" | "State:"))
                });
                let name = words.get(i..end.unwrap_or(words.len())).unwrap_or(&[]).join(" ");
                i = end.unwrap_or(words.len());
                stack.comm = (!name.is_empty()).then_some(name);
            }
            "state" => {
                let letter = words.get(i).filter(|w| w.len() == 1).and_then(|w| w.chars().next());
                if let Some(letter) = letter.filter(|c| c.is_ascii_alphabetic()) {
                    stack.state = Some(letter);
                    i += 1;
                }
            }
            "wchan" => {
                if let Some(word) = words.get(i).filter(|w| **w != "syscall") {
                    stack.wchan = ps::wchan(word);
                    i += 1;
                }
            }
            _ => {
                let rest = words.get(i..).unwrap_or(&[]).join(" ");
                syscall(&rest, &mut stack);
                break;
            }
        }
    }
    (stack.pid.is_some() || stack.tid.is_some()).then_some(stack)
}

/// The contents of `/proc/PID/syscall`: `running`, `-1 SP PC`, or a number, six arguments, SP and PC.
fn syscall(text: &str, stack: &mut ThreadStack) -> Option<()> {
    let mut words = text.split_whitespace();
    let number = words.next()?;
    let number: i64 = number.parse().ok()?;
    let args: Option<Vec<u64>> = words.map(|w| u64::from_str_radix(w.strip_prefix("0x")?, 16).ok()).collect();
    let args = args?;
    if number >= 0 && args.len() >= 6 {
        stack.syscall = Some(number.unsigned_abs());
        stack.syscall_args = args;
        return Some(());
    }
    (number == -1).then_some(())
}

/// A path of `/proc` in a line that is nothing else: `==> /proc/12/stack <==`, `/proc/12/task/34/stack:`,
/// `# cat /proc/12/stack`, `--- 12 ---`.
fn path_header(text: &str) -> Option<Whose> {
    let text = text.trim();
    if text.len() > 300 {
        return None;
    }
    if let Some(at) = text.find("/proc/") {
        let path = text.get(at..)?;
        let path = path.split([' ', '\t', '\'', '"', ';', '|']).next().unwrap_or(path);
        let whose = whose_path(path);
        return (whose.pid.is_some()).then_some(whose);
    }
    let bare = text.trim_matches(['=', '-', '#', '*', ' ', ':', '>', '<']);
    let bare = bare.strip_suffix("/stack").unwrap_or(bare);
    if bare != text
        && let Ok(pid) = bare.parse::<u32>()
        && pid > 0
        && bare.len() >= 2
    {
        return Some(Whose { pid: Some(pid), tid: None });
    }
    None
}

/// `path:frame` of `grep . /proc/*/task/*/stack`.
fn grep_prefix(text: &str) -> Option<(Whose, &str)> {
    let at = text.find(":[<")?;
    let whose = whose_path(text.get(..at)?);
    (whose.pid.is_some() || whose.tid.is_some()).then_some((whose, text.get(at + 1..)?))
}

/// Reads the stacks that begin at `line`: at a header, or at a frame without one.
pub(super) fn read(lines: &Lines<'_>, line: &Line<'_>, context: &Context, out: &mut NodeEvidence) -> Option<Stop> {
    let before = out.threads.len();
    let mut stop = None;
    let mut current: Option<ThreadStack> = None;
    if frame(&line.text).is_some()
        && let Some(title) = lines.before(line)
    {
        // A trace of the kernel log is no thread's wait: an oops, a warning.
        if title.text.contains("Call Trace") || title.text.contains("Call trace") || title.text.contains("<TASK>") {
            return None;
        }
        if let Some(stack) = key_values(&title.text) {
            current = Some(ThreadStack { place: lines.place(title.number), ..stack });
        } else if let Some(whose) = path_header(&title.text) {
            current = Some(begin(lines, &title, whose));
        }
    }
    let mut blanks = 0u8;
    for row in lines.from(line) {
        let text: &str = &row.text;
        if let Some((whose, rest)) = grep_prefix(text)
            && let Some((name, module)) = frame(rest)
        {
            let same = current.as_ref().is_some_and(|c| c.pid == whose.pid && c.tid == whose.tid);
            if !same {
                finish(&mut current, out);
                current = Some(begin(lines, &row, whose));
            }
            push(lines, &row, &mut current, name, module);
        } else if let Some((name, module)) = frame(text) {
            if current.is_none() {
                let mut stack = begin(lines, &row, context.whose.clone());
                stack.comm = context.comm.clone();
                current = Some(stack);
            }
            push(lines, &row, &mut current, name, module);
        } else if let Some(stack) = key_values(text) {
            // Prose may hold `pid 12`; two headers in a row are two threads, one of them without a stack.
            finish(&mut current, out);
            current =
                Some(ThreadStack { place: lines.place(row.number), last_line: lines.source_line(row.number), ..stack });
        } else if let Some(whose) = path_header(text) {
            finish(&mut current, out);
            current = Some(begin(lines, &row, whose));
        } else if let Some(stack) = current.as_mut()
            && told_below(text, stack)
        {
            stack.last_line = lines.source_line(row.number);
        } else if text.trim().is_empty() {
            blanks += 1;
            if blanks > 2 {
                break;
            }
            continue;
        } else {
            break;
        }
        blanks = 0;
        stop = Some(Stop::after(&row));
    }
    finish(&mut current, out);
    if out.threads.len() == before {
        context.barrier.set(stop.map_or(0, |s: Stop| s.start));
        return None;
    }
    stop
}

/// `cat stack wchan syscall` of one thread: a bare function name, then the call.
fn told_below(text: &str, stack: &mut ThreadStack) -> bool {
    let text = text.trim();
    if stack.syscall.is_none() && stack.syscall_args.is_empty() && text.contains(" 0x") {
        return syscall(text, stack).is_some();
    }
    let name = text.contains('_') && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.'));
    if name && stack.wchan.is_none() && !stack.frames.is_empty() {
        stack.wchan = Some(text.to_string());
        return true;
    }
    false
}

fn begin(lines: &Lines<'_>, row: &Line<'_>, whose: Whose) -> ThreadStack {
    ThreadStack {
        pid: whose.pid,
        // The first thread of a process has the process's number.
        tid: whose.tid.or(whose.pid),
        place: lines.place(row.number),
        last_line: lines.source_line(row.number),
        ..ThreadStack::default()
    }
}

fn push(lines: &Lines<'_>, row: &Line<'_>, current: &mut Option<ThreadStack>, name: &str, module: Option<&str>) {
    if let Some(stack) = current {
        stack.last_line = lines.source_line(row.number);
        if !name.is_empty() && stack.frames.len() < FRAMES {
            stack.frames.push(StackFrame {
                function: name.to_string(),
                module: module.map(str::to_string),
                line: lines.source_line(row.number),
            });
        }
    }
}

/// A header alone is a record only if it says what the thread does.
fn finish(current: &mut Option<ThreadStack>, out: &mut NodeEvidence) {
    if let Some(stack) = current.take()
        && (!stack.frames.is_empty()
            || stack.state.is_some() && (stack.wchan.is_some() || stack.syscall.is_some() || stack.comm.is_some()))
    {
        out.threads.push(stack);
    }
}

/// `/proc/PID/status`, whole or cut: `Name:`, `State:`, `Tgid:`, `Pid:`, `PPid:`, `Threads:`.
pub(super) fn read_status(lines: &Lines<'_>, line: &Line<'_>, out: &mut NodeEvidence) -> Option<Stop> {
    line.text.strip_prefix("Name:")?;
    let mut row = ProcessRow { place: lines.place(line.number), ..ProcessRow::default() };
    let mut stop = Stop::after(line);
    let (mut tgid, mut seen) = (None, 0u8);
    for status in lines.from(line).take(80) {
        let Some((key, value)) = status.text.split_once(':') else {
            break;
        };
        if status.number != line.number && key == "Name" {
            break;
        }
        let value = value.trim();
        match key {
            "Name" => row.comm = Some(value.to_string()),
            "State" => {
                row.state = value.chars().next();
                seen += 1;
            }
            "Tgid" => tgid = value.parse().ok(),
            "Pid" => {
                row.pid = value.parse().unwrap_or(0);
                seen += 1;
            }
            "PPid" => row.ppid = value.parse().ok(),
            "Threads" => row.threads = value.parse().ok(),
            _ if key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') => {}
            _ => break,
        }
        stop = Stop::after(&status);
    }
    if seen < 2 || row.pid == 0 {
        return None;
    }
    if let Some(tgid) = tgid
        && tgid != row.pid
    {
        row.tid = Some(row.pid);
        row.pid = tgid;
    }
    row.command = row.comm.clone().unwrap_or_default();
    out.processes.push(row);
    Some(stop)
}

/// Files that hold one word or line and are told by their name alone: `wchan`, `syscall`.
pub(super) fn read_tiny(lines: &Lines<'_>, path: &str, context: &Context, out: &mut NodeEvidence) -> Option<()> {
    if lines.bytes().len() > 400 || context.whose.pid.or(context.whose.tid).is_none() {
        return None;
    }
    let line = lines.at(0, 1)?;
    let text = line.text.trim();
    let mut stack = begin(lines, &line, context.whose.clone());
    if is_file_of(path, "wchan") {
        let name = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.'));
        if !name || text.is_empty() || text.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        stack.wchan = Some(text.to_string());
    } else if is_file_of(path, "syscall") {
        syscall(text, &mut stack)?;
        stack.syscall?;
    } else {
        return None;
    }
    out.threads.push(stack);
    Some(())
}
