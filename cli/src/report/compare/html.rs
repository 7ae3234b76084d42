//! A comparison as a page: the report's look, without script.

use super::super::escape::{html, visible};
use super::super::view::{View, trust_word, verdict_word};
use super::super::{graph, svg};
use super::{Compared, Shared, Style, Table, latest};
use crate::report::words::{Words, fill, number};
use askama::Template;
use std::fmt::Write;

/// Rows of a table.
const ROWS: usize = 200;

const CSS: &str = concat!(
    include_str!("../../../../templates/graph.css"),
    include_str!("../../../../templates/report.css"),
    include_str!("../../../../templates/compare.css")
);

#[derive(Template)]
#[template(path = "compare.html")]
struct Page {
    w: &'static Words,
    lang: &'static str,
    kind: &'static str,
    verdict: &'static str,
    summary: String,
    span: String,
    trust: &'static str,
    version: String,
    notes: Vec<String>,
    style: &'static str,
    moments: String,
    findings: String,
    chain: String,
    parts: Vec<Shown>,
    made_by: String,
}

struct Shown {
    title: String,
    facts: String,
    notes: Vec<String>,
    tables: String,
}

/// Writes the page.
pub fn write(compared: &Compared<'_>, style: &Style) -> String {
    let shared = Shared::new(compared, style);
    let comparison = shared.comparison();
    let parts = shared.parts(ROWS).into_iter().map(|part| {
        let mut tables = String::new();
        for one in &part.tables {
            let _ = write!(tables, "<h3>{}</h3>", html(one.title));
            tables.push_str(&table(&shared, one));
        }
        Shown {
            title: visible(&part.title),
            facts: part.facts.join(" · "),
            notes: part.notes.iter().map(|n| visible(n)).collect(),
            tables,
        }
    });
    let page = Page {
        w: shared.words,
        lang: style.lang.tag(),
        kind: comparison.verdict.kind.as_str(),
        verdict: verdict_word(shared.words, comparison.verdict.kind),
        summary: visible(&comparison.verdict.summary),
        span: shared.span(),
        trust: trust_word(shared.words, comparison.verdict.trust),
        version: visible(&comparison.tool.version),
        notes: comparison.notes.iter().map(|n| visible(n)).collect(),
        style: CSS,
        moments: table(&shared, &shared.moments()),
        findings: table(&shared, &shared.findings(ROWS)),
        chain: chain(compared, style),
        parts: parts.collect(),
        made_by: fill(shared.words.made_by, &[("what", &visible(&comparison.tool.version))]),
    };
    // Rendering into a string fails only if a value's own display fails, and all values here are texts.
    page.render().unwrap_or_default()
}

/// The chain of the newest moment, drawn. Its boxes lead nowhere here: the report of that moment has what is behind.
fn chain(compared: &Compared<'_>, style: &Style) -> String {
    let Some(incident) = latest(compared) else { return String::new() };
    let view = View::new(&incident, style);
    let Some(finding) = view.first().filter(|f| f.chain.len() > 1) else { return String::new() };
    let mut graph = graph::build(&view, graph::Scope::Finding(finding));
    for drawn in &mut graph.boxes {
        drawn.anchor = None;
    }
    let mut out = String::from("<div class=\"drawing\" tabindex=\"0\">");
    svg::write(&mut out, &view, &graph, true);
    out.push_str("</div>");
    svg::legend(&mut out, &view);
    out
}

fn table(shared: &Shared<'_>, table: &Table) -> String {
    if table.rows.is_empty() {
        return String::new();
    }
    let mut out = String::from("<div class=\"scroll\"><table class=\"wide compared\"><thead><tr>");
    for head in &table.head {
        let _ = write!(out, "<th scope=\"col\">{}</th>", html(head));
    }
    out.push_str("</tr></thead><tbody>");
    for row in &table.rows {
        let class = if row.strong { " class=\"strong\"" } else { "" };
        let _ = write!(out, "<tr{class}>");
        let more: String = row
            .more
            .iter()
            .filter(|m| !m.is_empty())
            .map(|m| format!("<span class=\"more\">{}</span>", html(m)))
            .collect();
        for (n, cell) in row.cells.iter().enumerate() {
            let more = if n == 1 { more.as_str() } else { "" };
            let _ = write!(out, "<td>{}{more}</td>", html(cell));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
    if table.left_out > 0 {
        let _ = write!(
            out,
            "<p class=\"note\">{}</p>",
            html(&fill(shared.words.more, &[("n", &number(table.left_out as u64))]))
        );
    }
    out
}
