//! `holdup rules list · show ID · check DIR`: the knowledge base, for a person.

use crate::analyze::rule_files;
use crate::args::{KnowledgeFormat, RulesCommand, RulesSource};
use crate::exit::{Exit, say};
use crate::output;
use anyhow::{Context, Error, Result};
use holdup_analysis::rules::{Rule, RuleKind, Rules, check_tests};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

/// Columns of text.
const WIDTH: usize = 100;
/// Columns of a fact's name in `show`.
const LABEL: usize = 12;

/// Runs the command and says how the program ends.
pub fn run(command: &RulesCommand) -> Exit {
    let done = match command {
        RulesCommand::List { words, kind, source } => {
            load(source).map(|rules| list(&rules, words, *kind, source.format))
        }
        RulesCommand::Show { id, source } => load(source).and_then(|rules| show(&rules, id, source.format)),
        RulesCommand::Check { folders } => check(folders),
    };
    match done {
        Ok(text) => output::to_stdout(text.as_bytes()),
        Err(error) => {
            say(format_args!("{error:#}"));
            Exit::Trouble
        }
    }
}

/// Files of rules with their texts.
fn read(folders: &[PathBuf]) -> Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    for folder in folders {
        for path in rule_files(folder)? {
            let text =
                std::fs::read_to_string(&path).with_context(|| format!("cannot read rules {}", path.display()))?;
            files.push((path.display().to_string(), text));
        }
    }
    Ok(files)
}

fn load(source: &RulesSource) -> Result<Rules> {
    parse(&read(&source.rules)?, !source.no_rules)
}

fn parse(files: &[(String, String)], with_builtin: bool) -> Result<Rules> {
    Rules::parse(files, with_builtin).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Error::msg(lines.join("\n"))
    })
}

/// What a kind of rule tells, as the head of its list.
fn meaning(kind: RuleKind) -> &'static str {
    match kind {
        RuleKind::Role => "which process it is",
        RuleKind::Benign => "idle by design",
        RuleKind::Symptom => "observers: they show a hang and are never its cause",
        RuleKind::Rpc => "both ends of a remote call",
        RuleKind::Holds => "calls that run under a lock",
        RuleKind::External => "what outside the process is waited for",
        RuleKind::KnownIssue => "known bugs",
    }
}

fn list(rules: &Rules, words: &[String], kind: Option<RuleKind>, format: KnowledgeFormat) -> String {
    let words: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let wanted = |rule: &&Rule| {
        let text = format!("{} {} {}", rule.id, rule.title, rule.references.join(" ")).to_lowercase();
        kind.is_none_or(|kind| rule.kind == kind) && words.iter().all(|word| text.contains(word))
    };
    let found: Vec<&Rule> = rules.iter().filter(wanted).collect();
    if format == KnowledgeFormat::Json {
        let all: Vec<Value> = found.into_iter().map(value).collect();
        return pretty(&Value::Array(all));
    }
    let mut by_kind: BTreeMap<&str, Vec<&Rule>> = BTreeMap::new();
    for rule in &found {
        by_kind.entry(rule.kind.as_str()).or_default().push(rule);
    }
    let mut out = String::new();
    for (name, rules) in &by_kind {
        let what = rules.first().map_or("", |rule| meaning(rule.kind));
        let _ = writeln!(out, "{name}: {what} ({})", rules.len());
        let width = rules.iter().map(|rule| rule.id.len()).max().unwrap_or(0).min(40);
        for rule in rules {
            let own = if rule.builtin { "" } else { " (yours)" };
            entry(&mut out, &format!("  {:<width$}  ", rule.id), &format!("{}{own}", rule.title));
        }
        out.push('\n');
    }
    let _ = match found.len() {
        0 => writeln!(out, "no rule matches"),
        1 => writeln!(out, "1 rule; `holdup rules show {}` tells all of it", found[0].id),
        n => writeln!(out, "{n} rules; `holdup rules show ID` tells all of one"),
    };
    out
}

