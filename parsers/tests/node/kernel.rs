//! Kernel stacks and the kernel log.

use crate::common::{line, line_at, parse, parse_as, sample};
use holdup_parsers::evidence::{InputKind, ThreadStack};

fn functions(stack: &ThreadStack) -> Vec<&str> {
    stack.frames.iter().map(|f| f.function.as_str()).collect()
}

#[test]
fn hung_tasks_of_a_real_kernel_log() {
    let text = sample("incidents/dmesg-hung-task.txt");
    let (kind, node) = parse(&text);
    assert_eq!(kind, InputKind::KernelLog);
    // truth.json of the incident names these three threads of containerd 31201.
    for (tid, syscall) in [(31382, 257), (31208, 264), (31212, 18)] {
        let stack = node.threads.iter().find(|t| t.tid == Some(tid)).unwrap_or_else(|| panic!("{tid}"));
        assert_eq!((stack.pid, stack.comm.as_deref(), stack.state), (Some(31201), Some("containerd"), Some('D')));
        assert_eq!((stack.blocked_seconds, stack.syscall), (Some(120), Some(syscall)));
        assert_eq!(functions(stack)[..3], ["__schedule", "schedule", "percpu_rwsem_wait"]);
        assert_eq!(stack.syscall_args.len(), 8);
        assert_eq!(stack.at.expect("a time").to_string(), "2026-11-29T12:40:12Z");
        assert!(stack.wall.is_some(), "dmesg -T tells no zone");
        assert!(line(&text, stack.place).contains(&format!("containerd:{tid} blocked")));
        for frame in &stack.frames {
            assert!(line_at(&text, frame.line).contains(&frame.function), "{frame:?}");
            assert!(!line_at(&text, frame.line).contains(" ? "));
        }
    }
    assert!(node.kernel.iter().any(|r| r.kind == "hung-task" && r.subject.as_deref() == Some("containerd:31208")));
}

#[test]
fn stacks_of_all_threads_in_one_file() {
    let text = sample("incidents/proc-31201-stack.txt");
    let (kind, node) = parse(&text);
    assert_eq!(kind, InputKind::KernelStack);
    assert_eq!(node.threads.len(), text.lines().filter(|l| l.starts_with("== pid")).count());
    let stuck: Vec<_> = node.threads.iter().filter(|t| t.state == Some('D')).collect();
    assert_eq!(stuck.iter().filter_map(|t| t.tid).collect::<Vec<_>>(), [31208, 31212, 31382]);
    for stack in &node.threads {
        assert_eq!(stack.pid, Some(31201));
        let header = line(&text, stack.place);
        assert!(header.contains(&format!("tid {} ", stack.tid.expect("a tid"))));
        assert!(header.contains(stack.wchan.as_deref().expect("a wchan")));
        for frame in &stack.frames {
            assert!(line_at(&text, frame.line).contains(&frame.function));
        }
    }
    let open = stuck[2];
    assert_eq!((open.syscall, open.syscall_args.get(6)), (Some(257), Some(&0xc000d49558)));
    assert_eq!(functions(open)[..3], ["percpu_rwsem_wait", "mnt_want_write", "path_openat"]);
}

#[test]
fn a_stopped_process() {
    let (_, node) = parse(&sample("incidents/proc-22469-stack.txt"));
    let stack = &node.threads[0];
    assert_eq!(
        (stack.state, stack.comm.as_deref(), stack.wchan.as_deref()),
        (Some('T'), Some("systemd"), Some("do_signal_stop"))
    );
}

