//! Escapes: Go's `%q`, JSON, Python's `repr`, rsyslog's `#011`, all of which turn a dump into one line.

use super::Stream;
use super::recover::{Recovered, lines};
use super::sample::{Sample, line_end, line_start};
use super::{shape, stamp};
use crate::evidence::{Place, Severity};
use memchr::memmem;
use std::ops::Range;

/// Undoes rsyslog's `#ooo` for control characters (rsyslog `parse.c`, `$EscapeControlCharactersOnReceive`).
///
/// False, and nothing in `out`, if there is none.
pub(crate) fn undo_octal(text: &[u8], out: &mut Vec<u8>) -> bool {
    out.clear();
    let mut from = 0;
    for at in memchr::memchr_iter(b'#', text) {
        let digits = text.get(at + 1..at + 4).unwrap_or(&[]);
        if at < from || digits.len() != 3 || !digits.iter().all(|b| (b'0'..=b'7').contains(b)) {
            continue;
        }
        let value = digits.iter().fold(0u32, |n, b| n * 8 + u32::from(b - b'0'));
        if value <= 0o37 || value == 0o177 {
            out.extend_from_slice(text.get(from..at).unwrap_or(&[]));
            out.push(value as u8);
            from = at + 4;
        }
    }
    if from == 0 {
        return false;
    }
    out.extend_from_slice(text.get(from..).unwrap_or(&[]));
    true
}

/// rsyslog's escapes that are left when its prefix was taken for another one.
pub(crate) fn octal(stream: &Stream, sample: &Sample<'_>) -> Option<Vec<Stream>> {
    let escaped = |line: &[u8]| {
        let tab = memmem::find(line, b"#011").is_some_and(|at| shape::is_file_line(line.get(at + 4..).unwrap_or(&[])));
        tab || memmem::find(line, b":#012").is_some()
    };
    if !sample.around.iter().any(|window| window.lines.iter().any(|line| escaped(line))) {
        return None;
    }
    let mut out = Recovered::of(stream);
    let mut scratch = Vec::new();
    for (number, line) in lines(stream.text.bytes()) {
        if undo_octal(line, &mut scratch) {
            out.text(&scratch, number);
        } else {
            out.line(line, number);
        }
    }
    Some(vec![out.finish("rsyslog")])
}

/// Whether `text` holds an odd number of quotes without a backslash before them.
pub(crate) fn odd_quotes(text: &[u8]) -> bool {
    memchr::memchr_iter(b'"', text).filter(|&at| !is_escaped(text, at)).count() % 2 == 1
}

/// Whether `text` ends inside a quoted, escaped message.
pub(crate) fn is_open(text: &[u8]) -> bool {
    memmem::find(text, b"\\n").is_some() && odd_quotes(text)
}

/// Whether the character at `at` has an odd number of backslashes before it.
fn is_escaped(text: &[u8], at: usize) -> bool {
    text.get(..at).unwrap_or(&[]).iter().rev().take_while(|&&b| b == b'\\').count() % 2 == 1
}

/// Undoes one level of backslash escapes: those of Go (`strconv.Unquote`), JSON and Python alike.
pub(crate) fn unescape(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(rest.get(..at).unwrap_or(&[]));
        rest = rest.get(at + 1..).unwrap_or(&[]);
        let Some(&kind) = rest.first() else {
            out.push(b'\\');
            break;
        };
        let plain = match kind {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'v' => 11,
            b'"' | b'\'' | b'\\' | b'/' => kind,
            _ => {
                let used = numeric(rest, out);
                if used == 0 {
                    out.push(b'\\');
                }
                rest = rest.get(used..).unwrap_or(&[]);
                continue;
            }
        };
        out.push(plain);
        rest = rest.get(1..).unwrap_or(&[]);
    }
    out.extend_from_slice(rest);
}

