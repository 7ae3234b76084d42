//! journald's structured forms: `-o export` and `-o verbose` (systemd `logs-show.c`, "Journal Export Formats").

use super::Stream;
use super::recover::{Recovered, lines};
use super::{loss, stamp};
use crate::evidence::{ProcessHint, Severity};
use jiff::Timestamp;
use rustc_hash::FxHashMap;

/// One entry's fields that matter.
#[derive(Default)]
struct Entry {
    message: Option<(u32, Vec<u8>)>,
    host: Vec<u8>,
    name: Vec<u8>,
    pid: Vec<u8>,
    stream: Vec<u8>,
    time: Option<Timestamp>,
}

impl Entry {
    fn set(&mut self, field: &[u8], value: &[u8], number: u32) {
        let target = match field {
            b"MESSAGE" => {
                self.message = Some((number, value.to_vec()));
                return;
            }
            b"__REALTIME_TIMESTAMP" => {
                let micros = std::str::from_utf8(value).ok().and_then(|t| t.trim().parse().ok());
                self.time = micros.and_then(|m| Timestamp::from_microsecond(m).ok());
                return;
            }
            b"_HOSTNAME" => &mut self.host,
            b"SYSLOG_IDENTIFIER" => &mut self.name,
            b"_COMM" if self.name.is_empty() => &mut self.name,
            b"_PID" => &mut self.pid,
            b"SYSLOG_PID" if self.pid.is_empty() => &mut self.pid,
            b"_STREAM_ID" => &mut self.stream,
            _ => return,
        };
        target.clear();
        target.extend_from_slice(value);
    }
}

/// Entries by writer.
struct Journal<'a> {
    outer: &'a Stream,
    streams: Vec<(Recovered<'a>, bool)>,
    writers: FxHashMap<Vec<u8>, usize>,
}

impl<'a> Journal<'a> {
    fn new(outer: &'a Stream) -> Self {
        Journal { outer, streams: Vec::new(), writers: FxHashMap::default() }
    }

    fn push(&mut self, entry: &mut Entry) {
        let entry = std::mem::take(entry);
        let Some((number, message)) = entry.message else { return };
        let key = [&entry.host[..], &entry.name, &entry.pid, &entry.stream].join(&0);
        let at = match self.writers.get(&key) {
            Some(&at) => at,
            None => {
                let text = |t: &[u8]| (!t.is_empty()).then(|| String::from_utf8_lossy(t).into_owned());
                let mut stream = Recovered::of(self.outer);
                stream.process(ProcessHint {
                    pid: text(&entry.pid).and_then(|p| p.parse().ok()),
                    name: text(&entry.name),
                    host: text(&entry.host),
                    ..ProcessHint::default()
                });
                self.streams.push((stream, false));
                self.writers.insert(key, self.streams.len() - 1);
                self.streams.len() - 1
            }
        };
        if let Some(lost) = loss::told_by(&message) {
            for (stream, _) in &mut self.streams {
                stream.problem_at(Severity::Warning, number, lost.clone());
            }
        }
        let Some((stream, goes_on)) = self.streams.get_mut(at) else { return };
        if let Some(time) = entry.time {
            stream.written_at(time);
        }
        // journald splits long lines without a mark, at its LineMax=.
        if std::mem::replace(goes_on, message.len() == 48 * 1024) {
            return stream.join(&message, number);
        }
        for (line, text) in lines(&message) {
            // A message of many lines covers as many of the export.
            stream.line(text, number.saturating_add(line - 1));
        }
    }

    fn finish(self, name: &str) -> Option<Vec<Stream>> {
        let streams: Vec<Stream> = self.streams.into_iter().map(|(stream, _)| stream.finish(name)).collect();
        (!streams.is_empty()).then_some(streams)
    }
}

/// `FIELD=value` lines, entries parted by empty lines; a value with control characters has its length in binary.
pub(crate) fn export(stream: &Stream) -> Option<Vec<Stream>> {
    let bytes = stream.text.bytes();
    let start = bytes.get(..bytes.len().min(4096))?;
    let named = |name: &[u8]| start.starts_with(name) || memchr::memmem::find(start, &[b"\n", name].concat()).is_some();
    let export = named(b"__CURSOR=") || (named(b"__REALTIME_TIMESTAMP=") && named(b"MESSAGE"));
    if !export {
        return None;
    }
    let mut journal = Journal::new(stream);
    let mut entry = Entry::default();
    let (mut at, mut number) = (0usize, 1u32);
    while let Some(rest) = bytes.get(at..).filter(|r| !r.is_empty()) {
        let len = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let line = rest.get(..len)?;
        at += len + 1;
        if line.is_empty() {
            journal.push(&mut entry);
        } else if let Some(equals) = memchr::memchr(b'=', line) {
            entry.set(line.get(..equals)?, line.get(equals + 1..)?, number);
        } else if line.iter().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || *b == b'_') {
            let Some(length) = bytes.get(at..at + 8).and_then(|l| <[u8; 8]>::try_from(l).ok()) else { break };
            let length = usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX);
            let end = (at + 8).saturating_add(length).min(bytes.len());
            let value = bytes.get(at + 8..end).unwrap_or(&[]);
            // The length itself may hold a byte that is a newline to an editor, and so to the user.
            let before = memchr::memchr_iter(b'\n', bytes.get(at..at + 8).unwrap_or(&[])).count() as u32;
            entry.set(line, value, number + 1 + before);
            number = number.saturating_add(1 + before + memchr::memchr_iter(b'\n', value).count() as u32);
            at = end + 1;
        }
        number = number.saturating_add(1);
    }
    journal.push(&mut entry);
    journal.finish("journald-export")
}

/// A stamp and cursor, then indented `FIELD=value` lines; further lines of a value are indented by its width.
pub(crate) fn verbose(stream: &Stream) -> Option<Vec<Stream>> {
    let bytes = stream.text.bytes();
    let start = bytes.get(..bytes.len().min(64 * 1024))?;
    memchr::memmem::find(start, b" [s=")?;
    let head = lines(start).take(200);
    (head.filter(|(_, line)| is_entry(line)).count() > 0).then_some(())?;
    let mut journal = Journal::new(stream);
    let mut entry = Entry::default();
    // Blanks before further lines of the message, while it lasts.
    let mut message_indent = None;
    for (number, line) in lines(bytes) {
        if is_entry(line) {
            journal.push(&mut entry);
            message_indent = None;
            if let Some(stamp) = stamp::Stamp::at_start(line) {
                entry.time = stamp.time(line);
            }
            continue;
        }
        let blanks = line.iter().take_while(|&&b| b == b' ').count();
        if let Some(indent) = message_indent.filter(|&indent| blanks >= indent) {
            if let Some((_, text)) = &mut entry.message {
                text.push(b'\n');
                text.extend_from_slice(line.get(indent..).unwrap_or(&[]));
            }
            continue;
        }
        let Some(equals) = memchr::memchr(b'=', line) else { continue };
        let field = line.get(blanks..equals).unwrap_or(&[]);
        entry.set(field, line.get(equals + 1..).unwrap_or(&[]), number);
        message_indent = (field == b"MESSAGE").then_some(equals + 1);
    }
    journal.push(&mut entry);
    journal.finish("journald-verbose")
}

fn is_entry(line: &[u8]) -> bool {
    let Some(stamp) = stamp::Stamp::at_start(line) else { return false };
    let rest = line.get(stamp.len..).unwrap_or(&[]);
    rest.starts_with(b" [s=") && rest.ends_with(b"]") && memchr::memmem::find(rest, b";i=").is_some()
}
