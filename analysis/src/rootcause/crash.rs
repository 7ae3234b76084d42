//! Dumps of a process that ended by itself: panics, fatal errors, exhausted threads or memory.

use super::Ranked;
use crate::case::Case;
use crate::describe;
use crate::diagnosis::{Evidence, Finding, Root, Trust};
use crate::snap::Snap;
use holdup_parsers::evidence::{Notice, NoticeKind};

/// A finding for each process that ended by itself.
pub fn findings(case: &Case<'_>) -> Vec<Ranked> {
    case.snaps.iter().enumerate().filter_map(|(n, snap)| finding(case, n, snap)).collect()
}

/// What ended the process, if it was no signal from outside and no test's alarm clock.
fn cause<'s>(snap: &'s Snap<'_>) -> Option<(&'static str, &'s Notice)> {
    let notices = &snap.s.notices;
    let first = |kind: NoticeKind| notices.iter().find(|n| n.kind == kind);
    if let Some(panic) = first(NoticeKind::Panic) {
        // `go test -timeout` and watchdogs panic because something else hangs.
        let alarm = panic.text.starts_with("test timed out") || panic.text.contains("deadlock detected");
        return (!alarm).then_some(("crash-panic", panic));
    }
    if let Some(fatal) = first(NoticeKind::Fatal) {
        let kind = match fatal.text.as_str() {
            text if text.contains("all goroutines are asleep") => return None,
            text if text.contains("thread exhaustion") => "crash-threads",
            text if text.contains("stack overflow") || text.contains("stack exceeds") => "crash-stack-overflow",
            text if text.contains("out of memory") || text.contains("cannot allocate memory") => "crash-memory",
            text if text.contains("concurrent map") => "crash-data-race",
            _ => "crash-fatal",
        };
        return Some((kind, fatal));
    }
    let limit =
        first(NoticeKind::Runtime).filter(|n| n.text.contains("thread limit") || n.text.contains("stack exceeds"))?;
    Some((if limit.text.contains("thread") { "crash-threads" } else { "crash-stack-overflow" }, limit))
}

fn finding(case: &Case<'_>, n: usize, snap: &Snap<'_>) -> Option<Ranked> {
    let (kind, notice) = cause(snap)?;
    let process = case.processes.all[case.processes.of_snap[n]].label();
    let what = match kind {
        "crash-panic" => format!("panic: {}", notice.text),
        _ => notice.text.clone(),
    };
    let line: String = what.lines().next().unwrap_or("").chars().take(200).collect();
    let mut evidence: Vec<Evidence> = snap
        .s
        .notices
        .iter()
        .filter(|n| matches!(n.kind, NoticeKind::Panic | NoticeKind::Fatal | NoticeKind::Fault | NoticeKind::Runtime))
        .map(|n| Evidence {
            kind: "notice".into(),
            text: n.text.lines().next().unwrap_or("").chars().take(300).collect(),
            source: describe::source(snap, n.line, n.line),
            against: false,
        })
        .collect();
    let culprit = culprit(snap);
    let (root, explanation) = match culprit {
        Some(i) => {
            let doing = describe::doing(snap, i);
            evidence.push(describe::frame_evidence(snap, "frame", format!("raised in {}", doing.function), doing.line));
            let node = describe::goroutine_node(snap, i);
            let explanation = format!("{process} ended with {line}, raised in {}.", doing.function);
            (Root { node, function: Some(doing.function), blocked_in: None, minutes: None }, explanation)
        }
        None => (Root::default(), format!("{process} ended with {line}.")),
    };
    let mut explanation = explanation;
    if kind == "crash-threads" {
        explanation.push_str(
            " Every goroutine in a blocking system call or C call occupies a thread: the crowd that blocks is the cause, not the goroutine that asked for one thread too many.",
        );
        if let Some((i, count)) = crowd(snap) {
            let name = snap.frame_name(i, snap.telling_frame(i));
            explanation.push_str(&format!(" The largest group here: {count} in {name}."));
        }
    }
    let finding = Finding {
        kind: kind.into(),
        title: format!("{process} crashed: {line}"),
        explanation,
        root,
        chain: Vec::new(),
        trust: if snap.s.notices.is_empty() { Trust::Likely } else { Trust::Proven },
        evidence,
        ..Finding::default()
    };
    Some(Ranked { finding, score: 150, moving: false, minutes: None, path: Vec::new() })
}

/// The goroutine that raised it: the first one that runs, else the first of the dump.
fn culprit(snap: &Snap<'_>) -> Option<usize> {
    let running = snap.s.goroutines.iter().position(|g| snap.s.names.get(g.state) == "running");
    running.or(if snap.s.goroutines.is_empty() { None } else { Some(0) })
}

fn crowd(snap: &Snap<'_>) -> Option<(usize, usize)> {
    let largest = snap.groups.iter().max_by_key(|g| g.members.len())?;
    let first = *largest.members.first()? as usize;
    Some((first, largest.members.len()))
}
