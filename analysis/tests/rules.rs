//! The rules as a whole: what they may never say, how faults are told, what a user's files can do.

use holdup_analysis::rules::{Rule, RuleKind, Rules};
use holdup_parsers::envelope::Stream;
use holdup_parsers::evidence::{LineMap, Snapshot, Text};
use holdup_parsers::goroutines;

fn dump(text: &str) -> Snapshot {
    let text = Text::from_vec(text.trim_start_matches('\n').as_bytes().to_vec());
    let stream = Stream { text, lines: LineMap::identity(0), ..Stream::default() };
    let mut snapshots = goroutines::parse(&stream);
    assert_eq!(snapshots.len(), 1);
    snapshots.remove(0)
}

fn corpus(name: &str) -> Snapshot {
    let path = format!("{}/../corpus/rules/{name}", env!("CARGO_MANIFEST_DIR"));
    dump(&std::fs::read_to_string(&path).expect(&path))
}

/// The stack of an idle goroutine, but stopped in a call that is never idle.
fn stopped(example: &str, state: &str, frames: &[&str]) -> String {
    let rest: Vec<&str> = example.trim_start_matches('\n').lines().skip(1).collect();
    let top: String = frames.iter().map(|f| format!("{f}(0xc000123450)\n\t/src/x.go:1 +0x1\n")).collect();
    format!("goroutine 7 [{state}, 9 minutes]:\n{top}{}\n", rest.join("\n"))
}

/// Stacks that a rule's patterns describe: one for each alternative of each frame, the others at their first.
fn made_stacks(rule: &Rule) -> Vec<String> {
    let Some(line) = rule.looks_like.first() else { return Vec::new() };
    let function = |pattern: &str| {
        let name = pattern.replace("(**)", "(*Any)");
        let mut out = String::from("example.com/");
        let mut before = ' ';
        for c in name.chars() {
            out.push_str(if c == '*' && before != '(' { "anything" } else { "" });
            if c != '*' || before == '(' {
                out.push(c);
            }
            before = c;
        }
        if out.rsplit('/').next().is_some_and(|last| !last.contains('.')) { out + ".run" } else { out }
    };
    let frames: Vec<Vec<String>> =
        line.split(" <- ").map(|frame| frame.split(" | ").map(|pattern| function(pattern.trim())).collect()).collect();
    let mut stacks = Vec::new();
    for (n, alternatives) in frames.iter().enumerate() {
        for alternative in alternatives {
            let mut text = String::from("goroutine 7 [select]:\n");
            for (m, frame) in frames.iter().enumerate() {
                let function = if m == n { alternative } else { &frame[0] };
                text.push_str(&format!("{function}(0xc000123450)\n\t/src/y.go:2 +0x2\n"));
            }
            stacks.push(text);
        }
    }
    stacks
}

