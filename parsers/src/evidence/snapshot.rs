//! The goroutines of one process at one moment.

use super::{LineMap, MemoryFacts, Names, Place, Problem, Sym, Text};
use jiff::Timestamp;
use std::ops::Range;

/// The goroutines of one process at one moment, from one dump or core.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Index into `Evidence::inputs` of the file that it came from (its first, if rotated over several).
    pub input: u32,
    /// What kind of dump it is.
    pub form: Form,
    /// What the input itself says about the process: log prefixes, file names, core notes, signal lines.
    pub process: ProcessHint,
    /// When the dump was taken, if the evidence says so (log prefix, file name, core).
    pub taken_at: Option<Timestamp>,
    /// Lines around the goroutines that say why the dump was made: signal, panic, fatal error.
    pub notices: Vec<Notice>,
    /// The dump as the runtime printed it, peeled. Frames and goroutines point into it.
    pub text: Text,
    /// From lines of `text` back to the user's file. Empty for a core: its evidence has addresses instead.
    pub lines: LineMap,
    /// Interned strings.
    pub names: Names,
    /// Distinct call sites.
    pub sites: Vec<Site>,
    /// All frames of all goroutines, each goroutine's innermost first.
    pub frames: Vec<Frame>,
    /// The goroutines, in the order of the dump.
    pub goroutines: Vec<Goroutine>,
    /// `[originating from goroutine N]` blocks (`GODEBUG=tracebackancestors`).
    pub ancestors: Vec<Ancestor>,
    /// Whether both ends and the middle are there as far as one can tell.
    pub complete: bool,
    /// What was lost or not understood in this dump. Lines are those of the user's file.
    pub problems: Vec<Problem>,
    /// What a core's memory says beyond stacks.
    pub memory: Option<MemoryFacts>,
    /// Who holds or wants a lock, where the program's own lock library said so (go-deadlock).
    pub stated_locks: Vec<StatedLock>,
}

/// A lock and a goroutine that holds it or waits for it, as a library that watches locks reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatedLock {
    /// Goroutine id.
    pub goroutine: u64,
    /// The lock's address.
    pub lock: u64,
    /// It holds the lock; otherwise it waits for it.
    pub holds: bool,
    /// As a reader, as far as the report shows the call.
    pub reads: bool,
    /// Line in [`Snapshot::text`], from 1.
    pub line: u32,
}

/// What printed a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// `runtime.Stack(all)`, pprof `debug=2`, SIGUSR1 handlers: no runtime frames.
    #[default]
    StackAll,
    /// The runtime on a fatal signal (SIGQUIT, SIGABRT …).
    Signal,
    /// An unrecovered panic.
    Panic,
    /// `fatal error:`.
    Fatal,
    /// pprof `debug=1`: groups without ids, states and arguments.
    ProfileCounts,
    /// pprof `debug=0`: the same as protobuf.
    ProfileProto,
    /// A race detector report.
    Race,
    /// Written by another tool (panicparse, delve, go-deadlock, gdb); it may lack addresses or ages.
    OtherTool,
    /// Read out of a core.
    Core,
}

/// What the evidence around a dump tells about its process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessHint {
    /// Process id.
    pub pid: Option<u32>,
    /// Program name from a log prefix, file name or core note.
    pub name: Option<String>,
    /// Host from a log prefix.
    pub host: Option<String>,
    /// `go1.19.8`, if told (core, paths of the Go root).
    pub go_version: Option<String>,
    /// Build id in hex (core, executable).
    pub build_id: Option<String>,
    /// `amd64`, `arm64` …
    pub arch: Option<String>,
    /// Command line, if known.
    pub command: Option<String>,
}

/// A line that says why a dump was made or what went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// What it is.
    pub kind: NoticeKind,
    /// The text, without the prefix that gives the kind away (`panic: `, `fatal error: `).
    pub text: String,
    /// Line in [`Snapshot::text`], from 1.
    pub line: u32,
}

/// What a [`Notice`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeKind {
    /// `SIGQUIT: quit`, `SIGABRT: abort` …
    Signal,
    /// `panic: …`, one for each of a chain.
    Panic,
    /// `fatal error: …`.
    Fatal,
    /// `[signal SIGSEGV: …]`.
    Fault,
    /// `runtime: program exceeds 10000-thread limit`, `runtime: goroutine stack exceeds …`.
    Runtime,
    /// `goroutine profile: total 101`.
    ProfileTotal,
    /// `WARNING: DATA RACE`.
    Race,
    /// Anything else that belongs to the dump (go test's `panic: test timed out`'s running tests …).
    Other,
}

/// Index into [`Snapshot::sites`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteId(pub u32);

/// A call site: the same function at the same line and offset, shared by all frames that stand there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Site {
    /// Function name as printed, without arguments.
    pub func: Sym,
    /// File as printed; empty if none.
    pub file: Sym,
    /// Line in that file; 0 if none.
    pub line: u32,
    /// `+0x…`: the return address, relative to the function's entry. `None` for inlined frames and at offset 0.
    pub offset: Option<u32>,
    /// How the frame was printed.
    pub kind: SiteKind,
}

