//! The command line: one test a promise of the contract.

use serde_json::Value;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdup"));
    command.args(arguments).stdin(Stdio::null());
    for name in ["LC_ALL", "LC_MESSAGES", "LANG", "COLUMNS", "NO_COLOR", "TERM"] {
        command.env_remove(name);
    }
    command
}

fn holdup(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the binary runs")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("no signal")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A folder of a test's own.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cli-{name}"));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("UTF-8").to_owned()
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        std::fs::write(self.0.join(name), content).expect("written");
        self.path(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).expect("a folder");
        let mut names: Vec<String> =
            entries.map(|e| e.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
        names.sort();
        names
    }
}

/// A daemon whose lock is held by a goroutine that waits for the kernel, as SIGUSR1 handlers print it.
fn dump() -> String {
    let mut text = String::from(
        "goroutine 34 [syscall, 8 minutes]:\n\
         syscall.Syscall6(0x2d, 0x9, 0xc000d2a000, 0x1000, 0x0, 0xc000a3e1a8, 0xc000a3e19c)\n\t/usr/local/go/src/syscall/asm_linux_amd64.s:41 +0x5\n\
         github.com/vishvananda/netlink/nl.(*NetlinkSocket).Receive(0xc0004a8d20)\n\t/src/vendor/github.com/vishvananda/netlink/nl/nl_linux.go:645 +0xa5\n\
         main.(*pool).release(0xc0000ccec0, 0x1)\n\t/src/main.go:34 +0x91\n\
         created by main.serve\n\t/src/main.go:12 +0x9c\n\n",
    );
    for id in 100..130 {
        let _ = write!(
            text,
            "goroutine {id} [semacquire, 7 minutes]:\n\
             sync.runtime_SemacquireMutex(0xc0000ccec4, 0x0, 0x1)\n\t/usr/local/go/src/runtime/sema.go:71 +0x47\n\
             sync.(*Mutex).lockSlow(0xc0000ccec0)\n\t/usr/local/go/src/sync/mutex.go:138 +0x105\n\
             sync.(*Mutex).Lock(...)\n\t/usr/local/go/src/sync/mutex.go:81\n\
             main.(*pool).release(0xc0000ccec0, 0x1)\n\t/src/main.go:32 +0x5c\n\
             created by main.serve\n\t/src/main.go:12 +0x9c\n\n"
        );
    }
    text
}

