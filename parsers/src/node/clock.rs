//! Times and prefixes of log lines: journald, syslog, `dmesg`, klog, logrus, CRI.

use crate::evidence::WallTime;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use std::borrow::Cow;

/// A moment as printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct When {
    civil: DateTime,
    year_known: bool,
    /// Seconds east of UTC.
    offset: Option<i32>,
}

impl When {
    /// The moment, a missing zone taken as UTC.
    pub(super) fn timestamp(self) -> Option<Timestamp> {
        if !self.year_known {
            return None;
        }
        let offset = Offset::from_seconds(self.offset.unwrap_or(0)).ok()?;
        offset.to_timestamp(self.civil).ok()
    }

    /// Set where zone or year are missing.
    pub(super) fn wall(self) -> Option<WallTime> {
        match (self.offset, self.year_known) {
            (Some(_), true) => None,
            _ => Some(WallTime { at: self.civil, year_known: self.year_known }),
        }
    }

    /// How much the printed form told.
    fn precision(self) -> u8 {
        u8::from(self.year_known) + 2 * u8::from(self.year_known && self.offset.is_some())
    }
}

/// What stood before a message.
#[derive(Debug, Clone, Default)]
pub(super) struct Prefix {
    pub when: Option<When>,
    /// Seconds since boot.
    pub uptime: Option<f64>,
    pub host: Option<String>,
    pub program: Option<String>,
    pub pid: Option<u32>,
    /// A prefix that only daemons' own loggers write: klog's header, logrus' fields.
    pub logger: bool,
    /// Any prefix at all.
    pub any: bool,
    /// The kernel spoke: `kernel:`, or a time in brackets.
    pub kernel: bool,
}

/// Takes the prefixes off `line`; several may be nested (journald around klog).
///
/// `year` completes times that lack theirs.
pub(super) fn strip<'a>(line: &'a str, reference: Option<Timestamp>) -> (Prefix, Cow<'a, str>) {
    let mut prefix = Prefix::default();
    let mut rest = line;
    for _ in 0..5 {
        let Some((step, behind)) = one(rest) else {
            break;
        };
        prefix.any = true;
        prefix.logger |= step.logger;
        prefix.kernel |= step.kernel || step.program.as_deref() == Some("kernel");
        prefix.uptime = step.uptime.or(prefix.uptime);
        if let Some(when) = step.when
            && prefix.when.is_none_or(|known| when.precision() >= known.precision())
        {
            prefix.when = Some(when);
        }
        prefix.host = prefix.host.or(step.host);
        prefix.program = step.program.or(prefix.program);
        prefix.pid = prefix.pid.or(step.pid);
        rest = behind;
    }
    let mut message = Cow::Borrowed(rest);
    if let Some((when, text)) = logrus(rest) {
        prefix.any = true;
        prefix.logger = true;
        if let Some(when) = when
            && prefix.when.is_none_or(|known| when.precision() >= known.precision())
        {
            prefix.when = Some(when);
        }
        message = text;
    }
    if let (Some(when), Some(reference)) = (&mut prefix.when, reference)
        && !when.year_known
    {
        let wall = WallTime { at: when.civil, year_known: false }.with_year_near(reference);
        when.civil = wall.at;
        when.year_known = wall.year_known;
    }
    (prefix, message)
}

fn one(text: &str) -> Option<(Prefix, &str)> {
    let first = *text.as_bytes().first()?;
    match first {
        b'<' => {
            let (level, rest) = text.get(1..)?.split_once('>')?;
            // Facility 0 is the kernel's: priorities below 8.
            let priority: u8 = level.parse().ok().filter(|p| *p < 192)?;
            Some((Prefix { kernel: priority < 8, ..Prefix::default() }, rest))
        }
        b'[' => bracket(text),
        b'I' | b'W' | b'E' | b'F' | b'D' if text.as_bytes().get(1).is_some_and(u8::is_ascii_digit) => klog(text),
        b'0'..=b'9' => iso(text).or_else(|| short(text)),
        _ => short(text),
    }
}