/// How a frame was printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SiteKind {
    /// `f(args)`.
    #[default]
    Go,
    /// `f(...)`: inlined, arguments unknown.
    Inlined,
    /// A C frame of a cgo traceback, or assembly without parentheses.
    NoArguments,
    /// `created by f`.
    CreatedBy,
}

/// One frame of one goroutine: 16 bytes, since a dump may have millions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Where it stands.
    pub site: SiteId,
    /// Line of its function in [`Snapshot::text`], from 1. The file's line is the next.
    pub line: u32,
    /// Start of the text between the parentheses, relative to the goroutine's [`Goroutine::text_start`].
    pub args_start: u32,
    /// Length of that text in bytes.
    pub args_len: u32,
}

/// `fp=… sp=… pc=…` of a system-level frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Registers {
    pub fp: Option<u64>,
    pub sp: Option<u64>,
    pub pc: Option<u64>,
}

/// A machine word among a frame's arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Argument {
    /// Its value.
    pub value: u64,
    /// Printed with `?`: the spill slot may be stale. Never an identity.
    pub stale: bool,
    /// How deep in braces it stands: 0 for a plain argument.
    pub depth: u8,
    /// Which argument it belongs to (words of one `{…}` share it), from 0. Up to Go 1.16 every word is its own.
    pub index: u16,
}

/// `created by f in goroutine N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreatedBy {
    /// The `go` statement's function and line.
    pub site: SiteId,
    /// Line in [`Snapshot::text`].
    pub line: u32,
    /// Who ran it (Go 1.21 and later); may have ended long ago.
    pub goroutine: Option<u64>,
}

/// Properties that a header or a block shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u16);

#[allow(missing_docs)]
impl Flags {
    /// `locked to thread`.
    pub const LOCKED: u16 = 1;
    /// `(leaked)`, Go 1.26 and later.
    pub const LEAKED: u16 = 2;
    /// `(scan)`.
    pub const SCAN: u16 = 4;
    /// `(durable)` or `(synctest)`.
    pub const DURABLE: u16 = 8;
    /// Its end (or a part) is missing: cut, or lines of it were lost.
    pub const CUT: u16 = 16;
    /// `goroutine running on other thread; stack unavailable`.
    pub const UNAVAILABLE: u16 = 32;
    /// Frames were left out by the runtime (elided marker, or the old silent limit).
    pub const ELIDED: u16 = 64;
    /// The header was missing and has been inferred; id and state are unknown.
    pub const HEADLESS: u16 = 128;

    /// Whether all of `bits` are set.
    pub fn has(self, bits: u16) -> bool {
        self.0 & bits == bits
    }
    /// Sets `bits`.
    pub fn set(&mut self, bits: u16) {
        self.0 |= bits;
    }
}

/// One goroutine, or a group of equal ones where the form has no ids.
#[derive(Debug, Clone, Default)]
pub struct Goroutine {
    /// `None` in forms without ids. Goroutine 0 (a thread's scheduler stack) is never listed.
    pub id: Option<u64>,
    /// How many it stands for: 1, but in profiles the group's count.
    pub count: u32,
    /// Wait reason or status as printed, without minutes and marks: `chan receive`. Empty if unknown.
    pub state: Sym,
    /// Whole minutes as printed; `None` means under a minute, or no collection since it blocked.
    pub minutes: Option<u32>,
    /// Marks of the header.
    pub flags: Flags,
    /// Labels of the header or profile as printed between the braces; empty if none.
    pub labels: Sym,
    /// Address of its `g` (Go 1.22 signal dumps, cores); 0 if unknown.
    pub gp: u64,
    /// Number of the thread (`m=`) that runs it.
    pub m: Option<i64>,
    /// Thread id of the kernel (cores).
    pub tid: Option<u32>,
    /// First frame in [`Snapshot::frames`].
    pub first_frame: u32,
    /// How many frames.
    pub frame_count: u32,
    /// Who started it.
    pub created_by: Option<CreatedBy>,
    /// Start of its block in [`Snapshot::text`], in bytes.
    pub text_start: usize,
    /// Length of its block in bytes.
    pub text_len: usize,
    /// Line of its header in [`Snapshot::text`], from 1.
    pub line: u32,
}

/// An `[originating from goroutine N]` block.
#[derive(Debug, Clone)]
pub struct Ancestor {
    /// Index into [`Snapshot::goroutines`] of the goroutine whose block it stands in.
    pub of: u32,
    /// The ancestor's id.
    pub id: u64,
    /// Its call sites, innermost first.
    pub sites: Vec<SiteId>,
}

