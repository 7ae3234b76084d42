//! The same processes at several moments: what has not moved, what moves, what grows.
//!
//! A single dump tells ages, which are lower bounds and often missing. Two dumps tell more: a goroutine that stands at
//! the same place with an older wait has not moved, and a mutex whose waiter has gone on was given to it, so it is
//! slow and not stuck. [`moments`] puts the dumps in order and joins their processes, [`standing`] follows goroutines,
//! [`hands`] locks, [`growth`] numbers; [`judge`] says it in one sentence.

mod growth;
mod hands;
mod judge;
pub mod model;
mod moments;
mod standing;

use crate::case::Case;
use crate::diagnosis::{self, Process};
use crate::graph::WaitGraph;
use crate::kernel::KernelRules;
use crate::peers::Peers;
use crate::rootcause::{self, Ranked};
use crate::rules::Rules;
use crate::snap::Snap;
use crate::{Options, verdict};
use hands::Hands;
use holdup_parsers::evidence::Evidence;
use model::{ComparedMoment, ComparedProcess, Comparison, Latest, MomentPlace, Sighting};
use moments::{Moments, Sight, Strand, snap_of};
use rustc_hash::FxHasher;
use standing::Standing;
use std::hash::{Hash, Hasher};

/// Compares the moments of one process or node: each evidence is one, in the order given; where clocks tell, in order
/// of time. A single evidence is compared within itself: the first, second … dump of each process.
pub fn compare(evidences: &[Evidence], rules: &Rules, options: &Options) -> Comparison {
    let kernel = KernelRules::builtin();
    let peers = Peers::builtin();
    let cases: Vec<Case<'_>> = evidences.iter().map(|evidence| Case::new(evidence, rules, &kernel, &peers)).collect();
    if cases.is_empty() {
        return Comparison { schema_version: "1".into(), tool: tool(options), ..Comparison::default() };
    }
    let graphs: Vec<WaitGraph> = cases.iter().map(WaitGraph::grow).collect();
    let found: Vec<Vec<Ranked>> = cases.iter().zip(&graphs).map(|(c, g)| rootcause::findings(c, g)).collect();
    let moments = Moments::of(&cases);
    let strands: Vec<&Strand> = moments.strands.iter().filter(|s| s.sights.len() > 1).collect();

    let mut threads: Vec<Thread> = Vec::new();
    for strand in strands {
        let standing = Standing::of(&cases, strand);
        let number = threads.len() + 1;
        let hands = Hands::of(&cases, strand, &standing, number);
        threads.push(Thread { strand: strand.clone(), standing, hands });
    }
    let fates = judge::fates(&cases, &moments, &threads, &found);
    let mut processes: Vec<ComparedProcess> = threads.iter().map(|thread| process(&cases, thread, &fates)).collect();
    let verdict = judge::judge(&cases, &moments, &threads, &processes, &found, &fates);
    processes.sort_by_key(|p| {
        let chained = p.stuck.iter().any(|s| s.in_chain);
        let waiting: u64 = p.stuck.iter().filter(|s| s.waits_for.is_some()).map(|s| s.count).sum();
        (!chained, std::cmp::Reverse(waiting), std::cmp::Reverse(p.growing.len()))
    });
    let last = moments.case_of.last().copied().unwrap_or(0);
    let latest = latest(&cases, &graphs, &found, last, options);
    Comparison {
        schema_version: "1".into(),
        tool: tool(options),
        verdict,
        moments: described(&cases, &moments, &found),
        processes,
        findings: fates.into_iter().map(|f| f.shown).collect(),
        notes: moments.notes,
        latest: Some(latest),
    }
}

/// A process through the moments, with what was made of it.
struct Thread {
    strand: Strand,
    standing: Standing,
    hands: Hands,
}

fn tool(options: &Options) -> diagnosis::Tool {
    diagnosis::Tool { name: "holdup".into(), version: options.version.clone() }
}

