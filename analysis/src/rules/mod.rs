//! What is known of particular daemons and libraries, as data: `analysis/rules/*.toml`.
//!
//! General reasoning (pointers, lines, time, memory words) is code and works on any Go program. Rules add what a
//! person who knows the daemon would add: which goroutines always sleep in a healthy one, which calls run under which
//! lock, which RPC client meets which server, who only observes, what a system call waits for, and which known bug a
//! stuck chain looks like. The file format is described in `analysis/rules/README.md`.
//!
//! # How to use it
//!
//! ```no_run
//! # use holdup_analysis::rules::{Rules, Side};
//! # let snapshots: Vec<holdup_parsers::evidence::Snapshot> = Vec::new();
//! let rules = Rules::builtin(); // or Rules::none(), or Rules::parse(&[("mine.toml".into(), text)], true)
//! # let text = String::new();
//! for s in &snapshots {
//!     let bound = rules.bind(s); // one pass over the snapshot's function names
//!     let role = bound.role(s).map_or("unknown", |r| r.role);
//!     for g in &s.goroutines {
//!         if bound.benign(s, g).is_some() {
//!             continue; // idle by design
//!         }
//!         if let Some(call) = bound.rpc_client(s, g) {
//!             println!("{role} waits for {}", call.name());
//!         }
//!     }
//! }
//! ```
//!
//! * [`Bound::role`] – which process. [`program_name`] names one that no rule knows.
//! * [`Bound::benign`] – idle by design; never a lock waiter, a sender, a writer or a system call other than a read.
//! * [`Bound::symptom`] – an observer, never the culprit.
//! * [`Bound::rpc_client`], [`Bound::rpc_server`] – both ends of a call; [`RpcMatch::key`] is equal for both.
//! * [`Bound::holds`] – locks held by what a call does; [`Bound::waits_for`] tells which waiters they concern.
//! * [`Bound::external`] – what outside the process it waits for.
//! * [`known_issue`] – the known bug that a stuck [`Chain`] looks like.
//!
//! Answers depend only on a goroutine's call sites, state, age and creator, so a caller may ask once a group of equal
//! stacks.

mod bound;
mod builtin;
mod format;
mod known;
mod load;
mod model;
mod pattern;
mod plumbing;
mod role;
mod rpc;
mod stack;
mod testing;
mod wait;

pub use bound::{Bound, ExternalMatch, HoldsMatch, RoleMatch, RpcMatch, Side};
pub use known::{Chain, ChainNode, Part, known_issue};
pub use load::RuleError;
pub use model::{
    BenignRule, Certainty, Confidence, ExternalRule, HoldsRule, KnownIssueRule, RoleRule, RpcRule, Rule, RuleKind,
    SymptomRule,
};
pub use pattern::normal as normal_name;
pub use plumbing::is_plumbing;
pub use role::program_name;
pub use testing::{TestFailure, check_tests};
pub use wait::Wait;

use holdup_parsers::evidence::Snapshot;
use pattern::{Atom, Atoms};
use rustc_hash::FxHashMap;

/// A rule set, compiled and immutable.
#[derive(Debug, Default)]
pub struct Rules {
    atoms: Atoms,
    all: Vec<Rule>,
    roles: Vec<RoleRule>,
    benign: Vec<BenignRule>,
    symptom: Vec<SymptomRule>,
    rpc: Vec<RpcRule>,
    holds: Vec<HoldsRule>,
    external: Vec<ExternalRule>,
    known: Vec<KnownIssueRule>,
    index: Index,
}

/// For each kind, its rules by the atoms of the innermost frame that they name.
#[derive(Debug, Default)]
struct Index {
    benign: FxHashMap<Atom, Vec<u32>>,
    symptom: FxHashMap<Atom, Vec<u32>>,
    holds: FxHashMap<Atom, Vec<u32>>,
    external: FxHashMap<Atom, Vec<u32>>,
    client: FxHashMap<Atom, Vec<u32>>,
    server: FxHashMap<Atom, Vec<u32>>,
}

impl Rules {
    /// The rules that come with the program, without their examples: those are most of the text, and only `show`
    /// and `check` want them, through [`Rules::parse`].
    pub fn builtin() -> Rules {
        // A test keeps the built-in rules free of errors; should one slip through, having none is better than dying.
        let mut loader = load::Loader::new();
        for (file, text) in builtin::FILES {
            loader.file(file, &without_tests(text), true);
        }
        loader.finish().unwrap_or_default()
    }

