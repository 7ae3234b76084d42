//! Output of other tools that people paste instead of a dump. The samples are made by hand after the tools' sources.

use holdup_parsers::envelope::Stream;
use holdup_parsers::evidence::{Flags, Form, LineMap, Snapshot, Text};
use holdup_parsers::goroutines;

fn parse(text: &str) -> Vec<Snapshot> {
    let text = Text::from_vec(text.as_bytes().to_vec());
    goroutines::parse(&Stream { text, lines: LineMap::identity(0), ..Stream::default() })
}

fn only(text: &str) -> Snapshot {
    let mut all = parse(text);
    assert_eq!(all.len(), 1, "{all:?}");
    let snapshot = all.remove(0);
    assert_eq!(snapshot.form, Form::OtherTool);
    assert!(!snapshot.problems.is_empty(), "says what the form lacks");
    // Every frame's line names its function's last part: that is what a reader will look for.
    for goroutine in &snapshot.goroutines {
        for frame in snapshot.frames_of(goroutine) {
            let line = text.lines().nth(frame.line as usize - 1).expect("a line");
            let name = snapshot.function(frame.site);
            let last = name.rsplit('.').next().expect("a part");
            assert!(line.contains(last), "{name} at line {}: {line}", frame.line);
        }
    }
    snapshot
}

/// Id, state, and functions with file, line and arguments.
fn shown(snapshot: &Snapshot) -> Vec<String> {
    let show = |g: &holdup_parsers::evidence::Goroutine| {
        let mut text = format!("{:?} x{} {} {:?}", g.id, g.count, snapshot.names.get(g.state), g.minutes);
        for frame in snapshot.frames_of(g) {
            let site = snapshot.site(frame.site);
            let (function, file) = (snapshot.names.get(site.func), snapshot.names.get(site.file));
            text += &format!("; {function}({}) {file}:{}", snapshot.args_text(g, frame), site.line);
        }
        if let Some(created) = g.created_by {
            text += &format!("; by {}", snapshot.function(created.site));
        }
        text
    };
    snapshot.goroutines.iter().map(show).collect()
}

#[test]
fn panicparse_buckets() {
    let snapshot = only(
        "some log\n3: semacquire [2~17 minutes] [Created by pool.(*Pool).Start @ pool.go:88]\n    \
         sync    mutex.go:71   (*Mutex).Lock(#4)\n    pool    pool.go:120   (*Pool).get(#7, {0x1, 0x2})\n    (...)\n\
         1: running\n    main    main.go:12    main()\n",
    );
    assert_eq!(
        shown(&snapshot),
        [
            "None x3 semacquire Some(17); sync.(*Mutex).Lock(#4) mutex.go:71; \
             pool.(*Pool).get(#7, {0x1, 0x2}) pool.go:120; by pool.(*Pool).Start",
            "None x1 running None; main.main() main.go:12",
        ]
    );
    assert!(snapshot.goroutines[0].flags.has(Flags::ELIDED));
    assert!(!snapshot.complete);
}

const DELVE: &str = "(dlv) goroutines -t\n* Goroutine 1 - User: ./main.go:12 main.main (0x49f3c1) (thread 4711)\n\
    \t0  0x000000000049f3c1 in main.main\n\t    at ./main.go:12\n\
    \t1  0x0000000000439b36 in runtime.goexit\n\t    at /go/src/runtime/asm_amd64.s:1598\n\
    \x20 Goroutine 18 - User: ./main.go:30 main.(*store).get (0x49f4d0) [sync.Mutex.Lock 27413200]\n\
    \t0  0x0000000000439b36 in runtime.gopark\n\t    at /go/src/runtime/proc.go:381\n\
    \t1  0x0000000000470aa5 in sync.(*Mutex).lockSlow\n\t    at /go/src/sync/mutex.go:171\n\
    \t2  0x000000000049f4d0 in main.(*store).get\n\t    at ./main.go:30\n\t(truncated)\n[2 goroutines]\n";

#[test]
fn delve_with_stacks() {
    let snapshot = only(DELVE);
    let goroutines = shown(&snapshot);
    assert_eq!(
        goroutines[1],
        "Some(18) x1 sync.Mutex.Lock None; runtime.gopark() /go/src/runtime/proc.go:381; \
         sync.(*Mutex).lockSlow() /go/src/sync/mutex.go:171; main.(*store).get() ./main.go:30"
    );
    assert!(goroutines[0].starts_with("Some(1) x1 running None; main.main() ./main.go:12; runtime.goexit"));
    assert!(snapshot.complete && snapshot.goroutines[1].flags.has(Flags::ELIDED));
    let less = only(&DELVE.replace("[2 goroutines]", "[5 goroutines]"));
    assert!(!less.complete && less.problems.iter().any(|p| p.message.contains("counted 5")));
}

#[test]
fn delve_lists_and_single_stacks() {
    let list = only(
        "  Goroutine 4 - User: /x/main.go:12 main.wait (0x49f3c1) [chan receive]\n  \
         Goroutine 5 - Go: /x/main.go:8 main.main (0x49f3c1) [select]\n[2 goroutines]\n",
    );
    assert_eq!(
        shown(&list),
        ["Some(4) x1 chan receive None; main.wait() /x/main.go:12", "Some(5) x1 select None; by main.main"]
    );
    let stacks = only(
        "(dlv) goroutine 7\nSwitched from 1 to 7 (thread 12)\n(dlv) bt\n\
         0  0x0000000000439b36 in runtime.gopark\n   at /go/src/runtime/proc.go:381\n\
         1  0x0000000000439b40 in main.a\n   at ./a.go:1\n(dlv) goroutine 9 bt\n\
         0  0x0000000000439b36 in main.b\n   at ./b.go:2\n",
    );
    let ids: Vec<_> = stacks.goroutines.iter().map(|g| (g.id, g.frame_count)).collect();
    assert_eq!(ids, [(Some(7), 2), (Some(9), 1)]);
    let bare = only("0  0x0000000000439b36 in main.b\n   at ./b.go:2\n");
    assert!(bare.goroutines[0].id.is_none() && bare.goroutines[0].flags.has(Flags::HEADLESS));
}

