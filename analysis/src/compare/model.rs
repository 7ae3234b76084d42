//! The comparison: what `holdup compare --format json` prints. It uses the words of the contract wherever they fit.

use crate::diagnosis::{Diagnosis, Finding, HolderStatus, Input, Process, Source, Tool, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The whole answer.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// `"1"`.
    pub schema_version: String,
    /// What made it.
    pub tool: Tool,
    /// The answer in one sentence.
    pub verdict: Verdict,
    /// The moments, oldest first.
    pub moments: Vec<ComparedMoment>,
    /// Every process that was seen at two moments or more, the most telling first.
    pub processes: Vec<ComparedProcess>,
    /// Hangs, deadlocks, crashes and leaks of all moments, with what became of them; what decides the verdict first.
    pub findings: Vec<ComparedFinding>,
    /// What the reader should know: moments put in order, processes that were started anew.
    pub notes: Vec<String>,
    /// The newest moment alone, as `analyze` sees it; reports draw its chain. Not part of the JSON.
    #[serde(skip)]
    pub latest: Option<Latest>,
}

/// The newest moment's own diagnosis.
#[derive(Debug, Clone, Default)]
pub struct Latest {
    /// Index into the evidences that were given.
    pub evidence: usize,
    /// What was found in it.
    pub diagnosis: Diagnosis,
}

/// One moment: one path of the command line, or one of several dumps in the only path.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ComparedMoment {
    /// From 1.
    pub moment: u32,
    /// Which of the given paths it is, from 1.
    pub given: u32,
    /// RFC 3339, where a clock tells.
    pub taken_at: Option<String>,
    /// Seconds since the moment before, by the clock.
    pub seconds_since_previous: Option<i64>,
    /// Whole minutes since the moment before, by how much older the goroutines that did not move have become.
    pub minutes_by_ages: Option<u32>,
    /// What this moment says alone.
    pub verdict: Verdict,
    /// The files that were read.
    pub inputs: Vec<Input>,
}

/// A process through the moments.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ComparedProcess {
    /// Who it is.
    pub process: Process,
    /// Where it was seen, oldest first.
    pub snapshots: Vec<Sighting>,
    /// Not idle, and at the same place in every one of [`Self::snapshots`].
    pub stuck: Vec<Stuck>,
    /// At other places, or back at the same one for a new wait.
    pub moving: Vec<Moving>,
    /// Equal stacks of which there are more and more.
    pub growing: Vec<Growing>,
    /// Locks through the moments.
    pub locks: Vec<ComparedLock>,
    /// Goroutines that stand still as they should: idle by design.
    pub idle_standing: u64,
    /// Goroutines of the first moment that are gone in the last.
    pub ended: u64,
    /// Goroutines of the last moment that were not there in the first.
    pub started: u64,
    /// What limits the comparison: forms without ids, dumps cut short.
    pub notes: Vec<String>,
}

/// A process at a moment.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Sighting {
    /// From 1.
    pub moment: u32,
    /// The snapshot's id within its moment.
    pub snapshot: String,
    /// Index into that moment's `inputs`.
    pub input: usize,
    /// RFC 3339, where a clock tells.
    pub taken_at: Option<String>,
    /// Whether all of it is there, as far as one can tell.
    pub complete: bool,
    /// How many goroutines.
    pub goroutines: u64,
}

/// Goroutines that have not moved.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Stuck {
    /// How many.
    pub count: u64,
    /// Every id.
    pub goroutines: Vec<u64>,
    /// The frame that says most.
    pub function: String,
    /// State as printed in the last moment.
    pub state: String,
    /// What they are stuck in.
    pub blocked_in: String,
    /// Longest wait in whole minutes, at each of the process's snapshots.
    pub minutes: Vec<Option<u32>>,
    /// Id of the lock (of [`ComparedProcess::locks`]) that they wait for.
    pub waits_for: Option<String>,
    /// Ids of the locks that one of them holds, as far as can be told.
    pub holds: Vec<String>,
    /// They belong to the chain of a finding.
    pub in_chain: bool,
    /// Where the first of them stands, at each of the process's snapshots.
    pub places: Vec<MomentPlace>,
}

