//! Logs that put stamp and writer before each line: the prefix goes, and each writer's lines become a stream.

use super::Stream;
use super::log_prefix::{Kind, Prefix};
use super::recover::{Recovered, lines};
use super::sample::{Sample, Window};
use super::stamp::StampKind;
use super::{escapes, loss, shape};
use crate::evidence::{ProcessHint, Severity};
use memchr::memmem;
use rustc_hash::FxHashMap;

/// journald splits lines at `LineMax=`, 48 KiB by default, without a mark (systemd `journald-stream.c`).
const JOURNALD_LINE_MAX: usize = 48 * 1024;
/// Writers of one log that get streams of their own; a whole node's journal has a few hundred.
const WRITERS: usize = 4096;
/// Lines that `last message repeated` may add, all together.
const REPEATS: u32 = 100_000;

/// The kind of prefix that most lines of a window have.
fn kind_of(window: &Window<'_>, dump: bool) -> Option<Kind> {
    let (mut all, mut found) = (0usize, [0usize; 5]);
    const KINDS: [Kind; 5] = [Kind::Syslog, Kind::Rfc5424, Kind::Cri, Kind::Kubectl, Kind::Stamped];
    let mut indented = 0;
    for line in window.filled() {
        match Prefix::of(line) {
            Some(prefix) => {
                all += 1;
                if let Some(at) = KINDS.iter().position(|&k| k == prefix.kind) {
                    found[at] += 1;
                }
            }
            None if line.starts_with(b"        ") => indented += 1,
            None => all += 1,
        }
    }
    // The text of merely stamped lines may look like a program's name now and then.
    let stamped = found[0] + found[4];
    for (kind, count) in KINDS.iter().zip(found) {
        let count = if *kind == Kind::Stamped { stamped } else { count };
        let lone = *kind == Kind::Stamped && !dump;
        if count * 10 >= all * 6 && count > 0 && (indented == 0 || *kind == Kind::Syslog) && !lone {
            return Some(*kind);
        }
    }
    None
}

/// Takes the prefixes off, if the text has them.
pub(crate) fn peel(stream: &Stream, sample: &Sample<'_>) -> Option<Vec<Stream>> {
    let dump = !sample.headers.is_empty();
    let kind = sample.all().find_map(|window| kind_of(window, dump))?;
    let mut log = Log::new(stream, kind);
    for (number, line) in lines(stream.text.bytes()) {
        log.line(number, line);
    }
    Some(log.finish())
}

struct Log<'a> {
    outer: &'a Stream,
    kind: Kind,
    streams: Vec<Recovered<'a>>,
    writers: FxHashMap<Vec<u8>, usize>,
    /// Lines before the first entry, and dumps that stand in the file without any prefix.
    loose: Option<usize>,
    /// Stream of the last entry, length of its prefix, and whether the next one of each stream continues a split line.
    last: Option<usize>,
    last_prefix: Vec<u8>,
    goes_on: Vec<bool>,
    torn: bool,
    repeated: u32,
    octal: bool,
    blank_bodies: bool,
    stamp: Option<(StampKind, bool)>,
    scratch: Vec<u8>,
}

impl<'a> Log<'a> {
    fn new(outer: &'a Stream, kind: Kind) -> Self {
        Log {
            outer,
            kind,
            streams: Vec::new(),
            writers: FxHashMap::default(),
            loose: None,
            last: None,
            last_prefix: Vec::new(),
            goes_on: Vec::new(),
            torn: false,
            repeated: 0,
            octal: false,
            blank_bodies: false,
            stamp: None,
            scratch: Vec::new(),
        }
    }

    fn line(&mut self, number: u32, line: &[u8]) {
        // Entries of the same second have the same prefix, byte for byte.
        if let Some(at) = self.last
            && !self.last_prefix.is_empty()
            && line.starts_with(&self.last_prefix)
        {
            let body = line.get(self.last_prefix.len()..).unwrap_or(&[]);
            return self.entry(at, number, body, false);
        }
        match Prefix::of_kind(line, self.kind) {
            Some(prefix) => self.prefixed(number, line, &prefix),
            None => self.bare(number, line),
        }
    }

