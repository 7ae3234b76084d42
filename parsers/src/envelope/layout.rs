//! How lines were laid out anew: order reversed, blank lines put between, wrapped or cut at a width, tabs spelled out.

use super::Stream;
use super::recover::{Recovered, lines};
use super::sample::Sample;
use super::shape;
use crate::evidence::Severity;

/// `cat -A`, sysklogd: a tab is `^I`, and perhaps every line ends in `$`.
pub(crate) fn carets(stream: &Stream, sample: &Sample<'_>) -> Option<Vec<Stream>> {
    let tabbed = |line: &[u8]| {
        line.strip_prefix(b"^I").is_some_and(|rest| shape::is_file_line(rest.strip_suffix(b"$").unwrap_or(rest)))
    };
    let all = || sample.all().flat_map(|window| window.filled());
    if !all().any(tabbed) {
        return None;
    }
    let dollars = sample.all().all(|window| window.mostly(95, 1, |line| line.ends_with(b"$")));
    let mut out = Recovered::of(stream);
    for (number, line) in lines(stream.text.bytes()) {
        let line = if dollars { line.strip_suffix(b"$").unwrap_or(line) } else { line };
        let tabs = line.chunks(2).take_while(|pair| pair == b"^I").count();
        let mut text = vec![b'\t'; tabs];
        text.extend_from_slice(line.get(tabs * 2..).unwrap_or(&[]));
        out.line(&text, number);
    }
    Some(vec![out.finish("carets")])
}

/// A viewer that shows the newest line first (`journalctl -r`, log stores).
pub(crate) fn reversed(stream: &Stream, sample: &Sample<'_>) -> Option<Vec<Stream>> {
    // In a dump a frame's file follows its function; reversed, it comes before.
    let (mut forward, mut backward) = (0, 0);
    for window in &sample.around {
        let filled: Vec<&[u8]> = window.filled().collect();
        for pair in filled.windows(2) {
            let [a, b] = pair else { continue };
            // A header is followed by a function, and reversed by the file of the goroutine before.
            let head = |line: &[u8]| shape::is_header(line);
            forward += usize::from(head(a) && shape::is_frame_line(b));
            backward += usize::from(shape::is_frame_line(a) && head(b));
            backward += usize::from(head(a) && shape::is_file_line(b));
        }
    }
    if backward < 1 || forward * 4 > backward {
        return None;
    }
    let bytes = stream.text.bytes();
    let all: Vec<(u32, &[u8])> = lines(bytes).collect();
    let mut out = Recovered::of(stream);
    out.reserve(bytes.len());
    for (number, line) in all.iter().rev() {
        out.line(line, *number);
    }
    Some(vec![out.finish("reversed")])
}

/// Every line followed by an empty one: rich text, or CR CR LF read as two line ends.
pub(crate) fn double_spaced(stream: &Stream, sample: &Sample<'_>) -> Option<Vec<Stream>> {
    let doubled = sample.around.iter().any(|window| {
        let from = window.lines.iter().position(|line| shape::is_header(line)).unwrap_or(0);
        let rest = window.lines.get(from..).unwrap_or(&[]);
        rest.len() >= 6 && rest.chunks(2).all(|pair| pair.get(1).is_none_or(|second| second.trim_ascii().is_empty()))
    });
    if !doubled {
        return None;
    }
    let mut out = Recovered::of(stream);
    let mut after_line = false;
    for (number, line) in lines(stream.text.bytes()) {
        if after_line && line.trim_ascii().is_empty() {
            after_line = false;
            continue;
        }
        out.line(line, number);
        after_line = true;
    }
    Some(vec![out.finish("double-spaced")])
}

/// Columns of `line`, tabs to the next multiple of eight.
fn width(line: &[u8]) -> usize {
    let mut columns = 0;
    for byte in line {
        match byte {
            b'\t' => columns = (columns / 8 + 1) * 8,
            0x80..=0xbf => {}
            _ => columns += 1,
        }
    }
    columns
}

/// Whether a line can only be one that began here, not the rest of a wrapped one.
fn begins_by_itself(line: &[u8]) -> bool {
    line.is_empty()
        || line.starts_with(b"#")
        || line.starts_with(b"\t")
        || line.starts_with(b"  ")
        || shape::is_header(line)
        || shape::header_start(line)
        || shape::is_created_line(line)
        || shape::starts_dump(line)
        || (shape::is_frame_line(line) && !line.starts_with(b"0x"))
        || looks_like_call(line)
}