#[test]
fn files_of_proc_are_told_by_their_path() {
    let stack = "[<0>] request_wait_answer+0x126/0x2d0 [fuse]\n[<0>] fuse_simple_request+0x1f3/0x310 [fuse]\n[<0>] 0xffffffffffffffff\n";
    for path in ["x/proc/964/task/971/stack", "b.tar.gz!/proc/964/task/971/stack"] {
        let (kind, node) = parse_as(path, stack).expect("a stack");
        assert_eq!(kind, InputKind::KernelStack);
        let thread = &node.threads[0];
        assert_eq!((thread.pid, thread.tid), (Some(964), Some(971)));
        assert_eq!(functions(thread), ["request_wait_answer", "fuse_simple_request"]);
        assert_eq!(thread.frames[0].module.as_deref(), Some("fuse"));
    }
    let (_, node) = parse_as("proc-964-stack.txt", stack).expect("a stack");
    assert_eq!(node.threads[0].pid, Some(964));
    let (_, node) = parse_as("proc/964/wchan", "request_wait_answer").expect("a wchan");
    assert_eq!(node.threads[0].wchan.as_deref(), Some("request_wait_answer"));
    let (_, node) = parse_as("proc/964/syscall", "262 0xffffff9c 0xc000 0xc001 0x0 0x0 0x0 0xc000914518 0x46e283\n")
        .expect("a call");
    assert_eq!(node.threads[0].syscall, Some(262));
    assert!(parse_as("proc/964/wchan", "0").is_none());
}

#[test]
fn pasted_stacks_with_homely_titles() {
    let frames = "[<ffffffffc04a2f9b>] nfs_wait_bit_killable+0x2b/0xa0 [nfs]\n[<ffffffff8a0d1c47>] __wait_on_bit+0x67/0x90\n[<ffffffffffffffff>] 0xffffffffffffffff\n";
    for title in [
        "# cat /proc/4711/stack",
        "==> /proc/4711/stack <==",
        "/proc/4711/stack:",
        "PID: 4711",
        "=== 4711 ===",
        "pid=4711 comm=df",
    ] {
        let text = format!("some words\n{title}\n{frames}\n# cat /proc/12/task/13/stack\n{frames}");
        let (_, node) = parse(&text);
        assert_eq!(node.threads.len(), 2, "{title}");
        assert_eq!(node.threads[0].pid, Some(4711), "{title}");
        assert_eq!(functions(&node.threads[0]), ["nfs_wait_bit_killable", "__wait_on_bit"], "{title}");
        assert_eq!((node.threads[1].pid, node.threads[1].tid), (Some(12), Some(13)), "{title}");
    }
    let text = "/proc/12/task/13/stack:[<0>] do_wait+0x1/0x2\n/proc/12/task/13/stack:[<0>] do_syscall_64+0x1/0x2\n/proc/12/task/14/stack:[<0>] futex_do_wait+0x1/0x2\n";
    let (_, node) = parse(text);
    let found: Vec<_> = node.threads.iter().map(|t| (t.pid, t.tid, functions(t).len())).collect();
    assert_eq!(found, [(Some(12), Some(13), 2), (Some(12), Some(14), 1)]);
}

#[test]
fn stacks_as_head_grep_and_cat_print_them() {
    for name in ["head-stack", "grep-stack", "proc-mixed"] {
        let text = sample(&format!("tools/{name}.txt"));
        let (kind, node) = parse(&text);
        assert_eq!(kind, InputKind::KernelStack, "{name}");
        let ids: Vec<_> = node.threads.iter().map(|t| (t.pid, t.tid)).collect();
        assert_eq!(ids, [25027, 25031, 25032].map(|t| (Some(25027), Some(t))), "{name}");
        assert_eq!(functions(&node.threads[1])[..2], ["anon_pipe_read", "vfs_read"], "{name}");
        for frame in node.threads.iter().flat_map(|t| &t.frames) {
            assert!(line_at(&text, frame.line).contains(&frame.function));
        }
    }
    let (_, node) = parse(&sample("tools/proc-mixed.txt"));
    assert_eq!((node.threads[1].wchan.as_deref(), node.threads[1].syscall), (Some("anon_pipe_read"), Some(0)));
}

