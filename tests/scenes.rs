//! Lock scenes made to mislead: goroutines past their unlock, other objects of the same type, locks left locked, keyed
//! and pointed-to locks, chains and circles; and a busy program that is well.

use holdup_analysis::diagnosis::{Trust, VerdictKind};
use holdup_analysis::rules::Rules;
use holdup_tests::case::{Answer, corpus, entries};
use holdup_tests::versions::{count, samples};

#[test]
fn misleading_scenes_get_no_false_certainty() {
    for rules in [Rules::builtin(), Rules::none()] {
        let (sum, notes) = count(&samples(&corpus().join("scenes")), &rules);
        println!("{sum:?}\n{}", notes.join("\n"));
        assert!(sum.samples >= 30 && sum.locks >= 100, "{sum:?}");
        assert_eq!(sum.false_sure, 0, "wrong holders at strong or proven: {notes:#?}");
        let percent = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
        assert!(percent(sum.found, sum.locks) >= 99.0, "locks found: {sum:?}");
        assert!(percent(sum.waiters, sum.locks) >= 98.0, "waiters equal: {sum:?}");
        assert!(percent(sum.holder_right, sum.held) >= 93.0, "holders right: {sum:?} {notes:#?}");
    }
}

#[test]
fn a_busy_program_is_well() {
    let folder = corpus().join("scenes/busy");
    let dumps: Vec<_> = entries(&folder);
    assert!(dumps.len() >= 6);
    for dump in dumps {
        let answer = Answer::of(&folder, std::slice::from_ref(&dump), &Default::default(), &Rules::builtin());
        let said = &answer.diagnosis;
        assert_eq!(said.verdict.kind, VerdictKind::Healthy, "{}: {}", dump.display(), said.verdict.summary);
        assert!(said.findings.iter().all(|finding| finding.trust == Trust::Guess), "{}", dump.display());
        let sure = said.locks.iter().filter_map(|lock| lock.holder.as_ref()).any(|holder| holder.trust > Trust::Likely);
        assert!(!sure, "{}: somebody is named for certain at a lock that changes hands", dump.display());
    }
}
