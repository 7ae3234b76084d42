//! Dumps of two processes in one text, mixed line by line, with nothing that says which line is whose.
//!
//! Goroutine ids and addresses of two processes collide, so nothing can be put together again for sure. The headers
//! are whole lines and stay; the frames go.

use super::Stream;
use super::recover::{Recovered, lines};
use super::sample::line_end;
use super::shape;
use crate::evidence::Severity;
use memchr::memmem;

const NAME: &str = "interleaved";

/// Keeps the headers alone if two signal dumps stand in each other.
pub(crate) fn refuse(stream: &Stream) -> Option<Vec<Stream>> {
    let bytes = stream.text.bytes();
    if stream.envelopes.iter().any(|known| known == NAME) {
        return None;
    }
    let second = second_start(bytes)?;
    let mut out = Recovered::of(stream);
    let mut told = false;
    for (number, line) in lines(bytes) {
        if shape::is_header(line) {
            out.line(line, number);
            out.line(b"", number);
        } else if shape::starts_dump(line) && !told {
            out.line(line, number);
            out.line(b"", number);
            told = true;
        }
    }
    let at = memchr::memchr_iter(b'\n', bytes.get(..second).unwrap_or(&[])).count() as u32 + 1;
    out.problem_at(
        Severity::Error,
        at,
        "the dumps of two processes are mixed here line by line, without a prefix that tells them apart: only the goroutines' headers are read; take each process's log by itself",
    );
    Some(vec![out.finish(NAME)])
}

/// Where a second signal dump begins within the first: before the first one's registers, and both print theirs later.
fn second_start(bytes: &[u8]) -> Option<usize> {
    let mut starts = memmem::find_iter(bytes, b"SIG").filter(|&at| {
        let own_line = at == 0 || bytes.get(at - 1) == Some(&b'\n');
        own_line && shape::starts_dump(bytes.get(at..line_end(bytes, at)).unwrap_or(&[]))
    });
    let (first, second) = (starts.next()?, starts.next()?);
    let registers = |part: &[u8]| lines(part).filter(|(_, line)| is_pc(line)).count();
    let between = registers(bytes.get(first..second).unwrap_or(&[]));
    let after = registers(bytes.get(second..).unwrap_or(&[]));
    (between == 0 && after >= 2).then_some(second)
}

/// The program counter's line of a register block: one for each block.
fn is_pc(line: &[u8]) -> bool {
    [&b"rip "[..], b"eip ", b"pc "].iter().any(|name| line.starts_with(name)) && memmem::find(line, b" 0x").is_some()
}