#[test]
fn sysrq_of_old_and_new_kernels() {
    let text = sample("by-hand/sysrq-w-old.txt");
    let (kind, node) = parse(&text);
    assert_eq!(kind, InputKind::KernelLog);
    let seen: Vec<_> = node.threads.iter().map(|t| (t.comm.as_deref().expect("a name"), t.tid, t.state)).collect();
    assert_eq!(seen, [("kubelet", Some(4711), Some('D')), ("containerd-shim", Some(5120), Some('D'))]);
    let nfs = &node.threads[0];
    assert_eq!(
        functions(nfs),
        ["schedule", "rpc_wait_bit_killable", "__wait_on_bit", "__rpc_execute", "system_call_fastpath"]
    );
    assert_eq!(nfs.frames[1].module.as_deref(), Some("sunrpc"));
    assert!(nfs.frames.iter().all(|f| line_at(&text, f.line).contains(&f.function)));

    let (_, node) = parse(&sample("by-hand/sysrq-w-new.txt"));
    let seen: Vec<_> = node.threads.iter().map(|t| (t.comm.as_deref().expect("a name"), t.tid)).collect();
    assert_eq!(seen, [("kubelet", Some(4720)), ("runc:[2:INIT]", Some(5130))]);
    assert_eq!(node.threads[1].frames[2].function, "request_wait_answer");
    assert_eq!(node.threads[0].uptime_seconds, Some(12345.67895));
}

#[test]
fn what_the_kernel_complains_of() {
    let text = sample("by-hand/dmesg-nfs.txt");
    let (kind, node) = parse(&text);
    assert_eq!(kind, InputKind::KernelLog);
    let seen: Vec<_> = node.kernel.iter().map(|r| (r.kind.as_str(), r.subject.as_deref().unwrap_or(""))).collect();
    assert_eq!(
        seen,
        [
            ("nfs-not-responding", "filer01"),
            ("nfs-not-responding", "filer01.example.com"),
            ("block-timeout", "sdb"),
            ("io-error", "sdb"),
            ("io-error", "dm-3"),
            ("ext4-error", "dm-3"),
            ("fs-readonly", "dm-3"),
            ("xfs-error", "nvme1n1p1"),
            ("oom", "7781 (java)"),
            ("soft-lockup", "CPU#3"),
            ("netdev-leak", "veth1a2b3c"),
            ("nfs-ok", "filer01"),
        ]
    );
    assert!(node.kernel.iter().all(|r| line(&text, r.place).contains(&r.text) && r.uptime_seconds.is_some()));
}

#[test]
fn a_syslog_of_everything() {
    let text = sample("by-hand/messages-rhel7.txt");
    let (_, node) = parse_as("messages-20261129", &text).expect("evidence");
    assert_eq!(functions(&node.threads[0]), ["schedule", "nfs_wait_bit_killable"]);
    assert_eq!((node.threads[0].tid, node.threads[0].blocked_seconds), (Some(4711), Some(120)));
    assert_eq!(node.threads[0].at.expect("the year is in the name").to_string(), "2026-11-29T12:12:44Z");
    assert_eq!(node.log_lines[0].kind, "pleg-unhealthy");
    assert!(node.kernel.iter().any(|r| r.kind == "nfs-not-responding"));
}

#[test]
fn crash_utility() {
    let text = sample("by-hand/crash-bt.txt");
    let (kind, node) = parse(&text);
    assert_eq!(kind, InputKind::KernelStack);
    let kubelet = &node.threads[0];
    assert_eq!((kubelet.tid, kubelet.comm.as_deref(), kubelet.syscall), (Some(4711), Some("kubelet"), Some(0x106)));
    assert_eq!((kubelet.frames.len(), kubelet.frames[2].module.as_deref()), (11, Some("sunrpc")));
    assert!(kubelet.frames.iter().all(|f| line_at(&text, f.line).contains(&f.function)));
    assert_eq!(node.threads[1].frames.len(), 3, "a cut one is kept");
    let (kind, node) = parse(&sample("by-hand/crash-ps.txt"));
    assert_eq!((kind, node.processes.len()), (InputKind::Ps, 4));
    assert_eq!((node.processes[1].pid, node.processes[1].state), (4711, Some('D')));
}
