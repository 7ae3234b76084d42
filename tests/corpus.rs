//! Every incident of the corpus: first the truth, then how the reports looked when somebody last read them.

use holdup_analysis::rules::Rules;
use holdup_cli::locale::Lang;
use holdup_cli::report::{Format, Incident, Style, render};
use holdup_tests::case::{Answer, Case, checkout, corpus, shared_corpus};
use holdup_tests::{expect, golden};
use std::path::Path;

/// What is not as `expect.json` says, a line each.
fn untrue(case: &Case, answer: &Answer) -> Vec<String> {
    let wanted = case.expect["exit"].as_i64().unwrap_or(0);
    if case.expect["optional_format"] == true && answer.exit == 3 {
        return Vec::new();
    }
    let mut wrong: Vec<String> = expect::checks(&case.expect, &answer.json)
        .into_iter()
        .filter(|check| !check.holds)
        .map(|check| format!("{}: {}: {}", case.name, check.name, check.found))
        .collect();
    if answer.exit != wanted {
        wrong.push(format!("{}: exit {}, not {wanted}", case.name, answer.exit));
    }
    wrong
}

fn report(answer: &Answer, format: Format) -> String {
    let incident = Incident { diagnosis: &answer.diagnosis, evidence: &answer.evidence };
    render(format, &incident, &Style { width: 100, ..Style::for_file(Lang::En) })
}

#[test]
fn incidents_come_out_true_and_read_as_approved() {
    let rules = Rules::builtin();
    let cases = Case::all(&corpus().join("incidents"));
    assert!(cases.len() >= 11, "only {} cases", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let answer = case.analyze(&rules);
        let untrue = untrue(case, &answer);
        if !untrue.is_empty() {
            // A report that says what is not so is not looked at any further, let alone approved.
            wrong.extend(untrue);
            continue;
        }
        for (name, format) in [(golden::TEXT, Format::Text), (golden::MARKDOWN, Format::Markdown)] {
            wrong.extend(golden::check(&case.folder.join(name), &report(&answer, format)).err());
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// People keep the reports beside the evidence and hand over the folder again: what a report quotes is no dump.
#[test]
fn a_folder_with_its_reports_in_it_says_the_same() {
    let rules = Rules::builtin();
    let formats = [("html", Format::Html), ("json", Format::Json), ("md", Format::Markdown), ("txt", Format::Text)];
    for case in Case::all(&corpus().join("incidents")) {
        if case.expect.get("inputs").is_some() {
            continue;
        }
        let before = case.analyze(&rules);
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(&case.name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        for file in case.inputs() {
            std::fs::copy(&file, folder.join(file.file_name().expect("a name"))).expect("copied");
        }
        for (extension, format) in formats {
            std::fs::write(folder.join(format!("a.{extension}")), report(&before, format)).expect("written");
        }
        let after = Answer::of(&folder, std::slice::from_ref(&folder), &Default::default(), &rules);
        assert_eq!(after.diagnosis.snapshots.len(), before.diagnosis.snapshots.len(), "{}", case.name);
        assert_eq!(after.diagnosis.verdict.summary, before.diagnosis.verdict.summary, "{}", case.name);
        assert_eq!(untrue(&case, &after), Vec::<String>::new());
    }
}

/// Reports never tell where the evidence lay on the machine that made them.
#[test]
fn goldens_do_not_depend_on_the_machine() {
    for case in Case::all(&corpus().join("incidents")) {
        for name in [golden::TEXT, golden::MARKDOWN] {
            let text = std::fs::read_to_string(case.folder.join(name)).expect("a golden");
            let checkout = checkout().to_string_lossy();
            assert!(!text.is_empty() && !text.contains(&*checkout), "{}/{name}", case.name);
        }
    }
}

/// Program output of others, and incidents with their cores, where they lie beside the checkout.
#[test]
fn the_larger_corpus_comes_out_true() {
    let Some(shared) = shared_corpus() else {
        println!("skipped: no ../shared/corpus beside the checkout");
        return;
    };
    let rules = Rules::builtin();
    let of = |name: &str| Case::all(&Path::new(&shared).join(name));
    let wrong: Vec<String> = of("public").iter().flat_map(|case| untrue(case, &case.analyze(&rules))).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
