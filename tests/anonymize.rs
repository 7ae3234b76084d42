//! `holdup anonymize`: the result says the same about the hang, and nothing about whose it is.

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn holdup(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdup"));
    command.args(arguments).stdin(Stdio::null());
    for name in ["LC_ALL", "LC_MESSAGES", "LANG", "COLUMNS", "NO_COLOR", "TERM"] {
        command.env_remove(name);
    }
    command.output().expect("the binary runs")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("no signal")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("anonymize-{name}"));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a folder");
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|n| n.to_str()).expect("UTF-8").to_string();
        // What the corpus knows about a case is no evidence of it.
        if path.is_dir() {
            copy(&path, &to.join(&name));
        } else if !matches!(name.as_str(), "truth.json" | "expect.json") && !name.starts_with("golden") {
            fs::copy(&path, to.join(&name)).expect("copied");
        }
    }
}

/// Everything that the reader of a report acts on.
fn answer(path: &Path) -> Value {
    let output = holdup(&["analyze", text(path), "--format", "json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let locks: Vec<Value> = report["locks"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|lock| {
            serde_json::json!([
                lock["snapshot"],
                lock["address"],
                lock["kind"],
                lock["waiter_count"],
                lock["oldest_wait_minutes"],
                lock["holder"]["goroutine"],
                lock["holder"]["trust"],
                lock["holder_status"]
            ])
        })
        .collect();
    let first = &report["findings"][0];
    serde_json::json!({
        "kind": report["verdict"]["kind"],
        "trust": report["verdict"]["trust"],
        "since": report["verdict"]["since_minutes"],
        "locks": locks,
        "root": first["root"]["function"],
        "finding": first["kind"],
        "known": first["known_issue"]["id"],
        "blocked": first["blocked"],
        "findings": report["findings"].as_array().map(Vec::len),
        "edges": report["edges"].as_array().map(Vec::len),
        "goroutines": report["snapshots"].as_array().expect("a list").iter().map(|s| s["goroutines"].clone()).collect::<Vec<_>>(),
        "inputs": report["inputs"].as_array().expect("a list").iter().map(|i| i["kind"].clone()).collect::<Vec<_>>(),
    })
}

/// Words of the shape that `is` accepts, told apart by everything that `of_word` refuses.
fn words(text: &str, of_word: fn(char) -> bool, is: fn(&str) -> bool) -> BTreeSet<String> {
    text.split(|c| !of_word(c)).filter(|word| is(word)).map(str::to_string).collect()
}

fn is_id(word: &str) -> bool {
    word.len() == 64 && word.bytes().all(|b| b.is_ascii_hexdigit())
}

fn is_uuid(word: &str) -> bool {
    word.len() == 36
        && word.split('-').map(str::len).eq([8, 4, 4, 4, 12])
        && word.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
}

/// Names behind `before`, up to what cannot be part of one.
fn behind(text: &str, before: &str) -> BTreeSet<String> {
    let rest = text.split(before).skip(1);
    rest.map(|rest| {
        rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '.')).next().unwrap_or("").to_string()
    })
    .filter(|name| name.len() > 3 && name.contains('-'))
    .collect()
}

/// Anonymizes one case and compares what is said of it; gives back how many names it had.
fn check(case: &Path, place: &Path) -> usize {
    let name = case.file_name().expect("a name");
    let (before, after) = (place.join("in").join(name), place.join("out").join(name));
    copy(case, &before);
    fs::create_dir_all(place.join("out")).expect("a folder");
    let output = holdup(&["anonymize", text(&before), "-o", text(&after)]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(files(&before).len(), files(&after).len(), "{}: every text is there", text(case));
    assert_eq!(answer(&before), answer(&after), "{}", text(case));

    let all = |folder: &Path| -> String {
        files(folder).iter().map(|file| String::from_utf8_lossy(&fs::read(file).expect("read")).into_owned()).collect()
    };
    let (old, new) = (all(&before), all(&after));
    assert_eq!(old.lines().count(), new.lines().count());
    let mut names = words(&old, |c| c.is_ascii_hexdigit(), is_id);
    let short: Vec<String> = names.iter().map(|id| id[..12].to_string()).collect();
    names.extend(short);
    names.extend(words(&old, |c| c.is_ascii_hexdigit() || c == '-', is_uuid));
    names.extend(behind(&old, "default/"));
    names.extend(behind(&old, "PodSandboxMetadata{Name:"));
    for known in ["node-1", "filer01", "/mnt/nas", "mnt-nas", "/export/logs", "registry.local", "busybox", "00:16:3e"] {
        names.insert(known.to_string());
    }
    names.retain(|name| old.contains(name.as_str()));
    for name in &names {
        for form in [name.clone(), name.replace('/', "\\/"), name.replace('/', "%2F"), name.replace('-', "\\x2d")] {
            let at = new.find(&form);
            let around = at.map(|at| new[at.saturating_sub(80)..(at + 80).min(new.len())].to_string());
            assert_eq!(around, None, "{}: {form} survives", text(case));
        }
    }
    // The list tells what became of each, and stays outside.
    let list: Value =
        serde_json::from_slice(&fs::read(format!("{}.replaced.json", text(&after))).expect("a list")).expect("JSON");
    assert_eq!(list.as_array().is_some_and(Vec::is_empty), names.is_empty(), "{}", text(case));
    names.len()
}

#[test]
fn every_incident_says_the_same_and_no_name_survives() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/incidents");
    let place = folder("incidents");
    let cases: Vec<PathBuf> = fs::read_dir(corpus).expect("the corpus").map(|e| e.expect("an entry").path()).collect();
    let (one, other) = cases.split_at(cases.len() / 2);
    let check_all = |cases: &[PathBuf]| cases.iter().map(|case| check(case, &place)).sum::<usize>();
    let seen = std::thread::scope(|scope| {
        let half = scope.spawn(|| check_all(other));
        check_all(one) + half.join().expect("the other half holds too")
    });
    assert!(seen > 100, "the corpus has names: {seen}");
}

