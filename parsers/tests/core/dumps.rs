//! Letter for letter: every block that the runtime printed.

use crate::oracle::{Sample, blocks, dump};
use holdup_parsers::core::go::Level;
use std::collections::BTreeSet;

#[test]
fn crash_dumps_are_the_runtimes_own() {
    let (mut equal, mut all) = (0, 0);
    for sample in Sample::all() {
        let wanted = blocks(&sample.text(Level::Crash).expect("a dump"));
        let got = blocks(&dump(&sample.open(), Level::Crash));
        let mut different = Vec::new();
        for (id, block) in &wanted {
            all += 1;
            if got.get(id) == Some(block) {
                equal += 1;
            } else {
                different.push(*id);
            }
        }
        assert!(wanted.len() > 10, "{}: {} blocks", sample.name, wanted.len());
        if let Some(id) = different.first() {
            panic!(
                "{}: goroutines {different:?} differ; {id} is\n{:#?}\nnot\n{:#?}",
                sample.name,
                got.get(id),
                wanted[id]
            );
        }
    }
    println!("crash form: {equal} of {all} blocks equal ({:.2} %)", 100.0 * f64::from(equal) / f64::from(all));
}

/// `runtime.Stack` was called a moment before the core was made: a goroutine that was on a processor then has moved on.
#[test]
fn stack_dumps_are_the_runtimes_own() {
    let (mut equal, mut all) = (0, 0);
    for sample in Sample::all() {
        let Some(text) = sample.text(Level::Stack) else { continue };
        let wanted = blocks(&text);
        let got = blocks(&dump(&sample.open(), Level::Stack));
        for (id, block) in &wanted {
            all += 1;
            if got.get(id) == Some(block) {
                equal += 1;
                continue;
            }
            let on_processor = |block: &[String]| block[0].ends_with("[running]:") || block[0].ends_with("[runnable]:");
            assert!(on_processor(block), "{}: goroutine {id} is\n{:#?}\nnot\n{block:#?}", sample.name, got.get(id));
        }
        let extra: Vec<_> = got.keys().filter(|id| !wanted.contains_key(id)).collect();
        assert!(extra.is_empty(), "{}: the runtime did not print {extra:?}", sample.name);
    }
    assert!(all > 2500, "{all}");
    println!("stack form: {equal} of {all} blocks equal ({:.2} %)", 100.0 * f64::from(equal) / f64::from(all));
}

#[test]
fn minutes_count_from_the_collection_that_found_the_goroutine_waiting() {
    let sample = Sample::named("go1.26.6-stripped-wait");
    // By goroutine: a crash dump repeats those that were running.
    let minutes = |text: &str| -> BTreeSet<u64> {
        let headers = text.lines().filter(|line| line.starts_with("goroutine ") && line.contains(", 1 minutes"));
        headers.filter_map(|line| line.split(' ').nth(1)?.parse().ok()).collect()
    };
    let wanted = minutes(&sample.text(Level::Crash).expect("a dump"));
    assert!(wanted.len() > 300, "{wanted:?}");
    assert_eq!(minutes(&dump(&sample.open(), Level::Crash)), wanted);
}
