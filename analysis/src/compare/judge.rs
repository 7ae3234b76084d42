//! What became of every finding, and the answer in one sentence.

use super::Thread;
use super::model::{ComparedFinding, ComparedProcess, Course, Fate};
use super::moments::{Moments, Strand, snap_of};
use super::standing::Step;
use crate::case::Case;
use crate::describe;
use crate::diagnosis::{Trust, Verdict, VerdictKind};
use crate::graph::Key;
use crate::rootcause::Ranked;
use crate::verdict;
use rustc_hash::FxHashSet;

/// Goroutines that must have come without one leaving, for growth to be called a leak.
const PILED: u64 = 50;
/// The same where the form shows no ids: who left cannot be seen.
const PILED_BY_COUNT: u64 = 500;
/// Waiters that a lock must have at every moment to be called slow; one or two are everyday.
const CROWD: u64 = 3;
/// Seconds that must lie between dumps for a lock to be called stuck, where its waiters show no ages.
const APART: i64 = 20;

/// A finding with what became of it.
pub struct Judged {
    /// For the reader.
    pub shown: ComparedFinding,
    /// It is a hang or a deadlock.
    hangs: bool,
    /// Goroutines of its chain: case, snapshot, index.
    chain: Vec<Member>,
}

/// A goroutine: case, snapshot, index.
pub type Member = (usize, usize, usize);

/// The goroutines of `strand`'s last dump that stand in the chain of a finding that stays.
pub fn chained(strand: &Strand, fates: &[Judged]) -> FxHashSet<Member> {
    let Some(last) = strand.sights.last() else { return FxHashSet::default() };
    let stays = fates.iter().filter(|f| f.hangs && matches!(f.shown.fate, Fate::Stays | Fate::New | Fate::SeenOnce));
    stays
        .flat_map(|f| f.chain.iter().copied())
        .filter(|member| member.0 == last.case && member.1 == last.snap)
        .collect()
}

