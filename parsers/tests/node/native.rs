//! Stacks of user space and strace.

use crate::common::{line_at, parse, sample};
use holdup_parsers::evidence::InputKind;

/// The sample's source is known: one thread holds a mutex and reads a pipe, one waits for the mutex, one joins.
#[test]
fn threads_of_gdb_and_eu_stack() {
    for name in ["gdb", "eu-stack", "eu-stack-lm"] {
        let text = sample(&format!("tools/{name}.txt"));
        let (kind, node) = parse(&text);
        assert_eq!((kind, node.threads.len()), (InputKind::NativeStack, 3), "{name}");
        assert!(node.threads.iter().all(|t| t.native && t.pid == Some(25027)), "{name}");
        for (tid, function, above) in [(25031, "holder", "read"), (25032, "waiter", "pthread_mutex_lock")] {
            let thread = node.threads.iter().find(|t| t.tid == Some(tid)).expect(name);
            let at = thread.frames.iter().position(|f| f.function == function).expect(name);
            assert!(thread.frames[at - 1].function.contains(above), "{name}: {:?}", thread.frames);
        }
        for frame in node.threads.iter().flat_map(|t| &t.frames) {
            assert!(line_at(&text, frame.line).contains(&frame.function), "{name}");
        }
    }
}

#[test]
fn a_stack_cut_in_the_middle() {
    let text = sample("tools/gdb.txt");
    let cut = &text[..text.find("#3  0x000055700747d289").or(text.find("#5  ")).expect("a frame") + 9];
    let (_, node) = parse(cut);
    assert_eq!(node.threads[0].tid, Some(25032));
    assert!(node.threads[0].frames.len() >= 3);
}

#[test]
fn calls_that_strace_saw_no_end_of() {
    for name in ["strace-o", "strace-tty"] {
        let (kind, node) = parse(&sample(&format!("tools/{name}.txt")));
        assert_eq!(kind, InputKind::NativeStack, "{name}");
        let mut seen: Vec<_> = node.threads.iter().map(|t| (t.tid, t.syscall_name.as_deref())).collect();
        seen.sort();
        assert_eq!(
            seen,
            [(Some(25027), Some("futex")), (Some(25031), Some("read")), (Some(25032), Some("futex"))],
            "{name}"
        );
    }
    let (_, node) = parse(&sample("tools/strace-one.txt"));
    assert_eq!((node.threads[0].pid, node.threads[0].syscall_name.as_deref()), (Some(25027), Some("futex")));
    let text = "[pid 7] read(3, <unfinished ...>\n[pid 8] write(1, \"x\", 1) = 1\n[pid 7] <... read resumed>\"y\", 1) = 1\n[pid 7] recvfrom(9, \n";
    let (_, node) = parse(text);
    let seen: Vec<_> =
        node.threads.iter().map(|t| (t.tid, t.syscall_name.as_deref(), t.syscall_args.first())).collect();
    assert_eq!(seen, [(Some(7), Some("recvfrom"), Some(&9))]);
}
