//! What log daemons and log viewers put in front of a line: stamp, host, program, pid, stream.
//!
//! journald's short forms (systemd `logs-show.c`), rsyslog's templates (`template.c`: traditional, RFC 3339, RFC 5424),
//! the CRI log format (kubelet `cri/kuberuntime/logs`), `docker logs -t`, `kubectl logs --prefix`.

use super::stamp::{Stamp, StampKind};
use std::ops::Range;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `STAMP [HOST ]TAG[PID]: text`: journald's short forms, rsyslog's files, a serial console.
    Syslog,
    /// `<30>1 STAMP HOST APP PID MSGID SD text`.
    Rfc5424,
    /// `STAMP stdout|stderr P|F text`.
    Cri,
    /// `[pod/NAME/CONTAINER] text`.
    Kubectl,
    /// `STAMP text`.
    Stamped,
}

/// A line's prefix.
#[derive(Debug, Clone)]
pub(crate) struct Prefix {
    pub kind: Kind,
    /// Where the text begins.
    pub text_at: usize,
    /// The stamp, if there is one, and where it begins.
    pub stamp: Option<(usize, Stamp)>,
    /// What tells the writer apart from others: host, program and pid, or the stream.
    pub writer: Range<usize>,
    pub host: Range<usize>,
    pub name: Range<usize>,
    pub pid: Option<u32>,
    /// The text goes on in the next entry of the same writer (CRI's `P`).
    pub partial: bool,
}

impl Prefix {
    fn new(kind: Kind, text_at: usize) -> Self {
        Prefix { kind, text_at, stamp: None, writer: 0..0, host: 0..0, name: 0..0, pid: None, partial: false }
    }

    /// The prefix of `line`, whatever kind it is.
    pub fn of(line: &[u8]) -> Option<Self> {
        if let Some(prefix) = kubectl(line).or_else(|| rfc5424(line)) {
            return Some(prefix);
        }
        let pri = priority(line);
        let stamped = line.get(pri..)?;
        let Some(stamp) = Stamp::at_start(stamped) else {
            // A paste may have lost the stamps; then only a pid makes a program's name of a first word.
            let blanks = stamped.iter().take_while(|&&b| b == b' ').count().min(2);
            return syslog(line, pri + blanks).filter(|p| p.pid.is_some());
        };
        let at = pri + stamp.len + 1;
        if stamp.kind == StampKind::Iso
            && let Some(mut prefix) = cri(line, at)
        {
            prefix.stamp = Some((pri, stamp));
            return Some(prefix);
        }
        if let Some(mut prefix) = syslog(line, at) {
            prefix.stamp = Some((pri, stamp));
            // `[  1.5] INFO: task …` is the kernel's own line.
            if stamp.kind != StampKind::Monotonic || prefix.pid.is_some() {
                return Some(prefix);
            }
        }
        if stamp.kind == StampKind::Monotonic {
            return None;
        }
        let mut prefix = Prefix::new(Kind::Stamped, at.min(line.len()));
        prefix.stamp = Some((pri, stamp));
        Some(prefix)
    }

    /// The prefix of `line` if it is of this kind.
    pub fn of_kind(line: &[u8], kind: Kind) -> Option<Self> {
        let found = Prefix::of(line)?;
        if found.kind == kind {
            return Some(found);
        }
        // What looks like a program's name may be the text of a merely stamped line: `STAMP panic: …`.
        if kind == Kind::Stamped && matches!(found.kind, Kind::Syslog | Kind::Cri) {
            let (at, stamp) = found.stamp?;
            let text_at = (at + stamp.len + 1).min(line.len());
            return Some(Prefix { stamp: Some((at, stamp)), ..Prefix::new(Kind::Stamped, text_at) });
        }
        None
    }
}

fn kubectl(line: &[u8]) -> Option<Prefix> {
    let rest = line.strip_prefix(b"[pod/")?;
    let end = memchr::memchr(b']', rest)?;
    let path = rest.get(..end)?;
    let slash = memchr::memrchr(b'/', path)?;
    if path.contains(&b' ') || !matches!(rest.get(end + 1), None | Some(b' ')) {
        return None;
    }
    let mut prefix = Prefix::new(Kind::Kubectl, (5 + end + 2).min(line.len()));
    prefix.writer = 5..5 + end;
    prefix.name = 5 + slash + 1..5 + end;
    Some(prefix)
}

/// Length of `<30>` at the start, or 0.
fn priority(line: &[u8]) -> usize {
    let Some(rest) = line.strip_prefix(b"<") else {
        return 0;
    };
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    if (1..=3).contains(&digits) && rest.get(digits) == Some(&b'>') { digits + 2 } else { 0 }
}