fn verdict(file: &str) -> String {
    let output = holdup(&["analyze", file, "--format", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    report["verdict"]["kind"].as_str().expect("a kind").to_owned()
}

#[test]
fn json_is_the_contracts() {
    let folder = Folder::new("json");
    let file = folder.file("dump.txt", dump());
    let output = holdup(&["analyze", &file, "--format", "json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["schema_version"], "1");
    assert_eq!(report["tool"]["name"], "holdup");
    assert_eq!(report["inputs"][0]["path"], file.as_str());
    assert_eq!(report["snapshots"][0]["goroutines"], 31);
    for name in ["verdict", "locks", "edges", "findings", "timeline", "groups", "subjects"] {
        assert!(report.get(name).is_some(), "{name}");
    }
}

#[test]
fn usage_errors_are_2_and_print_nothing() {
    let folder = Folder::new("usage");
    let file = folder.file("dump.txt", dump());
    let report = folder.path("report.pdf");
    let wrong: &[&[&str]] = &[
        &["analyze"],
        &["analyse", &file],
        &["analyze", &file, "--format", "pdf"],
        &["analyze", &file, "-o", &report],
        &["analyze", &file, "--lang", "fr"],
        &["analyze", &file, "-q", "-v"],
        &["analyze", &file, "--no-such-option"],
        &[],
    ];
    for arguments in wrong {
        let output = holdup(arguments);
        assert_eq!(code(&output), 2, "{arguments:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{arguments:?}");
    }
    assert_eq!(folder.names(), ["dump.txt"]);
}

#[test]
fn what_could_be_read_is_reported_beside_what_could_not() {
    let folder = Folder::new("missing");
    let (good, missing) = (folder.file("good.txt", dump()), folder.path("missing.txt"));
    let output = holdup(&["analyze", &good, &missing]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("missing.txt"), "{}", stderr(&output));
    assert_eq!(stdout(&output), stdout(&holdup(&["analyze", &good])));
    let alone = holdup(&["analyze", &missing]);
    assert_eq!(code(&alone), 2);
    assert!(alone.stdout.is_empty());
}

#[test]
fn nothing_recognised_is_3_and_says_what_to_give() {
    let folder = Folder::new("nothing");
    let report = folder.path("report.html");
    let jpeg = [&b"\xff\xd8\xff\xe0\x00\x10JFIF"[..], &[0x5a; 4096]].concat();
    let files = [
        folder.file("empty.txt", ""),
        folder.file("holiday.txt", "we went to the sea\n"),
        folder.file("zeros.bin", vec![0; 100_000]),
        folder.file("picture.jpg", jpeg),
        folder.file("java.txt", "\"main\" #1 prio=5 os_prio=0 tid=0x1 nid=0x2 waiting on condition\n   java.lang.Thread.State: WAITING\n\tat java.lang.Object.wait(Native Method)\n"),
    ];
    for file in &files {
        let output = holdup(&["analyze", file, "-o", &report]);
        assert_eq!(code(&output), 3, "{file}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "{file}");
        assert!(stderr(&output).contains("debug=2"), "{file}: {}", stderr(&output));
        assert!(!Path::new(&report).exists(), "{file}");
    }
}

#[test]
fn fail_on_matches_the_verdict() {
    let folder = Folder::new("fail-on");
    let hang = folder.file("hang.txt", dump());
    let crash = folder.file(
        "crash.txt",
        "panic: oh no\n\ngoroutine 1 [running]:\nmain.main()\n\t/src/main.go:7 +0x1d\nexit status 2\n",
    );
    for file in [&hang, &crash] {
        let kind = verdict(file);
        let expected = [
            ("hang", matches!(kind.as_str(), "hang" | "deadlock")),
            ("deadlock", kind == "deadlock"),
            ("any", !matches!(kind.as_str(), "healthy" | "inconclusive")),
        ];
        for (fail_on, matches) in expected {
            let output = holdup(&["analyze", file, "--fail-on", fail_on]);
            assert_eq!(code(&output), i32::from(matches), "{file} is {kind}, --fail-on {fail_on}");
            assert!(!output.stdout.is_empty());
        }
    }
}

#[test]
fn reports_are_told_by_their_extension() {
    let folder = Folder::new("kinds");
    let file = folder.file("dump.txt", dump());
    let starts = [
        ("r.html", "<!DOCTYPE html>"),
        ("r.json", "{"),
        ("r.md", "# "),
        ("r.dot", "digraph"),
        ("r.mmd", "flowchart"),
        ("r.svg", "<?xml"),
        ("R.TXT", ""),
    ];
    let mut arguments = vec!["analyze".to_owned(), file.clone()];
    for (name, _) in starts {
        arguments.extend(["-o".to_owned(), folder.path(name)]);
    }
    let output = command(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).output().expect("runs");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    for (name, start) in starts {
        let text = std::fs::read_to_string(folder.path(name)).expect(name);
        assert!(text.starts_with(start) && text.len() > 60, "{name}: {text:.80}");
    }
    assert_eq!(folder.names().len(), starts.len() + 1, "nothing else is left: {:?}", folder.names());
    let formats = [
        ("json", "r.json"),
        ("markdown", "r.md"),
        ("html", "r.html"),
        ("dot", "r.dot"),
        ("mermaid", "r.mmd"),
        ("svg", "r.svg"),
    ];
    for (format, name) in formats {
        let printed = holdup(&["analyze", &file, "--format", format]);
        assert_eq!(stdout(&printed), std::fs::read_to_string(folder.path(name)).expect(name), "{format}");
    }
}

#[test]
fn a_report_that_cannot_be_written_is_2_and_leaves_no_piece() {
    let folder = Folder::new("unwritable");
    let file = folder.file("dump.txt", dump());
    std::fs::create_dir(folder.path("folder.html")).expect("a folder");
    for report in [folder.path("folder.html"), folder.path("no/such/folder/report.html")] {
        let output = holdup(&["analyze", &file, "-o", &report]);
        assert_eq!(code(&output), 2, "{report}");
        assert!(stderr(&output).contains(&report), "{}", stderr(&output));
        assert!(!output.stdout.is_empty(), "the answer is printed all the same");
    }
    assert_eq!(folder.names(), ["dump.txt", "folder.html"]);
}

#[test]
fn an_older_report_is_replaced_through_its_link() {
    let folder = Folder::new("replaced");
    let file = folder.file("dump.txt", dump());
    let (report, link) = (folder.file("report.json", "old"), folder.path("link.json"));
    std::os::unix::fs::symlink(&report, &link).expect("a link");
    assert_eq!(code(&holdup(&["analyze", &file, "-q", "-o", &link])), 0);
    assert!(std::fs::symlink_metadata(&link).expect("there").is_symlink());
    assert!(std::fs::read_to_string(&report).expect("there").starts_with('{'));
}

#[test]
fn bad_rules_are_2_before_any_analysis() {
    let folder = Folder::new("rules");
    let file = folder.file("dump.txt", dump());
    let rules = folder.path("rules");
    std::fs::create_dir(&rules).expect("a folder");
    let empty = holdup(&["analyze", &file, "--rules", &rules]);
    assert_eq!((code(&empty), empty.stdout.len()), (2, 0), "{}", stderr(&empty));
    std::fs::write(Path::new(&rules).join("bad.toml"), "[[benign]\nid = ").expect("written");
    let bad = holdup(&["analyze", &file, "--rules", &rules]);
    assert_eq!((code(&bad), bad.stdout.len()), (2, 0), "{}", stderr(&bad));
    assert!(stderr(&bad).contains("bad.toml"), "{}", stderr(&bad));
    let gone = holdup(&["analyze", &file, "--rules", &folder.path("gone")]);
    assert_eq!((code(&gone), gone.stdout.len()), (2, 0));
    assert_eq!(code(&holdup(&["analyze", &file, "--no-rules"])), 0);
}

#[test]
fn a_closed_pipe_is_no_error() {
    let folder = Folder::new("pipe");
    let file = folder.file("dump.txt", dump());
    let mut child = command(&["analyze", &file, "--format", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(code(&output), 0);
    assert_eq!(stderr(&output), "");
}

#[test]
fn a_full_disk_is_an_error() {
    let folder = Folder::new("full");
    let file = folder.file("dump.txt", dump());
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let output = command(&["analyze", &file]).stdout(full).stderr(Stdio::piped()).output().expect("runs");
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("standard output"), "{}", stderr(&output));
}

#[test]
fn standard_input_is_a_dash() {
    let mut child = command(&["analyze", "-", "--format", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    child.stdin.take().expect("piped").write_all(dump().as_bytes()).expect("written");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(code(&output), 0);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["snapshots"][0]["goroutines"], 31);
}

#[test]
fn the_locale_counts_for_text_and_html_only() {
    let folder = Folder::new("locale");
    let file = folder.file("dump.txt", dump());
    let chinese = |text: &str| text.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c));
    let run = |arguments: &[&str], locale: &str| {
        let all: Vec<&str> = ["analyze", &file].iter().chain(arguments).copied().collect();
        stdout(&command(&all).env("LANG", locale).output().expect("runs"))
    };
    for (format, by_locale) in [
        ("text", true),
        ("html", true),
        ("json", false),
        ("markdown", false),
        ("dot", false),
        ("mermaid", false),
        ("svg", false),
    ] {
        assert_eq!(chinese(&run(&["--format", format], "zh_CN.UTF-8")), by_locale, "{format}");
    }
    assert!(!chinese(&run(&["--lang", "en"], "zh_CN.UTF-8")));
    assert!(chinese(&run(&["--lang", "zh", "--format", "markdown"], "C")));
}

#[test]
fn colour_is_for_terminals_unless_asked_for() {
    let folder = Folder::new("colour");
    let file = folder.file("dump.txt", dump());
    assert!(!stdout(&holdup(&["analyze", &file])).contains('\u{1b}'));
    assert!(stdout(&holdup(&["analyze", &file, "--color", "always"])).contains('\u{1b}'));
    assert!(!stdout(&holdup(&["analyze", &file, "--color", "never"])).contains('\u{1b}'));
}

#[test]
fn text_fills_the_columns_that_are_there() {
    let folder = Folder::new("columns");
    let file = folder.file("dump.txt", dump());
    let longest = |columns: &str| {
        let output = command(&["analyze", &file]).env("COLUMNS", columns).output().expect("runs");
        stdout(&output).lines().map(|line| line.chars().count()).max().unwrap_or(0)
    };
    assert!(longest("72") <= 72);
    assert!(longest("160") > 100);
}

#[test]
fn standard_error_is_silent_unless_asked() {
    let folder = Folder::new("stderr");
    let file = folder.file("dump.txt", dump());
    assert_eq!(stderr(&holdup(&["analyze", &file])), "");
    assert_eq!(stderr(&holdup(&["analyze", &file, "-q", "--no-progress"])), "");
    let told = stderr(&holdup(&["analyze", &file, "-v"]));
    assert!(told.contains("goroutine-dump") && told.contains("read in"), "{told}");
}

#[test]
fn the_program_tells_about_itself() {
    let version = holdup(&["--version"]);
    assert_eq!(code(&version), 0);
    assert!(stdout(&version).starts_with(concat!("holdup ", env!("CARGO_PKG_VERSION"))), "{}", stdout(&version));
    assert!(stdout(&holdup(&["--help"])).contains("analyze"));
    let schema: Value = serde_json::from_str(&stdout(&holdup(&["schema"]))).expect("JSON");
    assert!(schema["properties"]["verdict"].is_object());
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(stdout(&holdup(&["completions", shell])).contains("analyze"), "{shell}");
    }
    let page = stdout(&holdup(&["man"]));
    assert!(page.contains(".TH") && page.contains("fail\\-on"), "{page}");
}

#[test]
fn rules_are_listed_and_shown() {
    let all = holdup(&["rules", "list"]);
    assert_eq!(code(&all), 0, "{}", stderr(&all));
    let json: Value = serde_json::from_slice(&holdup(&["rules", "list", "--format", "json"]).stdout).expect("JSON");
    let rules = json.as_array().expect("a list");
    assert!(rules.len() > 300);
    for rule in rules {
        assert!(stdout(&all).contains(rule["id"].as_str().expect("an id")), "{rule}");
        assert!(!rule["why"].as_str().expect("why").is_empty() && rule["line"].as_u64() > Some(0), "{rule}");
    }
    assert!(stdout(&all).lines().all(|line| line.chars().count() <= 100));
    let known = stdout(&holdup(&["rules", "list", "--kind", "known-issue", "netlink"]));
    assert!(known.contains("NET-01") && !known.contains("benign"), "{known}");
    assert_eq!(code(&holdup(&["rules", "list", "--kind", "nonsense"])), 2);

    let issue = stdout(&holdup(&["rules", "show", "net-01"]));
    for part in ["NET-01", "why", "vishvananda/netlink#254", "goroutine 1 [", "pattern", "do "] {
        assert!(issue.contains(part), "{part}: {issue}");
    }
    let one: Value =
        serde_json::from_slice(&holdup(&["rules", "show", "NET-01", "--format", "json"]).stdout).expect("JSON");
    assert_eq!((&one["id"], &one["kind"]), (&"NET-01".into(), &"known_issue".into()));
    let near = holdup(&["rules", "show", "NET-0l"]);
    assert_eq!((code(&near), near.stdout.len()), (2, 0));
    assert!(stderr(&near).contains("NET-01"), "{}", stderr(&near));
}

#[test]
fn own_rules_are_checked_with_all_faults_at_once() {
    let folder = Folder::new("check");
    let good = "off = [\"go-select-forever\"]\n[[benign]]\nid = \"http-server-background-read\"\nwhy = \"mine\"\n\
                stack = [\"main.pump\"]\n[[benign.test]]\nfires = true\nstack = \"\"\"\ngoroutine 7 [select]:\n\
                main.pump()\n\t/src/main.go:1 +0x1\n\"\"\"\n";
    folder.file("good.toml", good);
    let dir = folder.path("");
    let clean = holdup(&["rules", "check", &dir]);
    assert_eq!(code(&clean), 0, "{}", stderr(&clean));
    assert_eq!(
        stdout(&clean),
        "1 rule in 1 file, 1 test: all good; 1 in place of built-in ones; 1 of the built-in ones switched off\n"
    );
    let shown = stdout(&holdup(&["rules", "show", "http-server-background-read", "--rules", &dir]));
    assert!(shown.contains("mine") && shown.contains("good.toml:3"), "{shown}");
    let gone = holdup(&["rules", "show", "go-select-forever", "--rules", &dir]);
    assert_eq!(code(&gone), 2, "{}", stdout(&gone));

    let fails = folder.file("fails.toml", good.replace("select]:", "chan send]:"));
    let failed = holdup(&["rules", "check", &fails]);
    assert_eq!((code(&failed), failed.stdout.len()), (2, 0));
    assert!(stderr(&failed).contains("fails.toml:3:1: http-server-background-read, test 1:"), "{}", stderr(&failed));

    folder.file("bad.toml", "[[benign]]\nid = \"a b\"\nwhy = \"y\"\nstack = [\"next\"]\nstates = [\"sleeping\"]\n");
    let bad = holdup(&["rules", "check", &dir]);
    assert_eq!((code(&bad), bad.stdout.len()), (2, 0));
    for place in ["bad.toml:2:6:", "bad.toml:4:10:", "bad.toml:5:11:"] {
        assert!(stderr(&bad).contains(place), "{place}: {}", stderr(&bad));
    }
    assert_eq!(code(&holdup(&["rules", "check", &folder.path("none")])), 2);
    assert_eq!(code(&holdup(&["rules", "check"])), 2);
}

#[test]
fn what_is_not_there_yet_is_refused() {
    for name in ["serve", "collect"] {
        let output = holdup(&[name, "--whatever", "x"]);
        assert_eq!((code(&output), output.stdout.len()), (2, 0), "{name}");
        assert!(
            stderr(&output).contains(name) && stderr(&output).contains("not part of this version"),
            "{}",
            stderr(&output)
        );
    }
}