    /// No rules at all: only general reasoning is left.
    pub fn none() -> Rules {
        Rules::default()
    }

    /// Compiles a user's files (name and TOML text), on top of the built-in rules or alone.
    ///
    /// A user's rule takes the place of a built-in one of the same id; `off = ["id"]` switches one off. All faults of
    /// all files come back at once, in the order of files and lines.
    pub fn parse(user: &[(String, String)], with_builtin: bool) -> Result<Rules, Vec<RuleError>> {
        let mut loader = load::Loader::new();
        if with_builtin {
            for (file, text) in builtin::FILES {
                loader.file(file, text, true);
            }
        }
        for (file, text) in user {
            loader.file(file, text, false);
        }
        loader.finish()
    }

    /// Every rule, in the order of the files.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.all.iter()
    }

    /// The rules about remote calls.
    pub fn rpc_rules(&self) -> impl Iterator<Item = &RpcRule> {
        self.rpc.iter()
    }

    /// The rule with this id, for `holdup rules show`. Case does not matter.
    pub fn show(&self, id: &str) -> Option<&Rule> {
        self.all.iter().find(|rule| rule.id.eq_ignore_ascii_case(id))
    }

    /// Ids that look like a mistyped one, closest first, at most three.
    pub fn similar(&self, id: &str) -> Vec<&str> {
        let wanted = id.to_ascii_lowercase();
        let mut near: Vec<(usize, &str)> = Vec::new();
        for rule in &self.all {
            let known = rule.id.to_ascii_lowercase();
            let distance = if known.contains(&wanted) { 0 } else { distance(&wanted, &known) };
            if distance <= 1 + wanted.len() / 4 {
                near.push((distance, &rule.id));
            }
        }
        near.sort_unstable();
        near.truncate(3);
        near.into_iter().map(|(_, id)| id).collect()
    }

    /// Matches the rules' patterns against a snapshot's names, once.
    pub fn bind<'r>(&'r self, s: &Snapshot) -> Bound<'r> {
        Bound::new(self, s)
    }
}

/// A rule file with its test cases blanked, every other line where it was.
fn without_tests(text: &str) -> String {
    let mut out = String::with_capacity(text.len() / 2);
    let mut in_test = false;
    for line in text.split_inclusive('\n') {
        if line.starts_with("[[") {
            in_test = line.trim_end().ends_with(".test]]");
        }
        out.push_str(if in_test { "\n" } else { line });
    }
    out
}

/// Edit distance of two short ids.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(128).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(128).enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (j, y) in b.iter().enumerate() {
            let above = row.get(j + 1).copied().unwrap_or(usize::MAX);
            let cost = diagonal + usize::from(x != *y);
            let best = cost.min(left + 1).min(above.saturating_add(1));
            diagonal = above;
            if let Some(cell) = row.get_mut(j) {
                *cell = left;
            }
            left = best;
        }
        if let Some(cell) = row.last_mut() {
            *cell = left;
        }
    }
    row.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_rules_have_no_fault() {
        if let Err(errors) = Rules::parse(&[], true) {
            let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
            panic!("{}", lines.join("\n"));
        }
    }

    #[test]
    fn leaving_out_the_test_cases_leaves_every_rule_as_it_is() {
        let said = |rules: &Rules| -> Vec<String> {
            rules
                .iter()
                .map(|r| format!("{} {} {:?} {:?} {:?}", r.id, r.line, r.looks_like, r.remedy, r.facts))
                .collect()
        };
        assert_eq!(said(&Rules::builtin()), said(&Rules::parse(&[], true).expect("no fault")));
    }

    #[test]
    fn built_in_rules_do_what_their_own_tests_say() {
        let rules = Rules::builtin();
        let mut lines = Vec::new();
        let mut run = 0;
        for (file, text) in builtin::FILES {
            let (tests, failures) = check_tests(&rules, text);
            run += tests;
            lines.extend(failures.iter().map(|f| format!("{file}: {} test {}: {}", f.rule, f.test, f.message)));
        }
        assert!(lines.is_empty(), "{} of {run} failed:\n{}", lines.len(), lines.join("\n"));
    }
}
