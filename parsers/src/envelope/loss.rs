//! What an envelope says was lost, and how many such problems are kept.

use super::sample::{line_end, line_start};
use super::{Stream, shape};
use crate::evidence::Problem;
use crate::limits;
use memchr::memmem;
use regex::bytes::Regex;
use std::sync::{LazyLock, OnceLock};

/// Marks of losses that are looked at in one text.
const MARKED: usize = 2_000;

/// Keeps `problem` unless there are too many already; the last one kept says so.
pub(crate) fn keep(problems: &mut Vec<Problem>, problem: Problem) {
    match problems.len() {
        n if n < limits::PROBLEMS => problems.push(problem),
        n if n == limits::PROBLEMS => {
            problems.push(Problem::warning(problem.line, "more problems of this kind follow; they are not listed"));
        }
        _ => {}
    }
}

/// Problems as they are met: one that recurs word for word is kept once, at its first line, with a count.
#[derive(Default)]
pub(crate) struct Tally {
    problems: Vec<(Problem, u32)>,
}

impl Tally {
    pub fn add(&mut self, problem: Problem) {
        if let Some((_, count)) = self.problems.iter_mut().find(|(known, _)| known.message == problem.message) {
            *count = count.saturating_add(1);
        } else if self.problems.len() < limits::PROBLEMS {
            self.problems.push((problem, 1));
        }
    }

    pub fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    pub fn into_problems(self) -> impl Iterator<Item = Problem> {
        self.problems.into_iter().map(|(problem, count)| match count {
            1 => problem,
            _ => Problem { message: format!("{} ({count} times in this file)", problem.message), ..problem },
        })
    }
}

/// The problem that a log's own line tells of: messages that were dropped, suppressed or unprintable.
///
/// Sources: systemd `journald-rate-limit.c` ("Suppressed N messages from UNIT"), rsyslog `ratelimit.c` ("begin to drop
/// messages due to rate-limiting", "N messages lost due to rate-limiting"), kernel `printk` ("callbacks suppressed").
pub(crate) fn told_by(line: &[u8]) -> Option<String> {
    // Asked of every line of a log, so the searchers are built once.
    static MARKS: LazyLock<[memmem::Finder<'static>; 3]> =
        LazyLock::new(|| [&b"Suppressed "[..], b" due to rate-limiting", b"B blob data]"].map(memmem::Finder::new));
    let [suppressed, limited, blob] = &*MARKS;
    let has = |needle: &[u8]| memmem::find(line, needle).is_some();
    let shown = || String::from_utf8_lossy(line.get(..line.len().min(200)).unwrap_or(line)).trim().to_string();
    if suppressed.find(line).is_some() && has(b" messages from ") {
        return Some(format!("journald dropped messages here, parts of a dump may be missing: {}", shown()));
    }
    if limited.find(line).is_some()
        && (has(b"messages lost due to rate-limiting") || has(b"begin to drop messages due to rate-limiting"))
    {
        return Some(format!("rsyslog dropped messages here, parts of a dump may be missing: {}", shown()));
    }
    if blob.find(line).is_some() && line.trim_ascii_end().ends_with(b"B blob data]") {
        return Some("journalctl printed [… blob data] in place of a line: it is lost; take the log with --all".into());
    }
    None
}

/// Adds what the text of a dump itself tells of losses: marks where somebody cut, a log's word on dropped messages,
/// bytes that are not UTF-8.
pub(crate) fn tell(stream: &mut Stream) {
    let bytes = stream.text.bytes();
    if shape::headers_in(bytes).next().is_none() {
        return;
    }
    let mut tally = Tally::default();
    let line_of = |at: usize| memchr::memchr_iter(b'\n', bytes.get(..at).unwrap_or(&[])).count() as u32 + 1;
    // All alternatives begin with a literal, so that a long text is searched at full speed.
    static MARKS: OnceLock<Option<Regex>> = OnceLock::new();
    let pattern = r"Suppressed [0-9]+ messages|rate-limiting|suppressed|snip|SNIP|truncated|Truncated|TRUNCATED|omitted|skipped|removed|more lines|cut\b|CUT\b|\n--\n";
    let marks = MARKS.get_or_init(|| Regex::new(pattern).ok());
    for found in marks.iter().flat_map(|re| re.find_iter(bytes)).take(MARKED) {
        let at = found.start() + usize::from(bytes.get(found.start()) == Some(&b'\n'));
        let line = bytes.get(line_start(bytes, at)..line_end(bytes, at)).unwrap_or(&[]);
        let message = match told_by(line) {
            Some(message) => message,
            None if is_cut_mark(line) => format!(
                "a mark says that text was cut out here (`{}`): frames or whole goroutines are missing",
                String::from_utf8_lossy(line.trim_ascii())
            ),
            None => continue,
        };
        let place = stream.lines.place(line_of(at)).map(|place| place.line);
        if !stream.problems.iter().any(|known| known.line == place) {
            tally.add(Problem::warning(place, message));
        }
    }
    if let Err(error) = std::str::from_utf8(bytes) {
        let place = stream.lines.place(line_of(error.valid_up_to())).map(|place| place.line);
        let message = "the text is not UTF-8 here: names and paths with such bytes cannot be compared for sure";
        tally.add(Problem::warning(place, message));
    }
    for problem in tally.into_problems() {
        keep(&mut stream.problems, problem);
    }
}

/// Whether `line` is a mark that somebody or something put where text was cut out.
///
/// `[... cut ...]`, `... 42 lines suppressed ...`, `<snip>`, `[truncated]`, `--` of `grep -A`.
pub(crate) fn is_cut_mark(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    if line.len() > 120 || line.is_empty() {
        return false;
    }
    if line == b"--" {
        return true;
    }
    let lower = line.to_ascii_lowercase();
    let has = |needle: &[u8]| memmem::find(&lower, needle).is_some();
    if has(b"frames elided") || super::shape::is_dump_line(line) {
        return false;
    }
    let framed = line.starts_with(b"...")
        || line.starts_with("…".as_bytes())
        || line.starts_with(b"[")
        || line.starts_with(b"<")
        || line.starts_with(b"(")
        || line.starts_with(b"-");
    let words: [&[u8]; 10] = [
        b"cut",
        b"snip",
        b"truncat",
        b"suppressed",
        b"omitted",
        b"skipped",
        b"elided",
        b"lines removed",
        b"redacted",
        b"more lines",
    ];
    framed && words.iter().any(|word| has(word))
}
