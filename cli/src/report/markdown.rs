//! Markdown for issues, merge requests and wikis: tables, a Mermaid graph, folded stacks.

use super::escape::{markdown, markdown_code, markdown_fence, visible};
use super::graph::{self, Scope};
use super::view::{View, goroutine_of, interesting, lock_name, ordered, short_function};
use super::words::{fill, number};
use super::{Incident, Style, mermaid};
use holdup_analysis::diagnosis::{Evidence, Finding, Lock, VerdictKind};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Rows of a table at most.
const ROWS: usize = 12;
/// Stacks that are folded in at most.
const STACKS: usize = 10;
/// Bytes of one stack at most; forges refuse comments beyond 64 KiB.
const STACK: usize = 4000;

/// Writes the report.
pub fn write(incident: &Incident<'_>, style: &Style) -> String {
    let view = View::new(incident, style);
    let mut out = String::new();
    head(&mut out, &view);
    if let Some(finding) = view.first() {
        advice(&mut out, &view, finding);
        chain(&mut out, &view, finding);
        why(&mut out, &view, finding);
        stacks(&mut out, &view, finding);
    }
    missing(&mut out, &view);
    other_findings(&mut out, &view);
    timeline(&mut out, &view);
    locks(&mut out, &view);
    looked_at(&mut out, &view);
    inputs(&mut out, &view);
    let _ = writeln!(
        out,
        "\n---\n{} · {}",
        view.what_was_read(),
        fill(view.words.made_by, &[("what", &markdown(&view.diagnosis().tool.version))])
    );
    out
}

fn head(out: &mut String, view: &View<'_>) {
    let verdict = &view.diagnosis().verdict;
    let _ = writeln!(out, "# {}: {}\n", view.verdict(), markdown(&verdict.summary));
    let mut facts: Vec<String> = view.since().into_iter().collect();
    facts.push(format!("**{}**", view.trust(verdict.trust)));
    if let Some(blocked) = view.first().and_then(|f| view.blocked(f)) {
        facts.push(fill(view.words.behind_it, &[("what", &blocked)]));
    }
    let _ = writeln!(out, "{}", facts.join(" · "));
    for subject in &view.diagnosis().subjects {
        let name = subject.name.as_deref().or(subject.id.as_deref()).unwrap_or("");
        let _ = writeln!(
            out,
            "\n{}: {} {} · {}",
            view.words.about,
            markdown(&subject.kind),
            markdown_code(name),
            markdown(&subject.why)
        );
    }
    if verdict.kind == VerdictKind::Crash {
        for notice in view.diagnosis().snapshots.iter().flat_map(|s| &s.notices).take(8) {
            let _ = writeln!(out, "\n> {}", markdown(notice));
        }
    }
}

fn advice(out: &mut String, view: &View<'_>, finding: &Finding) {
    let words = view.words;
    let mut lines = String::new();
    for (kind, word) in
        [("do", words.do_now), ("dont", words.do_not), ("collect", words.would_settle), ("prevent", words.prevent)]
    {
        for remedy in finding.remedies.iter().filter(|r| r.kind == kind) {
            let _ = write!(lines, "- **{word}**: {}", markdown(&remedy.text));
            if let Some(risk) = &remedy.risk {
                let _ = write!(lines, " ({})", fill(words.risk, &[("what", &markdown(risk))]));
            }
            lines.push('\n');
        }
    }
    if let Some(issue) = &finding.known_issue {
        let _ = write!(lines, "- **{}**: {} {}", words.known, markdown(&issue.id), markdown(&issue.title));
        for reference in &issue.references {
            let _ = write!(lines, ", {}", link(reference));
        }
        if let Some(fixed) = &issue.fixed_in {
            let _ = write!(lines, "; {}", fill(words.fixed_in, &[("what", &markdown(fixed))]));
        }
        lines.push('\n');
    }
    if !lines.is_empty() {
        let _ = write!(out, "\n{lines}");
    }
}

/// A reference as a link if it is a plain web address.
fn link(reference: &str) -> String {
    let plain = reference
        .bytes()
        .all(|b| b.is_ascii_graphic() && !matches!(b, b'<' | b'>' | b'(' | b')' | b'[' | b']' | b'\\' | b'`'));
    if plain && (reference.starts_with("https://") || reference.starts_with("http://")) {
        format!("<{reference}>")
    } else {
        markdown(reference)
    }
}

