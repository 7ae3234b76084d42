//! `ps` in any column set that has a header, `top -b`, and headerless rows of `ps aux` and `ps -ef` (what `grep` left).

use super::clock;
use super::lines::{Line, Lines, Stop, words};
use crate::evidence::{NodeEvidence, ProcessRow, WallTime};
use regex::Regex;
use std::sync::LazyLock;

/// What a column of `ps` tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Pid,
    Ppid,
    Tid,
    Threads,
    State,
    Wchan,
    /// `STARTED`: one word (`12:04:44`), two (`Nov 29`) or five (`lstart`).
    Started,
    Elapsed,
    /// `COMMAND`, `CMD`, `ARGS`: a name or a command line.
    Command,
    /// A word that does not matter here.
    Word,
    /// A number that does not matter here; checked, to tell rows from prose.
    Number,
}

struct Header {
    columns: Vec<(usize, Column)>,
    /// The short name stands before the command line.
    has_comm: bool,
}

fn column(name: &str) -> Option<Column> {
    Some(match name {
        "PID" | "TGID" => Column::Pid,
        "PPID" => Column::Ppid,
        "LWP" | "TID" | "SPID" => Column::Tid,
        "NLWP" | "THCNT" => Column::Threads,
        "STAT" | "S" | "STATE" => Column::State,
        "WCHAN" => Column::Wchan,
        "STARTED" | "START" | "STIME" => Column::Started,
        "ELAPSED" => Column::Elapsed,
        "COMMAND" | "CMD" | "ARGS" | "COMM" | "UCMD" => Column::Command,
        "C" | "VSZ" | "RSS" | "SZ" | "VIRT" | "RES" | "SHR" | "NI" | "PRI" | "PR" | "PSR" | "%CPU" | "%MEM"
        | "PGID" | "PGRP" | "SID" | "SESS" | "TPGID" | "CPU" | "RTPRIO" => Column::Number,
        "F" | "UID" | "USER" | "RUSER" | "EUSER" | "SUSER" | "FUSER" | "TTY" | "TT" | "TIME" | "TIME+" | "CLS"
        | "POL" | "SCH" | "ADDR" | "MAJFLT" | "MINFLT" | "MAJFL" | "MINFL" | "CGROUP" | "UNIT" | "GROUP" | "RGROUP"
        | "GID" | "LABEL" | "NUMA" | "STACKP" | "ESP" | "EIP" | "TRS" | "DRS" | "SIZE" | "SWAP" | "MACHINE" => {
            Column::Word
        }
        _ => return None,
    })
}

fn header(text: &str) -> Option<Header> {
    let words = words(text);
    if words.len() < 2 || words.len() > 40 {
        return None;
    }
    let columns: Vec<(usize, Column)> =
        words.iter().map(|&(at, word)| column(word).map(|c| (at, c))).collect::<Option<_>>()?;
    let count = |wanted| columns.iter().filter(|(_, c)| *c == wanted).count();
    if count(Column::Pid) + count(Column::Tid) == 0 || count(Column::Pid) > 1 {
        return None;
    }
    let has_comm = count(Column::Command) > 1;
    Some(Header { columns, has_comm })
}

/// Reads a listing whose header is `line`. `None` when no row behind it fits.
pub(super) fn read(lines: &Lines<'_>, line: &Line<'_>, out: &mut NodeEvidence) -> Option<Stop> {
    let header = header(&line.text)?;
    let before = out.processes.len();
    let mut stop = Stop::after(line);
    let mut taken: Option<(WallTime, u32)> = None;
    let mut wide = 0usize;
    let mut strangers = 0u8;
    for row in lines.from(line).skip(1) {
        if let Some(process) = parse_row(&header, &row.text) {
            if let (Some(started), Some(elapsed)) = (process.started, process.elapsed_seconds)
                && let Ok(at) = started.at.checked_add(jiff::Span::new().seconds(i64::try_from(elapsed).unwrap_or(0)))
            {
                let now = WallTime { at, year_known: true };
                if taken.is_none_or(|(known, _)| now > known) {
                    taken = Some((now, row.number));
                }
            }
            out.processes.push(ProcessRow { place: lines.place(row.number), ..process });
            wide = row.text.chars().count();
            strangers = 0;
        } else {
            // A terminal wraps at its width; the tail of a long row is no row of its own.
            let long = wide >= 70 && out.processes.len() > before;
            if row.text.trim().is_empty() || is_other(&row.text) {
                break;
            }
            if long
                && let Some(last) = out.processes.last_mut()
                && row.text.chars().count() <= wide
            {
                last.command.push_str(&row.text);
            } else {
                strangers += 1;
                if strangers > 3 || out.processes.len() == before {
                    break;
                }
                continue;
            }
        }
        stop = Stop::after(&row);
    }
    if out.processes.len() == before {
        return None;
    }
    if let Some((at, number)) = taken
        && let Some(place) = lines.place(number)
    {
        out.taken_at_local.push((at, place));
    }
    Some(stop)
}