#[test]
fn gdb_with_the_script_of_go() {
    let snapshot = only(
        "(gdb) info goroutines\n* 1 running  runtime.futex\n  2 waiting  runtime.gopark\n  18 waiting  runtime.gopark\n\
         (gdb) goroutine 18 bt\n#0  runtime.gopark (unlockf={void (runtime.g *, void *, bool *)} 0x0, lock=0x0) at /go/src/runtime/proc.go:381\n\
         #1  0x0000000000470aa5 in sync.(*Mutex).lockSlow (m=0xc000012340)\n    at /go/src/sync/mutex.go:171\n\
         #2  0x000000000049f4d0 in main.(*store).get (s=0xc000012300, key=...) at /x/main.go:30\n(gdb) quit\n",
    );
    let stack = &snapshot.goroutines[0];
    assert_eq!((stack.id, stack.frame_count), (Some(18), 3));
    let frames = snapshot.frames_of(stack);
    assert_eq!(snapshot.function(frames[1].site), "sync.(*Mutex).lockSlow");
    assert_eq!(snapshot.site(frames[1].site).line, 171);
    assert_eq!(snapshot.args(stack, &frames[1]).first().map(|a| a.value), Some(0xc000012340));
    let rest: Vec<_> = snapshot.goroutines[1..].iter().map(|g| (g.id, snapshot.names.get(g.state))).collect();
    assert_eq!(rest, [(Some(1), "running"), (Some(2), "")]);
}

const DEADLOCK: &str = "POTENTIAL DEADLOCK:\nPrevious place where the lock was grabbed\ngoroutine 240 lock 0xc820160440\n\
    inmem.go:799 bttest.(*table).gc { t.mu.RLock() } <<<<<\ninmem_test.go:221 bttest.Test.func5 { t.gc() }\n\n\
    Have been trying to lock it again for more than 30s\ngoroutine 68 lock 0xc820160440\n\
    inmem.go:785 bttest.(*table).mutableRow { t.mu.Lock() } <<<<<\n\n\
    Here is what goroutine 240 doing now\ngoroutine 240 [select, 3 minutes]:\nbttest.(*table).gc(0xc82028ca10)\n\t/x/inmem.go:801 +0x1640\n\
    created by bttest.Test\n\t/x/inmem_test.go:219 +0x12\n\n\
    Other goroutines holding locks:\ngoroutine 7 lock 0xc820160448\n/x/a.go:7 a.(*B).C ??? <<<<<\n\n";

#[test]
fn go_deadlock_tells_holders() {
    let snapshot = only(DEADLOCK);
    let told: Vec<_> = snapshot.stated_locks.iter().map(|s| (s.goroutine, s.lock, s.holds, s.reads)).collect();
    assert_eq!(
        told,
        [(240, 0xc820160440, true, true), (68, 0xc820160440, false, false), (7, 0xc820160448, true, false)]
    );
    let goroutines = shown(&snapshot);
    // What goroutine 240 does now is the runtime's own text.
    assert!(
        goroutines[0].starts_with("Some(240) x1 select Some(3); bttest.(*table).gc(0xc82028ca10)"),
        "{goroutines:?}"
    );
    assert_eq!(goroutines[1], "Some(68) x1 sync.Mutex.Lock None; bttest.(*table).mutableRow() inmem.go:785");
    assert_eq!(goroutines.len(), 3);
    let recursive = only(
        "POTENTIAL DEADLOCK: Recursive locking:\ncurrent goroutine 8 lock 0xc000010000\nx.go:5 x.f { mu.Lock() } <<<<<\n\n\
         Previous place where the lock was grabbed (same goroutine)\nx.go:4 x.f { mu.Lock() } <<<<<\n\n",
    );
    let told: Vec<_> = recursive.stated_locks.iter().map(|s| (s.goroutine, s.holds, s.line)).collect();
    assert_eq!(told, [(8, false, 2), (8, true, 5)]);
}

#[test]
fn talk_about_tools_is_none() {
    for text in [
        "1: running late\n2: waiting for main.go:12\n",
        "Goroutine 8 (running) created at:\n  main.main()\n      /x/main.go:22 +0x10c\n",
        "0  0xdead in the middle\n   at noon\n",
        "the goroutine 5 lock 0x10 is what I saw\n",
        "(gdb) bt\n#0  0x00007f in poll () at ../sysdeps/poll.c:29\n",
    ] {
        assert!(parse(text).is_empty(), "{text}: {:?}", parse(text));
    }
}

#[test]
fn a_report_behind_stamps_is_found() {
    let stamped: String = DEADLOCK.lines().map(|l| format!("2018-09-29T12:26:49.687774381Z {l}\n")).collect();
    let streams = holdup_parsers::envelope::peel(Text::from_vec(stamped.into_bytes()), 0);
    let told: Vec<_> = streams.iter().flat_map(goroutines::parse).flat_map(|s| s.stated_locks).collect();
    assert_eq!(told.len(), 3);
}
