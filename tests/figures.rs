//! The figures of docs/accuracy.md: how often the answer is right, with rules and without.

use crate::case::Case;
use crate::expect::{candidates, root_matches};
use crate::versions;
use holdup_analysis::rules::Rules;
use serde_json::Value;
use std::path::Path;

/// A row of the table.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Row {
    pub corpus: String,
    pub rules: bool,
    pub cases: usize,
    pub holder_right: usize,
    pub holder_wrong: usize,
    pub holder_null: usize,
    pub root_right: usize,
    pub root_wrong: usize,
    /// Things that must never be said: a wrong holder as strong or proven, an innocent as the root of the first
    /// finding, a verdict that is ruled out, more trust in a finding of a healthy case than a guess.
    pub accusations: usize,
}

/// The head of the table.
pub const HEAD: &str = "\
| corpus | rules | cases | holder right | wrong | null | root right | wrong | false accusations |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
";

impl Row {
    fn new(corpus: &str, rules: bool) -> Row {
        Row { corpus: corpus.into(), rules, ..Row::default() }
    }

    /// What tells a row from all others.
    pub fn key(&self) -> String {
        format!("| {} | {} |", self.corpus, if self.rules { "on" } else { "off" })
    }

    /// The row as Markdown.
    pub fn line(&self) -> String {
        let figures = [
            self.cases,
            self.holder_right,
            self.holder_wrong,
            self.holder_null,
            self.root_right,
            self.root_wrong,
            self.accusations,
        ];
        let cells: String = figures.iter().map(|figure| format!(" {figure} |")).collect();
        format!("{}{cells}", self.key())
    }
}

/// Both rows of a corpus: with rules and without.
pub fn both(of: impl Fn(&Rules, bool) -> (Row, Vec<String>)) -> Vec<(Row, Vec<String>)> {
    vec![of(&Rules::builtin(), true), of(&Rules::none(), false)]
}

/// Cases with an `expect.json`.
pub fn of_cases(corpus: &str, top: &Path, rules: &Rules, on: bool) -> (Row, Vec<String>) {
    let mut row = Row::new(corpus, on);
    let mut notes = Vec::new();
    for case in Case::all(top) {
        let answer = case.analyze(rules);
        row.cases += 1;
        let mut note = |what: String| notes.push(format!("{corpus}, rules {on}: {}: {what}", case.name));
        let mut expect = case.expect.clone();
        for want in expect["locks"].as_array_mut().into_iter().flatten() {
            if !on {
                want["snapshot_role"] = Value::Null; // roles are something that rules know; addresses tell enough
            }
            holder(want, &answer.json, &mut row, &mut note);
        }
        let findings = answer.json["findings"].as_array().cloned().unwrap_or_default();
        let want = &case.expect["root"];
        if !want.is_null() {
            let within = want["within"].as_u64().unwrap_or(1) as usize;
            if findings.iter().take(within).any(|finding| root_matches(&answer.json, finding, want)) {
                row.root_right += 1;
            } else {
                row.root_wrong += 1;
                note(format!("root: {}", findings.first().map_or(&Value::Null, |f| &f["title"])));
            }
        }
        let checks = crate::expect::checks(&expect, &answer.json);
        let never = ["not_root", "not_verdict", "max_finding_trust", "no_false_holder", "holder_not", "max_trust"];
        for check in checks {
            if !check.holds && never.contains(&check.name.rsplit('.').next().unwrap_or("")) {
                row.accusations += 1;
                note(format!("{}: {}", check.name, check.found));
            }
        }
    }
    (row, notes)
}

/// Counts whether one true holder is named, by the best entry of its lock.
fn holder(want: &Value, answer: &Value, row: &mut Row, note: &mut impl FnMut(String)) {
    let mut held: Vec<&Value> = want["holder_in"].as_array().into_iter().flatten().collect();
    held.extend(Some(&want["holder"]).filter(|holder| !holder.is_null()));
    if held.is_empty() {
        return;
    }
    let named: Vec<&Value> = candidates(want, answer).iter().map(|lock| &lock["holder"]["goroutine"]).collect();
    if named.iter().any(|goroutine| held.contains(goroutine)) {
        row.holder_right += 1;
    } else if let Some(goroutine) = named.iter().find(|goroutine| !goroutine.is_null()) {
        row.holder_wrong += 1;
        note(format!("holder {goroutine}, truth {held:?}"));
    } else {
        row.holder_null += 1;
        note(format!("no holder, truth {held:?}"));
    }
}

/// Version samples. Their truth is about locks alone.
pub fn of_samples(corpus: &str, top: &Path, rules: &Rules, on: bool) -> (Row, Vec<String>) {
    let (count, notes) = versions::count(&versions::samples(top), rules);
    let row = Row {
        cases: count.samples,
        holder_right: count.holder_right,
        holder_wrong: count.holder_wrong,
        holder_null: count.holder_null,
        accusations: count.false_sure,
        ..Row::new(corpus, on)
    };
    (row, notes)
}
