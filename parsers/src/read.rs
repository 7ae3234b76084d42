//! From paths to evidence: the crate's front door.

use crate::core::{self, CoreEvidence};
use crate::envelope::{self, Stream};
use crate::evidence::{Evidence, Form, Input, InputKind, LineMap, NodeEvidence, Problem, ProcessHint, Snapshot, Text};
use crate::open::{self, Content, ElfSource, Material};
use crate::own_report::is_own_report;
use crate::{goroutines, limits, node};
use jiff::Timestamp;
use rayon::prelude::*;
use std::path::PathBuf;

/// Executables of a bundle that are tried for its cores.
const OWN_EXECUTABLES: usize = 64;

/// What the caller knows beyond the paths.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// Executables and debug files, matched to cores by build id.
    pub exe: Vec<PathBuf>,
    /// Where executables and libraries lie under their own paths.
    pub sysroot: Option<PathBuf>,
}

/// A path that was named but could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// As given.
    pub path: String,
    /// Why, and what to do.
    pub message: String,
}

/// Reads everything under `paths` as one incident. `-` is standard input.
///
/// What could be read is in the evidence even if some path could not.
pub fn read(paths: &[PathBuf], options: &ReadOptions) -> (Evidence, Vec<Unreadable>) {
    let (materials, unreadable) = open::open(paths);
    let options = &with_own_executables(options, &materials);
    let mut parts: Vec<Part> = materials
        .into_par_iter()
        .enumerate()
        .map(|(index, material)| read_material(material, u32::try_from(index).unwrap_or(u32::MAX), options))
        .collect();
    read_own_reports(&mut parts);
    let mut evidence = Evidence::default();
    for part in parts {
        evidence.inputs.push(part.input);
        evidence.snapshots.extend(part.snapshots);
        evidence.node.merge(part.node);
    }
    if let Some(moment) = known_moment(&evidence) {
        evidence.node.settle_years(moment);
    }
    (evidence, unreadable)
}

/// The latest moment of the incident that some file told with its year: it tells the year of those that did not.
fn known_moment(evidence: &Evidence) -> Option<Timestamp> {
    let node = &evidence.node;
    let dumps = evidence.snapshots.iter().filter_map(|snapshot| snapshot.taken_at);
    let told = node.taken_at.iter().map(|(at, _)| *at);
    let logs = node.log_lines.iter().filter_map(|line| line.at);
    let kernel = node.kernel.iter().filter_map(|report| report.at);
    let threads = node.threads.iter().filter_map(|thread| thread.at);
    let local = node.taken_at_local.iter().filter_map(|(wall, _)| wall.as_utc());
    let started = node.processes.iter().filter_map(|row| row.started?.as_utc());
    dumps.chain(told).chain(logs).chain(kernel).chain(threads).chain(local).chain(started).max()
}

/// Our own reports quote the evidence: they are read only where it is not there itself.
fn read_own_reports(parts: &mut [Part]) {
    let evidence_is_there = parts.iter().any(|part| !part.snapshots.is_empty());
    for (index, part) in parts.iter_mut().enumerate() {
        let Some(text) = part.own_report.take() else { continue };
        if evidence_is_there {
            let note = "a report made by this program: what it is about is read from the evidence beside it";
            part.input.problems.push(Problem::note(None, note));
        } else {
            read_text(part, text, u32::try_from(index).unwrap_or(u32::MAX));
        }
    }
}

/// What one file says.
struct Part {
    input: Input,
    snapshots: Vec<Snapshot>,
    node: NodeEvidence,
    /// The text of a report of our own, not read yet.
    own_report: Option<Text>,
}

fn read_material(material: Material, index: u32, options: &ReadOptions) -> Part {
    let Material { path, content, envelopes, bytes, problems } = material;
    let input = Input { path, bytes, envelopes, problems, ..Input::default() };
    let mut part = Part { input, snapshots: Vec::new(), node: NodeEvidence::default(), own_report: None };
    match content {
        Content::Text(text) if is_own_report(&text) => {
            part.input.raw = text.clone();
            part.own_report = Some(text);
        }
        Content::Text(text) => read_text(&mut part, text, index),
        Content::Elf { core, source } => read_elf(&mut part, core, source, index, options),
        Content::Nothing => {}
    }
    part
}

/// A core is read by its own memory; an executable waits for the core that it belongs to.
fn read_elf(part: &mut Part, is_core: bool, source: ElfSource, index: u32, options: &ReadOptions) {
    part.input.kind = if is_core { InputKind::Core } else { InputKind::Executable };
    if !is_core {
        return;
    }
    let opened = match source {
        ElfSource::File(path) => core::open(&path, options),
        ElfSource::Unpacked(text) => core::from_text(text, options),
    };
    match opened {
        Ok(core) => {
            let CoreEvidence { snapshot, threads, locks, problems } = core.evidence(index);
            for problem in &problems {
                keep(&mut part.input.problems, problem);
            }
            part.snapshots.extend(snapshot);
            part.node.threads = threads;
            part.node.native_locks = locks;
        }
        Err(error) => part.input.problems.push(Problem::error(None, format!("the core cannot be read: {error}"))),
    }
}

