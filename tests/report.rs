//! The report writers over made incidents.

// The model grows while these are written: `..default()` keeps them compiling.
#[allow(clippy::needless_update)]
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

/// Markdown without its code spans and blocks: a run of backticks ends at the next run of the same length.
fn outside_code(markdown: &str) -> String {
    let mut out = String::new();
    let mut rest = markdown;
    while let Some(start) = rest.find('`') {
        out.push_str(&rest[..start]);
        if out.ends_with('\\') {
            // Escaped: a mere character.
            rest = &rest[start + 1..];
            continue;
        }
        let fence = rest[start..].chars().take_while(|&c| c == '`').count();
        rest = &rest[start + fence..];
        let mut at = 0;
        while let Some(next) = rest[at..].find('`').map(|i| at + i) {
            let run = rest[next..].chars().take_while(|&c| c == '`').count();
            at = next + run;
            if run == fence {
                break;
            }
        }
        rest = &rest[at..];
    }
    out + rest
}

#[test]
fn hostile_names_show_as_text() {
    let sample = samples::hostile();
    for lang in [Lang::En, Lang::Zh] {
        let page = render(Format::Html, &sample, &Style::for_file(lang));
        let svg = render(Format::Svg, &sample, &Style::for_file(lang));
        for text in [&page, &svg] {
            // The page's own elements are known; what a name brought along would add one, or an attribute that acts.
            for bad in ["<script>alert", "<img", "onerror=alert(1)>\"", "--><!--", "]]>", "\u{1b}", "\u{202e}"] {
                assert!(!text.contains(bad), "{bad} in {}", &text[..200]);
            }
        }
        assert_eq!(page.matches("<script").count(), 4);
        assert_eq!(page.matches("</script").count(), 4);
        assert_eq!(page.matches("</style").count(), 1);
        assert_eq!(page.matches("<pre").count(), page.matches("</pre").count());
        assert!(page.contains("&lt;script&gt;alert(1)"));
        let text = render(Format::Text, &sample, &Style::for_file(lang));
        assert!(!text.contains(['\u{1b}', '\u{202e}']));
        let markdown = render(Format::Markdown, &sample, &Style::for_file(lang));
        let outside = outside_code(&markdown);
        assert!(!outside.contains("<script") && !outside.contains("<img"), "{outside}");
        let mermaid = render(Format::Mermaid, &sample, &Style::for_file(lang));
        assert!(!mermaid.contains("<script") && !mermaid.contains("<img"));
        let dot = render(Format::Dot, &sample, &Style::for_file(lang));
        for line in dot.lines() {
            let quotes = line.replace("\\\\", "").replace("\\\"", "").matches('"').count();
            assert_eq!(quotes % 2, 0, "{line}");
        }
    }
}

#[test]
fn reports_are_the_same_each_time() {
    let sample = samples::terway(300);
    for format in
        [Format::Text, Format::Json, Format::Markdown, Format::Html, Format::Dot, Format::Mermaid, Format::Svg]
    {
        let one = render(format, &sample, &Style::for_file(Lang::En));
        let again = render(format, &sample, &Style::for_file(Lang::En));
        assert!(one == again, "{format:?}");
    }
}

#[test]
fn text_keeps_to_its_width() {
    use unicode_width::UnicodeWidthStr;
    for (name, sample) in all() {
        for width in [60, 80, 100, 140] {
            let text = render(Format::Text, &sample, &Style { width, ..Style::for_file(Lang::Zh) });
            for line in text.lines() {
                assert!(line.width() <= width, "{name} at {width}: {} columns: {line}", line.width());
            }
        }
    }
}
