//! The diagnosis: what `--format json` prints, field by field as the contract says.
//!
//! Every field may be absent or null for a reader; here what is always known is not an `Option`.
//! Addresses are strings in hex, goroutine ids numbers, minutes whole numbers as the runtime prints them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The whole answer.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Diagnosis {
    /// `"1"`.
    pub schema_version: String,
    /// What made it.
    pub tool: Tool,
    /// The answer in one sentence.
    pub verdict: Verdict,
    /// Every file that was read.
    pub inputs: Vec<Input>,
    /// Every process and moment of which goroutines are known.
    pub snapshots: Vec<Snapshot>,
    /// Everything that somebody waits for but select, sleep and the kernel.
    pub locks: Vec<Lock>,
    /// Who waits for whom.
    pub edges: Vec<Edge>,
    /// Likeliest root cause first.
    pub findings: Vec<Finding>,
    /// What got stuck when, oldest first.
    pub timeline: Vec<Moment>,
    /// Equal stacks.
    pub groups: Vec<Group>,
    /// What the stuck chain is about.
    pub subjects: Vec<Subject>,
    /// Evidence that would settle what is open, and how to get it.
    pub missing: Vec<Missing>,
    /// What was looked at and judged idle by design, by snapshot: for the reader who asks what was ruled out.
    pub idle: Vec<Idle>,
}

/// Name and version of the program.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs)]
pub struct Tool {
    pub name: String,
    pub version: String,
}

/// How far a claim may be believed. Ordered: `guess` is least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Trust {
    /// Only the oldest-waiter rule, or elimination.
    #[default]
    Guess,
    /// One good reason, and no better candidate.
    Likely,
    /// Independent evidence agrees and nothing contradicts it.
    Strong,
    /// The memory itself shows it and nothing else fits, or the runtime itself says it.
    Proven,
}

impl Trust {
    /// The contract's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Trust::Guess => "guess",
            Trust::Likely => "likely",
            Trust::Strong => "strong",
            Trust::Proven => "proven",
        }
    }
}

/// What the incident is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum VerdictKind {
    /// Goroutines wait for each other in a circle.
    Deadlock,
    /// Something waits for what does not come.
    Hang,
    /// It moves, but slowly.
    Slow,
    /// A panic, fatal error or exhausted resource, with no hang behind it.
    Crash,
    /// Goroutines pile up for ever, nothing else waits for them.
    Leak,
    /// Nothing is stuck.
    Healthy,
    /// The evidence does not tell.
    #[default]
    Inconclusive,
}

impl VerdictKind {
    /// The contract's word.
    pub fn as_str(self) -> &'static str {
        match self {
            VerdictKind::Deadlock => "deadlock",
            VerdictKind::Hang => "hang",
            VerdictKind::Slow => "slow",
            VerdictKind::Crash => "crash",
            VerdictKind::Leak => "leak",
            VerdictKind::Healthy => "healthy",
            VerdictKind::Inconclusive => "inconclusive",
        }
    }
}

/// The answer in one sentence.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// What it is.
    pub kind: VerdictKind,
    /// One sentence for a person.
    pub summary: String,
    /// How sure.
    pub trust: Trust,
    /// A lower bound of how long it has lasted, in minutes, where ages tell.
    pub since_minutes: Option<u32>,
}

/// A file that was read.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// As given; an archive's member after `!/`.
    pub path: String,
    /// What it was taken for.
    pub kind: String,
    /// What was peeled off, outermost first.
    pub envelopes: Vec<String>,
    /// Size in bytes.
    pub bytes: u64,
    /// Ids of the snapshots in it.
    pub snapshots: Vec<String>,
    /// What was lost, cut, unreadable.
    pub problems: Vec<Problem>,
}

/// Something lost, cut or unreadable.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// `note`, `warning`, `error`.
    pub severity: String,
    /// Line of the file, from 1.
    pub line: Option<u32>,
    /// One sentence.
    pub message: String,
}

/// The goroutines of one process at one moment.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// `s1`, `s2` …
    pub id: String,
    /// Index into `inputs`.
    pub input: usize,
    /// Whose.
    pub process: Process,
    /// RFC 3339, or null.
    pub taken_at: Option<String>,
    /// Whether all of it is there, as far as one can tell.
    pub complete: bool,
    /// How many goroutines.
    pub goroutines: u64,
    /// How many threads, where known (cores).
    pub threads: Option<u64>,
    /// How many goroutines in each state.
    pub states: BTreeMap<String, u64>,
    /// Why the dump was made: `SIGQUIT: quit`, `panic: …`.
    pub notices: Vec<String>,
}