#[test]
fn nobody_who_waits_for_a_lock_a_write_a_file_or_a_child_is_idle() {
    let rules = Rules::parse(&[], true).expect("no fault");
    let nl = "github.com/vishvananda/netlink";
    let (receive, execute) =
        (format!("{nl}/nl.(*NetlinkSocket).Receive"), format!("{nl}/nl.(*NetlinkRequest).Execute"));
    let calls: &[(&str, &[&str])] = &[
        ("sync.Mutex.Lock", &["sync.runtime_SemacquireMutex", "sync.(*Mutex).lockSlow", "sync.(*Mutex).Lock"]),
        ("semacquire", &["sync.runtime_Semacquire", "sync.(*RWMutex).RLock"]),
        (
            "IO wait",
            &["internal/poll.runtime_pollWait", "internal/poll.(*pollDesc).waitWrite", "internal/poll.(*FD).Write"],
        ),
        ("syscall", &["syscall.Syscall6", "syscall.openat", "os.OpenFile"]),
        ("syscall", &["syscall.Syscall6", "syscall.wait4", "os.(*Process).Wait", "os/exec.(*Cmd).Wait"]),
        ("syscall", &["syscall.Syscall6", "syscall.recvfrom", &receive, &execute]),
        ("select", &["net/http.(*persistConn).roundTrip", "net/http.(*Client).Do"]),
        ("chan receive", &["github.com/godbus/dbus/v5.(*Object).Call", "main.ask"]),
    ];
    let (mut seen, mut known, mut all, mut wrong) = (0, 0, 0, Vec::new());
    for rule in rules.iter().filter(|r| r.kind == RuleKind::Benign) {
        let made = made_stacks(rule);
        assert!(!made.is_empty(), "{}: {:?}", rule.id, rule.looks_like);
        let states = ["select", "chan receive", "sleep", "sync.Cond.Wait", "IO wait", "syscall"];
        // Without the call on top they are idle, or what follows would prove nothing.
        known += usize::from(made.iter().any(|stack| {
            states.iter().any(|state| {
                let s = dump(&stopped(stack, state, &[]));
                rules.bind(&s).benign(&s, &s.goroutines[0]).is_some()
            })
        }));
        all += 1;
        for example in rule.example.iter().chain(&made) {
            seen += 1;
            for (state, frames) in calls {
                let s = dump(&stopped(example, state, frames));
                if let Some(found) = rules.bind(&s).benign(&s, &s.goroutines[0]) {
                    wrong.push(format!("{} calls {} idle under {:?}", found.id, rule.id, frames.last()));
                }
            }
        }
    }
    assert!(seen > 400 && known * 10 > all * 9, "{seen} stacks, {known} of {all} rules");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn healthy_daemons_are_known_to_the_last_goroutine() {
    let rules = Rules::builtin();
    for (name, role, count) in [
        ("healthy-kubelet.txt", "kubelet", 163),
        ("healthy-containerd.txt", "containerd", 138),
        ("healthy-dockerd.txt", "dockerd", 63),
    ] {
        let s = corpus(name);
        assert_eq!(s.goroutines.len(), count, "{name}");
        let bound = rules.bind(&s);
        assert_eq!(bound.role(&s).map(|r| r.role), Some(role));
        for g in &s.goroutines {
            let call = bound.rpc(&s, g).is_some() || bound.external(&s, g).is_some();
            let known = bound.benign(&s, g).is_some() || call || bound.symptom(&s, g).is_some();
            assert!(known, "{name}: {}", String::from_utf8_lossy(s.block(g)));
        }
    }
}

#[test]
fn faults_are_told_with_line_and_column() {
    let places = |text: &str, builtin| -> Vec<(u32, u32)> {
        let errors = Rules::parse(&[("mine.toml".into(), text.into())], builtin).expect_err(text);
        errors.iter().map(|e| (e.line, e.column)).collect()
    };
    let head = "[[benign]]\nid = \"x\"\nwhy = \"y\"\n";
    assert_eq!(places("[[benign]]\nid = \"a b\"\nwhy = \"y\"\nstack = [\"a.b\"]\n", true), [(2, 6)]);
    assert_eq!(places(&format!("{head}stack = [\"next\"]\nstates = [\"sleeping\"]\n"), true), [(4, 10), (5, 11)]);
    assert_eq!(places("off = [\"no-such\"]\n", true), [(1, 8)]);
    assert_eq!(places("[[benign]]\nid = \"x\"\nwhy = 3\n", false), [(3, 7)]);
    assert_eq!(places(&format!("{head}stack = [\"a.b\"]\n").repeat(2), false), [(6, 6)]);
    assert_eq!(places("[[benign]\n", false)[0].0, 1);
}

const LOOP: &str = "
goroutine 7 [select, 3 minutes]:
k8s.io/apimachinery/pkg/util/wait.BackoffUntil(0x1)
	/src/wait.go:1 +0x1
main.main()
	/src/main.go:1 +0x1
";

#[test]
fn a_user_adds_replaces_and_switches_off() {
    let s = dump(LOOP);
    let fired = |rules: &Rules| rules.bind(&s).benign(&s, &s.goroutines[0]).map(|r| (r.id.clone(), r.why.clone()));
    let builtin = Rules::builtin();
    let (id, _) = fired(&builtin).expect("a built-in rule");
    assert!(builtin.show(&id).is_some_and(|r| r.builtin && r.line > 0 && !r.looks_like.is_empty()));
    let off = Rules::parse(&[("mine.toml".into(), format!("off = [\"{id}\"]\n"))], true).expect("good");
    assert_eq!(fired(&off), None);
    assert_eq!(off.iter().count() + 1, builtin.iter().count());
    let mine = format!("[[benign]]\nid = \"{id}\"\nwhy = \"mine\"\nstack = [\"wait.BackoffUntil\"]\n");
    let own = Rules::parse(&[("mine.toml".into(), mine.clone())], true).expect("good");
    assert_eq!(fired(&own), Some((id.clone(), "mine".into())));
    assert!(own.show(&id.to_uppercase()).is_some_and(|r| !r.builtin && r.file == "mine.toml" && r.line == 2));
    assert_eq!(Rules::parse(&[("mine.toml".into(), mine)], false).expect("good").iter().count(), 1);
    let none = Rules::none();
    assert_eq!((none.iter().count(), fired(&none)), (0, None));
}
