//! Deadlocks: goroutines that wait for each other in a circle.

use super::basin::{Basins, End};
use super::{Ranked, remedy};
use crate::case::Case;
use crate::describe;
use crate::diagnosis::{Blocked, Evidence, Finding, Root, Trust};
use crate::graph::{Key, WaitGraph};
use crate::native;
use crate::waits::Primitive;

/// A finding for each circle that is to be believed.
pub fn findings(case: &Case<'_>, graph: &WaitGraph, circles: &[Vec<Key>], basins: &Basins) -> Vec<Ranked> {
    circles.iter().enumerate().filter_map(|(n, circle)| finding(case, graph, n, circle, basins)).collect()
}

fn finding(case: &Case<'_>, graph: &WaitGraph, n: usize, circle: &[Key], basins: &Basins) -> Option<Ranked> {
    let ring = around(graph, circle);
    let goroutines: Vec<(usize, usize)> =
        ring.iter().filter_map(|key| if let Key::Goroutine(s, i) = key { Some((*s, *i)) } else { None }).collect();
    let locks: Vec<(usize, usize)> =
        ring.iter().filter_map(|key| if let Key::Lock(s, l) = key { Some((*s, *l)) } else { None }).collect();
    let mut trust = Trust::Proven;
    let mut evidence: Vec<Evidence> = Vec::new();
    for (k, &from) in ring.iter().enumerate() {
        let to = ring[(k + 1) % ring.len()];
        let link = graph.link(from, to)?;
        trust = trust.min(link.trust);
        evidence.extend(link.evidence.iter().cloned());
    }
    let minutes: Option<u32> = goroutines.iter().filter_map(|&(s, i)| case.snaps[s].goroutine(i).minutes).min();
    let unmoved = goroutines.iter().all(|&(s, i)| {
        let mut moments =
            case.moments(s).filter(|&m| case.snaps[m].s.goroutines.iter().any(|g| g.id.is_some())).peekable();
        moments.peek().is_some() && moments.all(|m| case.same_place(s, i, m).is_some())
    });
    let moving = goroutines.iter().any(|&(s, i)| {
        case.moments(s)
            .any(|m| case.snaps[m].s.complete && case.by_id[m].len() > 1 && case.same_place(s, i, m).is_none())
    });
    let alone = goroutines.len() == 1;
    // One goroutine that comes through a method of its lock's object is an everyday sight for the blink of an eye;
    // it is a deadlock only if it lasts.
    let lasting = minutes.is_some_and(|m| m >= 1) || unmoved;
    let believed = match trust {
        Trust::Guess => minutes.is_some_and(|m| m >= 2) || unmoved,
        Trust::Likely => !alone || lasting,
        _ => true,
    };
    if !believed || moving {
        return None;
    }
    let (threads, native_locks) = native::members(&ring);
    let kind = match (goroutines.len(), threads.len()) {
        (0, 1) => "deadlock-self",
        (0, _) => "deadlock-lock-order",
        _ => kind_of(case, &goroutines, &locks),
    };
    let basin = basins.by_end.get(&End::Circle(n)).cloned().unwrap_or_default();
    let mut names: Vec<String> = goroutines.iter().map(|&(s, i)| label(case, s, i)).collect();
    names.extend(threads.iter().map(|&t| native::thread_label(case, t)));
    let mut lock_names: Vec<String> = locks.iter().map(|&(s, l)| case.locks[s][l].label()).collect();
    lock_names.extend(native_locks.iter().map(|&n| native::label(case, n)));
    let process =
        goroutines.first().map(|&(s, _)| format!("{}: ", case.processes.all[case.processes.of_snap[s]].label()));
    let process = process.unwrap_or_default();
    let title = match kind {
        "deadlock-self" => {
            format!("{process}{} waits for {}, which it holds itself", names.join(", "), lock_names.join(", "))
        }
        "deadlock-rlock-recursion" => format!(
            "{process}{} asks for {} for reading again while a writer waits in between",
            names.join(", "),
            lock_names.join(", ")
        ),
        _ => format!("{process}{} wait for each other over {}", names.join(" and "), lock_names.join(" and ")),
    };
    let explanation = explain(case, graph, &ring);
    let root = goroutines.first().map(|&(s, i)| {
        let doing = describe::doing(&case.snaps[s], i);
        Root {
            node: graph.describe(case, Key::Goroutine(s, i)),
            function: Some(doing.function),
            blocked_in: Some(doing.blocked_in),
            minutes: case.snaps[s].goroutine(i).minutes,
        }
    });
    let root = root.or_else(|| {
        let t = *threads.first()?;
        Some(Root {
            node: graph.describe(case, Key::Thread(t)),
            function: native::own_function(&case.evidence.node.threads[t]),
            blocked_in: native_locks.first().map(|&n| native::label(case, n)),
            minutes: None,
        })
    })?;
    let mut path: Vec<Key> = ring.clone();
    path.extend(ring.first());
    let mut finding = Finding {
        kind: kind.into(),
        title,
        explanation,
        root,
        chain: path.iter().map(|&key| graph.describe(case, key)).collect(),
        blocked: Blocked { goroutines: basin.goroutines, processes: basin.processes.len().max(1) as u64 },
        trust,
        evidence,
        ..Finding::default()
    };
    remedy::add(case, graph, &path, &basin, true, &mut finding);
    let score = 400 + 10 * bits(basin.goroutines) + 30 * trust as i64 + i64::from(minutes.unwrap_or(0).min(60));
    Some(Ranked { finding, score, moving: false, minutes: minutes.or(basin.oldest), path })
}