/// `\xHH`, `\uXXXX` (with surrogates), `\UXXXXXXXX`, `\ooo`, after the backslash. How many bytes were used; 0 for none.
fn numeric(text: &[u8], out: &mut Vec<u8>) -> usize {
    let hex = |from: usize, len: usize| {
        let digits = std::str::from_utf8(text.get(from..from + len)?).ok()?;
        u32::from_str_radix(digits, 16).ok()
    };
    let mut push = |code: u32, used: usize| match char::from_u32(code) {
        Some(c) => {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            used
        }
        None => 0,
    };
    match text.first() {
        Some(b'x') => match hex(1, 2) {
            Some(byte) => {
                out.push(byte as u8);
                3
            }
            None => 0,
        },
        Some(b'u') => match hex(1, 4) {
            Some(high @ 0xd800..=0xdbff) if text.get(5..7) == Some(b"\\u") => match hex(7, 4) {
                Some(low @ 0xdc00..=0xdfff) => push(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00), 11),
                _ => push(0xfffd, 5),
            },
            Some(0xd800..=0xdfff) => push(0xfffd, 5),
            Some(code) => push(code, 5),
            None => 0,
        },
        Some(b'U') => hex(1, 8).map_or(0, |code| push(code, 9)),
        Some(b'0'..=b'3') => {
            let digits = text.get(..3).unwrap_or(&[]);
            if digits.len() == 3 && digits.iter().all(|b| (b'0'..=b'7').contains(b)) {
                out.push(digits.iter().fold(0u32, |n, b| n * 8 + u32::from(b - b'0')) as u8);
                3
            } else {
                0
            }
        }
        _ => 0,
    }
}

/// Where an escaped message lies in its line, and in what quotes.
struct Message {
    start: usize,
    end: usize,
    quote: Option<u8>,
    closed: bool,
}

/// Takes dumps out of messages that were escaped into one line; other lines stay as they are.
pub(crate) fn peel(stream: &Stream) -> Option<Vec<Stream>> {
    let bytes = stream.text.bytes();
    // Cheap refusal: an escaped header has a backslash right after its colon.
    memmem::find(bytes, b":\\")?;
    let mut out = Recovered::of(stream);
    let (mut done, mut number) = (0usize, 1u32);
    let mut name = "";
    let mut scratch = Vec::new();
    let mut from = 0;
    while let Some(at) = shape::headers_in(bytes.get(from..).unwrap_or(&[])).next().map(|at| from + at) {
        from = at + 1;
        if at < done {
            continue;
        }
        let (start, end) = (line_start(bytes, at).max(done), line_end(bytes, at));
        let line = bytes.get(start..end).unwrap_or(&[]);
        if !escaped_header(line.get(at - start..).unwrap_or(&[])) {
            continue;
        }
        for (_, before) in lines(bytes.get(done..start).unwrap_or(&[])) {
            out.line(before, number);
            number = number.saturating_add(1);
        }
        let message = message(line, at - start);
        let before = line.get(..message.start).unwrap_or(&[]);
        let after = line.get(message.end..).unwrap_or(&[]);
        let found = kind(before, after, &message);
        if name.is_empty() || found != "escapes" {
            name = found;
        }
        if let Some(time) = time_of(before).or_else(|| time_of(after)) {
            out.written_at(time);
        }
        aside(&mut out, before, number);
        let mut place = stream.lines.place(number);
        for (piece, next) in pieces(stream, bytes, start + message.start..start + message.end) {
            scratch.clear();
            unescape(piece, &mut scratch);
            out.text_at(&scratch, place);
            place = next.or(place);
        }
        if message.quote.is_some() && !message.closed {
            out.problem_at(
                Severity::Warning,
                number,
                "the log message with this dump has no closing quote: its end was cut off, goroutines are missing",
            );
        }
        // What follows the message may hold another; it is looked at as a line of its own.
        let rest = after.get(usize::from(message.closed)..).unwrap_or(&[]);
        if shape::headers_in(rest).next().is_some() {
            done = start + (line.len() - rest.len());
            from = done;
            continue;
        }
        aside(&mut out, rest, number);
        number = number.saturating_add(1);
        done = end + 1;
        from = from.max(done);
    }
    if name.is_empty() {
        return None;
    }
    for (_, rest) in lines(bytes.get(done..).unwrap_or(&[])) {
        out.line(rest, number);
        number = number.saturating_add(1);
    }
    Some(vec![out.finish(name)])
}

