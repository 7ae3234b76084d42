//! Encodings and line ends: UTF-16, byte order marks, NUL padding, CR, terminal colours, Unicode blanks.

use super::Stream;
use super::recover::{Recovered, lines};
use super::sample::Sample;
use memchr::memmem;

/// UTF-16, by its byte order mark or because every second byte of its start is NUL.
pub(crate) fn utf16(stream: &Stream) -> Option<Vec<Stream>> {
    let bytes = stream.text.bytes();
    let (body, big) = match bytes {
        [0xff, 0xfe, rest @ ..] => (rest, false),
        [0xfe, 0xff, rest @ ..] => (rest, true),
        _ => {
            let start = bytes.get(..bytes.len().min(512))?;
            let nul = |odd: usize| start.iter().skip(odd).step_by(2).filter(|&&b| b == 0).count() * 2;
            let (even, odd) = (nul(0), nul(1));
            let most = start.len() * 8 / 10;
            if start.len() < 16 || (even.max(odd) < most) || even.min(odd) * 10 > start.len() {
                return None;
            }
            (bytes, even > odd)
        }
    };
    let units = body.chunks_exact(2).map(|pair| match *pair {
        [a, b] if big => u16::from_be_bytes([a, b]),
        [a, b] => u16::from_le_bytes([a, b]),
        _ => 0,
    });
    let text: String = char::decode_utf16(units).map(|c| c.unwrap_or('\u{fffd}')).collect();
    let mut out = Recovered::of(stream);
    out.reserve(text.len() + 1);
    for (number, line) in lines(text.as_bytes()) {
        out.line(line, number);
    }
    Some(vec![out.finish("utf-16")])
}

/// A byte order mark, NUL bytes, carriage returns and terminal codes.
pub(crate) fn clean(stream: &Stream) -> Option<Vec<Stream>> {
    let bytes = stream.text.bytes();
    let bom = bytes.starts_with(b"\xef\xbb\xbf");
    if !bom && memchr::memchr3(b'\r', 0, 0x1b, bytes).is_none() {
        return None;
    }
    let returns = memchr::memchr_iter(b'\r', bytes).count();
    let newlines = memchr::memchr_iter(b'\n', bytes).count();
    let nul = memchr::memchr(0, bytes).is_some();
    let escape = memchr::memchr(0x1b, bytes).is_some();
    // Old Macs and some serial consoles end lines with CR alone.
    let cr_only = returns > 0 && newlines * 20 < returns;
    let mut out = Recovered::of(stream);
    out.reserve(bytes.len());
    let mut scratch = Vec::new();
    let body = if bom { bytes.get(3..)? } else { bytes };
    for (number, line) in lines(body) {
        for part in line.split(|&b| cr_only && b == b'\r') {
            let mut part = part;
            while let Some(shorter) = part.strip_suffix(b"\r") {
                part = shorter;
            }
            if memchr::memchr2(0, 0x1b, part).is_some() {
                scratch.clear();
                strip_codes(part, &mut scratch);
                part = &scratch;
            }
            if !(cr_only && part.is_empty() && line.is_empty()) {
                out.line(part, number);
            }
        }
    }
    let mut stream = out.finish("");
    for (name, found) in
        [("bom", bom), ("nul-padding", nul), ("cr", cr_only), ("crlf", returns > 0 && !cr_only), ("ansi", escape)]
    {
        if found && !stream.envelopes.iter().any(|known| known == name) {
            stream.envelopes.push(name.into());
        }
    }
    Some(vec![stream])
}

/// Copies `text` without NUL bytes and terminal sequences (ECMA-48 CSI, OSC, two-byte escapes).
fn strip_codes(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = memchr::memchr2(0, 0x1b, rest) {
        out.extend_from_slice(rest.get(..at).unwrap_or(&[]));
        let tail = rest.get(at + 1..).unwrap_or(&[]);
        // Padding is long: its NUL bytes are skipped together.
        let padding = || tail.iter().position(|&b| b != 0).unwrap_or(tail.len());
        let skip = if rest.get(at) == Some(&0) { padding() } else { sequence(tail) };
        rest = tail.get(skip..).unwrap_or(&[]);
    }
    out.extend_from_slice(rest);
}