/// The circle in its order, starting at its first goroutine.
fn around(graph: &WaitGraph, circle: &[Key]) -> Vec<Key> {
    let Some(&start) = circle.iter().find(|k| matches!(k, Key::Goroutine(..))).or(circle.first()) else {
        return Vec::new();
    };
    let mut ring = vec![start];
    let mut at = start;
    while ring.len() <= circle.len() {
        let onward = graph
            .out(at)
            .into_iter()
            .map(|(to, _)| to)
            .find(|to| circle.contains(to) && (*to == start || !ring.contains(to)));
        match onward {
            Some(to) if to != start => {
                ring.push(to);
                at = to;
            }
            _ => break,
        }
    }
    ring
}

fn kind_of(case: &Case<'_>, goroutines: &[(usize, usize)], locks: &[(usize, usize)]) -> &'static str {
    let reading = |&(s, i): &(usize, usize)| case.snaps[s].waits[i].primitive == Primitive::RwRead;
    let writer_waits = locks.iter().any(|&(s, l)| {
        case.locks[s][l]
            .waiters
            .iter()
            .any(|&w| case.snaps[s].waits[w as usize].primitive == Primitive::RwWriteForReaders)
    });
    let channel = goroutines.iter().any(|&(s, i)| {
        matches!(case.snaps[s].waits[i].primitive, Primitive::ChanReceive | Primitive::ChanSend | Primitive::Select)
    });
    match (goroutines.len(), goroutines.iter().any(reading) && writer_waits) {
        (1, true) => "deadlock-rlock-recursion",
        (1, false) => "deadlock-self",
        _ if channel => "deadlock-channel",
        _ => "deadlock-lock-order",
    }
}

fn label(case: &Case<'_>, snap: usize, i: usize) -> String {
    let s = &case.snaps[snap];
    let name = s.frame_name(i, s.waits[i].acquirer);
    match s.goroutine(i).id {
        Some(id) => format!("goroutine {id} ({name})"),
        None => name.to_string(),
    }
}

/// `goroutine 20 (main.f) waits for Mutex 0x…, held by goroutine 21 (main.g), which waits for …`
fn explain(case: &Case<'_>, graph: &WaitGraph, ring: &[Key]) -> String {
    let mut text = String::new();
    for (n, &key) in ring.iter().enumerate() {
        match key {
            Key::Goroutine(s, i) if n == 0 => text.push_str(&label(case, s, i)),
            Key::Goroutine(s, i) => {
                text.push_str(", held by ");
                text.push_str(&label(case, s, i));
            }
            _ => {
                text.push_str(if n <= 1 { " waits for " } else { ", which waits for " });
                text.push_str(&graph.describe(case, key).label);
            }
        }
    }
    match ring.first() {
        Some(&Key::Goroutine(s, i)) => {
            format!("{text}, held by {} again. None of them can ever go on.", label(case, s, i))
        }
        Some(_) => format!(
            "{text}, which waits for {} again.",
            ring.first().map_or(String::new(), |&k| graph.describe(case, k).label)
        ),
        None => text,
    }
}

pub(super) fn bits(n: u64) -> i64 {
    i64::from(u64::BITS - n.leading_zeros())
}