fn show(rules: &Rules, id: &str, format: KnowledgeFormat) -> Result<String> {
    let Some(rule) = rules.show(id) else {
        let near = rules.similar(id);
        let hint =
            if near.is_empty() { "`holdup rules list` has all".into() } else { format!("near: {}", near.join(", ")) };
        return Err(Error::msg(format!("no rule has the id {id}; {hint}")));
    };
    if format == KnowledgeFormat::Json {
        return Ok(pretty(&value(rule)));
    }
    let mut out = String::new();
    entry(&mut out, &format!("{}  ", rule.id), &rule.title);
    let from = if rule.builtin { format!("built in, analysis/rules/{}", rule.file) } else { rule.file.clone() };
    let _ = writeln!(out, "{} · {} · {from}:{}\n", rule.kind.as_str(), meaning(rule.kind), rule.line);
    fact(&mut out, "why", &rule.why);
    for (name, text) in &rule.facts {
        fact(&mut out, name, text);
    }
    if let Some(remedy) = &rule.remedy {
        fact(&mut out, "do", remedy);
    }
    for (n, line) in rule.looks_like.iter().enumerate() {
        fact(&mut out, if n == 0 { "pattern" } else { "" }, line);
    }
    for (n, reference) in rule.references.iter().enumerate() {
        fact(&mut out, if n == 0 { "see" } else { "" }, reference);
    }
    if let Some(example) = &rule.example {
        out.push_str("\nA stack that it matches\n\n");
        for line in example.trim_matches('\n').lines() {
            let _ = writeln!(out, "    {}", line.replace('\t', "    "));
        }
    }
    Ok(out)
}

/// Lints a user's rules together with the built-in ones, and runs the test cases that they carry.
fn check(folders: &[PathBuf]) -> Result<String> {
    let files = read(folders)?;
    let rules = parse(&files, true)?;
    let (mut tests, mut failed) = (0, Vec::new());
    for (file, text) in &files {
        let (run, failures) = check_tests(&rules, text);
        tests += run;
        for failure in failures {
            let line = rules.show(&failure.rule).map_or(1, |rule| rule.line);
            failed.push(format!("{file}:{line}:1: {}, test {}: {}", failure.rule, failure.test, failure.message));
        }
    }
    if !failed.is_empty() {
        return Err(Error::msg(failed.join("\n")));
    }
    let builtin = Rules::builtin();
    let own: Vec<&Rule> = rules.iter().filter(|rule| !rule.builtin).collect();
    let replaced = own.iter().filter(|rule| builtin.show(&rule.id).is_some()).count();
    let off = builtin.iter().filter(|rule| rules.show(&rule.id).is_none()).count();
    let mut out =
        format!("{} in {}, {}: all good", some(own.len(), "rule"), some(files.len(), "file"), some(tests, "test"));
    if replaced > 0 {
        let _ = write!(out, "; {replaced} in place of built-in ones");
    }
    if off > 0 {
        let _ = write!(out, "; {off} of the built-in ones switched off");
    }
    out.push('\n');
    Ok(out)
}

fn some(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn fact(out: &mut String, name: &str, text: &str) {
    entry(out, &format!("{name:<LABEL$}"), text);
}

/// A label, and a text behind it that is broken at blanks and hangs under its own start.
fn entry(out: &mut String, label: &str, text: &str) {
    let indent = label.chars().count();
    let room = WIDTH.saturating_sub(indent).max(30);
    out.push_str(label);
    let mut used = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > room {
            let _ = write!(out, "\n{:indent$}", "");
            used = 0;
        }
        if used > 0 {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += length;
    }
    out.push('\n');
}

fn value(rule: &Rule) -> Value {
    let facts: serde_json::Map<String, Value> =
        rule.facts.iter().map(|(name, text)| (name.replace(' ', "_"), Value::from(text.as_str()))).collect();
    json!({
        "id": rule.id,
        "kind": rule.kind.as_str(),
        "title": rule.title,
        "why": rule.why,
        "references": rule.references,
        "file": rule.file,
        "line": rule.line,
        "builtin": rule.builtin,
        "looks_like": rule.looks_like,
        "remedy": rule.remedy,
        "facts": facts,
        "example": rule.example,
    })
}

fn pretty(value: &Value) -> String {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}