/// A process.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    /// Program name.
    pub name: Option<String>,
    /// `kubelet`, `dockerd`, `containerd`, `containerd-shim`, `runc` … or `unknown`.
    pub role: String,
    #[allow(missing_docs)]
    pub pid: Option<u32>,
    /// `go1.19.8`.
    pub go_version: Option<String>,
    /// In hex.
    pub build_id: Option<String>,
}

/// Something that is waited for.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Lock {
    /// `s1/l3`.
    pub id: String,
    /// Whose.
    pub snapshot: String,
    /// The object's own base address.
    pub address: Option<String>,
    /// What `address` is: `lock` (the object's own), `object` (the object around it; the field's offset is not
    /// known), `unknown` (only the call site is known, it may be several locks).
    #[serde(default)]
    pub address_of: String,
    /// `mutex`, `rwmutex`, `semaphore`, `waitgroup`, `cond`, `once`, `channel`, `pthread-mutex`, `file-lock` …
    pub kind: String,
    /// The type or field that holds it, if known: `terway.ENI.lock`.
    #[serde(rename = "type")]
    pub type_: Option<String>,
    /// How many wait.
    pub waiter_count: u64,
    /// Longest wait, in whole minutes, where known.
    pub oldest_wait_minutes: Option<u32>,
    /// Who waits.
    pub waiters: Vec<Waiter>,
    /// Who holds it (mutual exclusion alone).
    pub holder: Option<Holder>,
    /// Why there is or is not a holder.
    pub holder_status: HolderStatus,
    /// Who else might, ranked.
    pub candidates: Vec<Holder>,
}

/// What is known of a lock's holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HolderStatus {
    /// It is named.
    Named,
    /// Locked, and nobody alive can hold it.
    Leaked,
    /// Its holder is not among what was given.
    NotInEvidence,
    /// Nobody can be named.
    #[default]
    Unknown,
    /// Not a thing that is held.
    NotApplicable,
}

/// One who waits.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Waiter {
    /// Goroutine id.
    pub goroutine: Option<u64>,
    /// Thread id, for native locks.
    pub thread: Option<u32>,
    /// `lock`, `rlock`, `wait`, `send`, `receive`.
    pub mode: String,
    /// As printed; null means under a minute or unknown.
    pub minutes: Option<u32>,
}

/// One who holds, or might.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Holder {
    /// Goroutine id.
    pub goroutine: Option<u64>,
    /// Thread id, for native locks.
    pub thread: Option<u32>,
    /// `lock` or `rlock`.
    pub mode: String,
    /// How sure.
    pub trust: Trust,
    /// Why, and what speaks against it.
    pub evidence: Vec<Evidence>,
}

/// A reason for a claim.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// `memory`, `pointer`, `later-line`, `rule`, `family`, `time`, `oldest-waiter`, `exclusion`, `frame`, `rpc` …
    pub kind: String,
    /// One sentence.
    pub text: String,
    /// Where it stands.
    pub source: Option<Source>,
    /// It speaks against the claim.
    #[serde(default)]
    pub against: bool,
}

/// A place in the user's evidence.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Source {
    /// Index into `inputs`.
    pub input: usize,
    /// From 1.
    pub line_start: Option<u32>,
    /// From 1, inclusive.
    pub line_end: Option<u32>,
    /// An address in a core, in hex.
    pub address: Option<String>,
}

/// One waits for the other.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Edge {
    /// Who waits.
    pub from: Node,
    /// For whom or what.
    pub to: Node,
    /// `lock`, `rpc`, `http`, `exec`, `channel`, `waitgroup`, `thread`, `syscall`, `kernel`, `mount`, `bus` …
    pub why: String,
    /// How sure.
    pub trust: Trust,
    /// Why.
    pub evidence: Vec<Evidence>,
}

/// A node of the wait-for graph.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    /// `goroutine`, `lock`, `process`, `thread`, `resource`.
    pub kind: String,
    /// Id of the snapshot, if it belongs to one.
    pub snapshot: Option<String>,
    /// Goroutine id, lock id, pid, tid, or a name.
    pub id: NodeId,
    /// For a person; a process's begins with its name.
    pub label: String,
}

