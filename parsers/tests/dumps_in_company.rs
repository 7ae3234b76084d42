//! Dumps among other text: where one ends and the next begins, and what only talks of goroutines.

use holdup_parsers::envelope::Stream;
use holdup_parsers::evidence::{Flags, Form, LineMap, NoticeKind, Snapshot, Text};
use holdup_parsers::goroutines;

fn parse(text: &str) -> Vec<Snapshot> {
    let text = Text::from_vec(text.as_bytes().to_vec());
    goroutines::parse(&Stream { text, lines: LineMap::identity(0), ..Stream::default() })
}

fn ids(snapshot: &Snapshot) -> Vec<u64> {
    snapshot.goroutines.iter().filter_map(|g| g.id).collect()
}

/// A `runtime.Stack` text of a caller and one more goroutine.
const STACK: &str = "goroutine 7 [running]:\nmain.dump(0x1)\n\t/x/main.go:8 +0x5c\ncreated by main.main\n\t/x/main.go:4 +0x1f\n\n\
                     goroutine 9 [select, 3 minutes]:\nmain.wait(0xc000)\n\t/x/main.go:9 +0x5c\ncreated by main.main\n\t/x/main.go:5 +0x1f\n";
const PANIC: &str = "panic: first\nsecond line\n\tpanic: again\n[signal SIGSEGV: segmentation violation code=0x1 addr=0x8 pc=0x1]\n\n\
                     goroutine 9 [running]:\nmain.f()\n\t/x/main.go:1 +0x1\nmain.main()\n\t/x/main.go:2 +0x2\n";

#[test]
fn talk_of_goroutines_is_none() {
    for text in [
        "I saw goroutine 12 [select]: it was stuck\nand then nothing\n",
        "goroutine 12 [select]: it was stuck there, we think\nand then nothing happened\n",
        "W1129 12:46:25.980343   17760 main.go:33] goroutine 12 [running]: too many\n",
        "Goroutine 8 (running) created at:\n  main.main()\n      /x/main.go:22 +0x10c\n",
        "goroutine 12 [select]:\nis what the page says; see above.\n",
        "panic: not really, this is a test of the log\nall is well\n",
        "fatal error: no such file, says another tool\nmake: *** Error 1\n",
        "error: boom\ngithub.com/x/y.F\n\t/x/y.go:12\nmain.main\n\t/x/main.go:3\n",
        "SIGQUIT: a signal\nis sent by kill -3\n",
    ] {
        assert!(parse(text).is_empty(), "{text}: {:?}", parse(text));
    }
}

#[test]
fn dumps_behind_each_other_are_snapshots() {
    let two = parse(&format!("{STACK}{STACK}"));
    assert_eq!(two.iter().map(ids).collect::<Vec<_>>(), [[7, 9], [7, 9]]);
    assert!(two.iter().all(|s| s.complete && s.problems.is_empty() && s.form == Form::StackAll));
    let mixed = parse(&format!(
        "started\n{PANIC}exit status 2\nrestarted\n=== BEGIN goroutine stack dump ===\n{STACK}=== END goroutine stack dump ===\ndone\n"
    ));
    assert_eq!(mixed.iter().map(|s| s.form).collect::<Vec<_>>(), [Form::Panic, Form::StackAll]);
    let notices: Vec<_> = mixed[0].notices.iter().map(|n| (n.kind, n.text.as_str())).collect();
    assert_eq!(
        notices,
        [
            (NoticeKind::Panic, "first\nsecond line"),
            (NoticeKind::Panic, "again"),
            (NoticeKind::Fault, "SIGSEGV: segmentation violation code=0x1 addr=0x8 pc=0x1")
        ]
    );
    assert_eq!(mixed[1].place(mixed[1].goroutines[1].line).map(|p| p.line), Some(21));
}

#[test]
fn blanks_may_be_lost_or_doubled() {
    let whole = parse(STACK);
    for text in [
        STACK.replace("\n\n", "\n"),
        STACK.replace('\n', "\n\n"),
        STACK.replace('\t', "        "),
        STACK.replace('\t', ""),
        STACK.replace('\n', "\r\n"),
        STACK.replace("main.wait", "I1129 12:46:25.980217   17760 main.go:30] between\nmain.wait"),
    ] {
        let [snapshot] = &parse(&text)[..] else { panic!("one snapshot in {text:?}") };
        assert_eq!(ids(snapshot), ids(&whole[0]), "{text:?}");
        assert_eq!(snapshot.frames.len(), whole[0].frames.len(), "{text:?}");
        assert!(snapshot.complete, "{text:?}: {:?}", snapshot.problems);
    }
}

#[test]
fn what_is_cut_is_said() {
    for end in [
        "\t/x/main.go:5 +0x1f\n",
        "created by main.main\n\t/x/main.go:5 +0x1f\n",
        "x/main.go:9 +0x5c\ncreated by main.main\n\t/x/main.go:5 +0x1f\n",
    ] {
        let text = STACK.strip_suffix(end).expect("the end");
        let [snapshot] = &parse(text)[..] else { panic!("one snapshot") };
        assert!(!snapshot.complete && !snapshot.problems.is_empty(), "{text}");
        assert!(snapshot.goroutines[1].flags.has(Flags::CUT), "{text}");
        assert!(!snapshot.goroutines[0].flags.has(Flags::CUT), "{text}");
    }
    let marked = STACK.replace("goroutine 9", "[... cut ...]\n\ngoroutine 9");
    assert!(!parse(&marked)[0].complete);
    let excerpt = &STACK[STACK.find("goroutine 9").expect("the second")..];
    assert!(!parse(excerpt)[0].complete);
}
