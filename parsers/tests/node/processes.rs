//! `ps` in all its columns.

use crate::common::{line, parse, parse_as, sample};
use holdup_parsers::evidence::InputKind;

#[test]
fn a_real_listing_row_by_row() {
    let text = sample("incidents/ps-frozen-disk.txt");
    let (kind, node) = parse(&text);
    assert_eq!(kind, InputKind::Ps);
    assert_eq!(node.processes.len(), text.lines().count() - 1);
    for row in &node.processes {
        let source = line(&text, row.place);
        assert!(source.trim_start().starts_with(&row.pid.to_string()), "{source}");
        assert!(source.ends_with(row.command.trim_end()), "{source}: {}", row.command);
        assert!(source.contains(row.comm.as_deref().expect("a name")));
        assert!(row.ppid.is_some() && row.state.is_some() && row.elapsed_seconds.is_some() && row.started.is_some());
    }
    // truth.json of the incident: `touch` hangs in the frozen filesystem like containerd's threads.
    let touch = node.processes.iter().find(|p| p.pid == 32395).expect("touch");
    assert_eq!(
        (touch.state, touch.wchan.as_deref(), touch.comm.as_deref()),
        (Some('D'), Some("percpu_rwsem_wait"), Some("touch"))
    );
    assert_eq!((touch.ppid, touch.elapsed_seconds), (Some(1), Some(89)));
    let (now, _) = node.taken_at_local.first().expect("start and age tell when it was taken");
    assert_eq!(now.at.to_string(), "2026-11-29T12:42:57");
}

#[test]
fn threads_are_told_apart() {
    let text = sample("incidents/ps-threads.txt");
    let (_, node) = parse(&text);
    // truth.json: thread 971 of containerd and 1762 of kubelet are in D.
    let stuck: Vec<_> = node.processes.iter().filter(|p| p.state == Some('D')).map(|p| (p.pid, p.tid)).collect();
    assert!(stuck.contains(&(964, Some(971))) && stuck.contains(&(1204, Some(1762))), "{stuck:?}");
    assert!(
        node.processes
            .iter()
            .filter(|p| p.state == Some('D'))
            .all(|p| p.wchan.as_deref() == Some("request_wait_answer"))
    );
}

#[test]
fn a_listing_cut_in_a_row_keeps_the_rows_before() {
    let text = sample("incidents/ps-frozen-disk.txt");
    let cut = &text[..text.len() - text.len() / 3];
    let (_, node) = parse(cut);
    assert!(node.processes.len() >= 60);
}

#[test]
fn wrapped_rows_are_joined() {
    let header = "    PID    PPID STAT WCHAN  COMMAND";
    let row = "  18398   17993 Sl   futex_ runc --root /var/run/docker/runtime-runc/moby --log /run/containe";
    let text = format!("{header}\n{row}\nrd/log.json exec 9a612be13854\n  18408   18398 Dsl  reques runc init\n");
    let (_, node) = parse(&text);
    assert_eq!(node.processes.len(), 2);
    assert!(node.processes[0].command.ends_with("--log /run/containerd/log.json exec 9a612be13854"));
    assert_eq!((node.processes[1].pid, node.processes[1].state), (18408, Some('D')));
}

#[test]
fn collapsed_blanks_do_no_harm() {
    let text = sample("incidents/ps-frozen-disk.txt");
    let collapsed: String = text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ") + "\n").collect();
    let (_, node) = parse(&collapsed);
    let (_, whole) = parse(&text);
    assert_eq!(node.processes.len(), whole.processes.len());
    for (a, b) in node.processes.iter().zip(&whole.processes) {
        assert_eq!((a.pid, a.ppid, a.state, &a.wchan), (b.pid, b.ppid, b.state, &b.wchan));
    }
}

#[test]
fn rows_that_grep_left() {
    let text = "root      3305  0.0  0.0   5480   884 ?        D    12:54   0:00 df -h\n\
                root      1204  2.1  0.5 128480 98884 ?        Ssl  Nov28   3:20 /usr/bin/kubelet --config=/x\n";
    let (kind, node) = parse(text);
    assert_eq!(kind, InputKind::Ps);
    let found: Vec<_> = node.processes.iter().map(|p| (p.pid, p.state, p.command.as_str())).collect();
    assert_eq!(found, [(3305, Some('D'), "df -h"), (1204, Some('S'), "/usr/bin/kubelet --config=/x")]);
    let text = "root        18398   17993  0 13:07 ?        00:00:00 runc --root /var/run/x exec\n";
    let (_, node) = parse(text);
    assert_eq!((node.processes[0].pid, node.processes[0].ppid), (18398, Some(17993)));
}