/// What became of the findings of every moment: those of the last moment first, by rank; then those that are gone.
pub fn fates(cases: &[Case<'_>], moments: &Moments, threads: &[Thread], found: &[Vec<Ranked>]) -> Vec<Judged> {
    let last = moments.case_of.len().saturating_sub(1);
    let mut judged: Vec<Judged> = Vec::new();
    let mut cases_seen: FxHashSet<usize> = FxHashSet::default();
    for m in (0..moments.case_of.len()).rev() {
        let c = moments.case_of[m];
        if !cases_seen.insert(c) {
            continue;
        }
        for ranked in &found[c] {
            let (fate, since, why) = fate(cases, moments, threads, found, m, ranked);
            if m < last && !is_over(&fate, ranked, &judged) {
                continue;
            }
            let chain = ranked.path.iter().filter_map(|&key| match key {
                Key::Goroutine(snap, i) => Some((c, snap, i)),
                _ => None,
            });
            judged.push(Judged {
                hangs: is_hang(ranked),
                chain: chain.collect(),
                shown: ComparedFinding {
                    moment: m as u32 + 1,
                    since: since as u32 + 1,
                    fate,
                    why,
                    finding: ranked.finding.clone(),
                },
            });
        }
    }
    judged
}

fn is_hang(ranked: &Ranked) -> bool {
    !["crash", "leak"].iter().any(|kind| ranked.finding.kind.starts_with(kind))
}

/// An earlier moment's finding is told only if it is over, and no other tells the same.
fn is_over(fate: &Fate, ranked: &Ranked, judged: &[Judged]) -> bool {
    let finding = &ranked.finding;
    let known = judged.iter().any(|j| {
        j.shown.finding.title == finding.title
            || j.shown.finding.kind == finding.kind && j.shown.finding.root.function == finding.root.function
    });
    matches!(fate, Fate::Gone | Fate::Moves) && !known
}

fn fate(
    cases: &[Case<'_>],
    moments: &Moments,
    threads: &[Thread],
    found: &[Vec<Ranked>],
    m: usize,
    ranked: &Ranked,
) -> (Fate, usize, String) {
    let end = moments.case_of.len() - 1;
    let c = moments.case_of[m];
    if let Some(why) = handed_on(threads, c, ranked) {
        return (Fate::Moves, m, why);
    }
    if ranked.moving {
        return (Fate::Moves, m, "within this moment alone, between two of its dumps, its chain moved".into());
    }
    // The deepest process that was seen twice decides: those that only wait for it may give up and try again.
    for &key in ranked.path.iter().rev() {
        let Key::Goroutine(snap, i) = key else { continue };
        let Some((thread, n)) = sighting(threads, c, snap) else { continue };
        let snapshot = snap_of(cases, thread.strand.sights[n]);
        let Some(id) = snapshot.goroutine(i).id else { continue };
        let sights = &thread.strand.sights;
        let who = format!("{} goroutine {id}", snapshot.name);
        if m < end || n + 1 < sights.len() {
            let after = thread.standing.step(cases, &thread.strand, id, n, sights.len() - 1);
            return match after {
                Step::Stood => (Fate::Stays, m, format!("{who} stands at the same place in the last dump")),
                Step::Absent if !snap_of(cases, sights[sights.len() - 1]).s.complete => {
                    (Fate::SeenOnce, m, format!("{who} is not in the last dump, which is cut short"))
                }
                _ => (Fate::Gone, m, format!("{who} has gone on since")),
            };
        }
        let since = thread.standing.since(cases, &thread.strand, id, n);
        if since < n {
            let from = sights[since].moment;
            let all = if since == 0 { "in all its dumps" } else { "in its last dumps" };
            return (Fate::Stays, from, format!("{who} stands at the same place {all}"));
        }
        let before = sights[n - 1];
        if snap_of(cases, before).s.goroutines.iter().all(|g| g.id.is_none()) {
            return (
                Fate::SeenOnce,
                m,
                format!("the dump before has no goroutine ids: whether {who} stood cannot be told"),
            );
        }
        if thread.standing.index(id, n - 1).is_none() && !snap_of(cases, before).s.complete {
            return (Fate::SeenOnce, m, format!("{who} is not in the dump before, which is cut short"));
        }
        let same_kind = found[before.case].iter().find(|earlier| {
            is_hang(earlier)
                && before.case != c
                && earlier.finding.kind == ranked.finding.kind
                && earlier.finding.root.function == ranked.finding.root.function
        });
        return match same_kind {
            Some(_) => {
                let why = format!("{who} was elsewhere before, and another goroutine stood at its place then");
                (Fate::Moves, m, why)
            }
            None => (Fate::New, m, format!("{who} was not there in the dump before")),
        };
    }
    thread_fate(cases, moments, m, ranked)
}

/// A chain that ends outside all goroutines: the kernel's stacks tell whether it stood.
fn thread_fate(cases: &[Case<'_>], moments: &Moments, m: usize, ranked: &Ranked) -> (Fate, usize, String) {
    let once = (Fate::SeenOnce, m, "nothing that it rests on was seen at another moment".to_string());
    let case = &cases[moments.case_of[m]];
    let Some(thread) = ranked.path.iter().rev().find_map(|&key| match key {
        Key::Thread(t) => case.evidence.node.threads.get(t),
        _ => None,
    }) else {
        return once;
    };
    let Some(tid) = thread.tid else { return once };
    let frames = |t: &holdup_parsers::evidence::ThreadStack| -> Vec<String> {
        t.frames.iter().map(|f| f.function.clone()).collect()
    };
    let mut since = m;
    for other in (0..moments.case_of.len()).filter(|&o| moments.case_of[o] != moments.case_of[m]) {
        let threads = &cases[moments.case_of[other]].evidence.node.threads;
        let same = threads.iter().find(|t| t.tid == Some(tid) && t.native == thread.native && !t.frames.is_empty());
        match same {
            Some(t) if frames(t) == frames(thread) => since = since.min(other),
            Some(_) if other < m => {
                return (Fate::New, m, format!("thread {tid} stood elsewhere at the moment before"));
            }
            Some(_) => return (Fate::Gone, m, format!("thread {tid} has gone on since")),
            None => {}
        }
    }
    if since == m {
        return once;
    }
    (Fate::Stays, since, format!("thread {tid} stands at the same place in the kernel"))
}

/// Whether a lock of the chain went from hand to hand.
fn handed_on(threads: &[Thread], case: usize, ranked: &Ranked) -> Option<String> {
    ranked.path.iter().find_map(|&key| {
        let Key::Lock(snap, l) = key else { return None };
        let (thread, n) = sighting(threads, case, snap)?;
        let (course, why) = thread.hands.course(n, l)?;
        (course == Course::ChangesHands).then(|| format!("its lock goes from hand to hand: {why}"))
    })
}

/// The process that a snapshot shows, and which of its sights it is.
fn sighting(threads: &[Thread], case: usize, snap: usize) -> Option<(&Thread, usize)> {
    threads.iter().find_map(|thread| {
        let n = thread.strand.sights.iter().position(|s| s.case == case && s.snap == snap)?;
        Some((thread, n))
    })
}

/// The answer in one sentence.
pub fn judge(
    cases: &[Case<'_>],
    moments: &Moments,
    threads: &[Thread],
    processes: &[ComparedProcess],
    found: &[Vec<Ranked>],
    fates: &[Judged],
) -> Verdict {
    let end = moments.case_of.last().copied().unwrap_or(0);
    let alone = verdict::judge(&cases[end], &found[end]);
    let now = |j: &&Judged| j.shown.moment as usize == moments.case_of.len();
    let standing = fates.iter().filter(now).find(|j| j.hangs && j.shown.fate == Fate::Stays);
    let fresh = fates.iter().filter(now).find(|j| j.hangs && matches!(j.shown.fate, Fate::New | Fate::SeenOnce));
    // The runtime's own word, or a crash, stands whatever moved before.
    if alone.kind == VerdictKind::Crash || alone.kind == VerdictKind::Deadlock && alone.trust == Trust::Proven {
        return alone;
    }
    if let Some(judged) = standing.or(fresh) {
        return hang(moments, judged, &alone);
    }
    if let Some(judged) = fates.iter().filter(now).find(|j| j.hangs && j.shown.fate == Fate::Moves) {
        return Verdict {
            kind: VerdictKind::Slow,
            summary: format!("slow, not stuck: {} ({})", judged.shown.why, judged.shown.finding.title),
            trust: judged.shown.finding.trust.min(Trust::Likely),
            since_minutes: alone.since_minutes,
        };
    }
    if let Some(stuck) = stuck_lock(cases, moments, threads) {
        return stuck;
    }
    if let Some(leak) = leak(threads, processes) {
        return leak;
    }
    if let Some(judged) = fates.iter().find(|j| j.hangs && matches!(j.shown.fate, Fate::Gone | Fate::Moves)) {
        return Verdict {
            kind: VerdictKind::Slow,
            summary: format!(
                "slow, not stuck: what waited at moment {} has gone on since ({})",
                judged.shown.moment, judged.shown.finding.title
            ),
            trust: Trust::Likely,
            since_minutes: None,
        };
    }
    if let Some(slow) = handing(processes) {
        return slow;
    }
    if alone.kind == VerdictKind::Leak {
        let summary = format!("{}; between the dumps it did not grow", alone.summary);
        return Verdict { summary, trust: alone.trust.min(Trust::Guess), ..alone };
    }
    quiet(moments, threads, alone)
}

fn hang(moments: &Moments, judged: &Judged, alone: &Verdict) -> Verdict {
    let finding = &judged.shown.finding;
    let kind = if finding.kind.starts_with("deadlock") { VerdictKind::Deadlock } else { VerdictKind::Hang };
    let total = moments.case_of.len();
    let since = judged.shown.since as usize;
    let (tail, trust) = match judged.shown.fate {
        Fate::Stays if since == 1 => (format!("; it has not moved in any of {total} moments"), finding.trust),
        Fate::Stays => (format!("; it has stood since moment {since} of {total}"), finding.trust),
        Fate::New => ("; it was not there at the moment before".to_string(), finding.trust.min(Trust::Likely)),
        _ => ("; only this moment shows it".to_string(), finding.trust),
    };
    Verdict {
        kind,
        summary: format!("{}{tail}", finding.title),
        trust,
        since_minutes: finding.root.minutes.max(alone.since_minutes),
    }
}

/// A lock that nobody got while the same goroutines waited, where ages alone said nothing.
fn stuck_lock(cases: &[Case<'_>], moments: &Moments, threads: &[Thread]) -> Option<Verdict> {
    let mut found: Vec<(u64, Verdict)> = Vec::new();
    for thread in threads {
        let sights = &thread.strand.sights;
        let last = sights.len() - 1;
        let clocks = sights.first().zip(sights.last()).and_then(|(a, b)| {
            let at = |s: &super::moments::Sight| snap_of(cases, *s).s.taken_at.or(moments.taken_at[s.moment]);
            Some(at(b)?.as_second() - at(a)?.as_second())
        });
        for lock in thread.hands.locks().iter().filter(|l| l.course == Course::Stuck) {
            // Between dumps a moment apart every contended lock looks like this.
            let age = lock.at[last].as_ref().and_then(|at| at.oldest_wait_minutes);
            let apart = clocks.is_some_and(|seconds| seconds >= APART) || age.is_some_and(|minutes| minutes > 0);
            if !apart || !matches!(lock.kind.as_str(), "mutex" | "rwmutex") {
                continue;
            }
            let snap = snap_of(cases, sights[last]);
            let holder = lock.at[last].as_ref().and_then(|at| at.holder);
            let held = holder.filter(|&id| thread.standing.stood(cases, &thread.strand, id));
            let (who, trust) = match held.and_then(|id| thread.standing.index(id, last).map(|i| (id, i))) {
                Some((id, i)) => {
                    let doing = describe::doing(snap, i);
                    (
                        format!("goroutine {id} that holds it stands in {} ({})", doing.function, doing.blocked_in),
                        Trust::Likely,
                    )
                }
                None => ("its holder cannot be told".to_string(), Trust::Guess),
            };
            let n = lock.same_waiters.len() as u64;
            found.push((
                n,
                Verdict {
                    kind: VerdictKind::Hang,
                    summary: format!(
                        "{}: {} is stuck: {} in all {} dumps, nobody got it; {who}",
                        snap.name,
                        lock.label,
                        format_args!("{} for it", describe::count(n, "goroutine waits", "goroutines wait")),
                        sights.len()
                    ),
                    trust,
                    since_minutes: age,
                },
            ));
        }
    }
    found.into_iter().max_by_key(|(n, verdict)| (verdict.trust, *n)).map(|(_, verdict)| verdict)
}

/// Stacks that grew while none of them left.
fn leak(threads: &[Thread], processes: &[ComparedProcess]) -> Option<Verdict> {
    let mut found: Vec<(u64, Verdict)> = Vec::new();
    for (thread, process) in threads.iter().zip(processes) {
        for growing in process.growing.iter().filter(|g| g.waits_for.is_none()) {
            let (Some(&first), Some(&last)) = (growing.counts.first(), growing.counts.last()) else { continue };
            let more = last.saturating_sub(first);
            let steady = growing.counts.windows(2).all(|pair| pair[1] > pair[0]);
            let (enough, trust) = match growing.stayed {
                // Nine of ten that were there are there still: they come and do not go.
                Some(stayed) => {
                    let none_left = first > 0 && stayed * 10 >= first * 9;
                    (more >= PILED && none_left && last * 4 >= first * 5, Trust::Likely)
                }
                None => (more >= PILED_BY_COUNT && last >= first * 2 && steady, Trust::Guess),
            };
            if !enough || growing.idle.is_some() && more < PILED_BY_COUNT {
                continue;
            }
            let name = process.process.name.as_deref().unwrap_or("process");
            let label = thread.strand.pid.map_or(name.to_string(), |pid| format!("{name} {pid}"));
            let counts: Vec<String> = growing.counts.iter().map(|&n| describe::grouped(n)).collect();
            let summary = format!(
                "{label}: goroutines pile up in {}: {}; those that were there are there still",
                growing.function,
                counts.join(", then ")
            );
            let summary = if growing.stayed.is_some() {
                summary
            } else {
                format!("{label}: goroutines pile up in {}: {}", growing.function, counts.join(", then "))
            };
            found.push((more, Verdict { kind: VerdictKind::Leak, summary, trust, since_minutes: None }));
        }
    }
    found.into_iter().max_by_key(|(more, _)| *more).map(|(_, verdict)| verdict)
}

/// Locks that several wait for at every moment, and that go from hand to hand: it moves, but slowly.
fn handing(processes: &[ComparedProcess]) -> Option<Verdict> {
    let locks = processes.iter().flat_map(|p| p.locks.iter().map(move |l| (p, l)));
    let (process, lock, most) = locks
        .filter(|(_, lock)| lock.course == Course::ChangesHands)
        .map(|(p, lock)| (p, lock, lock.at.iter().flatten().map(|at| at.waiter_count).min().unwrap_or(0)))
        .max_by_key(|found| found.2)?;
    let seen = lock.at.iter().flatten().count();
    (most >= CROWD && seen > 1).then(|| Verdict {
        kind: VerdictKind::Slow,
        summary: format!(
            "slow, not stuck: {} or more goroutines of {} wait for {} in every dump, but it goes from hand to hand",
            most,
            process.process.name.as_deref().unwrap_or("the process"),
            lock.label
        ),
        trust: Trust::Likely,
        since_minutes: None,
    })
}

/// Nothing is stuck.
fn quiet(moments: &Moments, threads: &[Thread], alone: Verdict) -> Verdict {
    if threads.is_empty() {
        return Verdict {
            kind: VerdictKind::Inconclusive,
            summary: "no process was seen at two moments: what has moved cannot be told".into(),
            ..Verdict::default()
        };
    }
    match alone.kind {
        VerdictKind::Healthy => Verdict {
            summary: format!(
                "{}; between {} moments nothing that matters stood still",
                alone.summary,
                moments.case_of.len()
            ),
            ..alone
        },
        _ => alone,
    }
}
