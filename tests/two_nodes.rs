//! Two incidents of different nodes, handed over together, stay two chains.

use holdup_analysis::rules::Rules;
use holdup_parsers::ReadOptions;
use holdup_tests::case::{Answer, Case, corpus};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn both_roots_are_found_and_no_edge_crosses() {
    let top = corpus().join("incidents");
    let folders = ["s2-cri-status-lock", "s3-cni-netlink-hang"];
    let cases: Vec<Case> = Case::all(&top).into_iter().filter(|case| folders.contains(&case.name.as_str())).collect();
    let inputs: Vec<_> = cases.iter().flat_map(Case::inputs).collect();
    let answer = Answer::of(&top, &inputs, &ReadOptions::default(), &Rules::builtin());
    let json = &answer.json;
    let findings = json["findings"].as_array().expect("findings");
    for case in &cases {
        let root = regex::Regex::new(case.expect["root"]["resource"].as_str().unwrap_or("netlink")).expect("a pattern");
        assert!(
            findings.iter().any(|f| root.is_match(f["title"].as_str().unwrap_or(""))),
            "{}: {findings:#?}",
            case.name
        );
    }
    // Whose an edge's ends are is told by the folder of their snapshots' files.
    let folder_of: BTreeMap<&str, &str> = json["snapshots"]
        .as_array()
        .expect("snapshots")
        .iter()
        .filter_map(|s| {
            let path = answer.evidence.inputs[s["input"].as_u64()? as usize].path.as_str();
            Some((s["id"].as_str()?, path.split('/').next()?))
        })
        .collect();
    let folder = |node: &Value| node["snapshot"].as_str().map(|id| folder_of[id]);
    let mut seen = BTreeSet::new();
    for edge in json["edges"].as_array().expect("edges") {
        if let (Some(from), Some(to)) = (folder(&edge["from"]), folder(&edge["to"])) {
            assert_eq!(from, to, "{edge:#}");
            seen.insert(from);
        }
        let inputs: BTreeSet<&str> = edge["evidence"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|e| e["source"]["input"].as_u64())
            .filter_map(|input| answer.evidence.inputs[input as usize].path.split('/').next())
            .collect();
        assert!(inputs.len() <= 1, "{edge:#}");
    }
    assert_eq!(seen.len(), 2);
}
