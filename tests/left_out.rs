//! Evidence is never whole. With any one file of an incident left out, or all that one process said, the answer may
//! become shorter but not wrong: no false root with high trust, no observer as the root, and what is missing is named.

use holdup_analysis::rules::Rules;
use holdup_parsers::ReadOptions;
use holdup_tests::case::{Answer, Case, corpus};
use rayon::prelude::*;
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn files(inputs: Vec<PathBuf>) -> Vec<PathBuf> {
    let inside = |path: PathBuf| match path.is_dir() {
        true => files(holdup_tests::case::entries(&path)),
        false => vec![path],
    };
    inputs.into_iter().flat_map(inside).filter(|path| path.extension().is_none_or(|e| e != "json")).collect()
}

/// The program whose dumps a file holds, by its name.
fn program(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.to_str()?;
    let known = ["containerd", "kubelet", "terwayd", "orderd", "docker-exec", "docker-inspect", "crictl"];
    match name {
        _ if name.starts_with("goroutine-stacks") || name.starts_with("dockerd") => Some("dockerd"),
        _ => known.into_iter().find(|program| name.starts_with(program)),
    }
}

/// What is left out, and what remains.
fn remainders(files: &[PathBuf]) -> Vec<(String, Vec<PathBuf>)> {
    let without = |gone: &dyn Fn(&PathBuf) -> bool| files.iter().filter(|file| !gone(file)).cloned().collect();
    let name = |file: &PathBuf| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut found: Vec<(String, Vec<PathBuf>)> =
        files.iter().map(|file| (name(file), without(&|other| other == file))).collect();
    for program in files.iter().filter_map(|path| program(path)).collect::<BTreeSet<_>>() {
        found.push((format!("all of {program}"), without(&|file| self::program(file) == Some(program))));
    }
    found.push((
        "ps and kernel stacks".into(),
        without(&|file| name(file).starts_with("ps") || name(file).starts_with("proc-")),
    ));
    found.push((
        "all logs".into(),
        without(&|file| name(file).starts_with("journal") || name(file).starts_with("dmesg")),
    ));
    found
}

fn text(value: &Value) -> String {
    value.to_string()
}

fn matches(pattern: &Value, text: &str) -> bool {
    let pattern = format!("(?i){}", pattern.as_str().unwrap_or("$^"));
    Regex::new(&pattern).expect("a pattern").is_match(text)
}

fn sure(trust: &Value) -> bool {
    trust == "strong" || trust == "proven"
}

/// What is wrong about an answer from less than all evidence.
fn wrong(expect: &Value, answer: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let verdict = &answer["verdict"];
    let never = expect["not_verdict"].as_array().into_iter().flatten();
    let negative = expect["tier"] == "negative";
    if never.clone().any(|kind| *kind == verdict["kind"] && (negative || kind != "healthy")) {
        wrong.push(format!("says {}", verdict["kind"]));
    }
    let none = Vec::new();
    let findings = answer["findings"].as_array().unwrap_or(&none);
    if negative {
        wrong.extend(findings.iter().filter(|f| sure(&f["trust"])).map(|f| format!("accuses: {}", f["title"])));
        return wrong;
    }
    let Some(first) = findings.first() else { return wrong };
    let root = format!("{} {}", first["root"]["function"], first["root"]["node"]["label"]);
    if expect["not_root"]["function"].is_string() && matches(&expect["not_root"]["function"], &root) {
        wrong.push(format!("blames the observer: {}", first["title"]));
    }
    let told = format!("{} {} {}", text(&first["root"]), first["title"], first["explanation"]);
    let whole = !expect["root"]["resource"].is_string() || matches(&expect["root"]["resource"], &told);
    let asks = answer["missing"].as_array().is_some_and(|missing| !missing.is_empty());
    // That a system call does not return is true whatever lies behind it.
    let is_kernel = told.contains("syscall") || told.contains("(kernel)") || told.contains("netlink");
    if !whole && sure(&first["trust"]) && !is_kernel {
        wrong.push(format!("ends early and is sure: {}", first["title"]));
    }
    if !whole && !asks {
        wrong.push(format!("ends early and asks for nothing: {}", first["title"]));
    }
    for missing in answer["missing"].as_array().unwrap_or(&none) {
        wrong.extend(unsafe_command(missing["command"].as_str().unwrap_or("")));
    }
    wrong
}

/// A command that may hang on what hangs: no `df`, `ls`, `stat` or `find`, and a timeout where somebody must answer.
fn unsafe_command(command: &str) -> Option<String> {
    let (command, _) = command.split_once('#').unwrap_or((command, ""));
    for step in command.split([';', '|', '(']) {
        let words: Vec<&str> = step.split_whitespace().collect();
        let Some(&first) = words.first() else { continue };
        let may_wait = ["gcore", "busctl", "kubectl", "ps", "ss", "crictl", "docker", "curl", "systemctl"];
        if ["df", "ls", "stat", "find", "du", "lsof"].contains(&first) || may_wait.contains(&first) {
            return Some(format!("may hang: {step}"));
        }
    }
    None
}

#[test]
fn no_file_is_missed_wrongly() {
    let rules = Rules::builtin();
    let cases = Case::all(&corpus().join("incidents"));
    let mut runs: Vec<(&Case, String, Vec<PathBuf>)> = Vec::new();
    for case in &cases {
        let all = files(case.inputs());
        runs.extend(remainders(&all).into_iter().map(|(name, rest)| (case, name, rest)));
    }
    assert!(runs.len() > 150, "only {} runs", runs.len());
    let failed: Vec<String> = runs
        .par_iter()
        .flat_map_iter(|(case, name, rest)| {
            let answer = Answer::of(&case.folder, rest, &ReadOptions::default(), &rules);
            wrong(&case.expect, &answer.json).into_iter().map(move |why| format!("{} without {name}: {why}", case.name))
        })
        .collect();
    assert!(failed.is_empty(), "{} of {} runs:\n{}", failed.len(), runs.len(), failed.join("\n"));
}