fn chain(out: &mut String, view: &View<'_>, finding: &Finding) {
    let words = view.words;
    let rows = view.rows(finding);
    let _ = writeln!(
        out,
        "\n## {}\n\n| {} | | | {} | | {} |\n|---|---|---|---|---|---|",
        words.chain, words.process, words.age, words.trust
    );
    for row in rows {
        let bold = if row.root { "**" } else { "" };
        let mark = if row.root {
            "▶ "
        } else if row.back {
            "↺ "
        } else {
            ""
        };
        let trust = row.trust.map_or("", |t| view.trust(t));
        let _ = writeln!(
            out,
            "| {} | {mark}{} | {bold}{}{bold} | {} | {} | {trust} |",
            markdown(&row.process),
            markdown(&row.id),
            markdown(&row.what),
            row.age,
            markdown(&row.why)
        );
    }
    let graph = graph::build(view, Scope::Finding(finding));
    if graph.boxes.len() > 1 && graph.boxes.len() <= 60 {
        let _ = writeln!(out, "\n```mermaid\n{}```", mermaid::write(view, &graph));
    }
}

fn why(out: &mut String, view: &View<'_>, finding: &Finding) {
    let words = view.words;
    let reasons = view.reasons(finding);
    let _ = writeln!(out, "\n## {}\n", words.why);
    if !finding.explanation.is_empty() {
        let _ = writeln!(out, "{}\n", markdown(&finding.explanation));
    }
    for (lock, holder) in &reasons.holders {
        let who = holder.goroutine.map(|id| id.to_string()).unwrap_or_default();
        let _ = writeln!(
            out,
            "{}:\n",
            fill(words.why_holder_of, &[("n", &who), ("what", &markdown_code(&lock_name(lock)))])
        );
        evidence(out, view, ordered(&holder.evidence));
        out.push('\n');
    }
    evidence(out, view, ordered(reasons.rest));
}

fn evidence(out: &mut String, view: &View<'_>, all: Vec<&Evidence>) {
    for evidence in all.iter().take(ROWS) {
        let sign = if evidence.against { "➖" } else { "➕" };
        let _ = write!(out, "- {sign} {}", markdown(&evidence.text));
        if let Some(source) = &evidence.source {
            let _ = write!(out, " ({})", markdown_code(&view.source(source)));
        }
        out.push('\n');
    }
    more(out, view, all.len(), ROWS, "- ");
}

fn more(out: &mut String, view: &View<'_>, all: usize, shown: usize, before: &str) {
    if all > shown {
        let _ = writeln!(out, "{before}… {}", fill(view.words.more, &[("n", &number((all - shown) as u64))]));
    }
}

fn stacks(out: &mut String, view: &View<'_>, finding: &Finding) {
    let nodes = [&finding.root.node].into_iter().chain(finding.chain.iter());
    let mut shown = BTreeSet::new();
    for goroutine in nodes.filter_map(goroutine_of) {
        if shown.len() >= STACKS || !shown.insert(goroutine) {
            continue;
        }
        let Some(block) = view.block(goroutine) else { continue };
        let text = String::from_utf8_lossy(&block);
        let lines: Vec<String> =
            text.lines().map(|line| line.split('\t').map(visible).collect::<Vec<_>>().join("\t")).collect();
        let mut text = lines.join("\n");
        if text.len() > STACK {
            let end = (0..=STACK).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
            text.truncate(end);
            text.push_str("\n…");
        }
        let fence = markdown_fence(&text);
        let process = markdown(&view.process(goroutine.0));
        let _ = writeln!(
            out,
            "\n<details><summary>goroutine {} · {process}</summary>\n\n{fence}\n{text}\n{fence}\n</details>",
            goroutine.1
        );
    }
}

fn missing(out: &mut String, view: &View<'_>) {
    let missing = &view.diagnosis().missing;
    if missing.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n## {}\n", view.words.would_settle);
    for missing in missing {
        let _ = write!(out, "- {}: {}", markdown(&missing.what), markdown(&missing.why));
        if let Some(command) = &missing.command {
            let _ = write!(out, " — {}", markdown_code(command));
        }
        out.push('\n');
    }
}

fn other_findings(out: &mut String, view: &View<'_>) {
    let others = view.diagnosis().findings.get(1..).unwrap_or(&[]);
    if others.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n## {}\n", view.words.findings);
    for finding in others.iter().take(ROWS) {
        let blocked = view.blocked(finding).map(|b| format!(" · {b}")).unwrap_or_default();
        let _ =
            writeln!(out, "{}. {} · {}{blocked}", finding.rank, markdown(&finding.title), view.trust(finding.trust));
    }
    more(out, view, others.len(), ROWS, "- ");
}

