//! Ends that are no circle: a holder stuck in a system call, a call that nobody answers, a mount, a lock without a
//! holder.

use super::basin::{Basin, Basins, End, is_lock_wait, primitive};
use super::circle::bits;
use super::{Ranked, remedy};
use crate::case::Case;
use crate::describe;
use crate::diagnosis::{Blocked, Evidence, Finding, HolderStatus, Root, Trust};
use crate::graph::{Key, WaitGraph};
use crate::holders::is_whole;
use crate::links;
use crate::missing;
use crate::native;
use crate::timeline;
use crate::waits::Primitive;

/// Minutes of waiting for a lock that are not everyday.
const LOCK_MINUTES: u32 = 1;
/// Minutes of waiting for another process's answer.
const ANSWER_MINUTES: u32 = 2;
/// Minutes of an unexplained wait (a send, a WaitGroup) that are worth telling.
const OTHER_MINUTES: u32 = 5;

/// Ends that are told; where there are more, those that hold up most. A reader acts on the first few.
const MOST: usize = 60;

/// A finding for each end that is to be believed.
pub fn findings(case: &Case<'_>, graph: &WaitGraph, basins: &Basins) -> Vec<Ranked> {
    let significant = basins.by_end.iter().filter_map(|(end, basin)| {
        let End::Node(key) = end else { return None };
        let path = basins.path(basin.start?);
        let minutes = longest(case, *key, basin, &path);
        let counts = is_significant(case, graph, *key, basin, &path, minutes);
        counts.then_some((basin.goroutines, basin.processes.len(), minutes, *key, basin))
    });
    let mut ends: Vec<_> = significant.collect();
    ends.sort_by(|a, b| (b.0, b.1, b.2).cmp(&(a.0, a.1, a.2)).then(a.3.cmp(&b.3)));
    ends.truncate(MOST);
    ends.into_iter().filter_map(|(.., key, basin)| finding(case, graph, basins, key, basin)).collect()
}

/// The longest wait that ends there.
fn longest(case: &Case<'_>, end: Key, basin: &Basin, path: &[Key]) -> Option<u32> {
    basin.oldest.max(age(case, end)).max(path.iter().filter_map(|&k| age(case, k)).max())
}

fn finding(case: &Case<'_>, graph: &WaitGraph, basins: &Basins, end: Key, basin: &Basin) -> Option<Ranked> {
    let start = basin.start?;
    let path = basins.path(start);
    let minutes = longest(case, end, basin, &path);
    let mut trust = Trust::Strong;
    let mut evidence: Vec<Evidence> = Vec::new();
    for pair in path.windows(2) {
        if let Some(link) = graph.link(pair[0], pair[1]) {
            trust = trust.min(link.trust);
            evidence.extend(link.evidence.iter().cloned());
        }
    }
    let last = root_node(&path, end);
    let root = root(case, graph, last, end);
    if path.len() == 1 {
        trust = Trust::Likely;
    }
    let held = path.iter().rev().copied().find_map(|k| if let Key::Lock(s, l) = k { Some((s, l)) } else { None });
    if let Key::Lock(s, l) = end {
        trust =
            trust.min(if case.holdings[s][l].status == HolderStatus::Leaked { Trust::Likely } else { Trust::Guess });
    }
    if native_lock(&path).is_some() {
        trust = trust.min(Trust::Likely);
        evidence.push(Evidence {
            kind: "time".into(),
            text: "a core is one moment: how long the lock has been held cannot be seen in it".into(),
            source: None,
            against: true,
        });
    }
    if let Some(doubt) = missing::gap(case, &graph.resources, &path).and_then(|gap| gap.as_evidence()) {
        trust = trust.min(Trust::Likely);
        evidence.push(doubt);
    }
    let too_young = timeline::contradictions(case, &path);
    if !too_young.is_empty() {
        trust = Trust::Guess;
        evidence.extend(too_young);
    }
    let kind = kind_of(case, graph, &path, end, held.is_some());
    let moving = is_moving(case, &path);
    let title = match native_lock(&path) {
        Some(n) => native::title(case, n, last),
        None => title(case, graph, held, end, last, &root),
    };
    let mut finding = Finding {
        kind: kind.into(),
        title,
        explanation: explain(case, graph, &path, basin, minutes),
        root,
        chain: path.iter().map(|&key| graph.describe(case, key)).collect(),
        blocked: Blocked { goroutines: basin.goroutines, processes: basin.processes.len() as u64 },
        trust,
        evidence,
        ..Finding::default()
    };
    if let Key::Goroutine(snap, i) = last {
        finding.evidence.push(oldest_waiter(case, snap, i));
    }
    remedy::add(case, graph, &path, basin, false, &mut finding);
    let beyond = match end {
        Key::Resource(_) | Key::Thread(_) => 60,
        Key::Process(_) => 30,
        Key::Goroutine(..) => 20,
        Key::Lock(..) | Key::NativeLock(_) => 0,
    };
    let score = beyond
        + 10 * bits(basin.goroutines)
        + 25 * basin.processes.len() as i64
        + 12 * trust as i64
        + i64::from(minutes.unwrap_or(0).min(30))
        + 10 * i64::from(basin.symptom.is_some())
        + 10 * bits(basin.lock_waiters);
    Some(Ranked { finding, score, moving, minutes, path })
}

