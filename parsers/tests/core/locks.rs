//! Locks, queues and pending releases against what the program itself recorded.

use crate::oracle::Sample;
use holdup_parsers::core::go::Go;
use holdup_parsers::evidence::MemoryFacts;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// An object of the truth.
struct Object {
    name: String,
    kind: String,
    address: u64,
    holders: BTreeSet<u64>,
    waiters: BTreeSet<u64>,
    /// Those of the holders that will release it in a deferred call.
    by_defer: BTreeSet<u64>,
}

fn number(value: &Value) -> u64 {
    value.as_str().and_then(|text| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()).unwrap_or(0)
}

fn ids(value: &Value) -> BTreeSet<u64> {
    value.as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
}

fn truth(sample: &Sample) -> Vec<Object> {
    let text = std::fs::read_to_string(sample.folder.join("truth.json")).expect("a truth");
    let truth: Value = serde_json::from_str(&text).expect("JSON");
    let mut by_defer: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for goroutine in truth["goroutines"].as_array().into_iter().flatten() {
        for held in goroutine["holds"].as_array().into_iter().flatten() {
            let via = held["via"].as_str().unwrap_or("");
            if via.contains("defer") && !via.contains("no defer") {
                by_defer.entry(number(&held["addr"])).or_default().extend(goroutine["goid"].as_u64());
            }
        }
    }
    let object = |o: &Value| {
        let mut holders = ids(&o["holders"]);
        holders.extend(ids(&o["reader_holders"]));
        let address = number(&o["addr"]);
        Object {
            name: o["name"].as_str().unwrap_or("").to_owned(),
            kind: o["kind"].as_str().unwrap_or("").to_owned(),
            address,
            holders,
            waiters: ids(&o["waiters"]),
            by_defer: by_defer.remove(&address).unwrap_or_default(),
        }
    };
    truth["objects"].as_array().into_iter().flatten().map(object).collect()
}

/// The samples whose program recorded objects, with what the core's memory says.
fn compared() -> Vec<(Sample, Vec<Object>, MemoryFacts)> {
    let with_truth = Sample::all().into_iter().map(|sample| {
        let objects = truth(&sample);
        let core = sample.open();
        let facts = Go::find(&core).expect("Go").memory_facts();
        (sample, objects, facts)
    });
    with_truth.filter(|(_, objects, _)| !objects.is_empty()).collect()
}

#[test]
fn queues_hold_exactly_who_waits() {
    let mut queues = 0;
    for (sample, objects, facts) in compared() {
        for object in objects.iter().filter(|object| !object.waiters.is_empty()) {
            let found = facts.locks.iter().find(|lock| lock.address == object.address);
            let found = found.unwrap_or_else(|| panic!("{}: {} {} is missing", sample.name, object.kind, object.name));
            let waiting: BTreeSet<u64> = found.queue.iter().map(|waiter| waiter.goroutine).collect();
            assert_eq!(waiting, object.waiters, "{}: {} {}", sample.name, object.kind, object.name);
            if let (Some(counted), "sync.Mutex") = (found.counted_waiters, object.kind.as_str()) {
                assert_eq!(counted as usize, waiting.len(), "{}: {}", sample.name, object.name);
            }
            queues += 1;
        }
    }
    assert!(queues > 200, "{queues}");
    println!("{queues} queues equal the truth");
}

/// A release that counts (behind the acquisition, outside of any window) belongs to a true holder, always; and nearly
/// every holder with a deferred release has one.
#[test]
fn releases_that_count_belong_to_true_holders() {
    let (mut shown, mut all) = (0, 0);
    for (sample, objects, facts) in compared() {
        for object in &objects {
            let counting =
                facts.releases.iter().filter(|r| r.lock == object.address && r.past_acquisition && !r.released_window);
            let counting: BTreeSet<u64> = counting.map(|release| release.goroutine).collect();
            for goroutine in &counting {
                assert!(
                    object.holders.contains(goroutine),
                    "{}: {} is not held by {goroutine}",
                    sample.name,
                    object.name
                );
            }
            for goroutine in &object.by_defer {
                all += 1;
                if counting.contains(goroutine) {
                    shown += 1;
                } else {
                    println!("{}: {} of goroutine {goroutine} is not shown", sample.name, object.name);
                }
            }
        }
    }
    println!("{shown} of {all} holders by defer shown");
    assert!(all > 150, "{all}");
    assert!(shown * 100 >= all * 97, "{shown} of {all}");
}

/// A frame's pointer behind a Lock call is no proof, but on a lock that is held it should point at the holder.
#[test]
fn frames_that_took_a_lock_are_its_holders() {
    let (mut right, mut wrong) = (0, 0);
    for (_, objects, facts) in compared() {
        for object in objects.iter().filter(|object| !object.waiters.is_empty()) {
            for hint in facts.hints.iter().filter(|hint| hint.lock == object.address && hint.after_lock_call) {
                if object.holders.contains(&hint.goroutine) { right += 1 } else { wrong += 1 }
            }
        }
    }
    println!("{right} hints at holders, {wrong} at others");
    assert!(right > 50 && wrong * 20 <= right, "{right} right, {wrong} wrong");
}

#[test]
fn the_words_of_a_held_lock_say_so() {
    for (sample, objects, facts) in compared() {
        for object in objects.iter().filter(|object| !object.holders.is_empty() && !object.waiters.is_empty()) {
            let lock = facts.locks.iter().find(|lock| lock.address == object.address).expect("a lock");
            let held = lock.locked == Some(true)
                || lock.readers.is_some_and(|readers| readers as usize == object.holders.len());
            assert!(held, "{}: {} {lock:?}", sample.name, object.name);
        }
    }
}
