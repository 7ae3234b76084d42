//! A comparison for issues, merge requests and wikis.

use super::super::escape::{markdown, visible};
use super::super::view::{trust_word, verdict_word};
use super::super::{graph, mermaid, view::View};
use super::{Compared, Shared, Style, Table, latest};
use crate::report::words::{fill, number};
use std::fmt::Write;

/// Rows of a table.
const ROWS: usize = 12;
/// Findings.
const FINDINGS: usize = 10;

/// Writes the report.
pub fn write(compared: &Compared<'_>, style: &Style) -> String {
    let shared = Shared::new(compared, style);
    let comparison = shared.comparison();
    let verdict = &comparison.verdict;
    let mut out = String::new();
    let _ = writeln!(out, "# {}: {}\n", verdict_word(shared.words, verdict.kind), markdown(&verdict.summary));
    let _ = writeln!(out, "{} · **{}**", markdown(&shared.span()), trust_word(shared.words, verdict.trust));
    for note in &comparison.notes {
        let _ = writeln!(out, "\n> {}", markdown(note));
    }
    table(&mut out, &shared, &shared.moments(), 2);
    table(&mut out, &shared, &shared.findings(FINDINGS), 2);
    if let Some(incident) = latest(compared) {
        let view = View::new(&incident, style);
        if let Some(finding) = view.first().filter(|f| f.chain.len() > 1) {
            let graph = graph::build(&view, graph::Scope::Finding(finding));
            let _ = writeln!(out, "\n## {}\n\n```mermaid", shared.words.latest_chain);
            out.push_str(mermaid::write(&view, &graph).trim_end());
            out.push_str("\n```\n");
        }
    }
    for part in shared.parts(ROWS) {
        let _ = writeln!(out, "\n## {}\n\n{}", markdown(&part.title), markdown(&part.facts.join(" · ")));
        for note in &part.notes {
            let _ = writeln!(out, "\n> {}", markdown(note));
        }
        for one in &part.tables {
            table(&mut out, &shared, one, 3);
        }
    }
    let made = fill(shared.words.made_by, &[("what", &visible(&comparison.tool.version))]);
    let _ = writeln!(out, "\n---\n{}", markdown(&made));
    out
}

fn table(out: &mut String, shared: &Shared<'_>, table: &Table, level: usize) {
    if table.rows.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{} {}\n", "#".repeat(level), table.title);
    let _ = writeln!(out, "| {} | |", table.head.join(" | "));
    let _ = writeln!(out, "|{}---|", "---|".repeat(table.head.len()));
    for row in &table.rows {
        let cells: Vec<String> = row
            .cells
            .iter()
            .map(|cell| if row.strong && !cell.is_empty() { format!("**{}**", markdown(cell)) } else { markdown(cell) })
            .collect();
        let more: Vec<String> = row.more.iter().filter(|m| !m.is_empty()).map(|m| markdown(m)).collect();
        let _ = writeln!(out, "| {} | {} |", cells.join(" | "), more.join("<br>"));
    }
    if table.left_out > 0 {
        let _ = writeln!(out, "\n… {}", fill(shared.words.more, &[("n", &number(table.left_out as u64))]));
    }
}