/// The lock of a C program that a chain passes last.
fn native_lock(path: &[Key]) -> Option<usize> {
    path.iter().rev().find_map(|k| if let Key::NativeLock(n) = k { Some(*n) } else { None })
}

fn age(case: &Case<'_>, key: Key) -> Option<u32> {
    match key {
        Key::Goroutine(snap, i) => case.snaps[snap].goroutine(i).minutes,
        Key::Thread(t) => case.evidence.node.threads[t].blocked_seconds.map(|s| (s / 60) as u32),
        _ => None,
    }
}

/// Whether what ends here is out of the ordinary. Idling is not; nor is a wait that has only just begun, however many
/// wait: a busy program queues dozens at a lock that it holds for microseconds.
fn is_significant(
    case: &Case<'_>,
    graph: &WaitGraph,
    end: Key,
    basin: &Basin,
    path: &[Key],
    minutes: Option<u32>,
) -> bool {
    let at_least = |n: u32| minutes.is_some_and(|m| m >= n);
    if basin.oldest_lock_wait.is_some_and(|m| m >= LOCK_MINUTES) {
        return true;
    }
    let pasted = path.first().is_some_and(|&k| is_paste(case, k));
    match end {
        Key::Resource(r) => {
            let kind = graph.resources.get(r).map_or("", |r| r.kind.as_str());
            let held_thread =
                path.iter().any(|k| matches!(k, Key::Thread(t) if case.evidence.node.threads[*t].state == Some('D')));
            // A daemon keeps FIFOs open for containers that nobody is attached to: only who waits behind one matters.
            if kind == "fifo" && basin.lock_waiters == 0 {
                return false;
            }
            let stopped = kind == "stopped";
            at_least(ANSWER_MINUTES)
                || at_least(1) && (held_thread || kind == "file")
                || held_thread && path.len() > 2
                || stopped && path.len() > 1
        }
        Key::Thread(t) => {
            let thread = &case.evidence.node.threads[t];
            thread.state == Some('D') && at_least(1)
                || native_lock(path).is_some() && native::blocking_call(thread).is_some()
        }
        Key::Process(_) => at_least(ANSWER_MINUTES) && basin.processes.len() > 1,
        Key::Lock(..) => false,
        Key::NativeLock(n) => native::words(case, n).owner_gone,
        Key::Goroutine(snap, i) => {
            let s = &case.snaps[snap];
            let symptom = basin.symptom.is_some();
            match primitive(case, end) {
                Some(Primitive::ChanSend) => at_least(OTHER_MINUTES) && (symptom || pasted || path.len() > 1),
                Some(Primitive::WaitGroup) => {
                    at_least(OTHER_MINUTES) && (pasted || path.len() > 1 && basin.processes.len() > 1)
                }
                _ if s.bound.rpc_client(s.s, s.goroutine(i)).is_some() => {
                    at_least(ANSWER_MINUTES) && (symptom || basin.processes.len() > 1)
                }
                _ => at_least(ANSWER_MINUTES) && basin.processes.len() > 1 && path.len() > 1,
            }
        }
    }
}

/// A few goroutines that somebody cut out of a dump: they are there because they looked stuck to a person.
fn is_paste(case: &Case<'_>, key: Key) -> bool {
    matches!(key, Key::Goroutine(snap, _) if case.snaps[snap].s.goroutines.len() <= 4 && !is_whole(&case.snaps[snap]))
}

/// Another complete moment of a process shows its part of the chain elsewhere. The deepest process that was dumped
/// twice decides: those that only wait for it may give up and try again.
fn is_moving(case: &Case<'_>, path: &[Key]) -> bool {
    for &key in path.iter().rev() {
        let Key::Goroutine(snap, i) = key else { continue };
        let mut others = case.moments(snap).filter(|&m| case.snaps[m].s.complete && case.by_id[m].len() > 1).peekable();
        if others.peek().is_some() {
            return others.any(|m| case.same_place(snap, i, m).is_none());
        }
        // Dumped once, but it stood there for minutes: who asks above it may give up and ask again.
        if case.snaps[snap].goroutine(i).minutes.is_some_and(|m| m >= ANSWER_MINUTES) {
            return false;
        }
    }
    false
}