/// `pkg.f(`, even if the rest of the line is missing.
fn looks_like_call(line: &[u8]) -> bool {
    let Some(open) = memchr::memchr(b'(', line) else { return false };
    let name = line.get(..open).unwrap_or(&[]);
    name.first().is_some_and(u8::is_ascii_alphabetic)
        && name.contains(&b'.')
        && !name.iter().any(|&b| b" ,{}?+:\t".contains(&b))
        && !name.ends_with(b".")
        || line.starts_with(b"panic(")
        || (name.ends_with(b".")
            && name.first().is_some_and(u8::is_ascii_lowercase)
            && !name.iter().any(|&b| b" ,{}?+:\t".contains(&b)))
}

/// Lines wrapped at a width are joined; lines cut at a width are told of.
pub(crate) fn wrapped(stream: &Stream, sample: &Sample<'_>) -> Option<Vec<Stream>> {
    if stream.envelopes.iter().any(|known| known == "wrapped") || cut_is_told(stream) {
        return None;
    }
    let measures: [fn(&[u8]) -> usize; 2] = [width, <[u8]>::len];
    let (measure, most, wraps, cuts) = measures.into_iter().find_map(|measure| {
        let most = sample.all().flat_map(|w| w.lines.iter()).map(|line| measure(line)).max()?;
        if !(40..=400).contains(&most) {
            return None;
        }
        let (mut wraps, mut cuts) = (0, 0);
        for window in sample.all() {
            for pair in window.lines.windows(2) {
                let [line, next] = pair else { continue };
                if measure(line) == most {
                    let joined = [*line, *next].concat();
                    wraps += usize::from(!begins_by_itself(next) && shape::is_dump_line(&joined));
                    cuts += usize::from(begins_by_itself(next));
                }
            }
        }
        (wraps + cuts >= 4).then_some((measure, most, wraps, cuts))
    })?;
    let mut out = Recovered::of(stream);
    if wraps > cuts * 2 {
        let mut goes_on = false;
        for (number, line) in lines(stream.text.bytes()) {
            if goes_on && !begins_by_itself(line) {
                out.join(line, number);
            } else {
                out.line(line, number);
            }
            goes_on = measure(line) == most;
        }
        return Some(vec![out.finish("wrapped")]);
    }
    if wraps > 0 {
        return None;
    }
    // Many lines of one and the same greatest width that all end in mid-word: a viewer or `cut -c` took the rest.
    let ends_early = |line: &[u8]| !line.ends_with(b")") && !line.ends_with(b":") && !shape::is_file_line(line);
    let torn =
        sample.all().flat_map(|w| w.lines.iter()).filter(|line| measure(line) == most && ends_early(line)).count();
    if torn < 3 {
        return None;
    }
    for (number, line) in lines(stream.text.bytes()) {
        if measure(line) == most && ends_early(line) {
            let message = format!("{CUT} {most} columns: arguments and file lines beyond are lost");
            out.problem_at(Severity::Warning, number, message);
            break;
        }
    }
    for (number, line) in lines(stream.text.bytes()) {
        out.line(line, number);
    }
    Some(vec![out.finish("")])
}

const CUT: &str = "lines are cut at";

fn cut_is_told(stream: &Stream) -> bool {
    stream.problems.iter().any(|problem| problem.message.starts_with(CUT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_of_a_line_is_told_from_a_new_one() {
        for whole in ["\t/a.go:1", "main.f(0x1, 0x", "goroutine 7 [sel", "created by x", "", "sync.(*Mutex).lockSl(0x1"]
        {
            assert!(begins_by_itself(whole.as_bytes()), "{whole}");
        }
        for rest in ["622c98 sp=0x7ff pc=0x47", "0x1, 0x2)", ", 0x1}, {0x2})", "go:53 +0x30 fp=0xc0", "c00001)"] {
            assert!(!begins_by_itself(rest.as_bytes()), "{rest}");
        }
        assert_eq!(width(b"\tab"), 10);
    }
}