#[test]
fn one_name_has_one_pseudonym_in_all_files_and_their_names() {
    let place = folder("names");
    let bundle = place.join("node-77-bundle");
    fs::create_dir_all(&bundle).expect("a folder");
    fs::write(bundle.join("node-77.log"), "Nov 29 12:20:07 node-77 dockerd[812]: hello\n").expect("written");
    fs::write(bundle.join("other.txt"), "{\"message\":\"first\\nnode-77 says\"}\n").expect("written");
    let out = place.join("result");
    let output = holdup(&["anonymize", text(&bundle), "-o", text(&out)]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let list: Value =
        serde_json::from_slice(&fs::read(place.join("result.replaced.json")).expect("a list")).expect("JSON");
    let row = list.as_array().expect("a list").iter().find(|r| r["original"] == "node-77").expect("the host");
    let pseudonym = row["pseudonym"].as_str().expect("a name");
    assert_eq!(row["kind"], "host");
    assert!(out.join(format!("{pseudonym}.log")).is_file(), "{:?}", files(&out));
    let other = fs::read_to_string(out.join("other.txt")).expect("written");
    assert_eq!(other, format!("{{\"message\":\"first\\n{pseudonym} says\"}}\n"));
    // Where it went is told without telling names into the result.
    assert!(files(&out).iter().all(|file| !text(file).contains("replaced")));
}

#[cfg(unix)]
#[test]
fn the_list_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let place = folder("private");
    fs::write(place.join("a.log"), "Nov 29 12:20:07 node-77 dockerd[812]: hello\n").expect("written");
    let output = holdup(&["anonymize", text(&place.join("a.log")), "-o", text(&place.join("out"))]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let mode = fs::metadata(place.join("out.replaced.json")).expect("a list").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn archives_are_written_by_their_name_and_analyze_alike() {
    let place = folder("archives");
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/incidents/s2-cri-status-lock");
    let bundle = place.join("bundle");
    copy(&case, &bundle);
    let expected = answer(&bundle);
    for name in ["out.tar.gz", "out.tgz", "out.zip"] {
        let out = place.join(name);
        let output = holdup(&["anonymize", text(&bundle), "-o", text(&out)]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let found = answer(&out);
        for key in ["kind", "root", "finding", "known"] {
            assert_eq!(found[key], expected[key], "{name} {key}");
        }
        assert!(place.join(format!("{name}.replaced.json")).is_file());
    }
    // An archive goes in as well as out.
    let again = place.join("again");
    let output = holdup(&["anonymize", text(&place.join("out.zip")), "-o", text(&again)]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(answer(&again)["root"], expected["root"]);
}

#[test]
fn nothing_is_overwritten_and_what_cannot_be_is_told() {
    let place = folder("trouble");
    let log = place.join("a.log");
    fs::write(&log, "Nov 29 12:20:07 node-77 dockerd[812]: hello\n").expect("written");
    let out = place.join("out");
    assert_eq!(code(&holdup(&["anonymize", text(&log), "-o", text(&out)])), 0);
    let before = fs::read(out.join("a.log")).expect("written");
    let output = holdup(&["anonymize", text(&log), "-o", text(&out)]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("already") || stderr(&output).contains("not empty"), "{}", stderr(&output));
    assert_eq!(fs::read(out.join("a.log")).expect("still there"), before);

    let output = holdup(&["anonymize", text(&log), "/nowhere/at/all", "-o", text(&place.join("two"))]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("/nowhere/at/all") && place.join("two").join("a.log").is_file());

    let binary = place.join("noise.bin");
    fs::write(&binary, (0..=255u8).cycle().take(5000).collect::<Vec<u8>>()).expect("written");
    let output = holdup(&["anonymize", text(&binary), "-o", text(&place.join("three"))]);
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    assert!(stderr(&output).contains("left out") && !place.join("three").exists(), "{}", stderr(&output));
    assert_eq!(code(&holdup(&["anonymize", text(&log)])), 2);
}

#[test]
fn a_core_is_left_out_with_advice() {
    let cores = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/cores/go1.24.11-stripped-spin");
    let core = files(&cores).into_iter().find(|f| text(f).contains("core")).expect("a core in the corpus");
    let place = folder("core");
    let log = place.join("a.log");
    fs::write(&log, "Nov 29 12:20:07 node-77 dockerd[812]: hello\n").expect("written");
    let out = place.join("out");
    let output = holdup(&["anonymize", text(&log), text(&core), "-o", text(&out)]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stderr(&output).contains("--as-dump"), "{}", stderr(&output));
    assert_eq!(files(&out).len(), 1);
}
