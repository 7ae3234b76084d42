//! The grammar of a goroutine's header.
//!
//! ```text
//! goroutine ID [gp=0xH m=(nil|N mp=0xH)] [STATUS[ (leaked)][ (scan)][ (durable)][, N minutes][, locked to thread]
//!   [, synctest bubble N]] [{LABELS}]:
//! ```
//!
//! All versions print id, status and colon (`runtime/traceback.go`, `goroutineheader`). `gp= m= mp=` came with Go 1.22
//! (signal dumps only), `(scan)` with 1.6, `synctest group` with 1.24, `synctest bubble` and `(durable)` with 1.25,
//! `(leaked)` and labels with 1.26 (there within the brackets, ` labels:{…}`; from 1.27 on behind them).

use super::lines::{trim_end, trim_start};
use crate::evidence::Flags;
use memchr::memmem;
use nom::branch::alt;
use nom::bytes::complete::{escaped, is_not, tag, take_till, take_while1};
use nom::character::complete::{char, none_of, space0, space1, u64 as decimal};
use nom::combinator::{map, opt, recognize, rest};
use nom::multi::many0_count;
use nom::sequence::{delimited, preceded};
use nom::{IResult, Parser};

/// What a header says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Header<'t> {
    pub id: u64,
    /// Address of the `g`; 0 if not printed.
    pub gp: u64,
    /// The thread that runs it.
    pub m: Option<i64>,
    /// Wait reason or state, without marks.
    pub state: &'t [u8],
    pub minutes: Option<u32>,
    pub flags: Flags,
    /// Between the braces.
    pub labels: &'t [u8],
    /// What stands behind the colon; people and lock detectors write there.
    pub trailing: &'t [u8],
    /// A part between the brackets that is not known.
    pub unknown: Option<&'t [u8]>,
    /// The line ended before the colon.
    pub cut: bool,
}

/// Reads a header from the start of `line` (no blanks before it).
pub(super) fn header(line: &[u8]) -> Option<Header<'_>> {
    if !line.starts_with(b"goroutine") {
        return None;
    }
    whole(line).or_else(|_| torn(line)).ok().map(|(_, header)| header)
}

/// Whether `line` is a header in full, with nothing behind its colon.
pub(super) fn is_plain_header(line: &[u8]) -> bool {
    header(line).is_some_and(|h| !h.cut && h.trailing.is_empty())
}

fn whole(line: &[u8]) -> IResult<&[u8], Header<'_>> {
    let (line, (id, (gp, m))) = start(line)?;
    let (line, (status, within, more)) = delimited(char('['), status, char(']')).parse(line)?;
    let (line, behind) = opt(preceded(space1, labels)).parse(line)?;
    let labels = within.or(behind);
    let (line, trailing) = preceded(char(':'), rest).parse(line)?;
    let mut header = Header { id, gp, m, labels: labels.unwrap_or_default(), ..Header::default() };
    header.trailing = trim_start(trim_end(trailing));
    read_status(status, &mut header);
    read_marks(split_commas(more), &mut header);
    Ok((line, header))
}

type Status<'t> = (&'t [u8], Option<&'t [u8]>, &'t [u8]);

/// What stands between the brackets. Go 1.26 puts labels there too: `chan receive labels:{"k": "v"}`.
fn status(input: &[u8]) -> IResult<&[u8], Status<'_>> {
    let plain = input.iter().position(|&b| b == b']').unwrap_or(input.len());
    let labelled = memmem::find(input, b" labels:{").filter(|at| *at < plain);
    let (before, rest) = input.split_at(labelled.unwrap_or(plain));
    let (rest, within) = opt(preceded(tag(" labels:"), labels)).parse(rest)?;
    let (rest, more) = take_till(|b| b == b']').parse(rest)?;
    Ok((rest, (before, within, more)))
}