impl Snapshot {
    /// The frames of a goroutine, innermost first.
    pub fn frames_of(&self, goroutine: &Goroutine) -> &[Frame] {
        let first = goroutine.first_frame as usize;
        self.frames.get(first..first + goroutine.frame_count as usize).unwrap_or(&[])
    }

    /// The call site of a frame.
    pub fn site(&self, id: SiteId) -> Site {
        self.sites.get(id.0 as usize).copied().unwrap_or(Site {
            func: Sym(0),
            file: Sym(0),
            line: 0,
            offset: None,
            kind: SiteKind::Go,
        })
    }

    /// The function name at a site.
    pub fn function(&self, id: SiteId) -> &str {
        self.names.get(self.site(id).func)
    }

    /// The text between a frame's parentheses.
    pub fn args_text(&self, goroutine: &Goroutine, frame: &Frame) -> &str {
        let start = goroutine.text_start + frame.args_start as usize;
        let bytes = self.text.bytes().get(start..start + frame.args_len as usize).unwrap_or(&[]);
        std::str::from_utf8(bytes).unwrap_or("")
    }

    /// The machine words of a frame's arguments. Unknown ones (`...`, `_`) are left out but counted in `index`.
    pub fn args(&self, goroutine: &Goroutine, frame: &Frame) -> Vec<Argument> {
        parse_arguments(self.args_text(goroutine, frame))
    }

    /// `fp`, `sp` and `pc` of a system-level frame, read from its file line.
    pub fn registers(&self, goroutine: &Goroutine, frame: &Frame) -> Registers {
        let from = goroutine.text_start + (frame.args_start + frame.args_len) as usize;
        let to = goroutine.text_start + goroutine.text_len;
        let rest = self.text.bytes().get(from..to).unwrap_or(&[]);
        let mut lines = rest.split(|&b| b == b'\n');
        let line = lines.nth(1).and_then(|l| std::str::from_utf8(l).ok()).unwrap_or("");
        let word = |key: &str| {
            let at = line.rfind(key)? + key.len();
            let digits: &str = line[at..].split(' ').next()?;
            u64::from_str_radix(digits.trim(), 16).ok()
        };
        Registers { fp: word(" fp=0x"), sp: word(" sp=0x"), pc: word(" pc=0x") }
    }

    /// The goroutine's block as the runtime printed it.
    pub fn block(&self, goroutine: &Goroutine) -> &[u8] {
        let start = goroutine.text_start;
        self.text.bytes().get(start..start + goroutine.text_len).unwrap_or(&[])
    }

    /// Where a line of [`Snapshot::text`] stands in the user's files.
    pub fn place(&self, line: u32) -> Option<Place> {
        self.lines.place(line)
    }

    /// Bytes of [`Snapshot::text`] that `range` covers, clamped.
    pub fn text_range(&self, range: Range<usize>) -> &[u8] {
        let bytes = self.text.bytes();
        bytes.get(range.start.min(bytes.len())..range.end.min(bytes.len())).unwrap_or(&[])
    }

    /// Number of goroutines, groups counted with all their members.
    pub fn goroutine_count(&self) -> u64 {
        self.goroutines.iter().map(|g| u64::from(g.count)).sum()
    }
}

/// Reads the text between the parentheses of a frame: `0xc000…, {0x7b0939, 0x1}, 0x64?`.
pub(crate) fn parse_arguments(text: &str) -> Vec<Argument> {
    let mut found = Vec::new();
    let (mut depth, mut index) = (0u8, 0u16);
    for token in tokens(text) {
        match token {
            "{" => depth = depth.saturating_add(1),
            "}" => depth = depth.saturating_sub(1),
            "," => {
                if depth == 0 {
                    index = index.saturating_add(1);
                }
            }
            word => {
                // gdb prints arguments with their names.
                let word = word.rsplit_once('=').map_or(word, |(_, value)| value);
                let (digits, stale) = word.strip_suffix('?').map_or((word, false), |w| (w, true));
                if let Some(value) = digits.strip_prefix("0x").and_then(|h| u64::from_str_radix(h, 16).ok()) {
                    found.push(Argument { value, stale, depth, index });
                }
            }
        }
    }
    found
}

fn tokens(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches([' ', '\u{a0}']);
        let first = rest.chars().next()?;
        let len = match first {
            '{' | '}' | ',' => 1,
            _ => rest.find(['{', '}', ',', ' ']).unwrap_or(rest.len()),
        };
        let (token, tail) = rest.split_at(len);
        rest = tail;
        Some(token)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_all_shapes() {
        let args = parse_arguments("0xc000015830, {0x7b184e, 0x8?}, _, {...}, 0x64?, ...");
        let seen: Vec<_> = args.iter().map(|a| (a.value, a.stale, a.depth, a.index)).collect();
        assert_eq!(seen, [(0xc000015830, false, 0, 0), (0x7b184e, false, 1, 1), (8, true, 1, 1), (0x64, true, 0, 4)]);
        assert!(parse_arguments("...").is_empty());
        assert!(parse_arguments("").is_empty());
    }
}