    fn prefixed(&mut self, number: u32, line: &[u8], prefix: &Prefix) {
        let body = line.get(prefix.text_at..).unwrap_or(&[]);
        if let Some((_, stamp)) = prefix.stamp {
            self.stamp.get_or_insert((
                stamp.kind,
                stamp.len > 25 || (stamp.kind == StampKind::Traditional && stamp.len > 16),
            ));
        }
        if self.torn && self.rejoin(number, line, prefix, body) {
            return;
        }
        let writer = line.get(prefix.writer.clone()).unwrap_or(&[]);
        let at = match self.writers.get(writer) {
            Some(&at) => at,
            None if self.streams.len() >= WRITERS => 0,
            None => {
                let at = self.open(line, prefix);
                self.writers.insert(writer.to_vec(), at);
                at
            }
        };
        if let Some((from, stamp)) = prefix.stamp
            && let Some(time) = stamp.time(line.get(from..).unwrap_or(&[]))
        {
            self.streams[at].written_at(time);
        }
        self.last_prefix.clear();
        // The fast path may only be taken where the prefix itself ends in a blank, or a longer tag would match too.
        if !prefix.partial && line.get(prefix.text_at.saturating_sub(1)) == Some(&b' ') {
            self.last_prefix.extend_from_slice(line.get(..prefix.text_at).unwrap_or(&[]));
        }
        self.entry(at, number, body, prefix.partial);
    }

    fn open(&mut self, line: &[u8], prefix: &Prefix) -> usize {
        let text = |range: std::ops::Range<usize>| {
            let bytes = line.get(range).unwrap_or(&[]);
            (!bytes.is_empty() && bytes != b"-").then(|| String::from_utf8_lossy(bytes).into_owned())
        };
        let mut stream = Recovered::of(self.outer);
        stream.process(ProcessHint {
            pid: prefix.pid,
            name: text(prefix.name.clone()).map(|n| n.strip_suffix(".service").map_or(n.clone(), String::from)),
            host: text(prefix.host.clone()),
            ..ProcessHint::default()
        });
        if self.streams.is_empty() {
            stream.reserve(self.outer.text.bytes().len());
        }
        self.streams.push(stream);
        self.goes_on.push(false);
        self.streams.len() - 1
    }

    fn entry(&mut self, at: usize, number: u32, body: &[u8], partial: bool) {
        self.last = Some(at);
        self.torn = false;
        let goes_on = std::mem::replace(&mut self.goes_on[at], partial || body.len() == JOURNALD_LINE_MAX);
        let stream = &mut self.streams[at];
        if goes_on {
            return stream.join(body, number);
        }
        if body.is_empty() {
            self.blank_bodies = true;
            return stream.line(body, number);
        }
        if matches!(body[0], b'l' | b'm' | b'S' | b'[' | b'i') || body.ends_with(b"ing") {
            if let Some(times) = repeats(body) {
                let again = match times.1 {
                    Some(text) => text.to_vec(),
                    None => stream.last_line().to_vec(),
                };
                for _ in 0..times.0.min(REPEATS - self.repeated) {
                    stream.line(&again, number);
                    self.repeated += 1;
                }
                return;
            }
            if let Some(message) = loss::told_by(body) {
                stream.problem_at(Severity::Warning, number, message.clone());
                // Whoever says it, it is another writer's text that is missing.
                if !message.contains("blob data") {
                    for other in self.streams.iter_mut().enumerate().filter(|(i, _)| *i != at).map(|(_, s)| s) {
                        other.problem_at(Severity::Warning, number, message.clone());
                    }
                }
                self.streams[at].line(body, number);
                return;
            }
        }
        if self.kind != Kind::Cri
            && memchr::memchr(b'#', body).is_some()
            && escapes::undo_octal(body, &mut self.scratch)
        {
            self.octal = true;
            stream.text(&self.scratch, number);
        } else {
            stream.line(body, number);
        }
        self.torn = body.len() > 900 && self.kind != Kind::Cri && escapes::is_open(body);
    }

    /// A line without a prefix: a further line of a message of many lines, or something that was never in this log.
    fn bare(&mut self, number: u32, line: &[u8]) {
        let Some(at) = self.last else {
            return self.aside(number, line);
        };
        if self.torn
            && let Some(stamp) = super::stamp::Stamp::at_start(line)
        {
            let rest = line.get(stamp.len + 1..).unwrap_or(&[]).to_vec();
            return self.continue_torn(at, number, &rest);
        }
        let indent = line.iter().take_while(|&&b| b == b' ').count();
        let width = self.last_prefix.len();
        if indent >= width && width > 0 {
            return self.streams[at].line(line.get(width..).unwrap_or(&[]), number);
        }
        if line.trim_ascii().is_empty() {
            return self.streams[at].line(b"", number);
        }
        // A dump that begins without prefix after a line that is no dump was glued to this log, by hand perhaps.
        let in_dump = shape::is_dump_line(self.streams[at].last_line());
        let begins = shape::starts_dump(line) || shape::is_header(line);
        if begins && !in_dump && self.loose != Some(at) {
            return self.aside(number, line);
        }
        self.streams[at].line(line, number);
    }

