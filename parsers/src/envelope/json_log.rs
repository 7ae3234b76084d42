//! Logs with a JSON object for each line of text: `journalctl -o json`, docker's json-file, fluent-bit, `go test -json`,
//! exports of log stores.
//!
//! The key under which the text stands is known for the common ones, and otherwise found by content: the one whose
//! value is a goroutine's header. Objects that hold a whole dump in one string are the [escapes](super::escapes)' work.

use super::Stream;
use super::json::{self, Field, Value};
use super::recover::{Recovered, lines};
use super::sample::Sample;
use super::{escapes, loss, shape, stamp};
use crate::evidence::{ProcessHint, Severity};
use jiff::Timestamp;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Objects that are looked at to learn where the text stands.
const LEARN: usize = 5_000;
const WRITERS: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Journald,
    /// Each text ends in its own newline; one that does not goes on in the next.
    Docker,
    GoTest,
    /// Each text is a line.
    Lines,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Format::Journald => "journald-json",
            Format::Docker => "docker-json-file",
            Format::GoTest => "go-test-json",
            Format::Lines => "json-lines",
        }
    }
}

/// Where the text stands in each object.
struct Layout {
    key: Rc<[u8]>,
    format: Format,
}

/// Takes the text out of the objects, if there are any.
pub(crate) fn peel(stream: &Stream, sample: &Sample<'_>) -> Option<Vec<Stream>> {
    let objects = |line: &[u8]| matches!(line.trim_ascii_start().first(), Some(b'{' | b'}' | b'[' | b']' | b'"'));
    if !sample.all().any(|window| window.mostly(60, 1, |line| objects(line) || line.starts_with(b"data: {"))) {
        return None;
    }
    let bytes = stream.text.bytes();
    let layout =
        learn(bytes, 0).or_else(|| sample.headers.iter().find_map(|&at| learn(bytes, object_before(bytes, at)?)))?;
    let mut log = Log::new(stream, layout);
    log.run(bytes);
    Some(log.finish())
}

/// Start of a line before `at` that begins an object.
fn object_before(bytes: &[u8], at: usize) -> Option<usize> {
    let from = at.saturating_sub(64 * 1024);
    let text = bytes.get(from..at)?;
    let found = memchr::memmem::rfind(text, b"\n{").map(|newline| from + newline + 1);
    found.or_else(|| (from == 0).then_some(0))
}

/// Objects of `text` one after another: `(start, fields, end)` goes to `each` until it says stop.
fn objects(text: &[u8], from: usize, mut each: impl FnMut(usize, &[Field], usize) -> bool) {
    let mut fields = Vec::new();
    let mut at = from;
    while let Some(open) = memchr::memchr(b'{', text.get(at..).unwrap_or(&[])).map(|open| at + open) {
        match json::object(text, open, &mut fields) {
            Some(end) => {
                if !each(open, &fields, end) {
                    return;
                }
                at = end;
            }
            None => {
                let Some(newline) = memchr::memchr(b'\n', text.get(open..).unwrap_or(&[])) else { return };
                at = open + newline + 1;
            }
        }
    }
}

fn learn(bytes: &[u8], from: usize) -> Option<Layout> {
    let mut seen = 0;
    let mut found: Option<Layout> = None;
    let mut newline = (0usize, 0usize);
    objects(bytes, from, |_, fields, _| {
        seen += 1;
        let key = |field: &Field| bytes.get(field.key.clone()).unwrap_or(&[]).to_vec();
        let has = |name: &[u8]| fields.iter().any(|f| bytes.get(f.key.clone()) == Some(name));
        let text = |f: &Field| match &f.value {
            Value::String(range) => bytes.get(range.clone()).unwrap_or(&[]),
            _ => &[],
        };
        if found.is_none() {
            let known = if has(b"MESSAGE") && (has(b"__REALTIME_TIMESTAMP") || has(b"_PID") || has(b"__CURSOR")) {
                Some((b"MESSAGE".to_vec(), Format::Journald))
            } else if has(b"Output") && has(b"Action") {
                Some((b"Output".to_vec(), Format::GoTest))
            } else if has(b"log") && (has(b"stream") || has(b"kubernetes") || has(b"time")) {
                Some((b"log".to_vec(), Format::Lines))
            } else {
                // A text that is a header and nothing else: the lines of a dump stand in objects of their own.
                let header = fields.iter().find(|f| is_line_with_header(text(f)));
                header.map(|f| (key(f), Format::Lines))
            };
            found = known.map(|(key, format)| Layout { key: key.into(), format });
        }
        if let Some(layout) = &found {
            for field in fields.iter().filter(|f| bytes.get(f.key.clone()) == Some(&*layout.key)) {
                newline.0 += 1;
                newline.1 += usize::from(text(field).ends_with(b"\\n"));
            }
        }
        // Objects without such a key (a test's start, another source) may come first.
        seen < LEARN && (found.is_none() || newline.0 < 50)
    });
    let mut layout = found?;
    if layout.format == Format::Lines && newline.1 * 2 > newline.0 {
        layout.format = Format::Docker;
    }
    Some(layout)
}

