//! Runs the test cases that rules carry, for the built-in ones in a unit test and for a user's in `rules check`.

use super::format::{RawFile, RawTest};
use super::known::{Chain, ChainNode, Part, known_issue};
use super::{RuleKind, Rules};
use holdup_parsers::envelope::Stream;
use holdup_parsers::evidence::{LineMap, Snapshot, Text};
use holdup_parsers::goroutines;

/// A rule's test case that did not come out as it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestFailure {
    /// Id of the rule.
    pub rule: String,
    /// Which of its tests, from 1.
    pub test: usize,
    /// What happened instead.
    pub message: String,
}

/// Runs every test case of a rule file against `rules` (which must have been made with it).
pub fn check_tests(rules: &Rules, text: &str) -> (usize, Vec<TestFailure>) {
    let Ok(file) = toml::from_str::<RawFile>(text) else {
        return (0, Vec::new());
    };
    let mut cases: Vec<(RuleKind, String, Vec<RawTest>)> = Vec::new();
    macro_rules! take {
        ($list:ident, $kind:ident) => {
            for rule in file.$list {
                let rule = rule.into_inner();
                cases.push((RuleKind::$kind, rule.id.into_inner(), rule.test));
            }
        };
    }
    take!(role, Role);
    take!(benign, Benign);
    take!(symptom, Symptom);
    take!(rpc, Rpc);
    take!(holds, Holds);
    take!(external, External);
    take!(known_issue, KnownIssue);
    let (mut run, mut failures) = (0, Vec::new());
    for (kind, id, tests) in cases {
        for (i, test) in tests.iter().enumerate() {
            run += 1;
            if let Err(message) = case(rules, kind, &id, test) {
                failures.push(TestFailure { rule: id.clone(), test: i + 1, message });
            }
        }
    }
    (run, failures)
}

/// Reads a test's dump; a process hint is set from its `process`.
fn read(test: &RawTest) -> Result<Snapshot, String> {
    if test.stack.trim().is_empty() {
        let mut snapshot = Snapshot::default();
        snapshot.process.name = test.process.clone();
        return Ok(snapshot);
    }
    let text = Text::from_vec(test.stack.trim_start_matches('\n').as_bytes().to_vec());
    let stream = Stream { text, lines: LineMap::identity(0), ..Stream::default() };
    let mut snapshots = goroutines::parse(&stream);
    match snapshots.len() {
        1 => {
            let mut snapshot = snapshots.remove(0);
            if test.process.is_some() {
                snapshot.process.name = test.process.clone();
            }
            Ok(snapshot)
        }
        0 => Err("its stack is no goroutine dump".into()),
        n => Err(format!("its stack is {n} dumps")),
    }
}

fn case(rules: &Rules, kind: RuleKind, id: &str, test: &RawTest) -> Result<(), String> {
    let s = read(test)?;
    let bound = rules.bind(&s);
    let fired: Vec<String> = if kind == RuleKind::Role {
        bound.role(&s).map(|r| r.rule.to_string()).into_iter().collect()
    } else if kind == RuleKind::KnownIssue {
        chain(rules, &s, test)?
    } else {
        let g = s.goroutines.first().ok_or("its stack has no goroutine")?;
        match kind {
            RuleKind::Benign => bound.benign(&s, g).map(|r| r.id.clone()).into_iter().collect(),
            RuleKind::Symptom => bound.symptom(&s, g).map(|r| r.id.clone()).into_iter().collect(),
            RuleKind::Holds => bound.holds(&s, g).iter().map(|m| m.rule.id.clone()).collect(),
            RuleKind::External => bound.external(&s, g).map(|m| m.rule.id.clone()).into_iter().collect(),
            _ => {
                let found: Vec<_> = [bound.rpc_client(&s, g), bound.rpc_server(&s, g)].into_iter().flatten().collect();
                if let Some(says) = &test.says
                    && !found.iter().any(|m| m.rule.id == id && m.name() == *says)
                {
                    let names: Vec<_> = found.iter().map(|m| format!("{} by {}", m.name(), m.rule.id)).collect();
                    return Err(format!("says {names:?} instead of `{says}`"));
                }
                found.iter().map(|m| m.rule.id.clone()).collect()
            }
        }
    };
    let fires = fired.iter().any(|rule| rule == id);
    match (fires, test.fires) {
        (false, true) => Err(format!("does not fire; what fires is {fired:?}")),
        (true, false) => Err("fires, but should not".into()),
        _ => Ok(()),
    }
}

fn chain(rules: &Rules, s: &Snapshot, test: &RawTest) -> Result<Vec<String>, String> {
    let bound = rules.bind(s);
    let mut nodes = Vec::new();
    for (ids, part) in [(&test.waiters, Part::Waiter), (&test.holders, Part::Holder), (&test.roots, Part::Root)] {
        for id in ids {
            let goroutine = s
                .goroutines
                .iter()
                .find(|g| g.id == Some(*id))
                .ok_or_else(|| format!("its stack has no goroutine {id}"))?;
            nodes.push(ChainNode { snapshot: s, bound: &bound, goroutine, part, count: 1 });
        }
    }
    let log: Vec<&str> = test.log.iter().map(String::as_str).collect();
    let kernel: Vec<&str> = test.kernel.iter().map(String::as_str).collect();
    let versions: Vec<(&str, &str)> = test.versions.iter().filter_map(|v| v.split_once(' ')).collect();
    let chain = Chain {
        nodes: &nodes,
        leaked: test.leaked,
        cycle: test.cycle,
        log: &log,
        kernel: &kernel,
        versions: &versions,
        roles: &[],
    };
    Ok(known_issue(rules, &chain).map(|r| r.id.clone()).into_iter().collect())
}
