//! The report writers over made incidents.

mod samples;

use holdup_cli::locale::Lang;
use holdup_cli::report::{self, Format, Incident, Style};
use samples::Sample;

fn render(format: Format, sample: &Sample, style: &Style) -> String {
    report::render(format, &Incident { diagnosis: &sample.diagnosis, evidence: &sample.evidence }, style)
}

fn all() -> Vec<(&'static str, Sample)> {
    vec![
        ("terway", samples::terway(1048)),
        ("cycle", samples::cycle()),
        ("healthy", samples::healthy()),
        ("crash", samples::crash()),
        ("leaked", samples::leaked()),
        ("inconclusive", samples::inconclusive()),
    ]
}

#[test]
fn text_goldens() {
    for (name, sample) in all() {
        let style = Style { report: Some("report.html".into()), ..Style::for_file(Lang::En) };
        insta::assert_snapshot!(format!("{name}.txt"), render(Format::Text, &sample, &style));
    }
    insta::assert_snapshot!("terway.zh.txt", render(Format::Text, &samples::terway(1048), &Style::for_file(Lang::Zh)));
}

#[test]
fn markdown_and_graph_goldens() {
    for (name, sample) in all() {
        for (format, extension) in
            [(Format::Markdown, "md"), (Format::Dot, "dot"), (Format::Mermaid, "mmd"), (Format::Svg, "svg")]
        {
            insta::assert_snapshot!(format!("{name}.{extension}"), render(format, &sample, &Style::for_file(Lang::En)));
        }
    }
}
