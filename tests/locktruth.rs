//! One program under many versions of Go: its locks, waiters and holders against what it says of itself.

use holdup_analysis::rules::Rules;
use holdup_tests::case::{corpus, shared_corpus};
use holdup_tests::versions::{count, samples};
use std::path::Path;

/// How few samples and locks would show that the test has lost its corpus.
struct Least {
    samples: usize,
    locks: usize,
}

fn measure(top: &Path, rules: &Rules, least: &Least) {
    let samples = samples(top);
    let (sum, notes) = count(&samples, rules);
    println!("{}: {sum:?}\n{}", top.display(), notes.join("\n"));
    assert!(sum.samples >= least.samples && sum.locks >= least.locks, "{sum:?}");
    let percent = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
    assert_eq!(sum.silent, 0, "samples without an answer");
    assert_eq!(sum.false_sure, 0, "wrong holders at strong or proven: {notes:#?}");
    assert!(percent(sum.found, sum.locks) >= 98.0, "locks found: {sum:?}");
    assert!(percent(sum.waiters, sum.locks) >= 97.0, "waiters equal: {sum:?} {notes:#?}");
    assert!(percent(sum.holder_right, sum.held) >= 60.0, "holders right: {sum:?}");
}

#[test]
fn of_the_samples_in_the_corpus() {
    measure(&corpus().join("go-versions"), &Rules::builtin(), &Least { samples: 80, locks: 700 });
}

#[test]
fn of_the_samples_in_the_corpus_without_rules() {
    measure(&corpus().join("go-versions"), &Rules::none(), &Least { samples: 80, locks: 700 });
}

#[test]
fn of_all_samples() {
    match shared_corpus() {
        Some(shared) => {
            measure(&shared.join("go-versions"), &Rules::builtin(), &Least { samples: 190, locks: 1350 });
        }
        None => println!("skipped: no ../shared/corpus beside the checkout"),
    }
}
