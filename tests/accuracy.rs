//! How often the answer is right, with rules and without: the table of docs/accuracy.md, and what must always hold.

use holdup_analysis::diagnosis::{Trust, VerdictKind};
use holdup_analysis::rules::Rules;
use holdup_tests::case::{Answer, Case, checkout, corpus, entries, shared_corpus};
use holdup_tests::expect;
use holdup_tests::figures::{HEAD, Row, both, of_cases, of_samples};
use holdup_tests::golden;

const BEGIN: &str = "<!-- figures: HOLDUP_BLESS=1 cargo test -p holdup-tests --test accuracy -->\n";
const END: &str = "<!-- end of figures -->\n";

/// The table's rows as they come out now. Those of a corpus that is not here are `None` and keep what the page says.
fn rows(notes: &mut Vec<String>) -> Vec<(Row, bool)> {
    let incidents = corpus().join("incidents");
    let samples = corpus().join("go-versions");
    let mut rows = Vec::new();
    let mut add = |measured: Vec<(Row, Vec<String>)>, here: bool| {
        for (row, said) in measured {
            notes.extend(said);
            rows.push((row, here));
        }
    };
    add(both(|rules, on| of_cases("incidents", &incidents, rules, on)), true);
    add(both(|rules, on| of_samples("version samples", &samples, rules, on)), true);
    let shared = shared_corpus();
    let here = shared.is_some();
    let shared = shared.unwrap_or_default();
    add(both(|rules, on| of_cases("dumps from public reports", &shared.join("public"), rules, on)), here);
    add(both(|rules, on| of_samples("all version samples", &shared.join("go-versions"), rules, on)), here);
    rows
}

#[test]
fn the_table_says_what_is_measured() {
    let mut notes = Vec::new();
    let rows = rows(&mut notes);
    let file = checkout().join("docs/accuracy.md");
    let page = std::fs::read_to_string(&file).expect("docs/accuracy.md");
    let (before, rest) = page.split_once(BEGIN).expect("the begin of the figures");
    let (table, after) = rest.split_once(END).expect("the end of the figures");
    let mut now = HEAD.to_owned();
    for (row, here) in &rows {
        let said = table.lines().find(|line| line.starts_with(&row.key()));
        let Some(line) = (if *here { Some(row.line()) } else { said.map(str::to_owned) }) else { continue };
        println!("{}{line}", if *here { "" } else { "(not measured here) " });
        now += &line;
        now.push('\n');
    }
    println!("{}", notes.join("\n"));
    let page = format!("{before}{BEGIN}{now}{END}{after}");
    if let Err(difference) = golden::check(&file, &page) {
        panic!("the figures have changed:\n{difference}\n{}", notes.join("\n"));
    }
    for (row, _) in rows {
        assert_eq!(row.accusations, 0, "somebody is accused falsely: {row:?}\n{}", notes.join("\n"));
    }
}

/// Nobody is accused in a daemon that is well, whatever is known of it.
#[test]
fn healthy_daemons_are_called_healthy() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for (with, rules) in [("with rules", Rules::builtin()), ("without rules", Rules::none())] {
        let cases = Case::all(&corpus().join("incidents")).into_iter().filter(|case| case.expect["tier"] == "negative");
        let mut answers: Vec<(String, Answer)> = cases.map(|case| (case.name.clone(), case.analyze(&rules))).collect();
        let folder = corpus().join("rules");
        for dump in entries(&folder) {
            let name = dump.file_name().expect("a name").to_string_lossy().into_owned();
            answers.push((name, Answer::of(&folder, &[dump], &Default::default(), &rules)));
        }
        for (name, answer) in answers {
            seen += 1;
            let said = &answer.diagnosis;
            let mut note = |what: String| wrong.push(format!("{name} {with}: {what}"));
            if said.verdict.kind != VerdictKind::Healthy {
                note(format!("{}: {}", said.verdict.kind.as_str(), said.verdict.summary));
            }
            for finding in said.findings.iter().filter(|finding| finding.trust > Trust::Guess) {
                note(format!("finding at {}: {}", finding.trust.as_str(), finding.title));
            }
            for lock in &said.locks {
                if let Some(holder) = lock.holder.as_ref().filter(|holder| holder.trust > Trust::Likely) {
                    note(format!("holder {:?} of {} at {}", holder.goroutine, lock.id, holder.trust.as_str()));
                }
            }
        }
    }
    assert!(seen >= 12, "only {seen} healthy controls");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// What follows from the dump alone needs nothing known of the daemon. (Locks: see `locktruth.rs`.)
#[test]
fn generic_cases_come_out_without_rules() {
    let rules = Rules::none();
    let all = Case::all(&corpus().join("incidents"));
    let generic: Vec<&Case> = all.iter().filter(|case| !case.expect["cycle"].is_null()).collect();
    assert!(!generic.is_empty());
    for case in generic {
        let answer = case.analyze(&rules);
        let checks = expect::checks(&case.expect, &answer.json);
        assert!(checks.len() > 10);
        for check in checks {
            assert!(check.holds, "{}: {}: {}", case.name, check.name, check.found);
        }
    }
}