fn rfc5424(line: &[u8]) -> Option<Prefix> {
    let pri = priority(line);
    if pri == 0 || !line.get(pri..)?.starts_with(b"1 ") {
        return None;
    }
    let stamp_at = pri + 2;
    let stamp = Stamp::at_start(line.get(stamp_at..)?)?;
    let mut at = stamp_at + stamp.len + 1;
    let mut word = || {
        let len = memchr::memchr(b' ', line.get(at..)?)?;
        let range = at..at + len;
        at += len + 1;
        Some(range)
    };
    let (host, name, pid, _message_id) = (word()?, word()?, word()?, word()?);
    let mut data = at;
    if line.get(data) == Some(&b'-') {
        data += 1;
    } else {
        while line.get(data) == Some(&b'[') {
            let mut escaped = false;
            let close = line.get(data..)?.iter().position(|&b| {
                let found = b == b']' && !escaped;
                escaped = b == b'\\' && !escaped;
                found
            })?;
            data += close + 1;
        }
    }
    // rsyslog's template puts one blank before %msg%, which itself begins with the blank after `tag:`.
    let blanks = line.get(data..)?.iter().take(2).take_while(|&&b| b == b' ').count();
    let mut prefix = Prefix::new(Kind::Rfc5424, (data + blanks).min(line.len()));
    prefix.stamp = Some((stamp_at, stamp));
    prefix.pid = number(line.get(pid.clone())?);
    prefix.writer = host.start..pid.end;
    prefix.host = host;
    prefix.name = name;
    Some(prefix)
}

fn cri(line: &[u8], at: usize) -> Option<Prefix> {
    let rest = line.get(at..)?;
    if !rest.starts_with(b"stdout ") && !rest.starts_with(b"stderr ") {
        return None;
    }
    let tag = rest.get(7..)?;
    let partial = match tag.first()? {
        b'P' => true,
        b'F' => false,
        _ => return None,
    };
    // Tags may be several, parted by colons: `F:…`.
    let len = tag.iter().position(|&b| b == b' ').unwrap_or(tag.len());
    if len > 1 && tag.get(1) != Some(&b':') {
        return None;
    }
    let mut prefix = Prefix::new(Kind::Cri, (at + 7 + len + 1).min(line.len()));
    prefix.writer = at..at + 6;
    prefix.partial = partial;
    Some(prefix)
}

/// `[HOST ]TAG[PID]: ` at `at`.
fn syslog(line: &[u8], at: usize) -> Option<Prefix> {
    let rest = line.get(at..)?;
    let first = word(rest)?;
    let (host, tag_at) = match first.last() {
        Some(b':') => (at..at, at),
        _ => (at..at + first.len(), at + first.len() + 1),
    };
    let tag = word(line.get(tag_at..)?)?;
    let body = tag.strip_suffix(b":")?;
    let (name_len, pid) = match body.strip_suffix(b"]") {
        Some(inner) => {
            let open = memchr::memrchr(b'[', inner)?;
            (open, Some(number(inner.get(open + 1..)?)?))
        }
        None => (body.len(), None),
    };
    let name = body.get(..name_len)?;
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_.@/()+".contains(b) || *b >= 0x80;
    if name.is_empty() || name.len() > 128 || !name.iter().all(plain) || host.len() > 255 {
        return None;
    }
    if !line.get(host.clone())?.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.:".contains(b)) {
        return None;
    }
    let end = tag_at + tag.len();
    let blank = usize::from(line.get(end) == Some(&b' '));
    let mut prefix = Prefix::new(Kind::Syslog, end + blank);
    prefix.writer = at..end;
    prefix.host = host;
    prefix.name = tag_at..tag_at + name_len;
    prefix.pid = pid;
    Some(prefix)
}

fn word(text: &[u8]) -> Option<&[u8]> {
    let text = text.get(..text.len().min(300))?;
    let len = memchr::memchr(b' ', text).unwrap_or(text.len());
    text.get(..len).filter(|w| !w.is_empty())
}

fn number(digits: &[u8]) -> Option<u32> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(line: &str) -> Option<(Kind, &str, &str, Option<u32>, &str)> {
        let p = Prefix::of(line.as_bytes())?;
        Some((p.kind, &line[p.host], &line[p.name], p.pid, &line[p.text_at..]))
    }

    #[test]
    fn every_kind_of_prefix() {
        for (line, want) in [
            ("Nov 29 12:43:40 node-1 kubelet[7]: x", (Kind::Syslog, "node-1", "kubelet", Some(7), "x")),
            ("Nov 29 12:43:40 kubelet[7]: x", (Kind::Syslog, "", "kubelet", Some(7), "x")),
            ("Nov 29 12:43:40 node-1 kubelet[7]:", (Kind::Syslog, "node-1", "kubelet", Some(7), "")),
            ("kubelet[7]: x", (Kind::Syslog, "", "kubelet", Some(7), "x")),
            ("<30>1 2026-11-29T12:43:48.3+00:00 n k 42 - -  x", (Kind::Rfc5424, "n", "k", Some(42), "x")),
            ("<30>1 2026-11-29T12:43:48Z n k - - [a b=\"\\]\"] x", (Kind::Rfc5424, "n", "k", None, "x")),
            ("2026-11-29T12:16:31.18+00:00 stderr F x", (Kind::Cri, "", "", None, "x")),
            ("2026-11-29T12:16:31.18Z x: y", (Kind::Syslog, "", "x", None, "y")),
            ("2026-11-29T12:16:31.18Z x y", (Kind::Stamped, "", "", None, "x y")),
            ("[pod/a-b/c] x", (Kind::Kubectl, "", "c", None, "x")),
            ("[    1.500000] kubelet[7]: x", (Kind::Syslog, "", "kubelet", Some(7), "x")),
        ] {
            assert_eq!(parts(line), Some(want), "{line}");
        }
        assert_eq!(parts("[    1.500000] INFO: task runc:12 blocked"), None);
        assert_eq!(parts("goroutine 1 [running]:"), None);
        assert_eq!(parts("panic: x"), None);
    }
}