    fn aside(&mut self, number: u32, line: &[u8]) {
        let at = match self.loose {
            Some(at) => at,
            None => {
                self.streams.push(Recovered::of(self.outer));
                self.goes_on.push(false);
                self.streams.len() - 1
            }
        };
        self.loose = Some(at);
        self.last = Some(at);
        self.last_prefix.clear();
        self.streams[at].line(line, number);
    }

    /// Puts a message together again that rsyslog cut at its size limit and whose rest it took for a new message.
    ///
    /// Over TCP the rest gets a stamp of its own, and its first word may be taken for a tag: `go: 269` was `go:269`.
    fn rejoin(&mut self, number: u32, line: &[u8], prefix: &Prefix, body: &[u8]) -> bool {
        let Some(at) = self.last else { return false };
        let from_other = prefix.pid.is_none() && prefix.kind == Kind::Syslog;
        if !from_other || memmem::find(body, b"\\n\\t").is_none() || body.starts_with(b"time=") {
            return false;
        }
        let mut rest = line.get(prefix.name.clone()).unwrap_or(&[]).to_vec();
        rest.push(b':');
        rest.extend_from_slice(body);
        self.continue_torn(at, number, &rest);
        true
    }

    fn continue_torn(&mut self, at: usize, number: u32, rest: &[u8]) {
        let stream = &mut self.streams[at];
        stream.problem_at(
            Severity::Warning,
            number,
            "a log message was split at a size limit and its rest logged as a new one; it was joined again, characters at the seam may be lost",
        );
        stream.join(rest, number);
        self.torn = !escapes::odd_quotes(rest);
    }

    fn finish(self) -> Vec<Stream> {
        let name = self.name();
        let loose = self.loose;
        let streams = self.streams.into_iter().enumerate();
        streams
            .filter(|(_, stream)| !stream.is_empty())
            .map(|(at, stream)| stream.finish(if Some(at) == loose { "" } else { name }))
            .collect()
    }

    /// The tool that wrote it, as far as its habits tell.
    fn name(&self) -> &'static str {
        let rsyslog = self.octal || self.blank_bodies;
        match (self.kind, self.stamp) {
            (Kind::Rfc5424, _) => "rsyslog-rfc5424",
            (Kind::Cri, _) => "cri",
            (Kind::Kubectl, _) => "kubectl-prefix",
            (Kind::Stamped, _) => "timestamps",
            (Kind::Syslog, Some((StampKind::Traditional, false))) if rsyslog => "rsyslog",
            (Kind::Syslog, Some((StampKind::Traditional, false))) => "journald-short",
            (Kind::Syslog, Some((StampKind::Traditional, true))) => "journald-short-precise",
            (Kind::Syslog, Some((StampKind::Iso, false))) => "journald-short-iso",
            (Kind::Syslog, Some((StampKind::Iso, true))) => "rsyslog-rfc3339",
            (Kind::Syslog, Some((StampKind::Full, _))) => "journald-short-full",
            (Kind::Syslog, Some((StampKind::Unix, _))) => "journald-short-unix",
            (Kind::Syslog, Some((StampKind::Monotonic, _))) => "console",
            (Kind::Syslog, None) => "syslog-tag",
        }
    }
}

/// `last message repeated 7 times` (old syslogd) or `message repeated 7 times: [ text]` (rsyslog).
fn repeats(body: &[u8]) -> Option<(u32, Option<&[u8]>)> {
    let rest = body.strip_prefix(b"last ").unwrap_or(body).strip_prefix(b"message repeated ")?;
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let times = std::str::from_utf8(rest.get(..digits)?).ok()?.parse().ok()?;
    let rest = rest.get(digits..)?.strip_prefix(b" times")?;
    if rest.is_empty() {
        return Some((times, None));
    }
    let text = rest.strip_prefix(b": [ ").or_else(|| rest.strip_prefix(b": ["))?.strip_suffix(b"]")?;
    Some((times, Some(text)))
}
