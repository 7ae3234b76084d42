//! What got stuck when, oldest first. Ages are lower bounds: the runtime stamps a wait only at a collection.

use crate::case::Case;
use crate::describe;
use crate::diagnosis::Moment;
use crate::graph::{Key, WaitGraph};
use crate::rootcause::Ranked;

/// Log lines that are told at most.
const LOG_LINES: usize = 30;

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
    for report in case.evidence.node.kernel.iter().filter(|r| r.at.is_some()).take(LOG_LINES) {
        moments.push(Moment {
            minutes_before_dump: None,
            at: report.at.map(|t| t.to_string()),
            text: format!("kernel: {}", report.text),
            node: None,
        });
    }
    let logs = case.evidence.node.log_lines.iter().filter(|l| l.at.is_some());
    for line in logs.take(LOG_LINES) {
        let program = line.program.as_deref().unwrap_or("log");
        let text: String = line.text.chars().take(240).collect();
        moments.push(Moment {
            minutes_before_dump: None,
            at: line.at.map(|t| t.to_string()),
            text: format!("{program}: {text}"),
            node: None,
        });
    }
    moments.sort_by(|a, b| match (&a.at, &b.at) {
        (Some(x), Some(y)) => x.cmp(y),
        _ => b.minutes_before_dump.cmp(&a.minutes_before_dump),
    });
    moments
}

fn moment(case: &Case<'_>, graph: &WaitGraph, key: Key, minutes: u32, snap: usize, text: String) -> Moment {
    let taken = case.snaps[snap].s.taken_at;
    let at = taken.and_then(|t| t.checked_sub(jiff::SignedDuration::from_mins(i64::from(minutes))).ok());
    Moment {
        minutes_before_dump: Some(minutes),
        at: at.map(|t| t.to_string()),
        text,
        node: Some(graph.describe(case, key)),
    }
}
