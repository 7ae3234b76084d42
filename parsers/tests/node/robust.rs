//! Nothing that a file may hold makes a parser fail.

use crate::common::parse_as;
use holdup_parsers::envelope::Stream;
use holdup_parsers::evidence::{LineMap, Text};
use holdup_parsers::node;

fn samples() -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for folder in ["incidents", "tools", "by-hand"] {
        let folder = format!("{}/../corpus/node/{folder}", env!("CARGO_MANIFEST_DIR"));
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            found
                .push((entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).expect("a file")));
        }
    }
    found
}

fn survives(path: &str, bytes: Vec<u8>) {
    let lines = bytes.iter().filter(|b| **b == b'\n').count() as u32 + 1;
    let stream = Stream { text: Text::from_vec(bytes), lines: LineMap::identity(7), ..Stream::default() };
    let Some((_, node)) = node::parse(&stream, path, 7) else { return };
    let places = node.processes.iter().map(|p| p.place).chain(node.threads.iter().map(|t| t.place));
    for place in places.chain(node.log_lines.iter().map(|l| l.place)) {
        assert!((1..=lines).contains(&place.expect("a place").line));
    }
}

/// A small generator of its own, so that a failure is the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below.max(1) as u64) as usize
    }
}

#[test]
fn samples_damaged_in_every_way() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for (name, bytes) in samples() {
        for _ in 0..60 {
            let mut bytes = bytes.clone();
            for _ in 0..1 + random.next(20) {
                let at = random.next(bytes.len());
                match random.next(5) {
                    0 => bytes.truncate(at),
                    1 if at < bytes.len() => bytes[at] = random.next(256) as u8,
                    2 => bytes.insert(at.min(bytes.len()), b'\n'),
                    3 if at < bytes.len() => drop(bytes.remove(at)),
                    _ => {
                        let end = (at + random.next(200)).min(bytes.len());
                        bytes.drain(at.min(end)..end);
                    }
                }
            }
            survives(&name, bytes);
        }
    }
}

#[test]
fn words_thrown_together() {
    let mut random = Random(42);
    let words = [
        "PID",
        "COMMAND",
        "[<0>]",
        "#0 ",
        "task:x state:D pid:",
        "\n",
        " ",
        "\t",
        "0x1f",
        "+0x1/0x2",
        "ps",
        "-",
        "(",
        ")",
        "\u{e9}",
        "INFO: task a:1 blocked for more than 9 seconds",
        "[",
        "]",
        "] ",
        "time=\"",
        "2026-11-29T12:04:44",
        "Z",
        "+",
        "Nov 29",
        ":",
        "u_str ",
        "99999999999999999999",
        "Recv-Q",
        " on / type x (rw)",
        "PID: 1 TASK: ",
        "CONTAINER ID  NAMES  STATUS",
        "1: FLOCK",
        "Conditions:",
        "Loaded: ",
        "(LWP 1)",
        "TID 7:",
        "<unfinished ...>",
        "E1129 1:2:3 4 a.go:5] ",
        "月",
        "\u{0}",
        "wchan ",
        "-1",
    ];
    for _ in 0..20_000 {
        let text: String = (0..random.next(40)).map(|_| words[random.next(words.len())]).collect();
        survives("proc/1/syscall", text.clone().into_bytes());
        survives("x", text.into_bytes());
    }
}

#[test]
fn random_bytes() {
    let mut random = Random(7);
    for _ in 0..2_000 {
        let bytes: Vec<u8> = (0..random.next(400)).map(|_| random.next(256) as u8).collect();
        survives("proc/12/wchan", bytes.clone());
        survives("a", bytes);
    }
}

#[test]
fn a_line_without_end_costs_no_more_than_its_length() {
    let text = "PID [<0> blocked for more than #0 ".repeat(400_000);
    let start = std::time::Instant::now();
    assert!(parse_as("x", &text).is_none());
    assert!(start.elapsed().as_secs() < 20);
}

#[test]
fn many_anchors_do_not_make_it_quadratic() {
    let text = "PID COMMAND\n".repeat(200_000);
    let start = std::time::Instant::now();
    let _ = parse_as("x", &text);
    let text = "== pid 1 tid 2\n".repeat(200_000);
    let _ = parse_as("x", &text);
    let text = "#0  0x1 in f ()\n\n\n\nx\n".repeat(100_000);
    let _ = parse_as("x", &text);
    let text = "strace: Process 1 attached\nread(1) = 1\n".repeat(100_000);
    let _ = parse_as("x", &text);
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}