/// A line that begins something else: a prompt, a section's title, a header, a stack.
fn is_other(text: &str) -> bool {
    let text = text.trim_start();
    ["$ ", "# ", "==", "--", "[<", "> "].iter().any(|start| text.starts_with(start))
        || text.starts_with('[') && (text.contains("]# ") || text.contains("]$ "))
        || text.contains(":~# ")
        || text.contains(":~$ ")
        || header(text).is_some()
}

fn parse_row(header: &Header, text: &str) -> Option<ProcessRow> {
    let words = words(text);
    let mut next = 0usize;
    let mut row = ProcessRow::default();
    let mut commands = 0;
    let mut have_pid = false;
    for (index, &(column_at, column)) in header.columns.iter().enumerate() {
        let last = index + 1 == header.columns.len();
        let Some(&(at, word)) = words.get(next) else {
            // Only an empty command may be missing.
            if column == Column::Command && last && have_pid {
                break;
            }
            return None;
        };
        next += 1;
        match column {
            Column::Pid => {
                row.pid = word.parse().ok()?;
                have_pid = true;
            }
            Column::Ppid => row.ppid = Some(word.parse().ok()?),
            Column::Tid if word == "-" => {}
            Column::Tid => {
                row.tid = Some(word.parse().ok()?);
                have_pid = true;
            }
            Column::Threads if word == "-" => {}
            Column::Threads => row.threads = Some(word.parse().ok()?),
            Column::State => row.state = Some(state_letter(word)?),
            Column::Wchan => row.wchan = wchan(word),
            Column::Elapsed if word == "-" => {}
            Column::Elapsed => row.elapsed_seconds = Some(elapsed(word)?),
            Column::Started => {
                let rest: Vec<&str> = words.iter().skip(next - 1).take(5).map(|w| w.1).collect();
                let is_lstart = rest.len() == 5
                    && rest[3].matches(':').count() == 2
                    && rest[4].len() == 4
                    && rest[4].bytes().all(|b| b.is_ascii_digit());
                if is_lstart {
                    row.started = clock::lstart(&rest);
                    next += 4;
                } else if word.bytes().all(|b| b.is_ascii_alphabetic())
                    && rest.get(1).is_some_and(|day| day.len() <= 2 && day.parse::<u8>().is_ok())
                {
                    next += 1;
                } else if !word.bytes().any(|b| b.is_ascii_digit()) && word != "-" && word != "?" {
                    return None;
                }
            }
            Column::Number => {
                let number = word.trim_end_matches(['g', 'm', 't', 'G', 'M', 'K', 'k']);
                let numeric = number.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b',' | b'-'));
                if !numeric && !matches!(word, "-" | "?" | "rt" | "RT") {
                    return None;
                }
            }
            Column::Word => {}
            Column::Command if last => {
                row.command = text.get(at..)?.trim_end().to_string();
                commands += 1;
            }
            Column::Command => {
                // A name may hold blanks (`tmux: server`): it ends where the next header begins, if the columns line up.
                let until = header.columns.get(index + 1)?.0.checked_sub(column_at)?.saturating_add(at);
                let (name, used) = padded(text, &words, next - 1, at, until)
                    .or_else(|| short_name(text, &words, next - 1))
                    .unwrap_or((word, 1));
                next = next - 1 + used;
                if header.has_comm && commands == 0 {
                    row.comm = Some(name.to_string());
                } else {
                    row.command = name.to_string();
                }
                commands += 1;
            }
        }
    }
    if !header.columns.last().is_some_and(|(_, c)| *c == Column::Command) && next < words.len() {
        return None;
    }
    // A listing of threads alone names them by their own id.
    if row.pid == 0 {
        row.pid = row.tid.filter(|_| !header.columns.iter().any(|(_, c)| *c == Column::Pid)).unwrap_or(0);
    }
    if row.pid == 0 {
        return None;
    }
    finish_names(&mut row);
    Some(row)
}

/// The words from `first` on that end before byte `until`, if a blank stands there.
fn padded<'t>(
    text: &'t str,
    words: &[(usize, &str)],
    first: usize,
    at: usize,
    until: usize,
) -> Option<(&'t str, usize)> {
    let blank = |i: usize| text.as_bytes().get(i).is_some_and(|b| *b == b' ');
    if until < at + 2 || !blank(until - 1) || blank(until) {
        return None;
    }
    let used = words.iter().skip(first).take_while(|(start, _)| *start < until).count();
    Some((text.get(at..until)?.trim_end(), used.max(1)))
}

