//! Which process a dump is of.

use super::bound::{Bound, RoleMatch};
use holdup_parsers::evidence::{FunctionName, Snapshot};

/// How much a reason says: the path of the main package most, a name on a log line least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    Name,
    Function,
    Main,
}

pub(crate) fn of<'r>(bound: &Bound<'r>, s: &Snapshot) -> Option<RoleMatch<'r>> {
    let rules = &bound.rules.roles;
    if rules.is_empty() {
        return None;
    }
    let main = main_file(s);
    let names = names(s);
    let mut best: Option<((Reason, i32, usize), RoleMatch<'r>)> = None;
    for rule in rules {
        let path = main.filter(|file| rule.main.iter().any(|part| contains_path(file, part)));
        let mut told = path.map(|file| (Reason::Main, 1, format!("main package in {file}")));
        if told.is_none() && !rule.functions.is_empty() {
            let mut hits = s.sites.iter().filter(|site| bound.has_any(site.func, &rule.functions));
            if let Some(first) = hits.next() {
                let count = 1 + hits.count();
                let name = FunctionName::parse(s.names.get(first.func)).without_vendor();
                told = Some((Reason::Function, count, format!("function {name}")));
            }
        }
        if told.is_none()
            && let Some(name) = names.iter().find(|name| rule.process.iter().any(|p| is_named(name, p)))
        {
            told = Some((Reason::Name, 1, format!("process name {name}")));
        }
        if let Some((reason, count, by)) = told {
            let weight = (reason, rule.priority, count);
            if best.as_ref().is_none_or(|(known, _)| *known < weight) {
                best = Some((weight, RoleMatch { role: &rule.role, name: &rule.name, rule: &rule.id, by }));
            }
        }
    }
    best.map(|(_, found)| found)
}

/// The file of `main.main`, or of any function of package main.
fn main_file(s: &Snapshot) -> Option<&str> {
    let mut any = None;
    for site in &s.sites {
        let name = s.names.get(site.func);
        let file = s.names.get(site.file);
        if name == "main.main" && !file.is_empty() {
            return Some(file);
        }
        if any.is_none() && name.starts_with("main.") && !file.is_empty() {
            any = Some(file);
        }
    }
    any
}

/// The program's name where no rule knows it: the folder of its main package, else the hint's name.
pub fn program_name(s: &Snapshot) -> Option<&str> {
    let folder = main_file(s).and_then(|file| {
        let mut parts = file.rsplit(['/', '\\']);
        let name = parts.next()?;
        let folder = parts.next().filter(|f| !f.is_empty())?;
        let stem = name.split('.').next().unwrap_or(name);
        // A module's root or `src` says less than the file does.
        Some(if matches!(folder, "src" | "cmd" | "app" | "build" | "tmp") { stem } else { folder.split('@').next()? })
    });
    s.process.name.as_deref().or(folder)
}

fn names(s: &Snapshot) -> Vec<&str> {
    let command = s.process.command.as_deref().and_then(|c| c.split_whitespace().next());
    let command = command.map(|c| c.rsplit('/').next().unwrap_or(c));
    s.process.name.as_deref().into_iter().chain(command).collect()
}

fn is_named(name: &str, pattern: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(head) => name.starts_with(head),
        None => name == pattern,
    }
}

/// Whether `part` stands in `path` at a folder boundary.
fn contains_path(path: &str, part: &str) -> bool {
    path.match_indices(part).any(|(i, _)| i == 0 || part.starts_with('/') || path.as_bytes().get(i - 1) == Some(&b'/'))
}