/// `[  123.456789] `, `[Sun Nov 29 12:04:44 2026] `, and the caller of `CONFIG_PRINTK_CALLER`.
fn bracket(text: &str) -> Option<(Prefix, &str)> {
    let (inside, behind) = text.get(1..)?.split_once(']')?;
    let mut rest = behind;
    if let Some((caller, more)) = rest.strip_prefix('[').and_then(|r| r.split_once(']'))
        && caller.trim_start().starts_with(['T', 'C'])
        && caller.trim_start()[1..].bytes().all(|b| b.is_ascii_digit())
    {
        rest = more;
    }
    let rest = rest.strip_prefix(' ').unwrap_or(rest);
    let inside = inside.trim();
    if let Some((seconds, micros)) = inside.split_once('.')
        && seconds.bytes().all(|b| b.is_ascii_digit())
        && !seconds.is_empty()
        && micros.len() >= 3
        && micros.bytes().all(|b| b.is_ascii_digit())
    {
        return Some((Prefix { uptime: inside.parse().ok(), kernel: true, ..Prefix::default() }, rest));
    }
    let parts: Vec<&str> = inside.split_whitespace().collect();
    // Of a foreign locale the words may be unknown, but the shape is not.
    if let [_, month, day, time, year] = parts[..]
        && time.matches(':').count() == 2
    {
        let when = civil(year.parse().ok()?, month_number(month).unwrap_or(0), day.parse().ok()?, time);
        let when = when.map(|civil| When { civil, year_known: true, offset: None });
        return Some((Prefix { when, kernel: true, ..Prefix::default() }, rest));
    }
    None
}

/// `I1129 13:06:29.210793   14732 flags.go:59] `
fn klog(text: &str) -> Option<(Prefix, &str)> {
    let digits = text.get(1..5)?;
    let (month, day) = (digits.get(..2)?.parse().ok()?, digits.get(2..)?.parse().ok()?);
    let (head, message) =
        text.get(5..)?.strip_prefix(' ')?.split_once("] ").or_else(|| text.get(6..)?.split_once(']'))?;
    let mut parts = head.split_whitespace();
    let civil = civil(2000, month, day, parts.next()?)?;
    let pid = parts.next()?.parse().ok()?;
    let site = parts.next()?;
    if !site.contains(':') || parts.next().is_some() {
        return None;
    }
    let when = Some(When { civil, year_known: false, offset: None });
    // klog's "pid" was a thread id before 1.0 and is 1 in many builds; still it is what the line says.
    Some((Prefix { when, pid: Some(pid), logger: true, ..Prefix::default() }, message))
}

/// Times that begin with a year, and what may follow: CRI's stream, or host and program.
fn iso(text: &str) -> Option<(Prefix, &str)> {
    let (when, rest) = iso_time(text)?;
    let mut prefix = Prefix { when: Some(when), ..Prefix::default() };
    let rest = rest.strip_prefix([' ', '\t'])?;
    // Only `dmesg --time-format iso` writes microseconds behind a comma and the zone at once.
    if when.offset.is_some() && text.as_bytes().get(19) == Some(&b',') && text.as_bytes().get(10) == Some(&b'T') {
        prefix.kernel = true;
        return Some((prefix, rest));
    }
    for stream in ["stdout F ", "stderr F ", "stdout P ", "stderr P "] {
        if let Some(rest) = rest.strip_prefix(stream) {
            return Some((prefix, rest));
        }
    }
    if let Some((host, program, pid, rest)) = host_and_program(rest) {
        prefix.host = Some(host.to_string());
        prefix.program = Some(program.to_string());
        prefix.pid = pid;
        return Some((prefix, rest));
    }
    Some((prefix, rest))
}

