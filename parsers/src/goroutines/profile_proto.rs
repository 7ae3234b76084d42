//! pprof's `debug=0`: the goroutine profile as (gzipped) protobuf.
//!
//! The message is `perftools.profiles.Profile` (`src/internal/profile` of Go; field numbers from `profile.proto`). Only
//! the fields that name stacks are read. The snapshot's text is written here, in the form of `debug=1`, so that stacks
//! can be quoted; it stands in nobody's file, so it has no places.

use crate::evidence::{
    Form, Frame, Goroutine, Names, Notice, NoticeKind, Problem, Site, SiteId, SiteKind, Snapshot, Text,
};
use crate::limits;
use flate2::read::MultiGzDecoder;
use jiff::Timestamp;
use rustc_hash::FxHashMap;
use std::fmt::Write;
use std::io::Read;

/// Bytes of a profile after decompression; a real one has a few megabytes.
const EXPANDED: u64 = 512 << 20;
/// Frames of all groups together.
const FRAMES: usize = 10_000_000;
/// Functions inlined into one address.
const INLINED: usize = 64;

/// Reads a goroutine profile from `bytes`, which are file number `input`. `None` if it is none: another kind of
/// profile, or not protobuf at all.
pub fn parse_proto(bytes: &[u8], input: u32) -> Option<Snapshot> {
    let mut problems = Vec::new();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut expanded = Vec::new();
        if MultiGzDecoder::new(bytes).take(EXPANDED).read_to_end(&mut expanded).is_err() {
            problems.push(Problem::warning(None, "the compressed profile is cut off; goroutines are missing"));
        }
        Profile::read(&expanded)?.snapshot(input, problems)
    } else {
        Profile::read(bytes)?.snapshot(input, problems)
    }
}

/// The parts of a profile that are read.
#[derive(Default)]
struct Profile<'b> {
    /// Name of the values' type: `goroutine`, as an index of `strings`.
    sample_type: Option<u64>,
    samples: Vec<Sample<'b>>,
    locations: FxHashMap<u64, Location>,
    functions: FxHashMap<u64, Function>,
    strings: Vec<&'b str>,
    time_nanos: i64,
    cut: bool,
}

#[derive(Default)]
struct Sample<'b> {
    locations: Vec<u64>,
    count: u64,
    labels: Vec<&'b [u8]>,
}

#[derive(Default)]
struct Location {
    address: u64,
    /// Function and line, innermost first.
    lines: Vec<(u64, u64)>,
}

#[derive(Default)]
struct Function {
    name: u64,
    file: u64,
}

impl<'b> Profile<'b> {
    fn read(bytes: &'b [u8]) -> Option<Self> {
        let mut profile = Profile::default();
        let mut fields = Fields { rest: bytes, bad: false };
        for (number, value) in &mut fields {
            match (number, value) {
                (1, Value::Bytes(kind)) if profile.sample_type.is_none() => {
                    profile.sample_type = Fields::of(kind).find_map(|f| f.number(1));
                }
                (2, Value::Bytes(sample)) => profile.samples.push(Sample::read(sample)),
                (4, Value::Bytes(location)) => {
                    let (id, location) = Location::read(location);
                    profile.locations.insert(id, location);
                }
                (5, Value::Bytes(function)) => {
                    let (mut id, mut read) = (0, Function::default());
                    for field in Fields::of(function) {
                        id = field.number(1).unwrap_or(id);
                        read.name = field.number(2).unwrap_or(read.name);
                        read.file = field.number(4).unwrap_or(read.file);
                    }
                    profile.functions.insert(id, read);
                }
                (6, Value::Bytes(string)) => profile.strings.push(std::str::from_utf8(string).unwrap_or("")),
                (9, Value::Number(nanos)) => profile.time_nanos = nanos as i64,
                _ => {}
            }
        }
        // What is referred to but not there was cut off with the end: the table of strings stands last.
        let strings = profile.strings.len() as u64;
        let dangles = profile.functions.values().any(|f| f.name.max(f.file) >= strings)
            || profile.samples.iter().flat_map(|s| &s.locations).any(|id| !profile.locations.contains_key(id));
        profile.cut = fields.bad || dangles;
        let kind = profile.string(profile.sample_type?);
        matches!(kind, "goroutine" | "goroutineleak").then_some(profile)
    }