/// A message in pieces, one for each line of the user's file that it was split over, and where the next one stood.
fn pieces<'a>(stream: &Stream, bytes: &'a [u8], message: Range<usize>) -> Vec<(&'a [u8], Option<Place>)> {
    let mut pieces = Vec::new();
    let mut from = message.start;
    let first = stream.seams.partition_point(|&(at, _)| at < message.start);
    for &(at, place) in stream.seams.get(first..).unwrap_or(&[]).iter().take_while(|&&(at, _)| at < message.end) {
        // The line that goes over the seam belongs to the piece in which it began.
        let rest = bytes.get(at.max(from)..message.end).unwrap_or(&[]);
        // `\\n` is a newline of the next level: it ends no line of this one.
        let newline = memmem::find_iter(rest, b"\\n").find(|&n| n > 0 && rest.get(n - 1) != Some(&b'\\'));
        let Some(end) = newline.map(|n| at.max(from) + n + 2) else { break };
        pieces.push((bytes.get(from..end).unwrap_or(&[]), Some(place)));
        from = end;
    }
    pieces.push((bytes.get(from..message.end).unwrap_or(&[]), None));
    pieces
}

/// Undoes escapes before anything else where a whole log was escaped into one line: what stands before the first
/// header stands before the lines after it too.
pub(crate) fn peel_repeated(stream: &Stream, sample: &Sample<'_>) -> Option<Vec<Stream>> {
    let bytes = stream.text.bytes();
    let &at = sample.headers.first()?;
    let (start, end) = (line_start(bytes, at), line_end(bytes, at));
    let line = bytes.get(start..end)?;
    let lead = line.get(..12).filter(|_| at - start >= 12)?;
    memmem::find(line.get(at - start..)?, b"\\n")?;
    let again = [b"\\n", lead].concat();
    (memmem::find(line, &again).is_some() && message(line, at - start).quote.is_none()).then(|| peel(stream))?
}

/// Keeps what stood beside a message if it says something by itself.
fn aside(out: &mut Recovered<'_>, text: &[u8], number: u32) {
    let text = text.trim_ascii();
    let keyed = text.ends_with(b"=") || text.ends_with(b"=\"") || text.starts_with(b"{") || text.starts_with(b",");
    if text.len() > 3 && !keyed {
        out.line(text, number);
    }
}

/// Whether the header at the start of `text` ends in an escaped newline rather than at the end of its line.
fn escaped_header(text: &[u8]) -> bool {
    let text = text.get(..text.len().min(4096)).unwrap_or(text);
    memchr::memchr_iter(b'\\', text).take(64).any(|at| {
        let slashes = text.get(at..).unwrap_or(&[]).iter().take_while(|&&b| b == b'\\').count();
        let ends = at > 0 && matches!(text.get(at - 1), Some(b':')) || shape::profile_start(text);
        // A quote: the header ends a string within the escaped text.
        let rest = text.get(at + slashes..).unwrap_or(&[]);
        // A header and nothing else is a log's object for one line, not a dump in one string.
        let alone = slashes == 1 && matches!(rest, [b'n', b'"' | b'\'', ..]);
        let colour = [&b"u001b"[..], b"x1b", b"033"].iter().any(|escape| rest.starts_with(escape));
        ends && !alone && (colour || matches!(rest.first(), Some(b'n' | b'"')))
    })
}

