//! `holdup compare`: what stood still, what moved, what grew, in dumps of which all this is known.

use serde_json::Value;
use std::fmt::Write as _;
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

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("compare-{name}"));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("UTF-8").to_owned()
    }

    fn file(&self, name: &str, content: &str) -> String {
        std::fs::write(self.0.join(name), content).expect("written");
        self.path(name)
    }
}

/// A dump being made. Long-lived goroutines that every daemon has make its moments known as one process.
struct Dump(String);

impl Dump {
    fn new() -> Dump {
        Dump::aged(30)
    }

    fn aged(minutes: u32) -> Dump {
        let mut dump = Dump(String::new());
        let writer = [("main.dumpStacks()", "/src/dump.go:8 +0x65"), ("main.onSignal()", "/src/dump.go:30 +0x1d")];
        dump.goroutine(19, "running", None, &writer, "main.main");
        dump.goroutine(
            1,
            "IO wait",
            Some(minutes),
            &[
                ("internal/poll.(*FD).Accept(0xc000108000)", "/usr/local/go/src/internal/poll/fd_unix.go:614 +0x2bd"),
                ("main.main()", "/src/main.go:10 +0x1d"),
            ],
            "",
        );
        for id in 2..12 {
            dump.goroutine(
                id,
                "select",
                Some(minutes),
                &[("main.(*worker).run(0xc000108000)", "/src/worker.go:20 +0x65")],
                "main.main",
            );
        }
        dump
    }

    fn goroutine(&mut self, id: u64, state: &str, minutes: Option<u32>, frames: &[(&str, &str)], creator: &str) {
        let age = minutes.map_or(String::new(), |m| format!(", {m} minutes"));
        let _ = writeln!(self.0, "goroutine {id} [{state}{age}]:");
        for (function, file) in frames {
            let _ = writeln!(self.0, "{function}\n\t{file}");
        }
        if !creator.is_empty() {
            let _ = writeln!(self.0, "created by {creator} in goroutine 1\n\t/src/main.go:12 +0x9c");
        }
        self.0.push('\n');
    }

    /// Holds the pool's mutex and waits for the kernel.
    fn holder(mut self, id: u64, minutes: Option<u32>) -> Dump {
        let frames = [
            (
                "syscall.Syscall6(0x2d, 0x9, 0xc000d2a000, 0x1000, 0x0, 0xc000a3e1a8, 0xc000a3e19c)",
                "/usr/local/go/src/syscall/asm_linux_amd64.s:41 +0x5",
            ),
            (
                "github.com/vishvananda/netlink/nl.(*NetlinkSocket).Receive(0xc0004a8d20)",
                "/src/vendor/github.com/vishvananda/netlink/nl/nl_linux.go:645 +0xa5",
            ),
            ("main.(*pool).release(0xc0000ccec0, 0x1)", "/src/main.go:34 +0x91"),
        ];
        self.goroutine(id, "syscall", minutes, &frames, "main.serve");
        self
    }

    /// Waits for the pool's mutex.
    fn waiters(mut self, ids: std::ops::Range<u64>, minutes: Option<u32>) -> Dump {
        let frames = [
            ("sync.runtime_SemacquireMutex(0xc0000ccec4, 0x0, 0x1)", "/usr/local/go/src/runtime/sema.go:71 +0x47"),
            ("sync.(*Mutex).lockSlow(0xc0000ccec0)", "/usr/local/go/src/sync/mutex.go:138 +0x105"),
            ("sync.(*Mutex).Lock(...)", "/usr/local/go/src/sync/mutex.go:81"),
            ("main.(*pool).release(0xc0000ccec0, 0x1)", "/src/main.go:32 +0x5c"),
        ];
        for id in ids {
            self.goroutine(id, "sync.Mutex.Lock", minutes, &frames, "main.serve");
        }
        self
    }

    /// Sends to a channel that nobody reads.
    fn senders(mut self, ids: std::ops::Range<u64>, minutes: Option<u32>) -> Dump {
        for id in ids {
            let frames = [("main.(*client).notify(0xc000108000)", "/src/client.go:77 +0x33")];
            self.goroutine(id, "chan send", minutes, &frames, "main.(*client).watch");
        }
        self
    }
}