/// `2026-11-29T12:04:44.123+01:00`, `2026-11-29 12:04:44,123`, also with ` UTC` behind.
fn iso_time(text: &str) -> Option<(When, &str)> {
    let bytes = text.as_bytes();
    if bytes.get(4) != Some(&b'-') && bytes.get(4) != Some(&b'/') {
        return None;
    }
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<i16>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    if !matches!(bytes.get(10), Some(b'T' | b't' | b' ')) {
        return None;
    }
    let tail = text.get(11..)?;
    let end = tail.find(|c: char| !(c.is_ascii_digit() || matches!(c, ':' | '.' | ','))).unwrap_or(tail.len());
    let civil = civil(year, month as i8, day as i8, tail.get(..end)?.trim_end_matches([',', '.', ':']))?;
    let mut rest = tail.get(end..)?;
    let mut offset = None;
    if let Some(behind) = rest.strip_prefix(['Z', 'z']) {
        (offset, rest) = (Some(0), behind);
    } else if let Some(behind) = rest.strip_prefix(" UTC").or_else(|| rest.strip_prefix(" +0000 UTC")) {
        (offset, rest) = (Some(0), behind);
    } else {
        let signed = rest.strip_prefix(' ').filter(|r| r.starts_with(['+', '-'])).unwrap_or(rest);
        if let Some((seconds, behind)) = numeric_offset(signed) {
            (offset, rest) = (Some(seconds), behind);
        }
    }
    Some((When { civil, year_known: true, offset }, rest))
}

fn numeric_offset(text: &str) -> Option<(i32, &str)> {
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let hours: i32 = text.get(1..3)?.parse().ok()?;
    let rest = text.get(3..)?;
    let rest = rest.strip_prefix(':').unwrap_or(rest);
    let minutes: i32 = rest.get(..2)?.parse().ok()?;
    Some((sign * (hours * 3600 + minutes * 60), rest.get(2..)?))
}

/// `Nov 29 12:04:44 host prog[pid]: `, `Sun 2026-11-29 12:04:44 UTC host prog[pid]: `.
fn short(text: &str) -> Option<(Prefix, &str)> {
    let (first, after) = text.split_once(' ')?;
    if first.len() > 16 {
        return None;
    }
    let full = iso_time(after).filter(|(when, _)| when.year_known);
    let (when, rest) = if let Some((when, rest)) = full {
        // A zone's name (`CST`) says nothing certain.
        let rest = rest.strip_prefix(' ').unwrap_or(rest);
        let zone = rest.split(' ').next().unwrap_or("");
        let named = zone.len() <= 5 && !zone.is_empty() && zone.bytes().all(|b| b.is_ascii_uppercase());
        (when, if named { rest.get(zone.len()..)?.trim_start() } else { rest })
    } else {
        let month = month_number(first)?;
        let after = after.trim_start();
        let (day, after) = after.split_once(' ')?;
        let (time, rest) = after.split_once(' ')?;
        let civil = civil(2000, month, day.trim_end_matches('.').parse().ok()?, time)?;
        (When { civil, year_known: false, offset: None }, rest)
    };
    let (host, program, pid, rest) = host_and_program(rest)?;
    let prefix = Prefix {
        when: Some(when),
        host: Some(host.to_string()),
        program: Some(program.to_string()),
        pid,
        ..Prefix::default()
    };
    Some((prefix, rest))
}

fn host_and_program(text: &str) -> Option<(&str, &str, Option<u32>, &str)> {
    let (host, after) = text.split_once(' ')?;
    let (tag, message) = after.split_once(": ").or_else(|| after.strip_suffix(':').map(|tag| (tag, "")))?;
    if host.is_empty() || host.ends_with(':') || tag.is_empty() || tag.len() > 80 || tag.contains(' ') {
        return None;
    }
    if tag.contains(['"', '=', '/', '{']) || host.contains(['"', '=', '[', '{']) {
        return None;
    }
    match tag.strip_suffix(']').and_then(|t| t.split_once('[')) {
        Some((program, pid)) => Some((host, program, Some(pid.parse().ok()?), message)),
        None => Some((host, tag, None, message)),
    }
}

/// `time="…" level=error msg="…" error="…"`: the time, and the message with its other fields behind.
fn logrus(text: &str) -> Option<(Option<When>, Cow<'_, str>)> {
    let after = text.strip_prefix("time=")?;
    let (time, rest) = match after.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?,
        None => after.split_once(' ')?,
    };
    let rest = rest.trim_start();
    let rest = match rest.strip_prefix("level=") {
        Some(level) => level.split_once(' ')?.1,
        None => rest,
    };
    Some((iso_time(time).map(|(when, _)| when), Cow::Borrowed(rest)))
}