fn message(line: &[u8], header: usize) -> Message {
    let before = line.get(..header).unwrap_or(&[]);
    let opening = |quote: u8| {
        let at = memchr::memrchr_iter(quote, before).find(|&at| !is_escaped(line, at))?;
        let lead = before.get(..at).and_then(|b| b.last());
        let led =
            matches!(lead, None | Some(b'=' | b':' | b',' | b'[' | b'(' | b'{' | b' ' | b'\t' | b'b' | b'u' | b'`'));
        let keyed = matches!(lead, Some(b'=' | b':'));
        (led && (keyed || line.get(at + 1) != Some(&b' '))).then_some((at + 1, quote))
    };
    let Some((start, quote)) = opening(b'"').or_else(|| opening(b'\'')).or_else(|| opening(b'`')) else {
        return Message { start: 0, end: line.len(), quote: None, closed: false };
    };
    let mut from = header;
    let end = loop {
        match memchr::memchr(quote, line.get(from..).unwrap_or(&[])) {
            Some(at) if is_escaped(line, from + at) => from += at + 1,
            Some(at) => break Some(from + at),
            None => break None,
        }
    };
    Message { start, end: end.unwrap_or(line.len()), quote: Some(quote), closed: end.is_some() }
}

fn kind(before: &[u8], after: &[u8], message: &Message) -> &'static str {
    let has = |needle: &[u8]| memmem::find(before, needle).is_some() || memmem::find(after, needle).is_some();
    if message.quote == Some(b'\'') {
        return "python-repr";
    }
    if before.trim_ascii_start().starts_with(b"{") {
        return match () {
            () if has(b"\"caller\"") || has(b"\"ts\"") => "zap-json",
            () if has(b"\"level\":\"INFO\"") || has(b"\"level\":\"ERROR\"") || has(b"\"level\":\"WARN\"") => {
                "slog-json"
            }
            () if has(b"\"level\"") && has(b"\"time\"") => "logrus-json",
            () => "json",
        };
    }
    if super::klog::is_klog(before) {
        return "klog-quoted";
    }
    if has(b"level=") && has(b"msg=") {
        return "logrus";
    }
    if before.ends_with(b"=\"") {
        return "logfmt";
    }
    if message.quote.is_some() { "quoted" } else { "escapes" }
}

/// The instant that a logfmt or JSON line tells of itself.
fn time_of(text: &[u8]) -> Option<jiff::Timestamp> {
    let text = text.get(..text.len().min(2048))?;
    let keys: [&[u8]; 6] =
        [b"time=\"", b"ts=\"", b"\"time\":\"", b"\"ts\":\"", b"\"@timestamp\": \"", b"\"@timestamp\":\""];
    let at = keys.iter().find_map(|key| memmem::find(text, key).map(|at| at + key.len()));
    let at =
        at.or_else(|| text.starts_with(b"time=").then_some(5)).or_else(|| text.starts_with(b"ts=").then_some(3))?;
    let rest = text.get(at..)?;
    let len = rest.iter().position(|b| matches!(b, b'"' | b' '))?;
    stamp::iso_time(rest.get(..len)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unescapes_what_go_json_and_python_write() {
        let undone = |text: &str| {
            let mut out = Vec::new();
            unescape(text.as_bytes(), &mut out);
            String::from_utf8_lossy(&out).into_owned()
        };
        assert_eq!(undone(r#"a\n\tb\"c\\d"#), "a\n\tb\"c\\d");
        assert_eq!(undone(r"\u003c\u00e9\ud83d\ude00\x41\101\U0001f600"), "<é😀AA😀");
        assert_eq!(undone(r"C:\q \"), r"C:\q \");
    }

    #[test]
    fn undoes_only_control_characters_in_octal() {
        let mut out = Vec::new();
        assert!(undo_octal(b"#011a#012b#101", &mut out));
        assert_eq!(out, b"\ta\nb#101");
        assert!(!undo_octal(b"issue #123", &mut out));
    }
}