/// Whether an escaped text is one line that ends in a header, perhaps within further JSON: `{\"m\":\"goroutine 1 [select]:\"}`.
fn is_line_with_header(text: &[u8]) -> bool {
    let text = text.strip_suffix(b"\\n").unwrap_or(text);
    // A newline that something follows makes it more than one line.
    let more = memchr::memmem::find_iter(text, b"\\n").any(|at| !matches!(text.get(at + 2), None | Some(b'"' | b'\\')));
    let ends = |at: usize| {
        let rest = text.get(at..).unwrap_or(&[]);
        shape::is_header(rest) || memchr::memmem::find(rest, b":\\").is_some()
    };
    !more && shape::headers_in(text).any(ends)
}

struct Log<'a> {
    outer: &'a Stream,
    layout: Layout,
    streams: Vec<Recovered<'a>>,
    goes_on: Vec<bool>,
    writers: FxHashMap<Vec<u8>, usize>,
    loose: Option<usize>,
    lossy: bool,
    /// The last writer's key: room for the next.
    key: Vec<u8>,
}

impl<'a> Log<'a> {
    fn new(outer: &'a Stream, layout: Layout) -> Self {
        let (streams, goes_on, writers) = (Vec::new(), Vec::new(), FxHashMap::default());
        Log { outer, layout, streams, goes_on, writers, loose: None, lossy: false, key: Vec::new() }
    }

    fn run(&mut self, bytes: &[u8]) {
        let (mut done, mut number) = (0usize, 1u32);
        let mut scratch = Vec::new();
        objects(bytes, 0, |start, fields, end| {
            number = self.between(bytes.get(done..start).unwrap_or(&[]), number);
            self.record(bytes, start, fields, number, &mut scratch);
            let breaks = memchr::memchr_iter(b'\n', bytes.get(start..end).unwrap_or(&[])).count();
            number = number.saturating_add(u32::try_from(breaks).unwrap_or(u32::MAX));
            done = end;
            true
        });
        self.between(bytes.get(done..).unwrap_or(&[]), number);
    }

    /// Text between objects: punctuation, or lines that are no JSON. The number of the line that it ends in.
    fn between(&mut self, text: &[u8], number: u32) -> u32 {
        for (n, line) in lines(text) {
            let trimmed = line.trim_ascii();
            if trimmed.is_empty() || trimmed == b"data:" || trimmed.iter().all(|b| b"[],".contains(b)) {
                continue;
            }
            let from = number.saturating_add(n - 1);
            let at = *self.loose.get_or_insert_with(|| {
                self.streams.push(Recovered::of(self.outer));
                self.goes_on.push(false);
                self.streams.len() - 1
            });
            if trimmed.first() == Some(&b'{') && !std::mem::replace(&mut self.lossy, true) {
                let message = "a line of this JSON log is damaged or cut; what it held is lost";
                self.streams[at].problem_at(Severity::Warning, from, message);
            }
            self.streams[at].line(line, from);
        }
        let breaks = memchr::memchr_iter(b'\n', text).count();
        number.saturating_add(u32::try_from(breaks).unwrap_or(u32::MAX))
    }

    fn record(&mut self, bytes: &[u8], start: usize, fields: &[Field], number: u32, scratch: &mut Vec<u8>) {
        let key = Rc::clone(&self.layout.key);
        let is_text = |f: &&Field| bytes.get(f.key.clone()) == Some(&*key);
        if !fields.iter().any(|f| is_text(&f)) {
            return;
        }
        let at = self.writer(bytes, fields);
        if let Some(time) = time_of(bytes, fields) {
            self.streams[at].written_at(time);
        }
        let partial = string(bytes, fields, &[b"_p", b"logtag"]) == Some(b"P");
        for field in fields.iter().filter(is_text) {
            let breaks = memchr::memchr_iter(b'\n', bytes.get(start..field.at).unwrap_or(&[])).count();
            let from = number.saturating_add(u32::try_from(breaks).unwrap_or(u32::MAX));
            scratch.clear();
            match &field.value {
                Value::String(range) => escapes::unescape(bytes.get(range.clone()).unwrap_or(&[]), scratch),
                Value::Bytes(text) => scratch.extend_from_slice(text),
                Value::Bare(range) => scratch.extend_from_slice(bytes.get(range.clone()).unwrap_or(&[])),
                Value::Null => {
                    let message = "journalctl left out this message because it is long (MESSAGE is null): it is lost; export with --all";
                    self.streams[at].problem_at(Severity::Warning, from, message);
                    continue;
                }
            }
            self.append(at, scratch, from, partial);
        }
    }

