//! The rules themselves, compiled.

use super::pattern::Atom;
use super::stack::StackSpec;
use regex::Regex;

/// What kind of knowledge a rule is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum RuleKind {
    Role,
    Benign,
    Symptom,
    Rpc,
    Holds,
    External,
    KnownIssue,
}

impl RuleKind {
    /// The word used in files and lists.
    pub fn as_str(self) -> &'static str {
        match self {
            RuleKind::Role => "role",
            RuleKind::Benign => "benign",
            RuleKind::Symptom => "symptom",
            RuleKind::Rpc => "rpc",
            RuleKind::Holds => "holds",
            RuleKind::External => "external",
            RuleKind::KnownIssue => "known_issue",
        }
    }
}

/// What every rule has, whatever its kind: enough for `holdup rules list` and `show`.
#[derive(Debug, Clone)]
pub struct Rule {
    /// Unique in a rule set: `kubelet-pleg-relist`.
    pub id: String,
    /// What kind it is.
    pub kind: RuleKind,
    /// What it knows, in a line: a known issue's title, a lock's description, a role.
    pub title: String,
    /// Why it is so.
    pub why: String,
    /// Where that is stated: source files, issues.
    pub references: Vec<String>,
    /// The file that it came from.
    pub file: String,
    /// Line of its id in that file, from 1.
    pub line: u32,
    /// Came with the program rather than from the user.
    pub builtin: bool,
    /// How it looks: patterns and states as the file gives them, one a line.
    pub looks_like: Vec<String>,
    /// What to do, if it says.
    pub remedy: Option<String>,
    /// Further facts for a reader: `fixed in`, `affected`, `risk` …
    pub facts: Vec<(&'static str, String)>,
    /// A stack that it fires on, from its own tests.
    pub example: Option<String>,
}

/// Which process it is.
#[derive(Debug)]
pub struct RoleRule {
    /// Unique id.
    pub id: String,
    /// The contract's role word.
    pub role: String,
    /// Program name as people call it.
    pub name: String,
    pub(crate) functions: Vec<Atom>,
    pub(crate) main: Vec<String>,
    pub(crate) process: Vec<String>,
    pub(crate) priority: i32,
}

/// A goroutine that waits because nothing is to do.
#[derive(Debug)]
pub struct BenignRule {
    /// Unique id.
    pub id: String,
    /// Why that is normal.
    pub why: String,
    pub(crate) stack: StackSpec,
}

/// An observer: it shows that something hangs, and is never the cause.
#[derive(Debug)]
pub struct SymptomRule {
    /// Unique id.
    pub id: String,
    /// What its hanging means for the node, one sentence.
    pub text: String,
    pub(crate) stack: StackSpec,
}

/// A remote call and who answers it.
#[derive(Debug)]
pub struct RpcRule {
    /// Unique id.
    pub id: String,
    /// `grpc`, `ttrpc`, `http`, `varlink` …
    pub transport: String,
    /// Service of a named pair; derived rules have none.
    pub service: Option<String>,
    /// Method of a named pair.
    pub method: Option<String>,
    /// Role of the process that calls, if only one does.
    pub client_role: Option<String>,
    /// Role of the process that answers, if only one does.
    pub server_role: Option<String>,
    pub(crate) derive: Option<Derive>,
    pub(crate) client: Option<StackSpec>,
    pub(crate) server: Option<StackSpec>,
}

/// How service and method are read out of generated names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Derive {
    /// The method that calls the matched frame is a generated stub: `(*runtimeServiceClient).StopPodSandbox`.
    StubClient,
    /// The matched frame itself is one of a generated stream type: `(*eventsSubscribeClient).Recv`.
    StreamClient,
    /// The matched frame is `_Service_Method_Handler`.
    HandlerServer,
    /// The matched frame is `Register…Service.funcN`, and what it calls is the method.
    RegisterServer,
    /// The method that calls the matched frame names the request; the service is its package.
    CallerClient,
}

impl Derive {
    pub(crate) const WORDS: &'static [(&'static str, Derive)] = &[
        ("stub-client", Derive::StubClient),
        ("stream-client", Derive::StreamClient),
        ("handler-server", Derive::HandlerServer),
        ("register-server", Derive::RegisterServer),
        ("caller-client", Derive::CallerClient),
    ];
}

/// How surely a call runs under a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certainty {
    /// In some versions or branches only.
    Sometimes,
    /// On every path of the versions that the reference names.
    Always,
}

/// A call that runs under a lock.
#[derive(Debug)]
pub struct HoldsRule {
    /// Unique id.
    pub id: String,
    /// Which lock, for a person: `container status (statusStorage)`.
    pub lock: String,
    /// `lock` or `rlock`.
    pub mode: String,
    /// Why.
    pub why: String,
    /// How sure.
    pub certainty: Certainty,
    pub(crate) stack: StackSpec,
    /// Functions that call Lock or RLock on this lock.
    pub(crate) waiters: Vec<Atom>,
}

/// What a system call or client call waits for outside the process.
#[derive(Debug)]
pub struct ExternalRule {
    /// Unique id.
    pub id: String,
    /// `netlink`, `dbus`, `file`, `exec`, `plugin`, `pipe`, `disk`, `file-lock`, `cgo`, `network`, `ttrpc` …
    pub resource: String,
    /// What it waits for, as a sentence part: `the kernel's answer to a netlink request`.
    pub waits_for: String,
    /// Role or name of who should answer: `systemd`, `kernel`, `cni-plugin`.
    pub peer: Option<String>,
    /// What to do about it.
    pub remedy: Option<String>,
    pub(crate) stack: StackSpec,
}

/// A known bug or well-known trouble.
#[derive(Debug)]
pub struct KnownIssueRule {
    /// Unique id: `CTD-01`.
    pub id: String,
    /// One line.
    pub title: String,
    /// Issue references, `owner/repo#number`.
    pub references: Vec<String>,
    /// Which versions have it, in words.
    pub affected: Option<String>,
    /// Where it was fixed, in words.
    pub fixed_in: Option<String>,
    /// What to do.
    pub remedy: Option<String>,
    /// What is tempting and wrong.
    pub dont: Option<String>,
    /// What the remedy may cost.
    pub risk: Option<String>,
    /// How well the bug is understood.
    pub confidence: Confidence,
    pub(crate) why: String,
    pub(crate) roles: Vec<String>,
    pub(crate) versions: Vec<super::format::RawVersions>,
    pub(crate) waiter: Vec<StackSpec>,
    pub(crate) holder: Vec<StackSpec>,
    pub(crate) also: Vec<StackSpec>,
    pub(crate) absent: Vec<Atom>,
    pub(crate) min_waiters: u32,
    pub(crate) leaked: Option<bool>,
    pub(crate) cycle: Option<bool>,
    pub(crate) same_goroutine: bool,
    pub(crate) waiter_alone: bool,
    pub(crate) general: bool,
    pub(crate) same_age: bool,
    pub(crate) log: Vec<Regex>,
    pub(crate) kernel: Vec<String>,
    pub(crate) log_optional: bool,
}

impl KnownIssueRule {
    /// What goes wrong and why, a few sentences.
    pub fn why(&self) -> &str {
        &self.why
    }
}

/// How well a known issue is understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Frames derived from a description, not seen in a dump.
    Derived,
    /// A reporter's analysis, plausible.
    Reported,
    /// Maintainers diagnosed it, and the frames are in their report.
    Diagnosed,
}