fn civil(year: i16, month: i8, day: i8, time: &str) -> Option<DateTime> {
    let mut parts = time.split(':');
    let hour = parts.next()?.parse().ok()?;
    let minute = parts.next()?.parse().ok()?;
    let seconds = parts.next()?;
    if parts.next().is_some() {
        return None;
    }
    let (second, fraction) = seconds.split_once(['.', ',']).unwrap_or((seconds, ""));
    let mut nanos = 0i32;
    let digits = fraction.bytes().take(9).filter(u8::is_ascii_digit);
    let mut scale = 100_000_000;
    for digit in digits {
        nanos += i32::from(digit - b'0') * scale;
        scale /= 10;
    }
    DateTime::new(year, month, day, hour, minute, second.parse().ok()?, nanos).ok()
}

/// The five words of `lstart`: `Sun Nov 29 12:04:44 2026`, in any known locale.
pub(super) fn lstart(words: &[&str]) -> Option<WallTime> {
    let [_, month, day, time, year] = words.get(..5)? else {
        return None;
    };
    let civil = civil(year.parse().ok()?, month_number(month)?, day.parse().ok()?, time)?;
    Some(WallTime { at: civil, year_known: true })
}

/// A time in full, alone on its line or in a field: RFC 3339, or `Sun, 29 Nov 2026 12:04:44 +0000` (kubectl).
pub(super) fn alone(text: &str) -> Option<When> {
    let text = text.trim();
    if let Some((when, rest)) = iso_time(text) {
        return rest.trim().is_empty().then_some(when);
    }
    let (weekday, rest) = text.split_once(", ")?;
    if weekday.len() > 12 {
        return None;
    }
    let parts: Vec<&str> = rest.split(' ').collect();
    let [day, month, year, time, zone] = parts[..] else {
        return None;
    };
    let civil = civil(year.parse().ok()?, month_number(month)?, day.parse().ok()?, time)?;
    Some(When { civil, year_known: true, offset: numeric_offset(zone).map(|(seconds, _)| seconds) })
}

/// Month names as C libraries print them with `%b`: English, German, French, Spanish, Portuguese, Italian, Russian,
/// and the numbers of Chinese and Japanese.
fn month_number(name: &str) -> Option<i8> {
    if let Some(number) = name.strip_suffix('月') {
        return number.parse().ok().filter(|n| (1..=12).contains(n));
    }
    const MONTHS: [&str; 12] = [
        "jan janv ene gen янв",
        "feb févr fev fév фев",
        "mar mär mars märz мар",
        "apr avril abr avr апр",
        "may mai maio mag мая май",
        "jun juin giu июн",
        "jul juil lug июл",
        "aug août ago авг",
        "sep sept set сен",
        "oct okt out ott окт",
        "nov ноя",
        "dec dez déc dic дек",
    ];
    let name = name.trim_end_matches('.');
    if name.len() < 3 || name.len() > 10 {
        return None;
    }
    let name = name.to_lowercase();
    MONTHS.iter().position(|names| names.split(' ').any(|n| n == name)).map(|i| i as i8 + 1)
}