#[test]
fn proc_status_is_a_row() {
    let text = "Name:\tcontainerd\nUmask:\t0022\nState:\tD (disk sleep)\nTgid:\t964\nNgid:\t0\nPid:\t971\nPPid:\t1\nThreads:\t11\n";
    let (_, node) = parse_as("proc/964/task/971/status", text).expect("a status");
    let row = &node.processes[0];
    assert_eq!((row.pid, row.tid, row.ppid, row.state, row.threads), (964, Some(971), Some(1), Some('D'), Some(11)));
}

/// The sample's process: three threads of 25027, a child that waits for a file lock, one that reads a socket.
#[test]
fn every_common_column_set() {
    for name in
        ["ps-aux", "ps-ef", "ps-eLf", "ps-T", "ps-eo-etimes", "ps-eo-lstart", "ps-L-comm", "ps-elf", "ps-axjf", "top"]
    {
        let text = sample(&format!("tools/{name}.txt"));
        let (kind, node) = parse(&text);
        assert_eq!(kind, InputKind::Ps, "{name}");
        let rows = text.lines().filter(|l| l.contains("waiters")).count();
        assert_eq!(node.processes.iter().filter(|p| p.comm.as_deref() == Some("waiters")).count(), rows, "{name}");
        for row in &node.processes {
            let source = line(&text, row.place);
            assert!(source.split_whitespace().any(|w| w == row.pid.to_string()), "{name}: {source}");
            assert!(source.trim_end().ends_with(&row.command), "{name}: {source}");
        }
        let main = node.processes.iter().find(|p| p.pid == 25027).unwrap_or_else(|| panic!("{name}"));
        if text.contains("PPID") {
            assert_eq!(main.ppid, Some(1), "{name}");
            assert!(node.processes.iter().any(|p| p.pid == 25029 && p.ppid == Some(25027)), "{name}");
        }
        if text.contains("STAT") || text.contains(" S ") {
            assert_eq!(main.state, Some('S'), "{name}");
        }
        if text.contains("locks_lock_inode_wait") {
            let waiter = node.processes.iter().find(|p| p.pid == 25029).expect("the lock's waiter");
            assert_eq!(waiter.wchan.as_deref(), Some("locks_lock_inode_wait"), "{name}");
        }
        if text.contains("LWP") || text.contains("SPID") || text.contains("TID") {
            assert!(node.processes.iter().all(|p| p.tid.is_some()), "{name}");
        }
    }
    let (_, node) = parse(&sample("tools/ps-eo-etimes.txt"));
    assert!(node.processes.iter().any(|p| p.pid == 25027 && p.elapsed_seconds == Some(3)));
    let (_, node) = parse(&sample("tools/proc-status.txt"));
    assert_eq!((node.processes[0].pid, node.processes[0].threads), (25027, Some(3)));
}

#[test]
fn other_locales_and_names_with_blanks() {
    let text = "  PID  PPID S WCHAN            COMMAND                       STARTED COMMAND\n\
                 4711     1 S poll_schedule_ti tmux: server    日 11月 29 12:04:44 2026 tmux new -s a b\n\
                 4712  4711 D request_wait_ans df              So Dez  6 12:04:44 2026 df -h\n";
    let (_, node) = parse(text);
    assert_eq!(node.processes.len(), 2);
    let tmux = &node.processes[0];
    assert_eq!((tmux.comm.as_deref(), tmux.command.as_str()), (Some("tmux: server"), "tmux new -s a b"));
    assert_eq!(tmux.started.expect("a start").at.to_string(), "2026-11-29T12:04:44");
    assert_eq!(node.processes[1].started.expect("a start").at.to_string(), "2026-12-06T12:04:44");
}

#[test]
fn a_listing_within_a_paste() {
    let text = "Hi, here is what I see:\n\n# ps -eo pid,stat,wchan,args | grep -w D\n  PID STAT WCHAN  COMMAND\n 3305 D    reques df -h\n# cat /proc/3305/stack\n\
                [<0>] request_wait_answer+0x1/0x2\n[<0>] do_syscall_64+0x1/0x2\n\nThanks!\n";
    let (_, node) = parse(text);
    assert_eq!((node.processes.len(), node.threads.len()), (1, 1));
    assert_eq!((node.processes[0].pid, node.threads[0].pid), (3305, Some(3305)));
}
