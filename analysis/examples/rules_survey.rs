//! What the rules say of every goroutine of some dumps: `cargo run -p holdup-analysis --example rules_survey -- FILE…`.
//!
//! For whoever writes rules: what no rule knows is printed, equal stacks once.

use holdup_analysis::rules::{Rules, Wait};
use holdup_parsers::{ReadOptions, read};
use std::collections::BTreeMap;
use std::path::PathBuf;

fn main() {
    let verbose = std::env::args().any(|a| a == "-v");
    let paths: Vec<PathBuf> = std::env::args().skip(1).filter(|a| a != "-v").map(PathBuf::from).collect();
    let (evidence, _) = read(&paths, &ReadOptions::default());
    let rules = Rules::builtin();
    let mut unknown: BTreeMap<String, usize> = BTreeMap::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for s in &evidence.snapshots {
        let bound = rules.bind(s);
        let path = evidence.inputs.get(s.input as usize).map_or("", |i| i.path.as_str());
        let role = bound.role(s).map(|r| format!("{} by {}", r.role, r.by));
        println!("{path}: {} goroutines, role {role:?}", s.goroutines.len());
        for g in &s.goroutines {
            let mut words = Vec::new();
            if let Some(rule) = bound.benign(s, g) {
                words.push(format!("benign {}", rule.id));
            }
            if let Some(rule) = bound.symptom(s, g) {
                words.push(format!("symptom {}", rule.id));
            }
            if let Some(m) = bound.rpc_client(s, g) {
                words.push(format!("client {} ({})", m.name(), m.rule.id));
            }
            if let Some(m) = bound.rpc_server(s, g) {
                words.push(format!("server {} ({})", m.name(), m.rule.id));
            }
            for m in bound.holds(s, g) {
                words.push(format!("holds {} ({})", m.rule.lock, m.rule.id));
            }
            if let Some(m) = bound.external(s, g) {
                words.push(format!("external {} ({})", m.rule.resource, m.rule.id));
            }
            if words.is_empty() {
                let mut text = format!("{:?} [{}]", Wait::of(s, g), s.names.get(g.state));
                for frame in s.frames_of(g).iter().take(14) {
                    text.push_str("\n    ");
                    text.push_str(s.function(frame.site));
                }
                if let Some(by) = g.created_by {
                    text.push_str("\n    by ");
                    text.push_str(s.function(by.site));
                }
                *unknown.entry(text).or_default() += 1;
            } else {
                *known.entry(words.join("; ")).or_default() += 1;
            }
        }
    }
    let total: usize = known.values().sum::<usize>() + unknown.values().sum::<usize>();
    if verbose {
        for (words, count) in &known {
            println!("{count:6} {words}");
        }
    }
    for (text, count) in &unknown {
        println!("{count:6} unknown: {text}");
    }
    println!("{} of {total} unknown, {} distinct", unknown.values().sum::<usize>(), unknown.len());
}
