//! Every sample of `corpus/wrapped` against the dump that it was before somebody wrapped it.

use holdup_parsers::evidence::{Evidence, Snapshot};
use holdup_parsers::{ReadOptions, read};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/wrapped")
}

fn evidence(path: &Path) -> Evidence {
    let (evidence, unreadable) = read(&[path.to_path_buf()], &ReadOptions::default());
    assert_eq!(unreadable, [], "{}", path.display());
    evidence
}

/// A goroutine as text: id, state, functions with arguments, files with lines.
fn goroutines(snapshot: &Snapshot) -> Vec<String> {
    let shown = snapshot.goroutines.iter().map(|g| {
        let mut text = format!("{:?} {} x{}", g.id, snapshot.names.get(g.state), g.count);
        for frame in snapshot.frames_of(g) {
            let site = snapshot.site(frame.site);
            let (function, file) = (snapshot.names.get(site.func), snapshot.names.get(site.file));
            text += &format!("\n{function}({}) {file}:{}", snapshot.args_text(g, frame), site.line);
        }
        text
    });
    shown.collect()
}

fn all(evidence: &Evidence) -> Vec<Vec<String>> {
    let mut all: Vec<_> = evidence.snapshots.iter().map(goroutines).collect();
    all.sort();
    all
}

struct Sample {
    name: String,
    originals: Vec<String>,
    expect: String,
}

fn samples() -> Vec<Sample> {
    let index = std::fs::read(corpus().join("index.json")).expect("the index");
    let index: BTreeMap<String, serde_json::Value> = serde_json::from_slice(&index).expect("JSON");
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_string();
    let list = |value: &serde_json::Value| value.as_array().expect("a list").iter().map(text).collect();
    let sample = |(name, entry): (String, serde_json::Value)| Sample {
        name,
        originals: list(&entry["original"]),
        expect: text(&entry["expect"]),
    };
    index.into_iter().map(sample).collect()
}

#[test]
fn a_wrapping_that_loses_nothing_gives_the_same_goroutines() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for sample in samples().iter().filter(|s| s.expect == "equal") {
        let mut want: Vec<_> = sample
            .originals
            .iter()
            .flat_map(|o| all(&evidence(&corpus().join(format!("originals/{o}.txt")))))
            .collect();
        want.sort();
        assert!(!want.is_empty());
        seen += 1;
        if all(&evidence(&corpus().join(&sample.name))) != want {
            wrong.push(sample.name.clone());
        }
    }
    assert!(seen > 60, "only {seen} samples");
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn a_wrapping_that_loses_text_says_so_and_adds_nothing() {
    let mut wrong = Vec::new();
    for sample in samples().iter().filter(|s| s.expect != "equal") {
        let want: u64 = sample
            .originals
            .iter()
            .flat_map(|o| evidence(&corpus().join(format!("originals/{o}.txt"))).snapshots)
            .map(|s| s.goroutine_count())
            .sum();
        let found = evidence(&corpus().join(&sample.name));
        let got: u64 = found.snapshots.iter().map(Snapshot::goroutine_count).sum();
        let problems: usize = found.inputs.iter().map(|input| input.problems.len()).sum();
        if got > want || (problems == 0 && (got > 0 || sample.expect == "subset")) {
            wrong.push(format!("{}: {got} of {want}, {problems} problems", sample.name));
        }
    }
    assert_eq!(wrong, [""; 0]);
}

/// What a text looks like when escapes, entities, colours and wraps cannot hide a function's name: letters and digits.
fn bare(text: &[u8]) -> String {
    String::from_utf8_lossy(text).chars().filter(|c| c.is_alphanumeric()).collect()
}

#[test]
fn every_frame_points_at_a_line_of_the_users_file_that_names_its_function() {
    // The user's own line holds other characters there: bytes as numbers, two bytes a character, colours in a word.
    let unreadable = ["utf16", "journald-colour-json", "journald-latin1-json", "grep-color"];
    let mut wrong = Vec::new();
    let mut seen = 0;
    for sample in samples().iter().filter(|s| !unreadable.iter().any(|u| s.name.contains(u))) {
        let evidence = evidence(&corpus().join(&sample.name));
        let lines: Vec<Vec<Vec<u8>>> = evidence
            .inputs
            .iter()
            .map(|input| {
                let raw = input.raw.bytes();
                // Files of old Macs have no other line end.
                let end = if raw.contains(&b'\n') { b'\n' } else { b'\r' };
                raw.split(|&b| b == end).map(<[u8]>::to_vec).collect()
            })
            .collect();
        for snapshot in &evidence.snapshots {
            for frame in &snapshot.frames {
                let function = snapshot.function(frame.site);
                let Some(place) = snapshot.place(frame.line) else {
                    wrong.push(format!("{}: {function} has no place", sample.name));
                    continue;
                };
                let all = &lines[place.input as usize];
                let one_line = all.iter().filter(|l| !l.is_empty()).count() <= 1 || sample.name.starts_with("cr-only");
                let line = if one_line { all.concat() } else { all[place.line as usize - 1].clone() };
                // A wrapped line may break inside the name.
                let next = all.get(place.line as usize).map_or(&[][..], |next| next);
                let both = bare(&[&line[..], next].concat());
                seen += 1;
                if !both.contains(&bare(function.as_bytes())) {
                    wrong.push(format!("{}:{} does not name {function}", sample.name, place.line));
                }
            }
        }
    }
    assert!(seen > 3000, "only {seen} frames");
    wrong.truncate(20);
    assert_eq!(wrong, [""; 0]);
}
