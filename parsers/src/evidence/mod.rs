//! The model that every parser fills: what was found, and where it stands in the user's files.
//!
//! Evidence is compact because dumps are large: a goroutine's frames are 16-byte records that point at interned call
//! [`Site`]s, and arguments stay in the text until somebody asks for them.

mod function;
mod memory;
mod names;
mod node;
mod snapshot;
mod text;

pub use function::FunctionName;
pub use memory::{DeferredRelease, HeldHint, LockWord, MemoryFacts, QueuedWaiter};
pub use names::{Names, Sym};
pub use node::{
    BusName, Condition, ContainerRow, FileLock, KernelReport, LogLine, Mount, NativeLock, NodeEvidence, ProcessRow,
    Socket, StackFrame, ThreadStack, Unit, WallTime,
};
pub use snapshot::{
    Ancestor, Argument, CreatedBy, Flags, Form, Frame, Goroutine, Notice, NoticeKind, ProcessHint, Registers, Site,
    SiteId, SiteKind, Snapshot, StatedLock,
};
pub use text::{LineMap, Place, Text};

/// Everything that was read, as one incident.
#[derive(Debug, Default)]
pub struct Evidence {
    /// The files, in the order in which they were read.
    pub inputs: Vec<Input>,
    /// One for each process and moment of which the goroutines are known.
    pub snapshots: Vec<Snapshot>,
    /// What the node itself says: processes, kernel stacks, mounts, logs.
    pub node: NodeEvidence,
}

/// A file that was read, or a member of an archive.
#[derive(Debug, Clone, Default)]
pub struct Input {
    /// As the user gave it; an archive's member after `!/`.
    pub path: String,
    /// What it was taken for.
    pub kind: InputKind,
    /// What was peeled off around the evidence, outermost first: `gzip`, `journald-short`, `logrus` …
    pub envelopes: Vec<String>,
    /// Size in bytes as found (compressed, if it was).
    pub bytes: u64,
    /// What was lost, cut or not understood.
    pub problems: Vec<Problem>,
    /// The file's text as found, decompressed but in its envelopes, so that a report can quote the lines that evidence
    /// points at. Shares the bytes. Empty for cores and executables.
    pub raw: Text,
}

/// What a file was taken for; the words of the contract's `inputs[].kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub enum InputKind {
    GoroutineDump,
    Pprof,
    Core,
    Executable,
    Ps,
    KernelStack,
    KernelLog,
    Mounts,
    NativeStack,
    ServiceLog,
    #[default]
    Other,
}

impl InputKind {
    /// The contract's word.
    pub fn as_str(self) -> &'static str {
        match self {
            InputKind::GoroutineDump => "goroutine-dump",
            InputKind::Pprof => "pprof",
            InputKind::Core => "core",
            InputKind::Executable => "executable",
            InputKind::Ps => "ps",
            InputKind::KernelStack => "kernel-stack",
            InputKind::KernelLog => "kernel-log",
            InputKind::Mounts => "mounts",
            InputKind::NativeStack => "native-stack",
            InputKind::ServiceLog => "service-log",
            InputKind::Other => "other",
        }
    }
}

/// How bad a [`Problem`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Repaired, or of no consequence.
    Note,
    /// Something is lost; what rests on it is trusted less.
    Warning,
    /// The file, or a large part of it, could not be read.
    Error,
}

/// Something that was lost, cut, repaired or not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// Line of the user's file, from 1; `None` when it concerns the whole file.
    pub line: Option<u32>,
    /// One sentence: what, and what it means for the reader.
    pub message: String,
}

impl Problem {
    /// A problem of `severity` at `line`.
    pub fn new(severity: Severity, line: Option<u32>, message: impl Into<String>) -> Self {
        Problem { severity, line, message: message.into() }
    }
    /// Shorthand for a [`Severity::Note`].
    pub fn note(line: Option<u32>, message: impl Into<String>) -> Self {
        Problem::new(Severity::Note, line, message)
    }
    /// Shorthand for a [`Severity::Warning`].
    pub fn warning(line: Option<u32>, message: impl Into<String>) -> Self {
        Problem::new(Severity::Warning, line, message)
    }
    /// Shorthand for a [`Severity::Error`].
    pub fn error(line: Option<u32>, message: impl Into<String>) -> Self {
        Problem::new(Severity::Error, line, message)
    }
}
