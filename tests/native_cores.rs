//! Cores of C programs, from the file to the verdict: the lock's own words name its owner.

use holdup_analysis::rules::Rules;
use holdup_parsers::ReadOptions;
use holdup_tests::case::{Answer, corpus};
use serde_json::Value;

fn answer(core: &str) -> Answer {
    let folder = corpus().join("cores-native");
    let options = ReadOptions { exe: vec![folder.join("held-static/exe.zst")], ..ReadOptions::default() };
    Answer::of(&folder, &[folder.join(core).join("core.zst")], &options, &Rules::builtin())
}

/// Threads by the function that they were started for, as gdb lists them.
fn started_for(core: &str, function: &str) -> Vec<u64> {
    let text = std::fs::read_to_string(corpus().join("cores-native").join(core).join("gdb-threads.txt")).expect("gdb");
    let (mut tid, mut found) = (0, Vec::new());
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once("(LWP ") {
            tid = rest.split(')').next().and_then(|n| n.parse().ok()).unwrap_or(0);
        } else if line.contains(&format!(" in {function} ()")) {
            found.push(tid);
        }
    }
    found.sort_unstable();
    found
}

fn waiters(lock: &Value) -> Vec<u64> {
    let mut found: Vec<u64> =
        lock["waiters"].as_array().into_iter().flatten().filter_map(|w| w["thread"].as_u64()).collect();
    found.sort_unstable();
    found
}

#[test]
fn a_mutex_held_in_a_blocked_read() {
    let answer = answer("held-static");
    let json = &answer.json;
    let [holder] = started_for("held-static", "settle_thread")[..] else { panic!("one holder") };
    let lock = |kind: &str| {
        let locks = json["locks"].as_array().expect("locks");
        locks.iter().find(|lock| lock["kind"] == kind).unwrap_or_else(|| panic!("a {kind}")).clone()
    };
    for (kind, function) in [("pthread-mutex", "post_thread"), ("pthread-rwlock", "look_up_thread")] {
        let lock = lock(kind);
        assert_eq!(waiters(&lock), started_for("held-static", function));
        assert_eq!(lock["holder"]["thread"], holder, "{kind}");
        assert_eq!((&lock["holder"]["trust"], &lock["holder_status"]), (&"proven".into(), &"named".into()));
    }
    assert_eq!(json["verdict"]["kind"], "hang");
    // The owner is proven, but one moment does not prove that it is stuck for good.
    assert_eq!(json["verdict"]["trust"], "likely");
    assert_eq!(json["findings"][0]["root"]["node"]["id"], holder);
    assert!(json["findings"][0]["title"].as_str().expect("a title").contains("read_request"));
    let edge = |from: &str, to: &str| {
        let edges = json["edges"].as_array().expect("edges");
        edges.iter().filter(|e| e["from"]["kind"] == from && e["to"]["kind"] == to && e["why"] == "lock").count()
    };
    assert_eq!((edge("thread", "lock"), edge("lock", "thread")), (3, 2));
}

#[test]
fn a_lock_order_inversion_is_proven() {
    let answer = answer("held-static-crossed");
    let json = &answer.json;
    assert_eq!((&json["verdict"]["kind"], &json["verdict"]["trust"]), (&"deadlock".into(), &"proven".into()));
    let chain = json["findings"][0]["chain"].as_array().expect("a chain");
    for thread in ["transfer_thread", "revise_thread"].iter().flat_map(|f| started_for("held-static-crossed", f)) {
        assert!(chain.iter().any(|node| node["kind"] == "thread" && node["id"] == thread), "{chain:#?}");
    }
}