    fn string(&self, index: u64) -> &'b str {
        usize::try_from(index).ok().and_then(|i| self.strings.get(i)).copied().unwrap_or("")
    }

    fn snapshot(&self, input: u32, problems: Vec<Problem>) -> Option<Snapshot> {
        let mut snapshot = Snapshot { input, form: Form::ProfileProto, problems, ..Snapshot::default() };
        snapshot.taken_at =
            Timestamp::from_nanosecond(i128::from(self.time_nanos)).ok().filter(|_| self.time_nanos > 0);
        let total: u64 = self.samples.iter().fold(0, |sum, s| sum.saturating_add(s.count));
        let title = format!("{} profile: total {total}", self.string(self.sample_type?));
        let mut writer = Writer { profile: self, text: format!("{title}\n"), line: 1, sites: FxHashMap::default() };
        snapshot.notices.push(Notice { kind: NoticeKind::ProfileTotal, text: title, line: 1 });
        for sample in &self.samples {
            if snapshot.frames.len() > FRAMES {
                snapshot
                    .problems
                    .push(Problem::warning(None, "the profile is too large; its last groups are left out"));
                break;
            }
            writer.group(&mut snapshot, sample);
        }
        if self.cut {
            snapshot
                .problems
                .push(Problem::warning(None, "the profile is damaged or cut off; goroutines may be missing"));
        }
        snapshot.complete = snapshot.problems.is_empty();
        snapshot.text = Text::from_vec(writer.text.into_bytes());
        super::hints::fill(&mut snapshot, None);
        Some(snapshot)
    }
}

/// Writes the text of the snapshot and its groups side by side.
struct Writer<'p, 'b> {
    profile: &'p Profile<'b>,
    text: String,
    /// Lines written.
    line: u32,
    sites: FxHashMap<(u64, usize), SiteId>,
}

impl Writer<'_, '_> {
    fn group(&mut self, snapshot: &mut Snapshot, sample: &Sample<'_>) {
        let text_start = self.text.len();
        let _ = write!(self.text, "{} @", sample.count);
        for address in sample.locations.iter().filter_map(|id| self.profile.locations.get(id)).map(|l| l.address) {
            let _ = write!(self.text, " {address:#x}");
        }
        self.end_line();
        let header = self.line;
        let labels = self.labels(sample);
        let first_frame = snapshot.frames.len() as u32;
        for &id in &sample.locations {
            let Some(location) = self.profile.locations.get(&id) else { continue };
            for index in 0..location.lines.len().max(1) {
                if snapshot.frames.len() as u32 - first_frame < limits::FRAMES_PER_GOROUTINE {
                    self.frame(snapshot, (id, location), index, text_start);
                }
            }
        }
        snapshot.goroutines.push(Goroutine {
            count: u32::try_from(sample.count).unwrap_or(u32::MAX),
            labels: snapshot.names.intern(&labels),
            first_frame,
            frame_count: snapshot.frames.len() as u32 - first_frame,
            text_start,
            text_len: self.text.len().saturating_sub(text_start + 1),
            line: header,
            ..Goroutine::default()
        });
        self.text.push('\n');
        self.line += 1;
    }

    fn labels(&mut self, sample: &Sample<'_>) -> String {
        let mut labels = String::new();
        for &label in &sample.labels {
            let (mut key, mut value) = ("", String::new());
            for field in Fields::of(label) {
                key = field.number(1).map_or(key, |k| self.profile.string(k));
                if let Some(text) = field.number(2) {
                    value = self.profile.string(text).to_owned();
                } else if let Some(number) = field.number(3) {
                    value = number.to_string();
                }
            }
            let comma = if labels.is_empty() { "" } else { ", " };
            let _ = write!(labels, "{comma}{key:?}:{value:?}");
        }
        if !labels.is_empty() {
            let _ = write!(self.text, "# labels: {{{labels}}}");
            self.end_line();
        }
        labels
    }

