//! The graph as a picture: text that can be selected, trust as word and as kind of line, links to the evidence.

use super::escape::{html, push_html};
use super::graph::{Box, Graph};
use super::layout::{Layout, Point, Size, lay_out};
use super::view::View;
use super::words::{fill, number};
use holdup_analysis::diagnosis::Trust;
use std::fmt::Write;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Rules for the picture's classes, shared with the page.
pub const STYLE: &str = include_str!("../../../templates/graph.css");

/// Width of a character of the boxes' text.
const CHARACTER: f64 = 7.3;
/// Columns of a box's text at most.
const COLUMNS: usize = 46;

/// The picture as a file of its own.
pub fn file(view: &View<'_>, graph: &Graph) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    write(&mut out, view, graph, false);
    out.push('\n');
    out
}

/// Appends the picture; with links and without a style of its own if it stands in the page. Gives back its width.
pub fn write(out: &mut String, view: &View<'_>, graph: &Graph, in_page: bool) -> f64 {
    let texts: Vec<[String; 2]> = graph.boxes.iter().map(texts).collect();
    let sizes: Vec<Size> = texts.iter().map(size).collect();
    let ends: Vec<(usize, usize)> = graph.arrows.iter().map(|a| (a.from, a.to)).collect();
    let spine: Vec<bool> = graph.boxes.iter().map(|b| b.chain).collect();
    let layout = lay_out(&sizes, &ends, &spine);
    let (width, height) = (layout.width.ceil().max(120.0), layout.height.ceil().max(60.0));
    // On a narrow page it may shrink, but not to what nobody can read; then it is moved about in its frame.
    let least = if in_page { format!(" style=\"min-width:{:.0}px\"", width * 0.68) } else { String::new() };
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"hg fit\"{least} viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"{}\">",
        html(view.words.picture_of_chain)
    );
    if !in_page {
        let _ = write!(out, "<style>{STYLE}</style><rect class=\"hg-paper\" width=\"{width}\" height=\"{height}\"/>");
    }
    out.push_str(
        "<defs><marker id=\"hg-tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" markerUnits=\"userSpaceOnUse\" orient=\"auto-start-reverse\"><path class=\"hg-tip\" d=\"M0 0 8 4 0 8z\"/></marker>\
         <marker id=\"hg-tip-hot\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"9\" markerHeight=\"9\" markerUnits=\"userSpaceOnUse\" orient=\"auto-start-reverse\"><path class=\"hg-tip hot\" d=\"M0 0 8 4 0 8z\"/></marker></defs>",
    );
    arrows(out, view, graph, &layout);
    for (index, drawn) in graph.boxes.iter().enumerate() {
        if let (Some(at), Some(size), Some(lines)) = (layout.boxes.get(index), sizes.get(index), texts.get(index)) {
            one_box(out, view, drawn, *at, *size, lines, in_page);
        }
    }
    out.push_str("</svg>");
    if graph.left_out > 0 && in_page {
        let note = fill(view.words.left_out_nodes, &[("n", &number(graph.left_out as u64))]);
        let _ = write!(out, "<p class=\"note\">{}</p>", html(&note));
    }
    width
}

/// The two lines of a box.
pub fn texts(drawn: &Box) -> [String; 2] {
    let head: Vec<&str> =
        [&drawn.process, &drawn.id, &drawn.age].into_iter().map(String::as_str).filter(|s| !s.is_empty()).collect();
    let (head, what) =
        if head.is_empty() { (drawn.what.clone(), String::new()) } else { (head.join(" · "), drawn.what.clone()) };
    [cut(&head), cut(&what)]
}

fn cut(text: &str) -> String {
    if text.width() <= COLUMNS {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used >= COLUMNS {
            break;
        }
        out.push(c);
    }
    out + "…"
}

fn size(lines: &[String; 2]) -> Size {
    let columns = lines.iter().map(|line| line.width()).max().unwrap_or(0);
    Size { width: (columns as f64 * CHARACTER + 34.0).max(96.0), height: 50.0 }
}

fn arrows(out: &mut String, view: &View<'_>, graph: &Graph, layout: &Layout) {
    let mut words = String::new();
    for (arrow, points) in graph.arrows.iter().zip(&layout.arrows) {
        let hot = arrow.cycle || arrow.chain;
        let _ = write!(
            out,
            "<path class=\"hg-arrow {}{}{}\" marker-end=\"url(#hg-tip{})\" d=\"{}\"/>",
            arrow.trust.as_str(),
            if arrow.cycle { " cycle" } else { "" },
            if arrow.chain { " chain" } else { "" },
            if hot { "-hot" } else { "" },
            curve(points)
        );
        let (Some(first), Some(second)) = (points.first(), points.get(1)) else { continue };
        // Many arrows into one box would write over each other: words stand on the chain and in cycles, and on others
        // as long as there are few.
        if !hot && graph.arrows.len() > 40 {
            continue;
        }
        let at = Point { x: (first.x + second.x) / 2.0, y: (first.y + second.y) / 2.0 };
        let text = [arrow.why.as_str(), view.trust(arrow.trust)];
        let text: Vec<&str> = text.into_iter().filter(|s| !s.is_empty()).collect();
        let text = text.join(" · ");
        let width = text.width() as f64 * 6.2 + 8.0;
        let _ = write!(
            words,
            "<rect class=\"hg-word-back\" x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"15\" rx=\"3\"/><text class=\"hg-word\" x=\"{:.1}\" y=\"{:.1}\">",
            at.x - width / 2.0,
            at.y - 8.0,
            at.x,
            at.y + 3.5
        );
        push_html(&mut words, &text);
        words.push_str("</text>");
    }
    out.push_str(&words);
}