/// A moment that a file's name tells: `goroutine-stacks-2026-11-29T122007Z.log`, `ps-20261129-120444.txt`.
pub(super) fn in_name(path: &str) -> Option<Timestamp> {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    let digits: Vec<(usize, u8)> = name.bytes().enumerate().filter(|(_, b)| b.is_ascii_digit()).collect();
    for window in digits.windows(8) {
        let (first, last) = (window.first()?.0, window.last()?.0);
        if last - first > 9 {
            continue;
        }
        let text: String = window.iter().map(|(_, b)| *b as char).collect();
        let (year, month, day) = (text[..4].parse().ok()?, text[4..6].parse().ok()?, text[6..].parse().ok()?);
        if (2009..2100).contains(&year)
            && let Ok(noon) = DateTime::new(year, month, day, 23, 59, 59, 0)
        {
            return Offset::UTC.to_timestamp(noon).ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: &str) -> (String, Prefix, String) {
        let (prefix, rest) = strip(line, None);
        let at = prefix.when.and_then(When::timestamp).map_or(String::new(), |t| t.to_string());
        (at, prefix.clone(), rest.into_owned())
    }

    #[test]
    fn prefixes_of_all_kinds() {
        let cases = [
            ("[Sun Nov 29 12:04:44 2026] INFO: x", "2026-11-29T12:04:44Z", "INFO: x"),
            ("[日 11月 29 12:04:44 2026] INFO: x", "2026-11-29T12:04:44Z", "INFO: x"),
            ("[So Dez  6 12:04:44 2026] INFO: x", "2026-12-06T12:04:44Z", "INFO: x"),
            ("[  123.456789] INFO: x", "", "INFO: x"),
            ("[  123.456789][ T1234] INFO: x", "", "INFO: x"),
            ("<3>[  123.456789] INFO: x", "", "INFO: x"),
            ("2026-11-29T12:04:44,123456+01:00 INFO: x", "2026-11-29T11:04:44.123456Z", "INFO: x"),
            ("2026-11-29T12:04:44+0800 n1 kernel: INFO: x", "2026-11-29T04:04:44Z", "INFO: x"),
            ("Sun 2026-11-29 12:04:44 UTC n1 kernel: INFO: x", "2026-11-29T12:04:44Z", "INFO: x"),
            ("Sun 2026-11-29 12:04:44 CST n1 kernel: INFO: x", "2026-11-29T12:04:44Z", "INFO: x"),
            ("Nov 29 12:04:44 n1 kernel: [  12.345678] INFO: x", "", "INFO: x"),
            ("2026-11-29T12:04:44.5Z stderr F INFO: x", "2026-11-29T12:04:44.5Z", "INFO: x"),
            ("Nov 29 12:04:44 n1 kubelet[7]: E1129 12:04:44.5 7 a.go:5] INFO: x", "", "INFO: x"),
            (
                "Nov 29 12:04:44 n1 dockerd[7]: time=\"2026-11-29T12:04:44.25Z\" level=error msg=\"x\"",
                "2026-11-29T12:04:44.25Z",
                "msg=\"x\"",
            ),
            ("INFO: task x", "", "INFO: task x"),
        ];
        for (line, time, rest) in cases {
            let (when, _, message) = at(line);
            assert_eq!((when.as_str(), message.as_str()), (time, rest), "{line}");
        }
        let (_, prefix, _) = at("Nov 29 12:04:44 n1 kubelet[7]: E1129 12:04:44.5 7 a.go:5] INFO: x");
        assert_eq!(
            (prefix.host.as_deref(), prefix.program.as_deref(), prefix.pid),
            (Some("n1"), Some("kubelet"), Some(7))
        );
        assert!(at("2026-11-29T12:04:44,1+01:00 x").1.when.and_then(When::wall).is_none());
        assert!(at("[Sun Nov 29 12:04:44 2026] x").1.when.and_then(When::wall).is_some());
    }

    #[test]
    fn a_missing_year_is_taken_from_the_context() {
        let reference = in_name("x/goroutine-stacks-2026-01-02T122007Z.log");
        let (prefix, _) = strip("I1229 13:06:29.210793   14732 flags.go:59] x", reference);
        assert_eq!(
            prefix.when.and_then(When::timestamp).map(|t| t.to_string()).as_deref(),
            Some("2025-12-29T13:06:29.210793Z")
        );
        let (prefix, _) = strip("I0102 13:06:29.210793   14732 flags.go:59] x", reference);
        assert_eq!(
            prefix.when.and_then(When::timestamp).map(|t| t.to_string()).as_deref(),
            Some("2026-01-02T13:06:29.210793Z")
        );
        assert_eq!(in_name("core-containerd-8684.core.zst"), None);
    }

    #[test]
    fn what_is_no_prefix_stays() {
        for line in
            ["goroutine 1 [running]:", "main.main()", "\t/a/b.go:5 +0x1", "[<0>] f+0x1/0x2", "", "[", "I1", "<5"]
        {
            let (prefix, rest) = strip(line, None);
            assert!(!prefix.any, "{line}");
            assert_eq!(rest, line);
        }
    }
}