/// A header of which the end is missing, as the last line of a cut text has it.
fn torn(line: &[u8]) -> IResult<&[u8], Header<'_>> {
    let (line, (id, (gp, m))) = start(line)?;
    let (line, _) = char('[').parse(line)?;
    let (line, status) = take_till(|b| b == b']').parse(line)?;
    let (line, tail) = rest(line)?;
    let mut header = Header { id, gp, m, cut: true, trailing: tail, ..Header::default() };
    if tail.starts_with(b"]") {
        read_status(status, &mut header);
        let open_labels = trim_start(tail.get(1..).unwrap_or_default());
        if !(open_labels.is_empty() || open_labels.starts_with(b"{")) {
            return Err(nom::Err::Error(nom::error::Error::new(line, nom::error::ErrorKind::Char)));
        }
    }
    header.trailing = b"";
    Ok((line, header))
}

type Identity = (u64, (u64, Option<i64>));

fn start(line: &[u8]) -> IResult<&[u8], Identity> {
    let (line, id) = preceded((tag("goroutine"), space1), decimal).parse(line)?;
    let (line, gp) = opt(preceded((space1, tag("gp=")), hex)).parse(line)?;
    let thread = alt((map(tag("nil"), |_| None), map(decimal, Some)));
    let (line, m) = opt(preceded((space1, tag("m=")), thread)).parse(line)?;
    let (line, _) = opt((space1, tag("mp="), hex)).parse(line)?;
    let (line, _) = space1(line)?;
    let m = m.flatten().and_then(|m| i64::try_from(m).ok());
    Ok((line, (id, (gp.unwrap_or(0), m))))
}

/// `0x…`, wider numbers cut to 64 bits.
pub(super) fn hex(input: &[u8]) -> IResult<&[u8], u64> {
    let digits = take_while1(|b: u8| b.is_ascii_hexdigit());
    map(preceded(tag("0x"), digits), hex_value).parse(input)
}

/// The value of hexadecimal digits.
#[inline]
pub(super) fn hex_value(digits: &[u8]) -> u64 {
    let value = |b: u8| u64::from(if b <= b'9' { b.wrapping_sub(b'0') } else { (b | 0x20).wrapping_sub(b'a' - 10) });
    digits.iter().fold(0u64, |sum, &b| (sum << 4) | (value(b) & 0xf))
}

/// `{k: v, "odd key": "a } b"}`: keys and values that are not plain are quoted as Go quotes strings.
fn labels(input: &[u8]) -> IResult<&[u8], &[u8]> {
    let quoted = (char('"'), opt(escaped(is_not("\"\\"), '\\', none_of(""))), char('"'));
    let part = alt((recognize(quoted), is_not("\"{}")));
    delimited(char('{'), recognize(many0_count(part)), (char('}'), space0)).parse(input)
}

/// Takes the text between the brackets apart.
fn read_status<'t>(status: &'t [u8], header: &mut Header<'t>) {
    let mut parts = split_commas(status);
    let mut state = trim_start(trim_end(parts.next().unwrap_or_default()));
    // Marks pile up behind the reason, in this order: (leaked), (scan), (durable).
    while let Some((rest, flag)) = strip_mark(state) {
        state = trim_end(rest);
        header.flags.set(flag);
    }
    header.state = state;
    read_marks(parts, header);
}

fn read_marks<'t>(parts: impl Iterator<Item = &'t [u8]>, header: &mut Header<'t>) {
    for part in parts.filter(|part| !part.is_empty()) {
        match part {
            b"locked to thread" => header.flags.set(Flags::LOCKED),
            _ if part.starts_with(b"synctest ") => {}
            _ => match part.strip_suffix(b" minutes").or(part.strip_suffix(b" minute")).map(count) {
                Some(Some(minutes)) => header.minutes = Some(minutes),
                _ => header.unknown = Some(part),
            },
        }
    }
}

fn split_commas(status: &[u8]) -> impl Iterator<Item = &[u8]> {
    status.split(|&b| b == b',').map(|part| trim_start(trim_end(part)))
}

