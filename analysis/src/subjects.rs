//! Which pod, container, volume or device the stuck chain is about.

use crate::case::Case;
use crate::diagnosis::Subject;
use crate::graph::Key;
use crate::rootcause::{Ranked, process_of};
use regex::Regex;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Subjects that are told at most.
const MOST: usize = 40;

static CONTAINER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\b[0-9a-f]{64}\b").ok());
static POD: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"/pods/([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?:/volumes/([^/\s]+)/([^/\s]+))?")
        .ok()
});

/// What the likeliest chain is about.
pub fn subjects(case: &Case<'_>, findings: &[Ranked]) -> Vec<Subject> {
    let mut found: Vec<Subject> = Vec::new();
    let Some(first) = findings.first() else { return found };
    let mut processes = BTreeSet::new();
    for &key in &first.path {
        processes.extend(process_of(case, key));
        if let Key::Goroutine(snap, i) = key {
            let s = &case.snaps[snap];
            let labels = s.s.names.get(s.goroutine(i).labels);
            if let Some(pod) = label_value(labels, "pod") {
                add(
                    &mut found,
                    Subject {
                        kind: "pod".into(),
                        name: Some(pod),
                        id: None,
                        why: "label of a goroutine of the chain".into(),
                    },
                );
            }
        }
    }
    for p in processes {
        let process = &case.processes.all[p];
        let Some(row) = process.row.map(|n| &case.evidence.node.processes[n]) else { continue };
        let why = format!("command line of {}", process.label());
        in_text(&row.command, &why, &mut found);
        if process.role == "systemd" || process.role == "dbus-daemon" {
            add(
                &mut found,
                Subject {
                    kind: "service".into(),
                    name: Some(process.name.clone()),
                    id: None,
                    why: "the chain passes it".into(),
                },
            );
        }
    }
    for edge in &first.finding.evidence {
        if edge.kind == "mount"
            && let Some(point) = edge.text.rsplit(" at ").next()
        {
            add(
                &mut found,
                Subject { kind: "volume".into(), name: Some(point.to_string()), id: None, why: edge.text.clone() },
            );
        }
    }
    found.truncate(MOST);
    found
}

fn in_text(text: &str, why: &str, found: &mut Vec<Subject>) {
    if let Some(regex) = CONTAINER.as_ref() {
        for id in regex.find_iter(text).take(8) {
            add(found, Subject { kind: "container".into(), name: None, id: Some(id.as_str().into()), why: why.into() });
        }
    }
    if let Some(regex) = POD.as_ref() {
        for capture in regex.captures_iter(text).take(8) {
            add(found, Subject { kind: "pod".into(), name: None, id: Some(capture[1].into()), why: why.into() });
            if let Some(volume) = capture.get(3) {
                add(
                    found,
                    Subject { kind: "volume".into(), name: Some(volume.as_str().into()), id: None, why: why.into() },
                );
            }
        }
    }
}

fn label_value(labels: &str, key: &str) -> Option<String> {
    let at = labels.find(&format!("{key}: \"")).map(|i| i + key.len() + 3)?;
    labels[at..].split('"').next().map(str::to_string)
}

fn add(found: &mut Vec<Subject>, subject: Subject) {
    if !found.iter().any(|s| s.kind == subject.kind && s.id == subject.id && s.name == subject.name) {
        found.push(subject);
    }
}