fn latest(cases: &[Case<'_>], graphs: &[WaitGraph], found: &[Vec<Ranked>], case: usize, options: &Options) -> Latest {
    Latest { evidence: case, diagnosis: crate::diagnose(&cases[case], &graphs[case], &found[case], options) }
}

fn described(cases: &[Case<'_>], moments: &Moments, found: &[Vec<Ranked>]) -> Vec<ComparedMoment> {
    let mut shown: Vec<ComparedMoment> = Vec::new();
    for (m, &c) in moments.case_of.iter().enumerate() {
        let before = m.checked_sub(1);
        let clock = |m: usize| moments.taken_at.get(m).copied().flatten();
        let seconds = before.and_then(clock).zip(clock(m)).map(|(a, b)| b.as_second() - a.as_second());
        let by_ages = before.and_then(|b| {
            let pairs = moments.strands.iter().flat_map(|s| s.sights.windows(2));
            let between = pairs.filter(|p| p[0].moment == b && p[1].moment == m);
            between.filter_map(|p| moments::minutes_between(cases, p[0], p[1])).max()
        });
        // Several dumps of one path have their files in common; they are listed once.
        let first_of_case = moments.case_of.iter().position(|&other| other == c) == Some(m);
        shown.push(ComparedMoment {
            moment: m as u32 + 1,
            given: c as u32 + 1,
            taken_at: clock(m).map(|t| t.to_string()),
            seconds_since_previous: seconds,
            minutes_by_ages: by_ages,
            verdict: verdict::judge(&cases[c], &found[c]),
            inputs: if first_of_case || cases.len() > 1 { crate::output::inputs(&cases[c]) } else { Vec::new() },
        });
    }
    shown
}

fn process(cases: &[Case<'_>], thread: &Thread, fates: &[judge::Judged]) -> ComparedProcess {
    let Thread { strand, standing, hands } = thread;
    let snaps: Vec<&Snap<'_>> = strand.sights.iter().map(|&s| snap_of(cases, s)).collect();
    let last = snaps.last();
    let chained = judge::chained(strand, fates);
    let (ended, started) = standing.turnover();
    ComparedProcess {
        process: Process {
            name: last.map(|s| s.name.clone()),
            role: last.map_or(String::new(), |s| s.role.clone()),
            pid: strand.pid,
            go_version: snaps.iter().find_map(|s| s.s.process.go_version.clone()),
            build_id: snaps.iter().find_map(|s| s.s.process.build_id.clone()),
        },
        snapshots: strand
            .sights
            .iter()
            .zip(&snaps)
            .map(|(sight, snap)| Sighting {
                moment: sight.moment as u32 + 1,
                snapshot: snap.id.clone(),
                input: snap.s.input as usize,
                taken_at: snap.s.taken_at.map(|t| t.to_string()),
                complete: snap.s.complete,
                goroutines: snap.s.goroutine_count(),
            })
            .collect(),
        stuck: standing.stuck(cases, strand, hands, &chained),
        moving: standing.moving(cases, strand),
        growing: growth::growing(cases, strand, standing, hands),
        locks: hands.shown(),
        idle_standing: standing.idle(cases, strand),
        ended,
        started,
        notes: strand.notes.clone(),
    }
}

/// Where each group of equal stacks stands, comparable between dumps, also of different forms: see [`Case::stands`].
fn places(case: &Case<'_>, snap: usize) -> Vec<u64> {
    let s = &case.snaps[snap];
    s.groups
        .iter()
        .map(|group| {
            let mut hasher = FxHasher::default();
            if let Some(&first) = group.members.first() {
                for (function, line) in case.stands(snap, first as usize) {
                    function.hash(&mut hasher);
                    line.hash(&mut hasher);
                }
            }
            hasher.finish()
        })
        .collect()
}

/// Where goroutine `i` of a sight stands in the user's files.
fn place(cases: &[Case<'_>], sight: Sight, line: u32) -> Option<MomentPlace> {
    let source = crate::describe::source(snap_of(cases, sight), line, line)?;
    Some(MomentPlace { moment: sight.moment as u32 + 1, source })
}