fn strip_mark(state: &[u8]) -> Option<(&[u8], u16)> {
    const MARKS: [(&[u8], u16); 4] = [
        (b" (leaked)", Flags::LEAKED),
        (b" (scan)", Flags::SCAN),
        (b" (durable)", Flags::DURABLE),
        (b" (synctest)", Flags::DURABLE),
    ];
    MARKS.iter().find_map(|(mark, flag)| state.strip_suffix(*mark).map(|rest| (rest, *flag)))
}

fn count(digits: &[u8]) -> Option<u32> {
    std::str::from_utf8(digits).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Header<'_> {
        header(line.as_bytes()).unwrap_or_else(|| panic!("no header: {line}"))
    }

    #[test]
    fn every_part_of_every_version() {
        let h = read("goroutine 9223372036854775807 [chan receive, 3 minutes, locked to thread]:");
        assert_eq!((h.id, h.state, h.minutes), (i64::MAX as u64, &b"chan receive"[..], Some(3)));
        assert!(h.flags.has(Flags::LOCKED));

        let h = read("goroutine 12 gp=0xc000112380 m=nil [select, 1 minutes]:");
        assert_eq!((h.gp, h.m, h.minutes), (0xc000112380, None, Some(1)));
        let h = read("goroutine 1 gp=0x33d44d232780 m=3 mp=0xb6cde0 [syscall]:");
        assert_eq!((h.gp, h.m), (0x33d44d232780, Some(3)));

        let h = read("goroutine 7 [chan receive (nil chan) (leaked)]:");
        assert_eq!(h.state, b"chan receive (nil chan)");
        assert!(h.flags.has(Flags::LEAKED));
        let h = read("goroutine 7 [select (no cases) (scan), 12 minutes]:");
        assert_eq!((h.state, h.minutes), (&b"select (no cases)"[..], Some(12)));
        let h = read("goroutine 20 [sleep (durable), synctest bubble 1]:");
        assert_eq!(h.state, b"sleep");
        assert!(h.flags.has(Flags::DURABLE));
        assert_eq!(read("goroutine 2 [force gc (idle)]:").state, b"force gc (idle)");
    }

    #[test]
    fn labels_hold_anything() {
        let h = read(r#"goroutine 37 [chan receive] {"odd \"key\"": "a, b}\n: {c", pod: "goroutine 1 [x]:"}:"#);
        assert_eq!(h.labels, br#""odd \"key\"": "a, b}\n: {c", pod: "goroutine 1 [x]:""#);
        assert!(!h.cut && h.trailing.is_empty());
        assert_eq!(read(r#"goroutine 3 [select] {a: ""}:"#).labels, br#"a: """#);
        let h = read(r#"goroutine 28 [chan receive labels:{"odd \"key\"": "a] b}\n: {c", "pod": "x"}, 2 minutes]:"#);
        assert_eq!((h.state, h.minutes), (&b"chan receive"[..], Some(2)));
        assert_eq!(h.labels, br#""odd \"key\"": "a] b}\n: {c", "pod": "x""#);
    }

    #[test]
    fn what_people_add_and_what_is_cut() {
        let h = read("goroutine 2990 [semacquire, 5 minutes]: holds R on pmut");
        assert_eq!((h.trailing, h.minutes), (&b"holds R on pmut"[..], Some(5)));
        let h = read("goroutine 17 [sele");
        assert!(h.cut && h.state.is_empty());
        assert!(read("goroutine 17 [select, 2 minutes]").cut);
        assert!(read("goroutine 17 [select] {pod: \"a").cut);
        for prose in ["goroutine 12", "goroutine 12 lock 0xc421ef64c0", "goroutines [x]:", "goroutine x [y]:"] {
            assert_eq!(header(prose.as_bytes()), None, "{prose}");
        }
        assert_eq!(header(b"goroutine 12 [select] was stuck"), None);
    }
}