/// Who the root is: the last of the path that can be acted upon. A goroutine rather than the thread that runs it.
fn root_node(path: &[Key], end: Key) -> Key {
    let last = path.iter().rposition(|k| !matches!(k, Key::Resource(_)));
    match last {
        Some(n) if n > 0 && matches!((path[n - 1], path[n]), (Key::Goroutine(..), Key::Thread(_))) => path[n - 1],
        Some(n) => path[n],
        None => end,
    }
}

fn root(case: &Case<'_>, graph: &WaitGraph, last: Key, end: Key) -> Root {
    let beyond = match end {
        Key::Resource(r) => graph.resources.get(r).map(|r| r.label.clone()),
        _ if last == end => None,
        _ => Some(graph.describe(case, end).label),
    };
    let node = graph.describe(case, last);
    match last {
        Key::Goroutine(snap, i) => {
            let s = &case.snaps[snap];
            let doing = describe::doing(s, i);
            // The kernel's own word for it is better than what the call usually waits for.
            let blocked_in = match (beyond, describe::syscall_name(s, i)) {
                (Some(label), Some(call)) => format!("{call}: {label}"),
                (Some(label), None) => label,
                (None, _) => doing.blocked_in,
            };
            Root { node, function: Some(doing.function), blocked_in: Some(blocked_in), minutes: s.goroutine(i).minutes }
        }
        Key::Thread(t) => {
            let thread = &case.evidence.node.threads[t];
            let function = links::telling_function(case, t);
            let minutes = thread.blocked_seconds.map(|s| (s / 60) as u32);
            let call = native::blocking_call(thread).map(|call| format!("the call {call}"));
            Root { node, function, blocked_in: beyond.or(call), minutes }
        }
        _ => Root { node, function: None, blocked_in: beyond, minutes: None },
    }
}

