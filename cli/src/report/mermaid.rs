//! The graph for Mermaid, which forges draw from Markdown.

use super::escape::mermaid;
use super::graph::Graph;
use super::svg::texts;
use super::view::View;
use holdup_analysis::diagnosis::Trust;
use std::fmt::Write;

/// Writes the graph.
pub fn write(view: &View<'_>, graph: &Graph) -> String {
    let mut out = String::from("flowchart TB\n");
    for (index, drawn) in graph.boxes.iter().enumerate() {
        let lines = texts(drawn);
        let lines: Vec<&str> = lines.iter().map(String::as_str).filter(|line| !line.is_empty()).collect();
        let (open, close) = match drawn.kind.as_str() {
            "lock" => ("([", "])"),
            "process" | "thread" => ("[", "]"),
            _ if drawn.count > 1 => ("[[", "]]"),
            _ => ("(", ")"),
        };
        let _ = writeln!(out, "  n{index}{open}\"{}\"{close}", mermaid(&lines.join("\n")));
    }
    for arrow in &graph.arrows {
        let line = match arrow.trust {
            Trust::Proven => "==>",
            Trust::Strong => "-->",
            Trust::Likely | Trust::Guess => "-.->",
        };
        let label = format!("{} · {}", arrow.why, view.trust(arrow.trust));
        let label = label.trim_start_matches(" · ");
        let _ = writeln!(out, "  n{} {line}|\"{}\"| n{}", arrow.from, mermaid(label), arrow.to);
    }
    let marked = |wanted: &dyn Fn(&super::graph::Box) -> bool| {
        let names: Vec<String> =
            graph.boxes.iter().enumerate().filter(|(_, b)| wanted(b)).map(|(i, _)| format!("n{i}")).collect();
        names.join(",")
    };
    let hot = marked(&|b| b.root || b.cycle);
    if !hot.is_empty() {
        let _ = writeln!(
            out,
            "  classDef hot fill:#fdecea,stroke:#b3261e,stroke-width:3px,color:#1c2430\n  class {hot} hot"
        );
    }
    let locks = marked(&|b| b.kind == "lock" && !b.cycle && !b.root);
    if !locks.is_empty() {
        let _ = writeln!(out, "  classDef lock fill:#fff7e0,stroke:#b98a00,color:#1c2430\n  class {locks} lock");
    }
    out
}