/// Length of the escape sequence whose ESC stood before `text`.
fn sequence(text: &[u8]) -> usize {
    match text.first() {
        Some(b'[') => {
            let inner = text.iter().skip(1).take_while(|b| (0x20..=0x3f).contains(*b)).count();
            (inner + 2).min(text.len())
        }
        Some(b']') => text.iter().position(|&b| b == 7 || b == 0x1b).map_or(text.len(), |at| at + 1),
        Some(b'(' | b')') => text.len().min(2),
        Some(_) => 1,
        None => 0,
    }
}

/// What word processors and chats make of blanks and dots: U+00A0, U+200B, U+2026 and the like.
pub(crate) fn unicode(stream: &Stream, sample: &Sample<'_>) -> Option<Vec<Stream>> {
    if sample.headers.is_empty() {
        return None;
    }
    let bytes = stream.text.bytes();
    let odd = |line: &[u8]| memchr::memchr2(0xc2, 0xe2, line).is_some() && replaced(line, &mut Vec::new());
    if !sample.around.iter().any(|window| window.lines.iter().any(|line| odd(line))) {
        return None;
    }
    let mut out = Recovered::of(stream);
    out.reserve(bytes.len());
    let mut scratch = Vec::new();
    for (number, line) in lines(bytes) {
        let changed = line.iter().any(|&b| b >= 0x80) && replaced(line, &mut scratch);
        out.line(if changed { &scratch } else { line }, number);
    }
    Some(vec![out.finish("unicode-blanks")])
}

/// Writes `line` to `out` with odd characters made plain; false if there was none.
fn replaced(line: &[u8], out: &mut Vec<u8>) -> bool {
    out.clear();
    let mut changed = false;
    let mut rest = line;
    while let Some(&byte) = rest.first() {
        let known: [(&[u8], &[u8]); 9] = [
            (b"\xc2\xa0", b" "),
            (b"\xe2\x80\x87", b" "),
            (b"\xe2\x80\xaf", b" "),
            (b"\xe3\x80\x80", b" "),
            (b"\xe2\x80\x8b", b""),
            (b"\xe2\x80\x8e", b""),
            (b"\xef\xbb\xbf", b""),
            (b"\xe2\x80\xa6", b"..."),
            (b"\xe2\x80\x8d", b""),
        ];
        let found = if byte >= 0x80 { known.iter().find(|(from, _)| rest.starts_with(from)) } else { None };
        match found {
            // An ellipsis inside a word or number is a cut of a viewer, not the runtime's own three dots.
            Some((from, to)) if to.len() != 3 || is_own_ellipsis(out, rest.get(from.len()..).unwrap_or(&[])) => {
                out.extend_from_slice(to);
                rest = rest.get(from.len()..).unwrap_or(&[]);
                changed = true;
            }
            _ => {
                out.push(byte);
                rest = rest.get(1..).unwrap_or(&[]);
            }
        }
    }
    changed
}

fn is_own_ellipsis(before: &[u8], after: &[u8]) -> bool {
    let opened = matches!(before.last(), None | Some(b'(' | b'[' | b'{' | b' ' | b'\t'));
    let closed = matches!(after.first(), None | Some(b')' | b']' | b'}' | b','));
    let elided = after.starts_with(b"additional frames") || memmem::find(after, b" frames elided").is_some();
    (opened && closed) || elided || (after.is_empty() && memmem::find(before, b"elided").is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_blanks_plain_but_keeps_cuts() {
        let mut out = Vec::new();
        assert!(replaced("\u{a0}\u{a0}main.f(\u{2026})".as_bytes(), &mut out));
        assert_eq!(out, b"  main.f(...)");
        assert!(!replaced("gp=0xa852\u{2026}le]:".as_bytes(), &mut out));
    }

    #[test]
    fn strips_colours_and_titles() {
        let mut out = Vec::new();
        strip_codes(b"\x1b[1;31mred\x1b[0m\x1b[K\x1b]0;title\x07 \0end\x1b[", &mut out);
        assert_eq!(out, b"red end");
    }
}