fn kind_of(case: &Case<'_>, graph: &WaitGraph, path: &[Key], end: Key, held: bool) -> &'static str {
    if let Key::Lock(s, l) = end {
        return match case.holdings[s][l].status {
            HolderStatus::Leaked => "leaked-lock",
            _ => "held-by-unknown",
        };
    }
    let whys: Vec<&str> = path.windows(2).filter_map(|p| graph.link(p[0], p[1])).map(|l| l.why).collect();
    let after_lock = whys.iter().rposition(|w| *w == "lock").map_or(0, |n| n + 1);
    let onward = whys.get(after_lock).copied();
    if held {
        return match (onward, primitive(case, path[after_lock])) {
            (Some("rpc" | "http" | "bus"), _) => "held-in-rpc",
            (Some("exec"), _) => "held-in-exec",
            (Some("waitgroup"), _) => "held-in-wait",
            (Some("channel"), _) => "held-in-channel",
            (Some("kernel" | "mount" | "thread"), _) => "held-in-syscall",
            (_, Some(Primitive::Syscall | Primitive::Cgo)) => "held-in-syscall",
            (_, Some(Primitive::PollRead | Primitive::PollWrite)) => "held-in-io",
            (_, Some(Primitive::ChanReceive | Primitive::ChanSend | Primitive::Select | Primitive::Forever)) => {
                "held-in-channel"
            }
            _ => "held-in-wait",
        };
    }
    if let Some(n) = native_lock(path) {
        return if end == Key::NativeLock(n) { "leaked-lock" } else { "held-in-syscall" };
    }
    match end {
        Key::Thread(_) => "kernel-wait",
        Key::Resource(_) if whys.iter().any(|w| matches!(*w, "kernel" | "mount" | "thread")) => "kernel-wait",
        Key::Resource(_) | Key::Process(_) => "resource",
        _ => match primitive(case, end) {
            Some(Primitive::ChanSend | Primitive::ChanReceive) => "stuck-channel",
            _ => "stuck-wait",
        },
    }
}

fn title(case: &Case<'_>, graph: &WaitGraph, held: Option<(usize, usize)>, end: Key, last: Key, root: &Root) -> String {
    let what = root.blocked_in.clone().unwrap_or_default();
    if let Key::Lock(s, l) = end {
        let lock = &case.locks[s][l];
        let process = case.processes.all[case.processes.of_snap[s]].label();
        let why = match case.holdings[s][l].status {
            HolderStatus::Leaked => "nobody in the dump can hold it: it was left locked",
            HolderStatus::NotInEvidence => "its holder is not in this evidence",
            _ => "its holder cannot be told",
        };
        return format!("{process}: {} is locked and {why}", lock.label());
    }
    let function = root.function.as_deref().map_or(String::new(), |f| format!(" in {f}"));
    let process_name = |snap: usize| case.processes.all[case.processes.of_snap[snap]].label();
    let who = match last {
        Key::Goroutine(snap, i) => {
            let id = case.snaps[snap].goroutine(i).id.map_or(String::new(), |id| format!(" goroutine {id}"));
            format!("{}{id}", process_name(snap))
        }
        Key::Thread(t) => {
            let thread = &case.evidence.node.threads[t];
            let process = super::process_of(case, last).map(|p| case.processes.all[p].label());
            let name = process.or_else(|| thread.comm.clone()).unwrap_or_else(|| "a thread".into());
            match thread.state {
                Some('D') => format!("{name} (state D, uninterruptible)"),
                _ => name,
            }
        }
        _ => graph.describe(case, last).label,
    };
    let is_stuck = match last {
        _ if what.is_empty() => format!("{who} does not go on"),
        Key::Goroutine(..) => format!("{who} is stuck{function}: {what}"),
        // `systemd 1 is stopped by a signal` says who by itself.
        _ if what.contains(" is ") => what,
        _ => format!("{who} waits for {what}"),
    };
    // A guess is not told as a fact.
    let holds = |s: usize, l: usize| match &case.holdings[s][l].holder {
        Some(holder) if holder.trust > Trust::Guess => "holds",
        _ => "may hold",
    };
    match (held, last) {
        (Some((s, l)), Key::Goroutine(snap, _)) if snap == s => {
            let stuck = is_stuck.replacen(&format!("{who} is stuck"), "while stuck", 1);
            format!("{who} {} {} {stuck}", holds(s, l), case.locks[s][l].label())
        }
        (Some((s, l)), _) => {
            format!("{} {} {} while {is_stuck}", process_name(s), holds(s, l), case.locks[s][l].label())
        }
        (None, _) => is_stuck,
    }
}

/// The chain told as a maintainer would: A waits for X, held by B, which waits for Y.
fn explain(case: &Case<'_>, graph: &WaitGraph, path: &[Key], basin: &Basin, minutes: Option<u32>) -> String {
    let mut text = String::new();
    for (n, &key) in path.iter().enumerate() {
        let label = match key {
            Key::Goroutine(snap, i) => {
                let doing = describe::doing(&case.snaps[snap], i);
                let node = graph.describe(case, key).label;
                if n + 1 == path.len() { format!("{node}, in {}", doing.blocked_in) } else { node }
            }
            _ => graph.describe(case, key).label,
        };
        if n == 0 {
            text.push_str(&label);
            continue;
        }
        let why = graph.link(path[n - 1], key).map_or("", |l| l.why);
        let joint = match (why, is_lock_wait(case, path[n - 1])) {
            ("lock", true) => " waits for ",
            ("lock", false) => ", held by ",
            ("rpc" | "http", _) => ", which calls ",
            ("exec", _) => ", which waits for the process ",
            ("thread", _) => ", run by ",
            ("process", _) => ", namely ",
            _ => ", which waits for ",
        };
        text.push_str(joint);
        text.push_str(&label);
    }
    text.push('.');
    if basin.goroutines > 1 {
        let processes = basin.processes.len() as u64;
        text.push_str(&format!(
            " Behind it: {} in {}",
            describe::count(basin.goroutines, "goroutine", "goroutines"),
            describe::count(processes, "process", "processes")
        ));
        text.push_str(&minutes.map_or(".".to_string(), |m| format!(", for {m} minutes at least.")));
    }
    if let Some((snap, i)) = basin.symptom {
        let s = &case.snaps[snap];
        if let Some(symptom) = s.bound.symptom(s.s, s.goroutine(i)) {
            text.push_str(&format!(" What people see: {}", symptom.text));
        }
    }
    text
}

/// The oldest-waiter rule, always shown on its own.
fn oldest_waiter(case: &Case<'_>, snap: usize, i: usize) -> Evidence {
    let s = &case.snaps[snap];
    let oldest = &case.oldest[snap];
    let own = s.goroutine(i).minutes;
    let is_oldest = oldest.minutes.is_some() && oldest.minutes == own;
    let text = match (oldest.minutes, own) {
        (None, _) => "no goroutine of this process shows an age, so the oldest-waiter rule says nothing".to_string(),
        (Some(age), Some(_)) if is_oldest && oldest.count == 1 => {
            let next = oldest.next.map_or(String::new(), |n| format!(", the next {n}"));
            format!("oldest waiter: blocked longest in its process, {age} minutes{next}")
        }
        (Some(age), Some(_)) if is_oldest => {
            format!("oldest waiter: a tie of {} goroutines at {age} minutes", oldest.count)
        }
        (Some(age), _) => format!(
            "oldest waiter: not this one ({} minutes), the longest wait of the process is {age}",
            own.unwrap_or(0)
        ),
    };
    let mut evidence = describe::frame_evidence(s, "oldest-waiter", text, s.goroutine(i).line);
    evidence.against = oldest.minutes.is_some()
        && !is_oldest
        && own.unwrap_or(0) + crate::holders::AGE_SLACK < oldest.minutes.unwrap_or(0);
    evidence
}