fn json(paths: &[&str]) -> Value {
    let mut arguments = vec!["compare", "--format", "json"];
    arguments.extend(paths);
    let output = holdup(&arguments);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn kind(comparison: &Value) -> &str {
    comparison["verdict"]["kind"].as_str().expect("a kind")
}

#[test]
fn what_stands_in_all_moments_is_a_hang() {
    let folder = Folder::new("hang");
    let first = folder.file("1.txt", &Dump::new().holder(34, Some(8)).waiters(100..130, Some(7)).0);
    let second = folder
        .file("2.txt", &Dump::aged(35).holder(34, Some(13)).waiters(100..130, Some(12)).waiters(200..205, Some(3)).0);
    let report = json(&[&first, &second]);
    assert_eq!(kind(&report), "hang", "{}", report["verdict"]);
    assert_eq!(report["moments"][1]["minutes_by_ages"], 5);
    let process = &report["processes"][0];
    let lock = &process["locks"][0];
    assert_eq!((lock["course"].as_str(), lock["address"].as_str()), (Some("stuck"), Some("0xc0000ccec0")));
    assert_eq!(lock["at"][0]["waiter_count"], 30);
    assert_eq!(lock["at"][1]["waiter_count"], 35);
    assert_eq!(lock["at"][1]["holder"], 34);
    assert_eq!(lock["new_waiters"], serde_json::json!([200, 201, 202, 203, 204]));
    assert_eq!(lock["same_waiters"].as_array().map(Vec::len), Some(30));
    let stuck = process["stuck"].as_array().expect("a list");
    let holder = stuck.iter().find(|s| s["goroutines"] == serde_json::json!([34])).expect("the holder");
    assert_eq!(holder["minutes"], serde_json::json!([8, 13]));
    assert_eq!(holder["holds"][0], lock["id"]);
    assert_eq!(holder["in_chain"], true);
    let waiting = stuck.iter().find(|s| s["waits_for"] == lock["id"]).expect("the waiters");
    assert_eq!(waiting["count"], 30, "those that came later have not stood in all moments");
    // The place is the line of the user's file that says what the holder does.
    let line = holder["places"][0]["source"]["line_start"].as_u64().expect("a line") as usize;
    let written = std::fs::read_to_string(&first).expect("the dump");
    let shown = written.lines().nth(line - 1).expect("a line of the dump");
    assert!(shown.contains("NetlinkSocket") || shown.contains("release"), "{shown}");

    let output = holdup(&["compare", &first, &second, "--fail-on", "hang"]);
    assert_eq!(code(&output), 1);
    assert!(text(&output).starts_with("HANG"), "{}", text(&output));
    assert!(text(&output).contains("8 → 13 min"), "{}", text(&output));
}

#[test]
fn a_lock_that_changes_hands_is_slow() {
    let folder = Folder::new("slow");
    let first = folder.file("1.txt", &Dump::new().holder(34, Some(2)).waiters(100..130, Some(2)).0);
    let second = folder.file("2.txt", &Dump::new().holder(110, Some(2)).waiters(111..140, Some(2)).0);
    let report = json(&[&first, &second]);
    assert_eq!(kind(&report), "slow", "{}", report["verdict"]);
    let lock = &report["processes"][0]["locks"][0];
    assert_eq!(lock["course"], "changes-hands");
    assert!(lock["served"].as_array().is_some_and(|ids| ids.contains(&110.into())), "{lock}");
    assert_eq!(code(&holdup(&["compare", &first, &second, "--fail-on", "hang"])), 0);
    assert_eq!(code(&holdup(&["compare", &first, &second, "--fail-on", "any"])), 1);
}

#[test]
fn a_holder_that_came_back_for_a_new_wait_has_moved() {
    let folder = Folder::new("came-back");
    let first = folder.file("1.txt", &Dump::new().holder(34, Some(9)).waiters(100..104, Some(8)).0);
    let second = folder.file("2.txt", &Dump::new().holder(34, Some(2)).waiters(104..108, Some(2)).0);
    let report = json(&[&first, &second]);
    assert_eq!(kind(&report), "slow", "{}", report["verdict"]);
    let moving = report["processes"][0]["moving"].as_array().expect("a list");
    assert!(moving.iter().any(|m| m["came_back"] == true && m["goroutines"] == serde_json::json!([34])), "{moving:?}");
}

#[test]
fn stacks_that_come_and_do_not_go_are_a_leak() {
    let folder = Folder::new("leak");
    let paths: Vec<String> = [100, 180, 260]
        .iter()
        .enumerate()
        .map(|(n, &end)| folder.file(&format!("{n}.txt"), &Dump::new().senders(20..end, Some(1)).0))
        .collect();
    let report = json(&[&paths[0], &paths[1], &paths[2]]);
    assert_eq!(kind(&report), "leak", "{}", report["verdict"]);
    let growing = &report["processes"][0]["growing"][0];
    assert_eq!(growing["counts"], serde_json::json!([80, 160, 240]));
    assert_eq!(growing["stayed"], 80);

    // The same numbers with other goroutines every time are a load.
    let busy: Vec<String> = [(100, 180), (1000, 1160), (3000, 3240)]
        .iter()
        .enumerate()
        .map(|(n, &(start, end))| folder.file(&format!("busy-{n}.txt"), &Dump::new().senders(start..end, None).0))
        .collect();
    let report = json(&[&busy[0], &busy[1], &busy[2]]);
    assert_eq!(kind(&report), "healthy", "{}", report["verdict"]);
    assert_eq!(report["processes"][0]["growing"][0]["stayed"], 0);
}

#[test]
fn a_quiet_process_is_healthy_and_its_idle_goroutines_are_not_accused() {
    let folder = Folder::new("quiet");
    let first = folder.file("1.txt", &Dump::new().0);
    let report = json(&[&first, &folder.file("2.txt", &Dump::new().0)]);
    assert_eq!(kind(&report), "healthy", "{}", report["verdict"]);
}

#[test]
fn a_hang_that_began_in_between_is_one_and_one_that_ended_is_none() {
    let folder = Folder::new("between");
    let calm = folder.file("calm.txt", &Dump::new().0);
    let hung = folder.file("hung.txt", &Dump::new().holder(34, Some(8)).waiters(100..130, Some(7)).0);
    let report = json(&[&calm, &hung]);
    assert_eq!(kind(&report), "hang", "{}", report["verdict"]);
    assert_eq!(report["findings"][0]["fate"], "new");
    assert_eq!(report["processes"][0]["locks"][0]["course"], "new");
    let report = json(&[&hung, &calm]);
    assert_eq!(kind(&report), "slow", "{}", report["verdict"]);
    assert_eq!(report["findings"][0]["fate"], "gone");
    assert_eq!(report["processes"][0]["locks"][0]["course"], "released");
}

#[test]
fn moments_given_the_wrong_way_round_are_put_in_order_by_ages() {
    let folder = Folder::new("order");
    let first = folder.file("1.txt", &Dump::new().holder(34, Some(8)).waiters(100..130, Some(7)).0);
    let second = folder.file("2.txt", &Dump::aged(35).holder(34, Some(13)).waiters(100..130, Some(12)).0);
    let report = json(&[&second, &first]);
    assert_eq!(kind(&report), "hang");
    assert_eq!(report["moments"][0]["given"], 2);
    assert_eq!(report["notes"].as_array().map(Vec::len), Some(1), "{}", report["notes"]);
}

#[test]
fn dumps_a_moment_apart_prove_nothing_about_a_contended_lock() {
    let folder = Folder::new("at-once");
    let dump = Dump::new().holder(34, None).waiters(100..103, None).0;
    let report = json(&[&folder.file("1.txt", &dump), &folder.file("2.txt", &dump)]);
    assert_eq!(kind(&report), "healthy", "{}", report["verdict"]);
}

#[test]
fn one_file_with_two_dumps_is_two_moments_and_with_one_is_refused() {
    let folder = Folder::new("one-file");
    let at = |time: &str, dump: Dump| format!("{time} SIGQUIT: quit\n\n{}\n", dump.0);
    let both = at("", Dump::new().holder(34, Some(8)).waiters(100..130, Some(7)))
        + &at("", Dump::aged(35).holder(34, Some(13)).waiters(100..130, Some(12)));
    let report = json(&[&folder.file("both.txt", &both)]);
    assert_eq!(kind(&report), "hang", "{}", report["verdict"]);
    assert_eq!(report["moments"].as_array().map(Vec::len), Some(2));
    let one = folder.file("one.txt", &Dump::new().0);
    let output = holdup(&["compare", &one]);
    assert_eq!(code(&output), 2);
    assert!(output.stdout.is_empty() && stderr(&output).contains("second path"), "{}", stderr(&output));
}

#[test]
fn what_cannot_be_read_is_told_and_the_rest_compared() {
    let folder = Folder::new("trouble");
    let first = folder.file("1.txt", &Dump::new().holder(34, Some(8)).waiters(100..130, Some(7)).0);
    let second = folder.file("2.txt", &Dump::aged(35).holder(34, Some(13)).waiters(100..130, Some(12)).0);
    let output = holdup(&["compare", &first, "/nowhere/at/all", &second, "--format", "json"]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("/nowhere/at/all"));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(kind(&report), "hang");
    assert_eq!((&report["moments"][0]["given"], &report["moments"][1]["given"]), (&1.into(), &3.into()));
    let junk = folder.file("junk.txt", "nothing to see here\n");
    assert_eq!(code(&holdup(&["compare", &junk, &junk])), 3);
    assert_eq!(code(&holdup(&["compare"])), 2);
}

#[test]
fn every_output_is_written_and_nothing_in_a_dump_is_markup() {
    let folder = Folder::new("outputs");
    let evil = |dump: Dump| dump.0.replace("main.(*pool)", "main.(*<script>alert(1)</script>&pool)");
    let first = folder.file("1.txt", &evil(Dump::new().holder(34, Some(8)).waiters(100..130, Some(7))));
    let second = folder.file("2.txt", &evil(Dump::aged(35).holder(34, Some(13)).waiters(100..130, Some(12))));
    let files: Vec<String> = ["html", "md", "json", "txt", "svg", "dot", "mmd"]
        .iter()
        .map(|extension| folder.path(&format!("report.{extension}")))
        .collect();
    let mut arguments = vec!["compare", &first, &second];
    for file in &files {
        arguments.extend(["-o", file]);
    }
    let output = holdup(&arguments);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    for file in &files {
        let written = std::fs::read_to_string(file).expect("written");
        assert!(written.len() > 100, "{file}");
        assert!(file.ends_with("json") || file.ends_with("txt") || !written.contains("<script>alert"), "{file}");
    }
    let page = std::fs::read_to_string(&files[0]).expect("written");
    assert!(!page.contains("<script") && page.contains("default-src 'none'"));
    assert!(page.contains("HANG") && page.contains("8 → 13 min"));
    for lang in ["en", "zh"] {
        let output = holdup(&["compare", &first, &second, "--format", "html", "--lang", lang]);
        let page = text(&output);
        assert!(page.contains(if lang == "zh" { "时间点" } else { "Moments" }));
    }
}

#[test]
fn the_schema_names_what_the_json_holds() {
    let output = holdup(&["schema", "compare"]);
    assert_eq!(code(&output), 0);
    let schema: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let folder = Folder::new("schema");
    let first = folder.file("1.txt", &Dump::new().holder(34, Some(8)).waiters(100..130, Some(7)).0);
    let report = json(&[&first, &folder.file("2.txt", &Dump::new().0)]);
    let known = schema["properties"].as_object().expect("properties");
    for name in report.as_object().expect("an object").keys() {
        assert!(known.contains_key(name), "{name}");
    }
    assert_eq!(report["schema_version"], "1");
}

#[test]
fn a_real_slow_node_is_slow_in_either_order() {
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/incidents/s7-slow-but-progressing");
    let (t0, t30) = (case.join("t0"), case.join("t30"));
    let (t0, t30) = (t0.to_str().expect("UTF-8"), t30.to_str().expect("UTF-8"));
    for paths in [[t0, t30], [t30, t0]] {
        let report = json(&paths);
        assert_eq!(kind(&report), "slow", "{}", report["verdict"]);
        assert_eq!(report["moments"][1]["seconds_since_previous"], 31);
        // truth.json: the same mutex has waiters in both dumps, but other ones.
        let locks =
            report["processes"].as_array().expect("a list").iter().flat_map(|p| p["locks"].as_array().expect("a list"));
        let lock = locks.into_iter().find(|l| l["address"] == "0xc001254e80").expect("the truth's mutex");
        assert_eq!(lock["course"], "changes-hands");
        assert_eq!(lock["same_waiters"], serde_json::json!([]));
    }
}

#[test]
fn real_hangs_dumped_twice_stay_hangs_with_their_holder() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/incidents");
    // Lock and holder are those of each truth.json.
    for (case, one, other, address, holder) in [
        (
            "s2-cri-status-lock",
            "containerd-pprof-goroutine-debug2.txt",
            "containerd.8684.stacks.log",
            "0xc000b46700",
            425,
        ),
        (
            "s4-frozen-disk-dstate",
            "containerd-pprof-goroutine-debug2.txt",
            "containerd.31201.stacks.log",
            "0xc0004a5700",
            400,
        ),
    ] {
        let path = |name: &str| corpus.join(case).join(name).to_str().expect("UTF-8").to_owned();
        let report = json(&[&path(one), &path(other)]);
        assert_eq!(kind(&report), "hang", "{case}: {}", report["verdict"]);
        let lock = &report["processes"][0]["locks"][0];
        assert_eq!((lock["address"].as_str(), &lock["at"][1]["holder"]), (Some(address), &holder.into()), "{case}");
        assert_eq!(lock["course"], "stuck", "{case}");
    }
}
