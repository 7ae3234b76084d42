//! Goroutines that pile up for ever while nobody waits for them.

use super::Ranked;
use crate::case::Case;
use crate::describe;
use crate::diagnosis::{Blocked, Finding, Root, Trust};
use crate::snap::Snap;
use crate::waits::Primitive;
use holdup_parsers::evidence::Flags;

/// Equal stacks that are a pile rather than a pool, where ages show that they come and do not go.
const PILE: u64 = 500;
/// A pile without ages must be this high.
const HIGH: u64 = 5_000;
/// Minutes between its oldest and its youngest.
const SPREAD: u32 = 10;

/// A finding for each pile, and for goroutines that the runtime itself calls leaked.
pub fn findings(case: &Case<'_>) -> Vec<Ranked> {
    let mut found = Vec::new();
    for n in case.primaries() {
        let snap = &case.snaps[n];
        found.extend(pile(case, n, snap));
        found.extend(leaked(case, n, snap));
    }
    found
}

fn pile(case: &Case<'_>, n: usize, snap: &Snap<'_>) -> Option<Ranked> {
    let count = |members: &[u32]| members.iter().map(|&m| u64::from(snap.goroutine(m as usize).count)).sum::<u64>();
    let group = snap
        .groups
        .iter()
        .filter(|g| {
            g.members.first().is_some_and(|&m| {
                let primitive = snap.waits[m as usize].primitive;
                primitive.is_blocked() && !primitive.is_exclusive_lock() && primitive != Primitive::Sleep
                    || primitive == Primitive::Unknown
            })
        })
        .filter(|g| g.idle.is_none() || count(&g.members) >= HIGH)
        .max_by_key(|g| count(&g.members))?;
    let size = count(&group.members);
    let ages = group.members.iter().map(|&m| snap.goroutine(m as usize).minutes.unwrap_or(0));
    let (youngest, oldest) = ages.fold((u32::MAX, 0), |(low, high), age| (low.min(age), high.max(age)));
    let spread = oldest.saturating_sub(youngest);
    if size < PILE || spread < SPREAD && size < HIGH {
        return None;
    }
    let i = *group.members.first()? as usize;
    let doing = describe::doing(snap, i);
    let process = case.processes.all[case.processes.of_snap[n]].label();
    let created =
        snap.goroutine(i).created_by.map_or(String::new(), |c| format!(", started by {}", snap.s.function(c.site)));
    let ages = if oldest > 0 { format!(", aged {youngest} to {oldest} minutes") } else { String::new() };
    let finding = Finding {
        kind: "leak".into(),
        title: format!(
            "{process}: {} pile up in {} ({})",
            describe::count(size, "goroutine", "goroutines"),
            doing.function,
            doing.blocked_in
        ),
        explanation: format!(
            "{} with equal stacks wait in {}{ages}{created}. They come and do not go; what they wait for does not happen.",
            describe::grouped(size),
            doing.function
        ),
        root: Root {
            node: describe::goroutine_node(snap, i),
            function: Some(doing.function.clone()),
            blocked_in: Some(doing.blocked_in),
            minutes: Some(oldest).filter(|&m| m > 0),
        },
        chain: vec![describe::goroutine_node(snap, i)],
        blocked: Blocked { goroutines: size, processes: 1 },
        trust: if spread >= SPREAD { Trust::Likely } else { Trust::Guess },
        evidence: vec![describe::frame_evidence(snap, "frame", format!("{size} goroutines stand here"), doing.line)],
        ..Finding::default()
    };
    Some(Ranked {
        finding,
        score: 40 + i64::from(spread >= SPREAD) * 20,
        moving: false,
        minutes: None,
        path: Vec::new(),
    })
}

/// `(leaked)` is the runtime's own word (Go 1.26 and later, after a goroutineleak profile).
fn leaked(case: &Case<'_>, n: usize, snap: &Snap<'_>) -> Option<Ranked> {
    let marked: Vec<usize> =
        (0..snap.s.goroutines.len()).filter(|&i| snap.goroutine(i).flags.has(Flags::LEAKED)).collect();
    let &i = marked.first()?;
    let doing = describe::doing(snap, i);
    let process = case.processes.all[case.processes.of_snap[n]].label();
    let evidence = marked.iter().take(10).map(|&j| {
        describe::frame_evidence(
            snap,
            "runtime",
            "the collector marks it (leaked): nothing can wake it".into(),
            snap.goroutine(j).line,
        )
    });
    let finding = Finding {
        kind: "leak".into(),
        title: format!(
            "{process}: the runtime marks {} as leaked, such as {}",
            describe::count(marked.len() as u64, "goroutine", "goroutines"),
            doing.function
        ),
        explanation: "They wait for objects that nothing else can reach any more, so nobody can ever wake them.".into(),
        root: Root {
            node: describe::goroutine_node(snap, i),
            function: Some(doing.function),
            blocked_in: Some(doing.blocked_in),
            minutes: snap.goroutine(i).minutes,
        },
        chain: vec![describe::goroutine_node(snap, i)],
        blocked: Blocked { goroutines: marked.len() as u64, processes: 1 },
        trust: Trust::Proven,
        evidence: evidence.collect(),
        ..Finding::default()
    };
    Some(Ranked { finding, score: 45, moving: false, minutes: None, path: Vec::new() })
}
