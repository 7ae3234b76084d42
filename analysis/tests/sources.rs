//! Every claim points at the line of the user's own file where it can be read, whatever was around the evidence.

use holdup_analysis::diagnosis::{Diagnosis, Source};
use holdup_analysis::rules::Rules;
use holdup_analysis::{Options, analyze};
use holdup_parsers::{ReadOptions, read};
use std::path::{Path, PathBuf};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/wrapped")
}

/// The functions that a sentence names, as their last parts: `mu.go`'s `(*T).M` is `M`.
fn functions(text: &str) -> Vec<&str> {
    let is_name = |word: &&str| {
        word.contains('.')
            && word.len() > 3
            && !word.starts_with("0x")
            && word.chars().all(|c| c.is_alphanumeric() || "._()*[]/-".contains(c))
            && word.chars().any(|c| c.is_alphabetic())
            && !word.contains(".go")
    };
    let words = text.split(' ').map(|word| word.trim_end_matches([',', '.', ':', ';']));
    words.filter(is_name).filter_map(|word| word.rsplit('.').next()).filter(|last| last.len() > 2).collect()
}

/// What evidence says, and where.
fn claims(diagnosis: &Diagnosis) -> Vec<(String, Source)> {
    let of_findings = diagnosis.findings.iter().flat_map(|f| &f.evidence);
    let holders = diagnosis.locks.iter().flat_map(|l| l.holder.iter().flat_map(|h| &h.evidence));
    of_findings.chain(holders).filter_map(|e| Some((e.text.clone(), e.source.clone()?))).collect()
}

#[test]
fn every_source_names_the_line_where_its_function_stands() {
    let rules = Rules::builtin();
    let mut wrong = Vec::new();
    let (mut seen, mut files) = (0, 0);
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(corpus()).expect("the corpus").filter_map(|e| Some(e.ok()?.path())).collect();
    paths.sort();
    for path in paths.iter().filter(|p| p.extension().is_some_and(|e| e == "txt" || e == "gz")) {
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        // Text that is not stored as characters of its own: UTF-16, and journald's arrays of bytes.
        if name.starts_with("utf16")
            || name.contains("json")
                && (name.contains("multiline")
                    || name.contains("colour")
                    || name.contains("latin1")
                    || name.contains("containerd"))
        {
            continue;
        }
        let (evidence, _) = read(std::slice::from_ref(path), &ReadOptions::default());
        let diagnosis = analyze(&evidence, &rules, &Options::default());
        files += 1;
        for (text, source) in claims(&diagnosis) {
            let Some(from) = source.line_start else { continue };
            let to = source.line_end.unwrap_or(from).max(from);
            let raw = evidence.inputs.get(source.input).map(|i| String::from_utf8_lossy(i.raw.bytes()).into_owned());
            let raw = raw.unwrap_or_default();
            let lines: Vec<&str> = raw.split('\n').skip(from as usize - 1).take((to - from + 1) as usize).collect();
            let there = lines.concat();
            // Chats and terminals put marks within names; quoted-printable and widths break them.
            let there: String = there.chars().filter(|c| c.is_alphanumeric()).collect();
            for function in functions(&text) {
                let function: String = function.chars().filter(|c| c.is_alphanumeric()).collect();
                seen += 1;
                if !there.contains(&function) {
                    wrong.push(format!(
                        "{name}:{from}-{to}: {function:?} of {text:?} is not in {:.200}",
                        lines.concat()
                    ));
                }
            }
        }
    }
    assert!(files > 60 && seen > 300, "{seen} claims in {files} files");
    assert!(wrong.is_empty(), "{} of {seen}:\n{}", wrong.len(), wrong.join("\n"));
}
