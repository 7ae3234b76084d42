//! The graph for Graphviz.

use super::escape::dot;
use super::graph::Graph;
use super::svg::texts;
use super::view::View;
use holdup_analysis::diagnosis::Trust;
use std::fmt::Write;

/// Writes the graph.
pub fn write(view: &View<'_>, graph: &Graph) -> String {
    let mut out = String::from(
        "digraph holdup {\n  rankdir=TB;\n  node [shape=box, style=\"rounded,filled\", fillcolor=\"#f6f7f9\", color=\"#8a94a3\", fontname=\"sans-serif\", fontsize=11];\n  edge [fontname=\"sans-serif\", fontsize=9, color=\"#536072\"];\n",
    );
    let _ = writeln!(out, "  label=\"{}\";\n  labelloc=t;", dot(&view.diagnosis().verdict.summary));
    for (index, drawn) in graph.boxes.iter().enumerate() {
        let lines = texts(drawn);
        let lines: Vec<&str> = lines.iter().map(String::as_str).filter(|line| !line.is_empty()).collect();
        let mut extra = String::new();
        match drawn.kind.as_str() {
            "lock" => extra.push_str(", shape=ellipse, fillcolor=\"#fff7e0\", color=\"#b98a00\""),
            "process" | "thread" => extra.push_str(", style=filled"),
            _ => {}
        }
        if drawn.root || drawn.cycle {
            extra.push_str(", color=\"#b3261e\", fillcolor=\"#fdecea\", penwidth=2.4");
        }
        if drawn.count > 1 && drawn.kind != "lock" {
            extra.push_str(", peripheries=2");
        }
        let _ = writeln!(out, "  n{index} [label=\"{}\"{extra}];", dot(&lines.join("\n")));
    }
    for arrow in &graph.arrows {
        let style = match arrow.trust {
            Trust::Proven => "bold",
            Trust::Strong => "solid",
            Trust::Likely => "dashed",
            Trust::Guess => "dotted",
        };
        let hot = if arrow.cycle { ", color=\"#b3261e\"" } else { "" };
        let label = format!("{} · {}", arrow.why, view.trust(arrow.trust));
        let label = label.trim_start_matches(" · ");
        let _ = writeln!(out, "  n{} -> n{} [label=\"{}\", style={style}{hot}];", arrow.from, arrow.to, dot(label));
    }
    out.push_str("}\n");
    out
}