    fn frame(&mut self, snapshot: &mut Snapshot, (id, location): (u64, &Location), index: usize, text_start: usize) {
        let at = location.lines.get(index);
        let function = at.and_then(|(function, _)| self.profile.functions.get(function));
        let unknown = format!("{:#x}", location.address);
        let name = function.map_or(unknown.as_str(), |f| self.profile.string(f.name));
        let file = function.map_or("", |f| self.profile.string(f.file));
        let line = at.map_or(0, |&(_, line)| u32::try_from(line).unwrap_or(0));
        let _ = write!(self.text, "#\t{:#x}\t{name}", location.address);
        let args_start = u32::try_from(self.text.len().saturating_sub(text_start)).unwrap_or(u32::MAX);
        let _ = write!(self.text, "\t{file}:{line}");
        self.end_line();
        let names: &mut Names = &mut snapshot.names;
        let sites = &mut snapshot.sites;
        // All but the outermost function of an address are inlined into it.
        let kind = if index + 1 < location.lines.len() { SiteKind::Inlined } else { SiteKind::Go };
        let site = *self.sites.entry((id, index)).or_insert_with(|| {
            sites.push(Site { func: names.intern(name), file: names.intern(file), line, offset: None, kind });
            SiteId(sites.len() as u32 - 1)
        });
        snapshot.frames.push(Frame { site, line: self.line, args_start, args_len: 0 });
    }

    fn end_line(&mut self) {
        self.text.push('\n');
        self.line += 1;
    }
}

impl<'b> Sample<'b> {
    fn read(bytes: &'b [u8]) -> Self {
        let mut sample = Sample::default();
        for field in Fields::of(bytes) {
            match field {
                (1, value) => sample.locations.extend(value.numbers().take(limits::FRAMES_PER_GOROUTINE as usize)),
                (2, value) => sample.count = value.numbers().next().unwrap_or(sample.count),
                (3, Value::Bytes(label)) => sample.labels.push(label),
                _ => {}
            }
        }
        sample
    }
}

impl Location {
    fn read(bytes: &[u8]) -> (u64, Self) {
        let (mut id, mut location) = (0, Location::default());
        for field in Fields::of(bytes) {
            match field {
                (1, Value::Number(number)) => id = number,
                (3, Value::Number(address)) => location.address = address,
                (4, Value::Bytes(line)) if location.lines.len() < INLINED => {
                    let (mut function, mut number) = (0, 0);
                    for field in Fields::of(line) {
                        function = field.number(1).unwrap_or(function);
                        number = field.number(2).unwrap_or(number);
                    }
                    location.lines.push((function, number));
                }
                _ => {}
            }
        }
        (id, location)
    }
}

/// A field's value.
#[derive(Clone, Copy)]
enum Value<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

impl<'b> Value<'b> {
    /// The numbers of a repeated field, packed or not.
    fn numbers(self) -> impl Iterator<Item = u64> + 'b {
        let (mut single, mut rest) = match self {
            Value::Number(number) => (Some(number), &b""[..]),
            Value::Bytes(bytes) => (None, bytes),
        };
        std::iter::from_fn(move || {
            single.take().or_else(|| {
                let (number, tail) = varint(rest)?;
                rest = tail;
                Some(number)
            })
        })
    }
}

/// A field: its number and value.
trait Field {
    /// The value, if this is the numeric field `number`.
    fn number(&self, number: u64) -> Option<u64>;
}

impl Field for (u64, Value<'_>) {
    fn number(&self, number: u64) -> Option<u64> {
        match self {
            (n, Value::Number(value)) if *n == number => Some(*value),
            _ => None,
        }
    }
}

/// The fields of a message; ends early, and says so, where the bytes are no protobuf.
struct Fields<'b> {
    rest: &'b [u8],
    bad: bool,
}

impl<'b> Fields<'b> {
    fn of(bytes: &'b [u8]) -> Self {
        Fields { rest: bytes, bad: false }
    }

