//! Mail's quoted-printable (RFC 2045) and cells of CSV (RFC 4180).

use super::Stream;
use super::recover::{Recovered, lines};
use super::sample::{Sample, line_start};
use super::shape;

/// `=3D`, `=09`, and lines that end in `=`.
pub(crate) fn quoted_printable(stream: &Stream, sample: &Sample<'_>) -> Option<Vec<Stream>> {
    // In a dump every `=` would be one of `fp=`, `m=`; in quoted-printable none of them survives as it is.
    let (mut coded, mut plain) = (0, 0);
    for line in sample.all().flat_map(|window| window.filled()) {
        for at in memchr::memchr_iter(b'=', line) {
            let next = line.get(at + 1..at + 3).unwrap_or(&[]);
            let is_code = next.len() == 2 && next.iter().all(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(b));
            let is_break = line.get(at + 1..).is_some_and(|rest| rest.trim_ascii().is_empty()) && line.len() > 60;
            coded += usize::from(is_code || is_break);
            plain += usize::from(!is_code && !is_break);
        }
    }
    let dump = memchr::memmem::find(stream.text.bytes(), b"goroutine ").is_some();
    if coded < 2 || plain * 10 > coded || !dump {
        return None;
    }
    let mut out = Recovered::of(stream);
    let mut text = Vec::new();
    let mut first = None;
    for (number, line) in lines(stream.text.bytes()) {
        let trimmed = line.trim_ascii_end();
        let soft = trimmed.ends_with(b"=");
        decode(if soft { trimmed.get(..trimmed.len() - 1).unwrap_or(&[]) } else { line }, &mut text);
        let from = *first.get_or_insert(number);
        if !soft {
            out.text(&text, from);
            text.clear();
            first = None;
        }
    }
    if let Some(from) = first {
        out.text(&text, from);
    }
    Some(vec![out.finish("quoted-printable")])
}

fn decode(line: &[u8], out: &mut Vec<u8>) {
    let mut rest = line;
    while let Some(at) = memchr::memchr(b'=', rest) {
        out.extend_from_slice(rest.get(..at).unwrap_or(&[]));
        let digits = rest.get(at + 1..at + 3).and_then(|d| std::str::from_utf8(d).ok());
        match digits.and_then(|d| u8::from_str_radix(d, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = rest.get(at + 3..).unwrap_or(&[]);
            }
            None => {
                out.push(b'=');
                rest = rest.get(at + 1..).unwrap_or(&[]);
            }
        }
    }
    out.extend_from_slice(rest);
}

/// A dump in one cell of a table: it begins after a quote in mid-line, and its own quotes are doubled.
pub(crate) fn csv(stream: &Stream, sample: &Sample<'_>) -> Option<Vec<Stream>> {
    let bytes = stream.text.bytes();
    let opens = |&at: &usize| {
        let before = bytes.get(line_start(bytes, at)..at).unwrap_or(&[]);
        let row = before
            .strip_suffix(b"\"")
            .is_some_and(|b| b.is_empty() || b.ends_with(b",") || b.ends_with(b";") || b.ends_with(b"\t"));
        let line = bytes.get(at..super::sample::line_end(bytes, at)).unwrap_or(&[]);
        row && shape::is_header(line)
    };
    if !sample.headers.iter().any(opens) {
        return None;
    }
    let mut out = Recovered::of(stream);
    let mut cell = Vec::new();
    let (mut number, mut from, mut quoted) = (1u32, 1u32, false);
    let mut rest = bytes;
    // Every cell becomes text of its own lines; rows without a dump stay readable enough.
    while let Some(&byte) = rest.first() {
        match (byte, quoted) {
            (b'"', true) if rest.get(1) == Some(&b'"') => {
                cell.push(b'"');
                rest = rest.get(1..).unwrap_or(&[]);
            }
            (b'"', _) => quoted = !quoted,
            (b',' | b';' | b'\t', false) => flush(&mut out, &mut cell, from),
            (b'\n', false) => {
                flush(&mut out, &mut cell, from);
                number = number.saturating_add(1);
                from = number;
            }
            (b'\n', true) => {
                out.line(&cell, from);
                cell.clear();
                number = number.saturating_add(1);
                from = number;
            }
            _ => cell.push(byte),
        }
        rest = rest.get(1..).unwrap_or(&[]);
    }
    flush(&mut out, &mut cell, from);
    Some(vec![out.finish("csv")])
}

fn flush(out: &mut Recovered<'_>, cell: &mut Vec<u8>, from: u32) {
    if !cell.is_empty() {
        out.line(cell, from);
        cell.clear();
    }
}
