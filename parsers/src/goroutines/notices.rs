//! Lines around the goroutines that say why the dump was made.
//!
//! `SIGQUIT: quit` (`runtime/signal_unix.go`, `sighandler`), `panic: …` with its chain (`runtime/panic.go`,
//! `printpanics`; values of several lines are indented since Go 1.23), `fatal error: …`, `runtime: …` lines before it,
//! `[signal SIGSEGV: …]`.

use super::header;
use super::lines::{Line, Lines, text_of, trim_start};
use super::marks;
use crate::evidence::NoticeKind;
use memchr::memmem;

/// A notice by its place in the scanned text.
#[derive(Debug, Clone)]
pub(super) struct RawNotice {
    pub kind: NoticeKind,
    pub text: String,
    pub line: u32,
    /// Offset of its first byte and behind its last.
    pub span: (usize, usize),
    /// Lines that it takes.
    pub last_line: u32,
    /// Whether it begins a dump, of itself or with the goroutines behind it.
    pub opens: bool,
    /// Whether it is enough for a snapshot even if no goroutine follows.
    pub suffices: bool,
}

/// Bytes of a panic's value that are kept.
const VALUE: usize = 4096;
/// Lines of a panic's value that are read.
const VALUE_LINES: usize = 200;

/// Whether `text` is a line that begins a dump.
pub(super) fn opens_dump(text: &[u8]) -> bool {
    text.starts_with(b"panic: ") || text.starts_with(b"fatal error: ") || is_signal(text)
}

/// Reads a notice from `line`, and from `lines` what else belongs to it.
pub(super) fn read(lines: &mut Lines<'_>, line: Line<'_>) -> Option<RawNotice> {
    let text = line.trimmed();
    let found = match *text.first()? {
        b'S' if is_signal(text) => signal(lines, &line, text),
        b'p' => text.strip_prefix(b"panic: ").map(|value| panic(lines, &line, value)),
        b'f' => {
            let value = text.strip_prefix(b"fatal error: ")?;
            let mut ahead = *lines;
            let next = ahead.next_filled(2).map(|l| l.trimmed().to_vec()).unwrap_or_default();
            let mut notice = simple(NoticeKind::Fatal, value, &line);
            notice.opens = true;
            notice.suffices = next == b"runtime stack:" || header::is_plain_header(&next);
            Some(notice)
        }
        b'r' => {
            let value = text.strip_prefix(b"runtime: ").filter(|v| !v.starts_with(b"g "))?;
            Some(simple(NoticeKind::Runtime, value, &line))
        }
        b'[' => {
            let value = text.strip_prefix(b"[signal ")?.strip_suffix(b"]")?;
            Some(simple(NoticeKind::Fault, value, &line))
        }
        b's' if text == b"signal arrived during cgo execution" => Some(simple(NoticeKind::Other, text, &line)),
        _ => None,
    };
    found.or_else(|| signal_behind_prefix(lines, &line, text))
}

/// `… exit status 2: SIGABRT: abort`: another program quotes what its child printed; the next line tells it is one.
fn signal_behind_prefix(lines: &mut Lines<'_>, line: &Line<'_>, text: &[u8]) -> Option<RawNotice> {
    let next = lines.clone().next()?;
    if !next.trimmed().starts_with(b"PC=0x") {
        return None;
    }
    let at = memmem::rfind(text, b" SIG")? + 1;
    let tail = text.get(at..).filter(|tail| is_signal(tail))?;
    signal(lines, line, tail)
}

/// `SIGQUIT: quit`.
fn is_signal(text: &[u8]) -> bool {
    let Some(rest) = text.strip_prefix(b"SIG") else {
        return false;
    };
    let Some(colon) = rest.iter().position(|&b| b == b':') else {
        return false;
    };
    let is_name = |b: &u8| b.is_ascii_uppercase() || b.is_ascii_digit();
    (2..=7).contains(&colon) && rest.get(..colon).is_some_and(|n| n.iter().all(is_name)) && text.len() < 80
}

fn signal(lines: &mut Lines<'_>, line: &Line<'_>, text: &[u8]) -> Option<RawNotice> {
    let mut notice = simple(NoticeKind::Signal, text, line);
    let mut ahead = *lines;
    let next = ahead.next()?;
    // Without the second line this may be any log's.
    if !next.trimmed().starts_with(b"PC=0x") {
        return None;
    }
    notice.span.1 = next.end();
    notice.last_line = next.number;
    notice.opens = true;
    notice.suffices = true;
    *lines = ahead;
    Some(notice)
}

/// A panic's value goes on until an empty line, a header, or a line that is a notice of its own.
fn panic(lines: &mut Lines<'_>, line: &Line<'_>, value: &[u8]) -> RawNotice {
    let mut notice = simple(NoticeKind::Panic, value, line);
    notice.opens = true;
    let mut ahead = *lines;
    for _ in 0..VALUE_LINES {
        let Some(next) = ahead.next() else { break };
        let text = next.trimmed();
        let is_other = text.is_empty()
            || text.starts_with(b"goroutine ")
            || text.starts_with(b"panic: ")
            || text.starts_with(b"[signal ")
            || text.starts_with(b"[recovered")
            || text == b"running tests:"
            || text.starts_with(b"fatal error: ")
            || is_signal(text)
            || marks::is_log_line(text);
        if is_other {
            break;
        }
        if notice.text.len() < VALUE {
            notice.text.push('\n');
            notice.text.push_str(&text_of(text));
        }
        notice.span.1 = next.end();
        notice.last_line = next.number;
        *lines = ahead;
    }
    running_tests(lines, &mut notice);
    notice
}

/// `running tests:` and their names (`go test -timeout`, Go 1.20 and later) go with the panic.
fn running_tests(lines: &mut Lines<'_>, notice: &mut RawNotice) {
    let mut ahead = *lines;
    if ahead.next().is_none_or(|l| l.trimmed() != b"running tests:") {
        return;
    }
    notice.text.push_str("\nrunning tests:");
    *lines = ahead;
    while let Some(next) = ahead.next() {
        let name = trim_start(next.trimmed());
        if name.is_empty() || !name.ends_with(b")") || notice.text.len() > VALUE {
            break;
        }
        notice.text.push('\n');
        notice.text.push_str(&text_of(name));
        notice.span.1 = next.end();
        notice.last_line = next.number;
        *lines = ahead;
    }
}

fn simple(kind: NoticeKind, text: &[u8], line: &Line<'_>) -> RawNotice {
    let text = text.get(..text.len().min(VALUE)).unwrap_or_default();
    RawNotice {
        kind,
        text: text_of(text).into_owned(),
        line: line.number,
        span: (line.start, line.end()),
        last_line: line.number,
        opens: false,
        suffices: false,
    }
}