/// A place in the evidence of a moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MomentPlace {
    /// From 1.
    pub moment: u32,
    /// Where; `input` is an index into that moment's `inputs`.
    pub source: Source,
}

/// Goroutines that moved the same way.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Moving {
    /// How many.
    pub count: u64,
    /// Every id.
    pub goroutines: Vec<u64>,
    /// Where they were.
    pub from: String,
    /// Where they are; the same as `from` if they left and came back.
    pub to: String,
    /// They stand where they stood, but their wait is younger than it was: they were away in between.
    pub came_back: bool,
    /// The moment of `to`, from 1.
    pub moment: u32,
}

/// Equal stacks of which there are more and more.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct Growing {
    /// Equal for equal stacks.
    pub signature: String,
    /// The frame that says most.
    pub function: String,
    /// State as printed in the last moment.
    pub state: String,
    /// Who started them.
    pub created_by: Option<String>,
    /// How many, at each of the process's snapshots.
    pub counts: Vec<u64>,
    /// How many of the first moment's are still there in the last, unmoved; null where the form has no ids.
    pub stayed: Option<u64>,
    /// Id of the lock (of [`ComparedProcess::locks`]) that they wait for.
    pub waits_for: Option<String>,
    /// Judged idle by design, and by which rule.
    pub idle: Option<String>,
    /// Where one of them stands in the last moment.
    pub place: Option<MomentPlace>,
}

/// What became of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Course {
    /// The same goroutines wait, and nobody got it.
    Stuck,
    /// Somebody got it in between: slow, not stuck.
    ChangesHands,
    /// Nobody waited for it before the last moment.
    New,
    /// Nobody waits for it any more.
    Released,
    /// It cannot be told.
    #[default]
    Unclear,
}

/// A lock through the moments.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ComparedLock {
    /// `p1/l3`.
    pub id: String,
    /// What to call it.
    pub label: String,
    /// The contract's kind.
    pub kind: String,
    /// The object's own base address, or that of the object around it.
    pub address: Option<String>,
    /// The type or field that holds it, if known.
    #[serde(rename = "type")]
    pub type_: Option<String>,
    /// What became of it.
    pub course: Course,
    /// Why that is said.
    pub why: String,
    /// At each of the process's snapshots; null where nobody waits for it.
    pub at: Vec<Option<LockAt>>,
    /// Waiters of the last moment that have waited since the first in which it was seen.
    pub same_waiters: Vec<u64>,
    /// Waiters of the last moment that did not wait for it at the moment before.
    pub new_waiters: Vec<u64>,
    /// Waiters of some moment that do not wait any more: they got it.
    pub served: Vec<u64>,
}

/// A lock at a moment.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct LockAt {
    /// From 1.
    pub moment: u32,
    /// The lock's id within that moment's snapshot, as `analyze` names it.
    pub lock: String,
    /// How many wait.
    pub waiter_count: u64,
    /// Longest wait in whole minutes.
    pub oldest_wait_minutes: Option<u32>,
    /// Who holds it, if named.
    pub holder: Option<u64>,
    /// Why there is or is not a holder.
    pub holder_status: HolderStatus,
    /// Where its oldest waiter stands.
    pub place: Option<MomentPlace>,
}

/// What became of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// It stood still from `since` to the last moment.
    Stays,
    /// It is there in the last moment and was not before.
    New,
    /// Nothing that it rests on was seen at another moment.
    #[default]
    SeenOnce,
    /// Its chain stood elsewhere at another moment, or its lock went from hand to hand.
    Moves,
    /// It was there, and is not any more.
    Gone,
}

/// A finding through the moments.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct ComparedFinding {
    /// The moment that it is told from, from 1.
    pub moment: u32,
    /// The moment since when its chain has stood, from 1.
    pub since: u32,
    /// What became of it.
    pub fate: Fate,
    /// Why that is said.
    pub why: String,
    /// The finding, as `analyze` gives it for `moment`.
    pub finding: Finding,
}
