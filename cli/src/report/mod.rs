//! The report writers: one diagnosis, many forms.

pub mod compare;
mod dot;
mod escape;
mod graph;
mod html;
mod layout;
mod markdown;
mod members;
mod mermaid;
mod quote;
mod svg;
mod text;
mod view;
pub mod words;

use crate::locale::Lang;
use clap::ValueEnum;
use holdup_analysis::diagnosis::Diagnosis;
use holdup_parsers::evidence::Evidence;

/// Forms of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For a person at a terminal or in a chat
    Text,
    /// For programs
    Json,
    /// For issues and wikis
    Markdown,
    /// One page that opens offline
    Html,
    /// The graph for Graphviz
    Dot,
    /// The graph for Mermaid
    Mermaid,
    /// The graph as a picture
    Svg,
}

impl Format {
    /// The form that a file's extension (in lower case, without the dot) asks for.
    pub fn from_extension(extension: &str) -> Option<Format> {
        Some(match extension {
            "txt" => Format::Text,
            "json" => Format::Json,
            "md" => Format::Markdown,
            "html" => Format::Html,
            "dot" => Format::Dot,
            "mmd" => Format::Mermaid,
            "svg" => Format::Svg,
            _ => return None,
        })
    }
}

/// What a report is about: the diagnosis, and the evidence that it points into.
#[derive(Debug, Clone, Copy)]
pub struct Incident<'a> {
    /// What was found.
    pub diagnosis: &'a Diagnosis,
    /// Where the user's own lines are quoted from.
    pub evidence: &'a Evidence,
}

/// How a report is written.
#[derive(Debug, Clone)]
pub struct Style {
    /// In which language.
    pub lang: Lang,
    /// With terminal colours.
    pub color: bool,
    /// Columns of text.
    pub width: usize,
    /// The full report that text may point to.
    pub report: Option<String>,
}

impl Style {
    /// Columns of text where no terminal says otherwise.
    pub const WIDTH: usize = 100;

    /// Without colour, at the usual width.
    pub fn for_file(lang: Lang) -> Style {
        Style { lang, color: false, width: Style::WIDTH, report: None }
    }
}

/// Writes a report.
pub fn render(format: Format, incident: &Incident<'_>, style: &Style) -> String {
    match format {
        Format::Text => text::write(incident, style),
        Format::Json => json(incident.diagnosis),
        Format::Markdown => markdown::write(incident, style),
        Format::Html => html::write(incident, style),
        Format::Dot | Format::Mermaid | Format::Svg => {
            let view = view::View::new(incident, style);
            let graph = graph::build(&view, graph::Scope::All);
            match format {
                Format::Dot => dot::write(&view, &graph),
                Format::Mermaid => mermaid::write(&view, &graph),
                _ => svg::file(&view, &graph),
            }
        }
    }
}

fn json(diagnosis: &Diagnosis) -> String {
    // The model holds nothing that JSON cannot say: no maps with other keys than strings, no failing writers.
    let mut text = serde_json::to_string_pretty(diagnosis).unwrap_or_default();
    text.push('\n');
    text
}