/// The words from `first` on that stand one blank apart and end, before the 16 bytes of a name are full, in a gap.
fn short_name<'t>(text: &'t str, words: &[(usize, &str)], first: usize) -> Option<(&'t str, usize)> {
    let begin = words.get(first)?.0;
    let mut used = 0;
    for pair in words.get(first..)?.windows(2) {
        let [(at, word), (next, _)] = pair else { break };
        used += 1;
        let end = at + word.len();
        if end > begin + 16 {
            return None;
        }
        if *next >= end + 2 {
            return Some((text.get(begin..end)?, used));
        }
    }
    None
}

fn finish_names(row: &mut ProcessRow) {
    if row.comm.is_none() {
        row.comm = name_of_command(&row.command);
    } else if row.command.is_empty() {
        row.command = row.comm.clone().unwrap_or_default();
    }
}

/// The short name that a command line lets expect: `dockerd` for `/usr/bin/dockerd -H fd://`.
pub(super) fn name_of_command(command: &str) -> Option<String> {
    let command = command.trim_start_matches(['\\', '_', '|', ' ', '`', '-']);
    if let Some(thread) = command.strip_prefix('[') {
        return Some(thread.split(']').next().unwrap_or(thread).to_string());
    }
    let first = command.split_whitespace().next()?;
    let base = first.rsplit('/').next().unwrap_or(first).trim_end_matches(':');
    let name: String = base.chars().take(15).collect();
    (!name.is_empty()).then_some(name)
}

fn state_letter(word: &str) -> Option<char> {
    let mut letters = word.chars();
    let first = letters.next()?;
    let known = matches!(first, 'R' | 'S' | 'D' | 'T' | 't' | 'Z' | 'X' | 'x' | 'I' | 'K' | 'W' | 'P');
    (known && letters.all(|c| matches!(c, '<' | 'N' | 'L' | 's' | 'l' | '+' | 'W'))).then_some(first)
}

pub(super) fn wchan(word: &str) -> Option<String> {
    (!matches!(word, "-" | "?" | "0" | "*" | "")).then(|| word.to_string())
}

/// `[[DD-]HH:]MM:SS`, or seconds alone (`etimes`).
fn elapsed(word: &str) -> Option<u64> {
    let (days, clock) = match word.split_once('-') {
        Some((days, clock)) => (days.parse::<u64>().ok()?, clock),
        None => (0, word),
    };
    let mut seconds = 0u64;
    for part in clock.split(':') {
        seconds = seconds.checked_mul(60)?.checked_add(part.parse().ok()?)?;
    }
    days.checked_mul(86_400)?.checked_add(seconds)
}

static AUX: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^\s*\S+\s+(\d+)\s+\d+[.,]\d\s+\d+[.,]\d\s+\d+\s+\d+\s+(?:\?|pts/\d+|tty\w+|console)\s+([RSDTtZXIKWP][<NLsl+]*)\s+",
        r"(?:\d\d:\d\d|[^\W\d]{3}\s?\d\d|\d{4})\s+\d+:\d\d\s+(\S.*)$"
    ))
    .ok()
});
static FULL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^\s*\S+\s+(\d+)\s+(\d+)\s+\d+\s+(?:\d\d:\d\d|[^\W\d]{3}\s?\d\d|\d{4})\s+(?:\?|pts/\d+|tty\w+|console)\s+",
        r"(?:\d+-)?\d\d:\d\d:\d\d\s+(\S.*)$"
    ))
    .ok()
});

/// One row without a header, of `ps aux` or `ps -ef`.
pub(super) fn headerless(lines: &Lines<'_>, line: &Line<'_>, out: &mut NodeEvidence) -> Option<Stop> {
    let mut row = if let Some(found) = AUX.as_ref()?.captures(&line.text) {
        ProcessRow {
            pid: found.get(1)?.as_str().parse().ok()?,
            state: state_letter(found.get(2)?.as_str()),
            command: found.get(3)?.as_str().trim_end().to_string(),
            ..ProcessRow::default()
        }
    } else {
        let found = FULL.as_ref()?.captures(&line.text)?;
        ProcessRow {
            pid: found.get(1)?.as_str().parse().ok()?,
            ppid: found.get(2)?.as_str().parse().ok(),
            command: found.get(3)?.as_str().trim_end().to_string(),
            ..ProcessRow::default()
        }
    };
    finish_names(&mut row);
    row.place = lines.place(line.number);
    out.processes.push(row);
    Some(Stop::after(line))
}