    fn append(&mut self, at: usize, text: &[u8], from: u32, partial: bool) {
        let whole = matches!(self.layout.format, Format::Docker | Format::GoTest);
        // journald splits long lines without a mark, at its LineMax=.
        let split = partial || (self.layout.format == Format::Journald && text.len() == 48 * 1024);
        let goes_on = std::mem::replace(&mut self.goes_on[at], if whole { !text.ends_with(b"\n") } else { split });
        let text = text.strip_suffix(b"\n").filter(|_| whole).unwrap_or(text);
        if goes_on {
            return self.streams[at].join(text, from);
        }
        if let Some(message) = loss::told_by(text) {
            for stream in &mut self.streams {
                stream.problem_at(Severity::Warning, from, message.clone());
            }
        }
        self.streams[at].text(text, from);
    }

    /// The stream of the writer that an object names.
    fn writer(&mut self, bytes: &[u8], fields: &[Field]) -> usize {
        let get = |keys: &[&[u8]]| string(bytes, fields, keys);
        let host = get(&[b"_HOSTNAME", b"hostname", b"host", b"node_name", b"nodeName", b"host_name"]);
        let name = get(&[
            b"SYSLOG_IDENTIFIER",
            b"_COMM",
            b"container_name",
            b"containerName",
            b"container",
            b"app",
            b"Package",
        ]);
        let pid = get(&[b"_PID", b"SYSLOG_PID", b"pid"]);
        let more = [get(&[b"pod_name", b"podName", b"pod"]), get(&[b"_STREAM_ID", b"stream"]), get(&[b"container_id"])];
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        for part in [host, name, pid].into_iter().chain(more) {
            key.extend_from_slice(part.unwrap_or(&[]));
            key.push(0);
        }
        if let Some(&at) = self.writers.get(&key) {
            self.key = key;
            return at;
        }
        if self.streams.len() >= WRITERS {
            return 0;
        }
        let text =
            |part: Option<&[u8]>| part.map(|p| String::from_utf8_lossy(p).into_owned()).filter(|p| !p.is_empty());
        let mut stream = Recovered::of(self.outer);
        stream.process(ProcessHint {
            pid: text(pid).and_then(|p| p.parse().ok()),
            name: text(name).or_else(|| text(more[0])),
            host: text(host),
            ..ProcessHint::default()
        });
        self.streams.push(stream);
        self.goes_on.push(false);
        let at = self.streams.len() - 1;
        self.writers.insert(key, at);
        at
    }

    fn finish(self) -> Vec<Stream> {
        let (loose, name) = (self.loose, self.layout.format.name());
        let mut streams: Vec<Stream> = self
            .streams
            .into_iter()
            .enumerate()
            .filter(|(_, stream)| !stream.is_empty() || stream.has_problems())
            .map(|(at, stream)| stream.finish(if Some(at) == loose { "" } else { name }))
            .collect();
        // The objects' own streams come first.
        streams.sort_by_key(|s| s.envelopes.last().is_none_or(|last| last != name));
        streams
    }
}

/// The value of the first of `keys` that is there.
fn string<'a>(bytes: &'a [u8], fields: &[Field], keys: &[&[u8]]) -> Option<&'a [u8]> {
    keys.iter().find_map(|key| {
        fields.iter().find(|f| bytes.get(f.key.clone()) == Some(key)).and_then(|f| match &f.value {
            Value::String(range) | Value::Bare(range) => bytes.get(range.clone()),
            _ => None,
        })
    })
}

fn time_of(bytes: &[u8], fields: &[Field]) -> Option<Timestamp> {
    if let Some(micros) = string(bytes, fields, &[b"__REALTIME_TIMESTAMP"]) {
        let micros: i64 = std::str::from_utf8(micros).ok()?.parse().ok()?;
        return Timestamp::from_microsecond(micros).ok();
    }
    let text = string(bytes, fields, &[b"time", b"@timestamp", b"Time", b"timestamp", b"ts"])?;
    stamp::iso_time(text)
}