/// Executables that came along with a core, so that nobody has to name them: they are matched by build id anyway.
fn with_own_executables(options: &ReadOptions, materials: &[Material]) -> ReadOptions {
    let mut options = options.clone();
    let own = materials.iter().filter_map(|material| match &material.content {
        Content::Elf { core: false, source: ElfSource::File(path) } => Some(path.clone()),
        _ => None,
    });
    options.exe.extend(own.take(OWN_EXECUTABLES));
    options
}

/// A text may hold dumps and node evidence at once: both are looked for.
fn read_text(part: &mut Part, text: Text, index: u32) {
    if let Some(profile) = protobuf_profile(&text, index) {
        part.input.kind = InputKind::Pprof;
        part.input.problems.extend(profile.problems.iter().take(limits::PROBLEMS).cloned());
        part.snapshots.push(profile);
        return;
    }
    part.input.raw = text.clone();
    let streams = envelope::peel(text.clone(), index);
    for stream in &streams {
        for name in &stream.envelopes {
            if !part.input.envelopes.contains(name) {
                part.input.envelopes.push(name.clone());
            }
        }
        for problem in &stream.problems {
            keep(&mut part.input.problems, problem);
        }
    }
    let snapshots: Vec<Vec<Snapshot>> =
        streams.par_iter().map(|stream| snapshots_of(stream, &part.input.path)).collect();
    for snapshot in snapshots.into_iter().flatten() {
        for problem in &snapshot.problems {
            keep(&mut part.input.problems, problem);
        }
        part.snapshots.push(snapshot);
    }
    let kind = read_node(part, text, &streams, index);
    part.input.kind = match () {
        () if part.snapshots.iter().any(|s| !is_profile(s.form)) => InputKind::GoroutineDump,
        () if !part.snapshots.is_empty() => InputKind::Pprof,
        () => kind.unwrap_or_default(),
    };
}

/// `debug=0`: a protobuf, which pprof packs with gzip; that is peeled off already. Its first field is a sample type.
fn protobuf_profile(text: &Text, index: u32) -> Option<Snapshot> {
    let bytes = text.bytes();
    let is_message = bytes.first() == Some(&0x0a) && memchr::memchr(0, bytes.get(..bytes.len().min(4096))?).is_some();
    is_message.then(|| goroutines::parse_proto(bytes, index)).flatten()
}

fn is_profile(form: Form) -> bool {
    matches!(form, Form::ProfileCounts | Form::ProfileProto)
}

/// The dumps of one stream, with what its name and envelope tell of the process and the moment.
fn snapshots_of(stream: &Stream, path: &str) -> Vec<Snapshot> {
    let mut snapshots = goroutines::parse(stream);
    let named = open::name::process(path);
    let moment = open::name::moment(path);
    for snapshot in &mut snapshots {
        let told: &mut ProcessHint = &mut snapshot.process;
        told.pid = told.pid.or(named.pid);
        told.name = told.name.take().or_else(|| named.name.clone());
        snapshot.taken_at = snapshot.taken_at.or(moment);
        tell_of_seam(snapshot);
    }
    snapshots
}

/// A file line made of two halves (`…/locks.go:122src/syscall.go:95`) shows that the text between was lost.
fn tell_of_seam(snapshot: &mut Snapshot) {
    let torn = |name: &str| name.contains(".go:");
    let Some(at) = snapshot.sites.iter().position(|site| torn(snapshot.names.get(site.file))) else { return };
    let frame = snapshot.frames.iter().find(|frame| frame.site.0 as usize == at).map(|frame| frame.line + 1);
    let trailer =
        snapshot.goroutines.iter().filter_map(|g| g.created_by).find(|c| c.site.0 as usize == at).map(|c| c.line + 1);
    let line = frame.or(trailer).and_then(|line| snapshot.lines.place(line)).map(|place| place.line);
    let message = "two halves of lines stand together here: what was between is missing, perhaps whole goroutines";
    snapshot.problems.push(Problem::warning(line, message));
    snapshot.complete = false;
}

/// Node evidence stands best in the file as it is, whose prefixes hold times; else in what the envelopes held.
fn read_node(part: &mut Part, text: Text, streams: &[Stream], index: u32) -> Option<InputKind> {
    if text.bytes().len() > limits::WHOLE_TEXT {
        return None;
    }
    let whole = Stream { text, lines: LineMap::identity(index), ..Stream::default() };
    if let Some((kind, node)) = node::parse(&whole, &part.input.path, index) {
        part.node.merge(node);
        return Some(kind);
    }
    if streams.iter().all(|stream| stream.envelopes.is_empty()) {
        return None;
    }
    let found: Vec<_> = streams.par_iter().filter_map(|stream| node::parse(stream, &part.input.path, index)).collect();
    let kind = found.first().map(|(kind, _)| *kind);
    for (_, node) in found {
        part.node.merge(node);
    }
    kind
}

/// Keeps a problem once.
fn keep(problems: &mut Vec<Problem>, problem: &Problem) {
    if problems.len() <= limits::PROBLEMS && !problems.contains(problem) {
        problems.push(problem.clone());
    }
}