/// A line that leaves and arrives upright.
fn curve(points: &[Point]) -> String {
    let mut path = String::new();
    let Some(first) = points.first() else { return path };
    let _ = write!(path, "M{:.1} {:.1}", first.x, first.y);
    for pair in points.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        if (a.x - b.x).abs() < 0.5 || a.y == b.y {
            let _ = write!(path, "L{:.1} {:.1}", b.x, b.y);
        } else {
            let middle = (a.y + b.y) / 2.0;
            let _ = write!(path, "C{:.1} {middle:.1} {:.1} {middle:.1} {:.1} {:.1}", a.x, b.x, b.x, b.y);
        }
    }
    path
}

fn one_box(out: &mut String, view: &View<'_>, drawn: &Box, at: Point, size: Size, lines: &[String; 2], in_page: bool) {
    let link = drawn.anchor.as_ref().filter(|_| in_page);
    if let Some(anchor) = link {
        let _ = write!(out, "<a href=\"#{}\">", html(anchor));
    }
    let kind = match drawn.kind.as_str() {
        kind @ ("goroutine" | "lock" | "process" | "thread") => kind,
        _ => "resource",
    };
    let mut class = format!("hg-box {kind}");
    for (is, name) in
        [(drawn.root, " root"), (drawn.cycle, " cycle"), (drawn.chain, " chain"), (drawn.count > 1, " many")]
    {
        if is {
            class.push_str(name);
        }
    }
    let (left, top) = (at.x - size.width / 2.0, at.y - size.height / 2.0);
    let _ = write!(out, "<g class=\"{class}\"><title>");
    let full: Vec<&str> = [&drawn.process, &drawn.id, &drawn.age, &drawn.what]
        .into_iter()
        .map(String::as_str)
        .filter(|s| !s.is_empty())
        .collect();
    push_html(out, &full.join(" · "));
    out.push_str("</title>");
    if drawn.count > 1 && kind != "lock" {
        let _ = write!(
            out,
            "<rect class=\"hg-behind\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{}\" rx=\"7\"/>",
            left + 5.0,
            top + 5.0,
            size.width,
            size.height
        );
    }
    let radius = match kind {
        "lock" => 25.0,
        "process" | "thread" => 2.0,
        _ => 7.0,
    };
    let _ = write!(
        out,
        "<rect class=\"hg-body\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{}\" rx=\"{radius}\"/>",
        size.width, size.height
    );
    let [head, what] = lines;
    let first = if what.is_empty() { at.y + 4.5 } else { at.y - 4.0 };
    let _ = write!(out, "<text class=\"hg-head\" x=\"{:.1}\" y=\"{first:.1}\">", at.x);
    push_html(out, head);
    out.push_str("</text>");
    if !what.is_empty() {
        let _ = write!(out, "<text class=\"hg-what\" x=\"{:.1}\" y=\"{:.1}\">", at.x, at.y + 14.0);
        push_html(out, what);
        out.push_str("</text>");
    }
    let badge = match (drawn.root, drawn.cycle, drawn.symptom) {
        (true, false, _) => view.words.root,
        (_, true, _) => view.words.cycle,
        (_, _, true) => view.words.symptom,
        _ => "",
    };
    if !badge.is_empty() {
        let width = badge.width() as f64 * 7.2 + 14.0;
        let _ = write!(
            out,
            "<rect class=\"hg-badge-back\" x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"16\" rx=\"8\"/><text class=\"hg-badge\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            left + 10.0,
            top - 8.0,
            left + 10.0 + width / 2.0,
            top + 3.8,
            html(badge)
        );
    }
    out.push_str("</g>");
    if link.is_some() {
        out.push_str("</a>");
    }
}

/// Kind of line for each degree of trust, as a legend.
pub fn legend(out: &mut String, view: &View<'_>) {
    out.push_str("<ul class=\"legend\">");
    for trust in [Trust::Proven, Trust::Strong, Trust::Likely, Trust::Guess] {
        let _ = write!(
            out,
            "<li title=\"{}\"><svg class=\"hg\" width=\"34\" height=\"10\" aria-hidden=\"true\"><path class=\"hg-arrow chain {}\" d=\"M1 5H33\"/></svg> {}</li>",
            html(view.trust_meaning(trust)),
            trust.as_str(),
            html(view.trust(trust))
        );
    }
    out.push_str("</ul>");
}
