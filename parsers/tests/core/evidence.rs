//! A core's snapshot: the same goroutines as its dump has, with their threads.

use crate::oracle::{Sample, blocks};
use holdup_parsers::core::go::Level;
use holdup_parsers::evidence::Form;
use serde_json::Value;

#[test]
fn snapshots_hold_every_goroutine_of_the_dump() {
    for sample in Sample::all() {
        let evidence = sample.open().evidence(7);
        let snapshot = evidence.snapshot.expect("goroutines");
        assert_eq!((snapshot.form, snapshot.input), (Form::Core, 7));
        let version = sample.name.split('-').next();
        assert_eq!(snapshot.process.go_version.as_deref(), version);
        let ids: Vec<u64> = snapshot.goroutines.iter().filter_map(|g| g.id).collect();
        for id in blocks(&sample.text(Level::Crash).expect("a dump")).keys() {
            assert!(ids.contains(id), "{}: goroutine {id} is missing", sample.name);
        }
        assert!(snapshot.goroutines.iter().all(|g| g.gp != 0), "{}", sample.name);
    }
}

/// The program recorded the thread of goroutines that are in a system call or locked to one. Under emulation and in a
/// PID namespace its numbers are its own; `gcore` wrote the host's.
#[test]
fn goroutines_are_joined_to_their_threads() {
    let mut compared = 0;
    for sample in Sample::all() {
        if sample.name.contains("arm64") || sample.name.contains("gcore") {
            continue;
        }
        let truth = std::fs::read_to_string(sample.folder.join("truth.json")).expect("a truth");
        let truth: Value = serde_json::from_str(&truth).expect("JSON");
        let snapshot = sample.open().evidence(0).snapshot.expect("goroutines");
        for known in truth["goroutines"].as_array().into_iter().flatten() {
            let (Some(id), Some(tid)) = (known["goid"].as_u64(), known["tid"].as_u64().filter(|&tid| tid != 0)) else {
                continue;
            };
            let Some(found) = snapshot.goroutines.iter().find(|g| g.id == Some(id)) else { continue };
            if let Some(own) = found.tid {
                assert_eq!(u64::from(own), tid, "{}: goroutine {id}", sample.name);
                compared += 1;
            }
        }
    }
    assert!(compared >= 20, "{compared}");
}
