//! Time stamps at the start of a line.

use jiff::Timestamp;

/// A time stamp that a line begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Its length, without the blank after it.
    pub len: usize,
    /// What it looks like.
    pub kind: StampKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StampKind {
    /// `2026-11-29T12:43:48.384203+00:00`.
    Iso,
    /// `Nov 29 12:43:48.123456`: neither year nor zone.
    Traditional,
    /// `Sun 2026-11-29 12:43:39 UTC`.
    Full,
    /// `1795956219.832014`.
    Unix,
    /// `[  123.400000]`: seconds since boot.
    Monotonic,
}

impl Stamp {
    /// The stamp at the start of `line`, if a blank or the end of the line follows it.
    pub fn at_start(line: &[u8]) -> Option<Self> {
        let (len, kind) = match line.first()? {
            b'[' => (monotonic(line)?, StampKind::Monotonic),
            b'0'..=b'9' => match iso(line) {
                Some(len) => (len, StampKind::Iso),
                None => (unix(line)?, StampKind::Unix),
            },
            b'A'..=b'Z' => match traditional(line) {
                Some(len) => (len, StampKind::Traditional),
                None => (full(line)?, StampKind::Full),
            },
            _ => return None,
        };
        matches!(line.get(len), None | Some(b' ')).then_some(Stamp { len, kind })
    }

    /// The instant, for stamps that tell year and zone.
    pub fn time(&self, line: &[u8]) -> Option<Timestamp> {
        let text = line.get(..self.len)?;
        match self.kind {
            StampKind::Iso => iso_time(text),
            StampKind::Full => {
                let text = std::str::from_utf8(text).ok()?;
                let (_, rest) = text.split_once(' ')?;
                let (clock, zone) = rest.rsplit_once(' ')?;
                matches!(zone, "UTC" | "GMT" | "Z")
                    .then(|| iso_time(format!("{}Z", clock.replace(' ', "T")).as_bytes()))?
            }
            StampKind::Unix => {
                let (seconds, fraction) = std::str::from_utf8(text).ok()?.split_once('.')?;
                Timestamp::new(seconds.parse().ok()?, nanos(fraction.as_bytes())).ok()
            }
            StampKind::Traditional | StampKind::Monotonic => None,
        }
    }
}

/// The instant of an RFC 3339 stamp; `None` without a zone.
pub(crate) fn iso_time(text: &[u8]) -> Option<Timestamp> {
    if iso(text)? != text.len() {
        return None;
    }
    let number = |from: usize, len: usize| {
        text.get(from..from + len)?
            .iter()
            .try_fold(0i64, |n, &b| b.is_ascii_digit().then(|| n * 10 + i64::from(b - b'0')))
    };
    let (year, month, day) = (number(0, 4)?, number(5, 2)?, number(8, 2)?);
    let (hour, minute, second) = (number(11, 2)?, number(14, 2)?, number(17, 2)?);
    let mut at = 19;
    let mut fraction = 0;
    if matches!(text.get(at), Some(b'.' | b',')) {
        let digits = text.get(at + 1..)?.iter().take_while(|b| b.is_ascii_digit()).count();
        fraction = nanos(text.get(at + 1..at + 1 + digits)?);
        at += 1 + digits;
    }
    let offset = match text.get(at..)? {
        b"Z" => 0,
        zone @ [sign @ (b'+' | b'-'), ..] => {
            let digits: Vec<i64> = zone.iter().filter(|b| b.is_ascii_digit()).map(|&b| i64::from(b - b'0')).collect();
            let [h1, h2, m1, m2] = digits[..] else {
                return None;
            };
            let seconds = (h1 * 10 + h2) * 3600 + (m1 * 10 + m2) * 60;
            if *sign == b'-' { -seconds } else { seconds }
        }
        _ => return None,
    };
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    Timestamp::new(seconds, fraction).ok()
}

/// Days from 1970-01-01 in the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn nanos(digits: &[u8]) -> i32 {
    let mut value = 0i32;
    for place in 0..9 {
        let digit = digits.get(place).filter(|b| b.is_ascii_digit()).map_or(0, |&b| i32::from(b - b'0'));
        value = value * 10 + digit;
    }
    value
}

/// Checks `text` against a pattern: `0` a digit, `_` a blank or digit, anything else itself.
fn fits(text: &[u8], pattern: &[u8]) -> bool {
    text.len() >= pattern.len()
        && pattern.iter().zip(text).all(|(&p, &b)| match p {
            b'0' => b.is_ascii_digit(),
            b'_' => b.is_ascii_digit() || b == b' ',
            _ => p == b,
        })
}