    fn field(&mut self) -> Option<(u64, Value<'b>)> {
        let (key, rest) = varint(self.rest)?;
        let (value, rest) = match key & 7 {
            0 => varint(rest).map(|(number, rest)| (Value::Number(number), rest))?,
            1 => (Value::Bytes(rest.get(..8)?), rest.get(8..)?),
            2 => {
                let (len, rest) = varint(rest)?;
                let len = usize::try_from(len).ok()?;
                (Value::Bytes(rest.get(..len)?), rest.get(len..)?)
            }
            5 => (Value::Bytes(rest.get(..4)?), rest.get(4..)?),
            _ => return None,
        };
        self.rest = rest;
        Some((key >> 3, value))
    }
}

impl<'b> Iterator for Fields<'b> {
    type Item = (u64, Value<'b>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() || self.bad {
            return None;
        }
        let field = self.field();
        self.bad = field.is_none();
        field
    }
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    for (at, &byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f).checked_shl(7 * at as u32).unwrap_or(0);
        if byte < 0x80 {
            return Some((value, bytes.get(at + 1..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of bytes: key, length, content.
    fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, content.len() as u8], content].concat()
    }

    /// A numeric field below 128.
    fn number(number: u8, value: u8) -> Vec<u8> {
        vec![number << 3, value]
    }

    /// A profile of `kind` as Go writes it: three goroutines in main.g, which is inlined into main.f.
    fn profile(kind: &str) -> Vec<u8> {
        let line = |function, line| bytes(4, &[number(1, function), number(2, line)].concat());
        let location = [number(1, 1), number(3, 0x40), line(2, 12), line(1, 34)].concat();
        let mut profile = [
            bytes(1, &[number(1, 1), number(2, 2)].concat()),
            bytes(2, &[bytes(1, &[1]), bytes(2, &[3]), bytes(3, &[number(1, 6), number(2, 7)].concat())].concat()),
            bytes(4, &location),
            bytes(5, &[number(1, 1), number(2, 3), number(4, 5)].concat()),
            bytes(5, &[number(1, 2), number(2, 4), number(4, 5)].concat()),
        ]
        .concat();
        for string in ["", kind, "count", "main.f", "main.g", "/src/main.go", "pod", "web-1"] {
            profile.extend(bytes(6, string.as_bytes()));
        }
        profile
    }

    #[test]
    fn a_goroutine_profile() {
        let snapshot = parse_proto(&profile("goroutine"), 4).expect("a snapshot");
        assert_eq!((snapshot.input, snapshot.form, snapshot.complete), (4, Form::ProfileProto, true));
        let [group] = snapshot.goroutines.as_slice() else { panic!("one group") };
        assert_eq!((group.count, group.id, snapshot.names.get(group.labels)), (3, None, "\"pod\":\"web-1\""));
        let frames: Vec<_> = snapshot
            .frames_of(group)
            .iter()
            .map(|f| (snapshot.function(f.site), snapshot.site(f.site).line, snapshot.site(f.site).kind))
            .collect();
        assert_eq!(frames, [("main.g", 12, SiteKind::Inlined), ("main.f", 34, SiteKind::Go)]);
        let text = String::from_utf8_lossy(snapshot.block(group)).into_owned();
        assert!(text.starts_with("3 @ 0x40\n# labels: {") && text.ends_with("main.f\t/src/main.go:34"), "{text}");
        let lines: Vec<&str> = std::str::from_utf8(snapshot.text.bytes()).expect("text").lines().collect();
        for frame in snapshot.frames_of(group) {
            assert!(lines[frame.line as usize - 1].contains(snapshot.function(frame.site)));
        }
    }

    #[test]
    fn other_profiles_and_damage() {
        assert!(parse_proto(&profile("cpu"), 0).is_none());
        assert!(parse_proto(b"", 0).is_none());
        assert!(parse_proto(b"goroutine 1 [running]:\n", 0).is_none());
        let whole = profile("goroutine");
        for cut in 0..whole.len() {
            // The names stand last: a profile without them is either refused or called incomplete.
            assert!(parse_proto(&whole[..cut], 0).is_none_or(|s| !s.complete || cut > whole.len() - 20), "{cut}");
        }
    }
}