fn timeline(out: &mut String, view: &View<'_>) {
    let moments = &view.diagnosis().timeline;
    if moments.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n## {}\n", view.words.timeline);
    for moment in moments.iter().take(ROWS * 2) {
        let age = moment.minutes_before_dump.map(|m| format!("{} {}", view.minutes(m), view.words.before_dump));
        let when: Vec<String> = age.into_iter().chain(moment.at.clone()).collect();
        let _ = writeln!(out, "- {}: {}", markdown(&when.join(" · ")), markdown(&moment.text));
    }
    more(out, view, moments.len(), ROWS * 2, "- ");
}

fn locks(out: &mut String, view: &View<'_>) {
    let words = view.words;
    let mut locks: Vec<&Lock> = view.diagnosis().locks.iter().collect();
    if locks.is_empty() {
        return;
    }
    locks.sort_by_key(|lock| (lock.holder.is_none(), std::cmp::Reverse(lock.waiter_count)));
    let _ = writeln!(
        out,
        "\n## {}\n\n| {} | {} | {} | {} | {} |\n|---|---|---:|---|---|",
        words.locks, words.process, words.lock, words.waiters, words.age, words.holder
    );
    for lock in locks.iter().take(ROWS) {
        let holder = match lock.holder.as_ref() {
            Some(holder) => {
                let who = holder.goroutine.map(|g| format!("g{g}")).or_else(|| holder.thread.map(|t| format!("t{t}")));
                format!("{} · {}", who.unwrap_or_default(), view.trust(holder.trust))
            }
            None => view.holder_status(lock).to_owned(),
        };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {holder} |",
            markdown(&view.process(&lock.snapshot)),
            markdown_code(&lock_name(lock)),
            number(lock.waiter_count),
            view.lock_ages(lock)
        );
    }
    more(out, view, locks.len(), ROWS, "\n");
}

fn looked_at(out: &mut String, view: &View<'_>) {
    let diagnosis = view.diagnosis();
    let words = view.words;
    if !diagnosis.idle.is_empty() {
        let _ = writeln!(out, "\n## {}\n", words.judged_idle);
        for idle in diagnosis.idle.iter().take(ROWS) {
            let _ = writeln!(
                out,
                "- {}: {} · {}",
                markdown(&view.process(&idle.snapshot)),
                view.goroutines(idle.goroutines),
                markdown(&idle.reason)
            );
        }
        more(out, view, diagnosis.idle.len(), ROWS, "- ");
    }
    let mut groups: Vec<_> = diagnosis.groups.iter().filter(|g| g.idle.is_none()).collect();
    if groups.is_empty() {
        return;
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    let _ = writeln!(
        out,
        "\n## {}\n\n| {} | {} | {} | {} | {} |\n|---:|---|---|---|---|",
        words.groups, words.count, words.process, words.state, words.age, words.function
    );
    for group in groups.iter().take(ROWS) {
        let frame = interesting(group).map(|f| markdown_code(short_function(&f.function))).unwrap_or_default();
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {frame} |",
            number(group.count),
            markdown(&view.process(&group.snapshot)),
            markdown(&group.state),
            view.range(group.minutes.min, group.minutes.max)
        );
    }
    more(out, view, groups.len(), ROWS, "\n");
}

fn inputs(out: &mut String, view: &View<'_>) {
    let words = view.words;
    let inputs = &view.diagnosis().inputs;
    let _ = writeln!(
        out,
        "\n## {}\n\n| {} | {} | {} | {} |\n|---|---|---:|---|",
        words.inputs, words.file, words.taken_for, words.size, words.problems
    );
    for input in inputs.iter().take(ROWS * 2) {
        let mut kind = markdown(&input.kind);
        if !input.envelopes.is_empty() {
            let _ = write!(kind, " ({})", markdown(&input.envelopes.join(", ")));
        }
        let problems: Vec<String> = input
            .problems
            .iter()
            .take(5)
            .map(|p| match p.line {
                Some(line) => format!("{line}: {}", markdown(&p.message)),
                None => markdown(&p.message),
            })
            .collect();
        let _ = writeln!(
            out,
            "| {} | {kind} | {} | {} |",
            markdown_code(&input.path),
            number(input.bytes),
            problems.join("<br>")
        );
    }
    more(out, view, inputs.len(), ROWS * 2, "\n");
}