fn fraction(text: &[u8], at: usize) -> usize {
    if !matches!(text.get(at), Some(b'.' | b',')) {
        return at;
    }
    let digits = text.get(at + 1..).map_or(0, |t| t.iter().take_while(|b| b.is_ascii_digit()).count());
    if digits == 0 { at } else { at + 1 + digits }
}

fn iso(text: &[u8]) -> Option<usize> {
    if !fits(text, b"0000-00-00") || !matches!(text.get(10), Some(b'T' | b' ')) || !fits(text.get(11..)?, b"00:00:00") {
        return None;
    }
    let at = fraction(text, 19);
    let zone = text.get(at..).unwrap_or(&[]);
    Some(match zone.first() {
        Some(b'Z') => at + 1,
        Some(b'+' | b'-') if fits(zone.get(1..)?, b"00:00") => at + 6,
        Some(b'+' | b'-') if fits(zone.get(1..)?, b"0000") => at + 5,
        _ => at,
    })
}

fn traditional(text: &[u8]) -> Option<usize> {
    const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let month = text.get(..3)?;
    if !MONTHS.chunks(3).any(|name| name == month) || !fits(text.get(3..)?, b" _0 ") {
        return None;
    }
    // A year between the day and the clock: some syslog daemons write it.
    let clock = if fits(text.get(7..)?, b"0000 00:00:00") { 12 } else { 7 };
    fits(text.get(clock..)?, b"00:00:00").then(|| fraction(text, clock + 8))
}

fn full(text: &[u8]) -> Option<usize> {
    if !fits(text.get(3..)?, b" 0000-00-00 00:00:00") || !text.iter().take(3).all(u8::is_ascii_alphabetic) {
        return None;
    }
    let at = fraction(text, 23);
    let zone =
        text.get(at + 1..)?.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'+' || **b == b'-').count();
    (text.get(at) == Some(&b' ') && (1..=6).contains(&zone)).then_some(at + 1 + zone)
}

fn unix(text: &[u8]) -> Option<usize> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    if !(9..=11).contains(&digits) {
        return None;
    }
    let end = fraction(text, digits);
    (end > digits + 2).then_some(end)
}

fn monotonic(text: &[u8]) -> Option<usize> {
    let inner = text.strip_prefix(b"[")?;
    let blanks = inner.iter().take_while(|&&b| b == b' ').count();
    let digits = inner.get(blanks..)?.iter().take_while(|b| b.is_ascii_digit()).count();
    let at = 1 + blanks + digits;
    let end = fraction(text, at);
    (digits > 0 && end > at && text.get(end) == Some(&b']')).then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_stamp() {
        let at = |line: &str| {
            let stamp = Stamp::at_start(line.as_bytes())?;
            Some((stamp.kind, line[..stamp.len].to_string(), stamp.time(line.as_bytes()).map(|t| t.to_string())))
        };
        let utc = "2026-11-29T12:43:48Z".to_string();
        for (line, kind, stamp, time) in [
            ("2026-11-29T12:43:48Z x", StampKind::Iso, "2026-11-29T12:43:48Z", Some(utc.clone())),
            ("2026-11-29T20:43:48+0800 x", StampKind::Iso, "2026-11-29T20:43:48+0800", Some(utc.clone())),
            (
                "2026-11-29 12:43:48,5+00:00 x",
                StampKind::Iso,
                "2026-11-29 12:43:48,5+00:00",
                Some("2026-11-29T12:43:48.5Z".into()),
            ),
            ("Nov  9 12:43:48 x", StampKind::Traditional, "Nov  9 12:43:48", None),
            ("Nov 29 2026 12:43:48.25 x", StampKind::Traditional, "Nov 29 2026 12:43:48.25", None),
            ("Sun 2026-11-29 12:43:48 UTC x", StampKind::Full, "Sun 2026-11-29 12:43:48 UTC", Some(utc.clone())),
            ("1795956228.000000 x", StampKind::Unix, "1795956228.000000", Some(utc)),
            ("[  123.400000] x", StampKind::Monotonic, "[  123.400000]", None),
        ] {
            assert_eq!(at(line), Some((kind, stamp.to_string(), time)), "{line}");
        }
        assert_eq!(at("[pod/x] y"), None);
        assert_eq!(at("2026 bottles"), None);
    }
}
