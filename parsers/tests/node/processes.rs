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
