//! The command line: one test a promise of the contract.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn holdup(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the binary runs")
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdup"));
    command.args(arguments).stdin(Stdio::null());
    for name in ["LC_ALL", "LC_MESSAGES", "LANG", "COLUMNS", "NO_COLOR"] {
        command.env_remove(name);
    }
    command
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("no signal")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A folder of a test's own.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a folder");
    path
}

#[test]
fn no_path_is_a_usage_error() {
    let output = holdup(&["analyze"]);
    assert_eq!(code(&output), 2);
    assert!(output.stdout.is_empty());
}

#[test]
fn a_file_without_evidence_is_exit_3_and_says_what_to_give() {
    let folder = folder("no-evidence");
    let file = folder.join("holiday.txt");
    std::fs::write(&file, "we went to the sea\n").expect("written");
    let report = folder.join("report.html");
    let output = holdup(&["analyze", file.to_str().expect("utf-8"), "-o", report.to_str().expect("utf-8")]);
    assert_eq!(code(&output), 3, "{}", stderr(&output));
    assert!(output.stdout.is_empty());
    assert!(stderr(&output).contains("debug=2"), "{}", stderr(&output));
    assert!(!report.exists());
}
