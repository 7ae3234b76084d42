//! Locks of the version samples against what the program that was dumped says of itself.
//!
//! Counted for every lock that somebody waits for, where the dump can show it (goroutine ids exist and the holder is
//! not lost with the rest of a cut dump).

use crate::case::{Answer, entries, json};
use holdup_analysis::rules::Rules;
use holdup_parsers::ReadOptions;
use rayon::prelude::*;
use regex::bytes::Regex;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A dump and what is true of it.
pub struct Sample {
    /// The dump, in whatever envelope.
    pub dump: PathBuf,
    /// The locks of `NAME.json`.
    pub locks: Vec<Value>,
    /// Goroutines whose headers stand in the dump: what the evidence holds, never what the program says.
    pub goroutines: BTreeSet<u64>,
}

/// Samples under a folder: `NAME.json` beside `NAME.txt`.
pub fn samples(top: &Path) -> Vec<Sample> {
    let mut found = Vec::new();
    for path in entries(top) {
        if path.is_dir() {
            found.extend(samples(&path));
        } else if path.extension().is_some_and(|extension| extension == "json") {
            found.extend(sample(&path));
        }
    }
    found
}

fn sample(truth: &Path) -> Option<Sample> {
    let beside = |end: &str| Some(truth.with_extension(end)).filter(|path| path.is_file());
    let dump = beside("txt").or_else(|| beside("txt.gz"))?;
    let told = json(truth);
    let mode = told["sample"]["mode"].as_str().unwrap_or("").to_owned() + &truth.to_string_lossy();
    if ["debug=1", "debug1", "leak1"].iter().any(|form| mode.contains(form)) {
        return None; // these forms have no goroutine ids
    }
    let processes = told["processes"].as_array().cloned().unwrap_or_else(|| vec![told]);
    let locks: Vec<Value> = processes.iter().flat_map(|p| p["locks"].as_array().cloned().unwrap_or_default()).collect();
    let text = std::fs::read(&dump).expect("a dump");
    let header = Regex::new(r"goroutine[ \xa0]+(\d+)[ \xa0]+(?:gp=|\[|&#91;)").expect("a pattern");
    let id = |found: regex::bytes::Captures<'_>| std::str::from_utf8(&found[1]).ok()?.parse().ok();
    let goroutines: BTreeSet<u64> = header.captures_iter(&text).filter_map(id).collect();
    (!locks.is_empty() && !goroutines.is_empty()).then_some(Sample { dump, locks, goroutines })
}

/// What was counted.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Count {
    pub samples: usize,
    /// Samples of which no snapshot was read.
    pub silent: usize,
    pub locks: usize,
    /// Locks that the answer has, by address, or failing that by exactly their waiters.
    pub found: usize,
    /// Locks whose waiters are exactly the true ones.
    pub waiters: usize,
    /// Locks that somebody in the dump holds.
    pub held: usize,
    pub holder_right: usize,
    pub holder_wrong: usize,
    pub holder_null: usize,
    /// A goroutine that does not hold the lock is named with trust strong or proven.
    pub false_sure: usize,
}

impl Count {
    fn add(mut self, other: Count) -> Count {
        self.samples += other.samples;
        self.silent += other.silent;
        self.locks += other.locks;
        self.found += other.found;
        self.waiters += other.waiters;
        self.held += other.held;
        self.holder_right += other.holder_right;
        self.holder_wrong += other.holder_wrong;
        self.holder_null += other.holder_null;
        self.false_sure += other.false_sure;
        self
    }
}

/// The counts of all samples, and a line for each thing that is not as it should be.
pub fn count(samples: &[Sample], rules: &Rules) -> (Count, Vec<String>) {
    let parts: Vec<_> = samples.par_iter().map(|sample| count_one(sample, rules)).collect();
    let mut notes = Vec::new();
    let mut sum = Count::default();
    for (part, said) in parts {
        sum = sum.add(part);
        notes.extend(said);
    }
    (sum, notes)
}

fn ids(value: &Value) -> BTreeSet<u64> {
    value.as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
}

fn address(value: &Value) -> Option<u64> {
    u64::from_str_radix(value.as_str()?.trim_start_matches("0x"), 16).ok()
}

fn count_one(sample: &Sample, rules: &Rules) -> (Count, Vec<String>) {
    let folder = sample.dump.parent().expect("a folder");
    let answer = Answer::of(folder, std::slice::from_ref(&sample.dump), &ReadOptions::default(), rules);
    let mut count = Count { samples: 1, silent: usize::from(answer.evidence.snapshots.is_empty()), ..Count::default() };
    let mut notes = Vec::new();
    let locks = answer.json["locks"].as_array().cloned().unwrap_or_default();
    let waiting = |lock: &Value| -> BTreeSet<u64> {
        lock["waiters"].as_array().into_iter().flatten().filter_map(|w| w["goroutine"].as_u64()).collect()
    };
    for truth in &sample.locks {
        let waited_in_life = ids(&truth["waited_by"]);
        let waited: BTreeSet<u64> = waited_in_life.intersection(&sample.goroutines).copied().collect();
        let held: BTreeSet<u64> = &ids(&truth["held_by"]) | &ids(&truth["read_held_by"]);
        if waited.is_empty() || !held.is_empty() && held.is_disjoint(&sample.goroutines) {
            continue;
        }
        count.locks += 1;
        count.held += usize::from(!held.is_empty());
        let mut note = |what: String| notes.push(format!("{}: {}: {what}", sample.dump.display(), truth["name"]));
        let wanted = address(&truth["addr"]);
        let by_address = || locks.iter().find(|lock| wanted.is_some() && address(&lock["address"]) == wanted);
        let Some(lock) = by_address().or_else(|| locks.iter().find(|lock| waiting(lock) == waited)) else {
            note("not found".into());
            count.holder_null += usize::from(!held.is_empty());
            continue;
        };
        count.found += 1;
        let shown = waiting(lock);
        if waited.is_subset(&shown) && shown.is_subset(&waited_in_life) {
            count.waiters += 1;
        } else {
            note(format!("waiters {shown:?}, truth {waited:?}"));
        }
        let named = lock["holder"]["goroutine"].as_u64();
        let trust = lock["holder"]["trust"].as_str().unwrap_or("none");
        let wrong = named.is_some_and(|goroutine| !held.contains(&goroutine));
        let sure = matches!(trust, "strong" | "proven");
        if !held.is_empty() {
            match named {
                None => count.holder_null += 1,
                Some(_) if wrong => count.holder_wrong += 1,
                Some(_) => count.holder_right += 1,
            }
        }
        if wrong && sure {
            count.false_sure += 1;
        }
        if wrong && (sure || !held.is_empty()) || named.is_none() && !held.is_empty() {
            note(format!("holder {named:?} ({trust}), truth {held:?}"));
        }
    }
    (count, notes)
}