/// A number or a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[allow(missing_docs)]
pub enum NodeId {
    Number(u64),
    Name(String),
}

impl Default for NodeId {
    fn default() -> Self {
        NodeId::Name(String::new())
    }
}

/// A cause, or what looks like one.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// From 1.
    pub rank: u32,
    /// `deadlock-lock-order`, `deadlock-self`, `held-in-syscall`, `leaked-lock`, `kernel-wait`, `crash-panic`, `leak` …
    pub kind: String,
    /// One line.
    pub title: String,
    /// A few sentences.
    pub explanation: String,
    /// Where the chain ends.
    pub root: Root,
    /// From the symptom to the root.
    pub chain: Vec<Node>,
    /// What is behind it.
    pub blocked: Blocked,
    /// How sure.
    pub trust: Trust,
    /// Why, and what speaks against it.
    pub evidence: Vec<Evidence>,
    /// A known bug that looks like this.
    pub known_issue: Option<KnownIssue>,
    /// What to do, and what not.
    pub remedies: Vec<Remedy>,
}

/// Where a chain ends.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Root {
    /// Who or what.
    pub node: Node,
    /// The frame that says what it does.
    pub function: Option<String>,
    /// What it is stuck in: `recvfrom on a netlink socket`.
    pub blocked_in: Option<String>,
    /// Since when, in whole minutes, where known.
    pub minutes: Option<u32>,
}

/// What is behind a finding.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Blocked {
    /// Goroutines that wait for it, directly or not.
    pub goroutines: u64,
    /// Processes that have some of them, the root's own included.
    pub processes: u64,
}

/// A known bug.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs)]
pub struct KnownIssue {
    pub id: String,
    pub title: String,
    pub references: Vec<String>,
    /// Where it was fixed, if known.
    pub fixed_in: Option<String>,
}

/// Something to do or to leave.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Remedy {
    /// `do`, `dont`, `collect`, `prevent`.
    pub kind: String,
    /// What.
    pub text: String,
    /// What it may cost.
    pub risk: Option<String>,
}

/// Something that happened.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Moment {
    /// Minutes before the dump; a lower bound.
    pub minutes_before_dump: Option<u32>,
    /// RFC 3339, where a clock is known.
    pub at: Option<String>,
    /// What.
    pub text: String,
    /// Whom it concerns.
    pub node: Option<Node>,
}

/// Goroutines with equal stacks.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// Whose.
    pub snapshot: String,
    /// Equal for equal stacks, also across snapshots.
    pub signature: String,
    /// How many.
    pub count: u64,
    /// Their common state.
    pub state: String,
    /// Youngest and oldest wait.
    pub minutes: MinuteRange,
    /// Every id; empty where the form has none.
    pub goroutines: Vec<u64>,
    /// Innermost first.
    pub frames: Vec<GroupFrame>,
    /// Who started them.
    pub created_by: Option<String>,
    /// Judged idle by design, and by which rule.
    pub idle: Option<String>,
}

/// A range of ages.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs)]
pub struct MinuteRange {
    pub min: Option<u32>,
    pub max: Option<u32>,
}

/// A frame of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupFrame {
    /// As printed, without arguments.
    pub function: String,
    /// As printed.
    pub file: String,
    #[allow(missing_docs)]
    pub line: u32,
    /// Belongs to the standard library or the runtime.
    pub standard: bool,
    /// The frame that says most about this stack.
    pub interesting: bool,
}

/// What the stuck chain is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Subject {
    /// `pod`, `container`, `volume`, `device`, `service`.
    pub kind: String,
    /// Name, if known.
    pub name: Option<String>,
    /// Id, if known.
    pub id: Option<String>,
    /// Where it was seen, and why it matters.
    pub why: String,
}

/// Evidence that is not there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Missing {
    /// What.
    pub what: String,
    /// What it would settle.
    pub why: String,
    /// How to get it, without hanging.
    pub command: Option<String>,
}

/// Goroutines judged idle by design.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Idle {
    /// Whose.
    pub snapshot: String,
    /// Rule or general reason.
    pub reason: String,
    /// How many.
    pub goroutines: u64,
}
