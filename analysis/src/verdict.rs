//! The answer in one sentence.

use crate::case::Case;
use crate::describe;
use crate::diagnosis::{Trust, Verdict, VerdictKind};
use crate::holders::is_whole;
use crate::rootcause::Ranked;
use crate::snap::Snap;
use holdup_parsers::evidence::{Form, NoticeKind};

/// Judges the incident by its findings.
pub fn judge(case: &Case<'_>, findings: &[Ranked]) -> Verdict {
    let say = |kind: VerdictKind, ranked: &Ranked| Verdict {
        kind,
        summary: ranked.finding.title.clone(),
        trust: ranked.finding.trust,
        since_minutes: ranked.minutes,
    };
    if let Some(asleep) = asleep(case) {
        return asleep;
    }
    let is = |ranked: &&Ranked, prefix: &str| ranked.finding.kind.starts_with(prefix);
    let hang = findings.iter().find(|r| !is(r, "crash") && !is(r, "leak") && !r.moving);
    let crash = findings.iter().find(|r| is(r, "crash"));
    if let Some(ranked) = hang.filter(|r| is(r, "deadlock")) {
        return say(VerdictKind::Deadlock, ranked);
    }
    // A crash's goroutines are often blocked too; a hang must stand on more than a guess to outrank it.
    if let Some(ranked) = crash.filter(|_| hang.is_none_or(|h| h.finding.trust <= Trust::Likely)) {
        return say(VerdictKind::Crash, ranked);
    }
    if let Some(ranked) = hang {
        return say(VerdictKind::Hang, ranked);
    }
    if let Some(ranked) = findings.iter().find(|r| r.moving) {
        let mut verdict = say(VerdictKind::Slow, ranked);
        verdict.summary = format!("slow, not stuck: between two dumps it moved ({})", ranked.finding.title);
        return verdict;
    }
    if let Some(ranked) = findings.iter().find(|r| is(r, "leak")) {
        return say(VerdictKind::Leak, ranked);
    }
    quiet(case)
}

/// `fatal error: all goroutines are asleep - deadlock!` is the runtime's own proof.
fn asleep(case: &Case<'_>) -> Option<Verdict> {
    for (n, snap) in case.snaps.iter().enumerate() {
        let fatal =
            snap.s.notices.iter().any(|x| x.kind == NoticeKind::Fatal && x.text.contains("all goroutines are asleep"));
        if fatal {
            let process = case.processes.all[case.processes.of_snap[n]].label();
            return Some(Verdict {
                kind: VerdictKind::Deadlock,
                summary: format!(
                    "{process}: the runtime itself found all goroutines asleep: none of them can ever run"
                ),
                trust: Trust::Proven,
                since_minutes: None,
            });
        }
    }
    None
}

/// Nothing is stuck, as far as the evidence reaches.
fn quiet(case: &Case<'_>) -> Verdict {
    let whole: Vec<usize> = (0..case.snaps.len()).filter(|&n| is_whole(&case.snaps[n])).collect();
    let total: u64 = case.snaps.iter().map(|s| s.s.goroutine_count()).sum();
    if case.snaps.is_empty() {
        return Verdict {
            kind: VerdictKind::Inconclusive,
            summary: "no goroutine dump was given: who waits for whom cannot be told".into(),
            ..Verdict::default()
        };
    }
    let counts_only = |s: &Snap<'_>| matches!(s.s.form, Form::ProfileCounts | Form::ProfileProto);
    if case.snaps.iter().all(counts_only) {
        return Verdict {
            kind: VerdictKind::Inconclusive,
            summary: format!(
                "a profile counts {} by stack, without ids, ages and addresses: take debug=2 to see who waits for whom",
                describe::count(total, "goroutine", "goroutines")
            ),
            ..Verdict::default()
        };
    }
    if whole.is_empty() {
        return Verdict {
            kind: VerdictKind::Inconclusive,
            summary: format!(
                "only a part of a dump was given ({}): nothing in it is certainly stuck, and the rest is missing",
                describe::count(total, "goroutine", "goroutines")
            ),
            ..Verdict::default()
        };
    }
    Verdict {
        kind: VerdictKind::Healthy,
        summary: format!(
            "no hang: {} in {} were looked at, and every wait is short or idle by design",
            describe::count(total, "goroutine", "goroutines"),
            describe::count(case.snaps.len() as u64, "dump", "dumps")
        ),
        trust: Trust::Likely,
        since_minutes: None,
    }
}
