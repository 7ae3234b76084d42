//! What got stuck when, oldest first. Ages are lower bounds: the runtime stamps a wait only at a collection.

use crate::case::Case;
use crate::describe;
use crate::diagnosis::{Evidence, Moment, Source};
use crate::graph::{Key, WaitGraph};
use crate::rootcause::Ranked;
use jiff::{SignedDuration, Timestamp};
use std::cmp::Reverse;

/// Log lines that are told at most.
const LOG_LINES: usize = 30;
/// Minutes before the chain's beginning from which logs are told.
const MINUTES_BEFORE: u32 = 5;

/// The moments of the likeliest chain, with what logs say beside it.
pub fn timeline(case: &Case<'_>, graph: &WaitGraph, findings: &[Ranked]) -> Vec<Moment> {
    let mut moments: Vec<Moment> = Vec::new();
    if let Some(first) = findings.first() {
        for &key in &first.path {
            match key {
                Key::Goroutine(snap, i) => {
                    let s = &case.snaps[snap];
                    let Some(minutes) = s.goroutine(i).minutes else { continue };
                    let doing = describe::doing(s, i);
                    moments.push(moment(
                        case,
                        graph,
                        key,
                        minutes,
                        snap,
                        format!("stuck in {}: {}", doing.function, doing.blocked_in),
                    ));
                }
                Key::Lock(snap, l) => {
                    let lock = &case.locks[snap][l];
                    let s = &case.snaps[snap];
                    let ages: Vec<u32> = lock.waiters.iter().filter_map(|&w| s.goroutine(w as usize).minutes).collect();
                    let (Some(&oldest), Some(&youngest)) = (ages.iter().max(), ages.iter().min()) else { continue };
                    let count = describe::count(lock.waiter_count(s), "goroutine", "goroutines");
                    let text = if oldest == youngest {
                        format!("{count} wait for {}", lock.label())
                    } else {
                        format!("the first of {count} waits for {}, the last since {youngest} minutes", lock.label())
                    };
                    moments.push(moment(case, graph, key, oldest, snap, text));
                }
                _ => {}
            }
        }
    }
    let begin = moments.iter().filter_map(|m| m.at.as_deref()?.parse().ok()).min();
    let begin = begin.or_else(|| before(clock(case)?, moments.iter().filter_map(|m| m.minutes_before_dump).max()?));
    let node = &case.evidence.node;
    let kernel = node.kernel.iter().filter_map(|r| Some((r.at?, format!("kernel: {}", r.text))));
    moments.extend(around(kernel.collect(), begin));
    let logs = node.log_lines.iter().filter_map(|line| {
        let text: String = line.text.chars().take(240).collect();
        Some((line.at?, format!("{}: {text}", line.program.as_deref().unwrap_or("log"))))
    });
    moments.extend(around(logs.collect(), begin));
    let clock = clock(case);
    let key = |m: &Moment| {
        let told = m.at.as_deref().and_then(|at| at.parse::<Timestamp>().ok());
        told.or_else(|| before(clock?, m.minutes_before_dump?))
    };
    // What has no time at all stands last; among equals the order of the chain stays.
    moments.sort_by_cached_key(|m| {
        key(m).map_or((true, None, Reverse(m.minutes_before_dump)), |at| (false, Some(at), Reverse(None)))
    });
    moments
}

/// Of what logs say, the part that begins shortly before the chain did; without a beginning, the latest.
fn around(mut lines: Vec<(Timestamp, String)>, begin: Option<Timestamp>) -> Vec<Moment> {
    // Two files of one service often overlap.
    lines.sort();
    lines.dedup();
    let first = match begin.and_then(|begin| before(begin, MINUTES_BEFORE)) {
        Some(from) => lines.partition_point(|(at, _)| *at < from),
        None => lines.len().saturating_sub(LOG_LINES),
    };
    let told = lines.into_iter().skip(first).take(LOG_LINES);
    told.map(|(at, text)| Moment { at: Some(at.to_string()), text, ..Moment::default() }).collect()
}

/// When the incident was looked at, for what only tells how long before that it was.
fn clock(case: &Case<'_>) -> Option<Timestamp> {
    let dumps = case.snaps.iter().filter_map(|snap| snap.s.taken_at).max();
    let node = &case.evidence.node;
    let listed = node.processes.iter().filter_map(|row| {
        let started = row.started?.as_utc()?;
        let elapsed = i64::try_from(row.elapsed_seconds?).ok()?;
        started.checked_add(SignedDuration::from_secs(elapsed)).ok()
    });
    dumps.or_else(|| node.taken_at.first().map(|taken| taken.0)).or_else(|| listed.max())
}

fn before(at: Timestamp, minutes: u32) -> Option<Timestamp> {
    at.checked_sub(SignedDuration::from_mins(i64::from(minutes))).ok()
}

/// How much younger than what waits for it a process may look: the two were not listed at the same moment.
const LISTED_APART: u32 = 10;

/// Where a chain's cause is younger than its effect: a process cannot keep somebody waiting before it was started.
pub fn contradictions(case: &Case<'_>, path: &[Key]) -> Vec<Evidence> {
    let mut found = Vec::new();
    for pair in path.windows(2) {
        let (Some(waits), &Key::Process(p)) = (age(case, pair[0]), &pair[1]) else { continue };
        let process = &case.processes.all[p];
        let Some(row) = process.row.map(|n| &case.evidence.node.processes[n]) else { continue };
        let Some(lives) = row.elapsed_seconds.map(|s| u32::try_from(s / 60).unwrap_or(u32::MAX)) else { continue };
        if lives.saturating_add(LISTED_APART) < waits {
            let place = row.place;
            found.push(Evidence {
                kind: "time".into(),
                text: format!(
                    "{} runs for {lives} minutes only, but what waits for it has waited {waits}",
                    process.label()
                ),
                source: place.map(|p| Source {
                    input: p.input as usize,
                    line_start: Some(p.line),
                    line_end: Some(p.line),
                    address: None,
                }),
                against: true,
            });
        }
    }
    found
}

/// Minutes that a node has waited, where they are told.
fn age(case: &Case<'_>, key: Key) -> Option<u32> {
    match key {
        Key::Goroutine(snap, i) => case.snaps[snap].goroutine(i).minutes,
        Key::Thread(t) => case.evidence.node.threads[t].blocked_seconds.map(|s| (s / 60) as u32),
        _ => None,
    }
}

fn moment(case: &Case<'_>, graph: &WaitGraph, key: Key, minutes: u32, snap: usize, text: String) -> Moment {
    let taken = case.snaps[snap].s.taken_at;
    let at = taken.and_then(|t| before(t, minutes));
    Moment {
        minutes_before_dump: Some(minutes),
        at: at.map(|t| t.to_string()),
        text,
        node: Some(graph.describe(case, key)),
    }
}
