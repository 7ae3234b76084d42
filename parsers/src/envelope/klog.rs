//! klog: its lines between those of a dump, and its text before a dump's first line.
//!
//! Header `I1129 12:46:08.217831   16614 main.go:41] ` (klog `klog.go`, `formatHeader`).

use super::Stream;
use super::recover::{Recovered, lines};
use super::shape;

/// Whether `line` begins with klog's header.
pub(crate) fn is_klog(line: &[u8]) -> bool {
    let fits = |text: &[u8], pattern: &[u8]| {
        text.len() >= pattern.len()
            && pattern.iter().zip(text).all(|(p, b)| if *p == b'0' { b.is_ascii_digit() } else { p == b })
    };
    matches!(line.first(), Some(b'I' | b'W' | b'E' | b'F'))
        && fits(line.get(1..).unwrap_or(&[]), b"0000 00:00:00.000000 ")
        && memchr::memchr(b']', line.get(..line.len().min(300)).unwrap_or(line)).is_some()
}

/// Lines that a log of any kind begins with: klog, logrus, a time stamp, `LEVEL`.
fn is_log_line(line: &[u8]) -> bool {
    is_klog(line)
        || line.starts_with(b"time=")
        || line.starts_with(b"{\"")
        || super::stamp::Stamp::at_start(line).is_some_and(|s| s.kind == super::stamp::StampKind::Iso)
        || (line.get(4) == Some(&b'/')
            && line.get(7) == Some(&b'/')
            && line.get(..4).is_some_and(|y| y.iter().all(u8::is_ascii_digit)))
}

/// Takes log lines out from between the lines of a dump, and a log's text from before a dump's first header.
///
/// The log lines become a stream of their own, so that other parsers see them.
pub(crate) fn peel(stream: &Stream) -> Option<Vec<Stream>> {
    let bytes = stream.text.bytes();
    if !worth_it(bytes) {
        return None;
    }
    let mut dump = Recovered::of(stream);
    let mut log = Recovered::of(stream);
    let mut between: Vec<(u32, &[u8])> = Vec::new();
    let mut inside = false;
    let (mut moved, mut buried) = (false, false);
    let mut all = lines(bytes).peekable();
    while let Some((number, line)) = all.next() {
        if let Some(at) = buried_header(line) {
            let next = all.peek().map_or(&b""[..], |&(_, next)| next);
            if shape::is_frame_line(next.trim_ascii_start()) {
                let text = line.get(..at).unwrap_or(&[]);
                for (number, line) in between.drain(..) {
                    dump.line(line, number);
                }
                log.line(text.trim_ascii_end(), number);
                dump.line(line.get(at..).unwrap_or(&[]), number);
                (buried, inside) = (true, true);
                continue;
            }
        }
        if inside && is_log_line(line) {
            between.push((number, line));
            continue;
        }
        if !between.is_empty() && !line.trim_ascii().is_empty() {
            let goes_on = shape::is_dump_line(line) && !shape::starts_dump(line) && !is_first_header(line);
            let target = if goes_on { &mut log } else { &mut dump };
            moved |= goes_on;
            for (number, line) in between.drain(..) {
                target.line(line, number);
            }
        }
        inside = shape::is_dump_line(line) || (inside && line.trim_ascii().is_empty());
        dump.line(line, number);
    }
    for (number, line) in between.drain(..) {
        dump.line(line, number);
    }
    if !moved && !buried {
        return None;
    }
    let mut streams = vec![dump.finish(if moved { "klog-between" } else { "log-prefix" })];
    if !log.is_empty() {
        streams.push(log.finish(""));
    }
    Some(streams)
}

/// A header that begins a stack-all dump: the dumper's own goroutine is running.
fn is_first_header(line: &[u8]) -> bool {
    shape::is_header(line) && memchr::memmem::find(line, b" [running").is_some()
}

/// Offset of a header that stands at the end of a log line rather than at the start of its own.
fn buried_header(line: &[u8]) -> Option<usize> {
    if shape::header_start(line) || !line.trim_ascii_end().ends_with(b":") {
        return None;
    }
    shape::headers_in(line).last().filter(|&at| shape::is_header(line.get(at..).unwrap_or(&[])))
}

/// Whether a pass over all lines may find something: a dump, and log lines or text before a header.
fn worth_it(bytes: &[u8]) -> bool {
    let Some(first) = shape::headers_in(bytes).next() else {
        return false;
    };
    if first > 0 && bytes.get(first - 1) != Some(&b'\n') {
        return true;
    }
    static LOG_LINE: std::sync::OnceLock<Option<regex::bytes::Regex>> = std::sync::OnceLock::new();
    let pattern = r#"\n(?:[IWEF][01][0-9][0-3][0-9] [0-9]{2}:|time=|\{"|20[0-9]{2}[-/][01][0-9][-/][0-3][0-9])|[^\n ] goroutine [0-9]+ \["#;
    LOG_LINE.get_or_init(|| regex::bytes::Regex::new(pattern).ok()).as_ref().is_none_or(|re| re.is_match(bytes))
}
