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

/// Values of attributes that make a browser fetch something.
fn fetching(page: &str) -> Vec<&str> {
    let names = [" src=", " srcset=", " poster=", " data=", " action=", " background=", "@import", "url("];
    let found =
        names.iter().flat_map(|name| page.match_indices(name).map(|(at, _)| &page[at..page.len().min(at + 60)]));
    found.filter(|text| !text.starts_with("url(#")).collect()
}

#[test]
fn html_is_one_file_that_fetches_nothing() {
    for (name, sample) in all() {
        for lang in [Lang::En, Lang::Zh] {
            let page = render(Format::Html, &sample, &Style::for_file(lang));
            let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.{}.html", lang.tag()));
            std::fs::write(&file, &page).expect("written");
            assert_eq!(fetching(&page), Vec::<&str>::new(), "{name}");
            // Links away are only what a known bug refers to, and do not tell where they were followed from.
            for (at, _) in page.match_indices("href=\"http") {
                assert!(page[at..at + 300].contains("rel=\"noreferrer noopener\""), "{name}: {}", &page[at..at + 80]);
            }
            assert!(page.contains("default-src &#39;none&#39;") || page.contains("default-src 'none'"));
        }
    }
}
