//! Dumps that were damaged on the way: whatever happens to the bytes, reading ends, tells no goroutine twice, and points
//! only at lines that are there.

use holdup_parsers::envelope::Stream;
use holdup_parsers::evidence::{LineMap, Snapshot, Text};
use holdup_parsers::goroutines;
use proptest::prelude::*;
use std::path::Path;
use std::sync::OnceLock;

/// Samples that together have every kind of line.
fn samples() -> &'static [Vec<u8>] {
    static SAMPLES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    SAMPLES.get_or_init(|| {
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/go-versions");
        let names = [
            "1.13.15/locks-stack-all.txt",
            "1.19/cgo-sigabrt-crash.txt",
            "1.27.3/ancestors-stack-all.txt",
            "1.27.3/labels-stack-all.txt",
            "1.27.3/race-report-sigquit.txt",
            "1.27.3/locks-debug1.txt",
            "1.27.3/test-timeout.txt",
            "1.27.3/crash-overflow.txt",
        ];
        names.iter().map(|name| std::fs::read(top.join(name)).expect("a sample")).collect()
    })
}

fn parse(bytes: Vec<u8>) -> Vec<Snapshot> {
    let stream = Stream { text: Text::from_vec(bytes), lines: LineMap::identity(0), ..Stream::default() };
    goroutines::parse(&stream)
}

/// What must hold for any bytes.
fn check(bytes: &[u8]) -> Result<Vec<Snapshot>, TestCaseError> {
    let lines = bytes.split(|&b| b == b'\n').count() as u32;
    let snapshots = parse(bytes.to_vec());
    for snapshot in &snapshots {
        let mut ids: Vec<u64> = snapshot.goroutines.iter().filter_map(|g| g.id).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        prop_assert_eq!(ids.len(), all, "ids are unique in a snapshot");
        prop_assert!(!ids.contains(&0));
        for goroutine in &snapshot.goroutines {
            prop_assert!(goroutine.text_start + goroutine.text_len <= snapshot.text.bytes().len());
            prop_assert!(snapshot.place(goroutine.line).is_some_and(|p| p.line <= lines));
            prop_assert_eq!(snapshot.frames_of(goroutine).len(), goroutine.frame_count as usize);
            for frame in snapshot.frames_of(goroutine) {
                prop_assert!((frame.site.0 as usize) < snapshot.sites.len());
                prop_assert!(snapshot.place(frame.line).is_some_and(|p| p.line <= lines));
                snapshot.args(goroutine, frame);
                snapshot.registers(goroutine, frame);
            }
        }
        for problem in &snapshot.problems {
            prop_assert!(problem.line.is_none_or(|line| line >= 1 && line <= lines), "{:?}", problem);
        }
    }
    Ok(snapshots)
}

fn sample() -> impl Strategy<Value = Vec<u8>> {
    (0..samples().len()).prop_map(|i| samples()[i].clone())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 160, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cut_anywhere(bytes in sample(), from in any::<prop::sample::Index>(), to in any::<prop::sample::Index>()) {
        let (a, b) = (from.index(bytes.len()), to.index(bytes.len()));
        check(&bytes[a.min(b)..a.max(b)])?;
    }

    #[test]
    fn flipped_bytes(mut bytes in sample(), flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40)) {
        for (at, byte) in flips {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        check(&bytes)?;
    }

    #[test]
    fn lines_in_another_order(bytes in sample(), swaps in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..60)) {
        let mut lines: Vec<&[u8]> = bytes.split(|&b| b == b'\n').collect();
        for (a, b) in swaps {
            let (a, b) = (a.index(lines.len()), b.index(lines.len()));
            lines.swap(a, b);
        }
        check(&lines.join(&b'\n'))?;
    }

    #[test]
    fn lines_taken_out_of_a_stack_are_noticed(first in any::<prop::sample::Index>(), count in 1usize..12) {
        // Frames of a signal's dump have their stack pointers, so no loss within a stack may stay unseen.
        let bytes = &samples()[1];
        let lines: Vec<&[u8]> = bytes.split(|&b| b == b'\n').collect();
        let end = lines.iter().position(|l| l.starts_with(b"rax ")).expect("registers");
        let first = first.index(end);
        let lost = &lines[first..(first + count).min(end)];
        let kept: Vec<&[u8]> = lines[..first].iter().chain(&lines[first + lost.len()..]).copied().collect();
        let snapshots = check(&kept.join(&b'\n'))?;
        // Headers, empty lines and what is around the goroutines may go unseen; a whole goroutine too.
        let in_stack = lost.iter().all(|l| l.starts_with(b"\t") || l.ends_with(b")"));
        let inlined = lost.iter().any(|l| l.ends_with(b"(...)")) || lines[first.saturating_sub(1)].ends_with(b"(...)");
        let outermost = lost.iter().any(|l| l.starts_with(b"runtime.goexit")) || lines[first.saturating_sub(1)].starts_with(b"created");
        let innermost = (1..=2).any(|n| lines[first.saturating_sub(n)].starts_with(b"goroutine "));
        // What the threads' part prints again is not lost.
        let header = lines[..first].iter().rev().find(|l| l.starts_with(b"goroutine "));
        let again = header.is_none_or(|header| lines.iter().filter(|l| l == &header).count() > 1 || header.starts_with(b"goroutine 0 "));
        if in_stack && !inlined && !outermost && !innermost && !again {
            prop_assert!(snapshots.iter().any(|s| !s.complete), "lost from line {}: {:?}", first + 1, lost.len());
        }
    }

    #[test]
    fn any_bytes_at_all(bytes in prop::collection::vec(any::<u8>(), 0..4000)) {
        check(&bytes)?;
    }

    #[test]
    fn words_of_the_grammar_in_any_order(words in prop::collection::vec(prop::sample::select(WORDS.to_vec()), 0..300)) {
        check(words.concat().as_bytes())?;
    }
}

const WORDS: [&str; 30] = [
    "\n",
    "\n",
    "\n\n",
    "\t",
    "goroutine ",
    "1",
    "42",
    " [select]:",
    " [running]:\n",
    "main.f(",
    "0xc000",
    ")",
    "\n\t/a/b.go:12 +0x1d",
    " fp=0x10 sp=0x20 pc=0x30",
    "created by main.main",
    " in goroutine 7",
    "...",
    "{",
    "}",
    "[originating from goroutine 3]:\n",
    "panic: ",
    "fatal error: x\n",
    "SIGQUIT: quit\nPC=0x1 m=0 sigcode=0\n",
    "-----\n",
    "rax    0x1\n",
    "runtime stack:\n",
    "goroutine profile: total 3\n",
    "1 @ 0x1\n",
    "#\t0x1\tf+0x1\t/a.go:1\n",
    "WARNING: DATA RACE\n",
];

#[test]
fn endless_lines_and_nothing_at_all() {
    assert!(parse(Vec::new()).is_empty());
    assert!(parse(vec![0; 3 << 20]).is_empty());
    assert!(parse(vec![b'('; 3 << 20]).is_empty());
    assert!(parse([b"goroutine 1 [".as_slice(), &vec![b'x'; 3 << 20]].concat()).len() <= 1);
    assert!(parse(b"goroutine 5 [select]:\n".repeat(50_000)).len() <= 50_000);
}
