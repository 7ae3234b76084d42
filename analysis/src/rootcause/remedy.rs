//! What to do, what to leave, and which known bug a chain looks like.

use super::basin::Basin;
use crate::case::Case;
use crate::diagnosis::{Finding, KnownIssue, Remedy};
use crate::graph::{Key, WaitGraph};
use crate::rules::{Chain, ChainNode, Part, known_issue};
use crate::waits::Primitive;
use std::collections::BTreeSet;

/// Fills `remedies` and `known_issue` of a finding.
pub fn add(case: &Case<'_>, graph: &WaitGraph, path: &[Key], basin: &Basin, circle: bool, finding: &mut Finding) {
    let mut remedies = Vec::new();
    let known = known(case, path, circle);
    if let Some(rule) = known {
        finding.known_issue = Some(KnownIssue {
            id: rule.id.clone(),
            title: rule.title.clone(),
            references: rule.references.clone(),
            fixed_in: rule.fixed_in.clone(),
        });
        remedies.extend(rule.remedy.iter().map(|text| remedy("do", text, rule.risk.clone())));
        remedies.extend(rule.dont.iter().map(|text| remedy("dont", text, None)));
    }
    for &key in path {
        if let Key::Resource(r) = key
            && let Some(text) = graph.resources.get(r).and_then(|r| r.remedy.clone())
        {
            remedies.push(remedy("do", &text, None));
        }
    }
    remedies.extend(general(case, graph, path, basin, circle));
    remedies.dedup();
    finding.remedies = remedies;
}

fn remedy(kind: &str, text: &str, risk: Option<String>) -> Remedy {
    Remedy { kind: kind.into(), text: text.into(), risk }
}

/// The order that is always safe: keep the evidence, then the one process at the root, never the observers.
fn general(case: &Case<'_>, graph: &WaitGraph, path: &[Key], basin: &Basin, circle: bool) -> Vec<Remedy> {
    let mut remedies = Vec::new();
    let last = path.iter().rev().copied().find_map(|key| super::basin::process_of(case, key));
    let mount = path.windows(2).any(|p| graph.link(p[0], p[1]).is_some_and(|l| l.why == "mount"));
    let label = last.map(|p| case.processes.all[p].label());
    let pid = last.and_then(|p| case.processes.all[p].pid);
    if mount {
        remedies.push(remedy(
            "do",
            "Bring the filesystem's server back, or detach the mount lazily (umount -f, then umount -l) once nobody needs its data",
            Some("data that was not written yet is lost with a forced detach".into()),
        ));
        remedies.push(remedy(
            "dont",
            "Delete no pods by force before the node is fenced: what hangs may still write.",
            None,
        ));
        remedies.push(remedy(
            "dont",
            "Restarting kubelet or containerd helps nothing: a new process blocks on the same mount.",
            None,
        ));
    } else if let Some(label) = &label {
        let core = pid.map_or("Take a core of it".to_string(), |pid| format!("Take a core of it (gcore {pid})"));
        let name = last.map_or("it", |p| case.processes.all[p].name.as_str());
        if circle {
            remedies.push(remedy(
                "do",
                &format!("{core}, then restart {label}: a deadlock does not end by itself."),
                None,
            ));
        } else {
            // The node's own manager is not restarted like a daemon.
            let manager =
                last.is_some_and(|p| matches!(case.processes.all[p].role.as_str(), "systemd" | "dbus-daemon"));
            let then = if manager {
                "if it still does not answer: systemctl daemon-reexec, and reboot if that hangs too.".to_string()
            } else {
                format!("end or restart {name} alone.")
            };
            remedies.push(remedy("do", &format!("{core}, then {then}"), None));
        }
    }
    let observers: BTreeSet<String> = basin
        .processes
        .iter()
        .filter(|&&p| Some(p) != last)
        .map(|&p| case.processes.all[p].name.clone())
        .filter(|name| !name.is_empty())
        .collect();
    if !observers.is_empty() && !mount {
        let names: Vec<&str> = observers.iter().take(4).map(String::as_str).collect();
        remedies.push(remedy(
            "dont",
            &format!("Restarting {} helps nothing: they only wait.", names.join(" or ")),
            None,
        ));
    }
    remedies
}

/// The known bug that the chain looks like best.
fn known<'a>(case: &Case<'a>, path: &[Key], circle: bool) -> Option<&'a crate::rules::KnownIssueRule> {
    let mut nodes: Vec<ChainNode<'_>> = Vec::new();
    // Where the path ends in a lock, nobody holds it who could be the root: its last goroutine only waits.
    let ends_in_lock = matches!(path.last(), Some(Key::Lock(..)));
    let last_goroutine = path.iter().rposition(|k| matches!(k, Key::Goroutine(..))).filter(|_| !ends_in_lock);
    for (n, &key) in path.iter().enumerate() {
        match key {
            Key::Goroutine(snap, i) => {
                let s = &case.snaps[snap];
                let after_lock = n > 0 && matches!(path[n - 1], Key::Lock(..));
                let part = if Some(n) == last_goroutine && !circle {
                    Part::Root
                } else if after_lock {
                    Part::Holder
                } else if s.waits[i].primitive.is_exclusive_lock() {
                    Part::Waiter
                } else {
                    Part::Link
                };
                nodes.push(ChainNode { snapshot: s.s, bound: &s.bound, goroutine: s.goroutine(i), part, count: 1 });
            }
            Key::Lock(snap, l) => {
                // One of each group of waiters: what one shows, all of it show.
                let s = &case.snaps[snap];
                let mut seen = BTreeSet::new();
                for &w in &case.locks[snap][l].waiters {
                    let i = w as usize;
                    if seen.insert(s.group_of[i]) {
                        let part = if s.waits[i].primitive == Primitive::Unknown { Part::Link } else { Part::Waiter };
                        let count = s.groups[s.group_of[i] as usize].members.len() as u32;
                        nodes.push(ChainNode {
                            snapshot: s.s,
                            bound: &s.bound,
                            goroutine: s.goroutine(i),
                            part,
                            count,
                        });
                    }
                    if seen.len() >= 64 {
                        break;
                    }
                }
            }
            _ => {}
        }
    }
    if nodes.is_empty() {
        return None;
    }
    let log: Vec<&str> = case.evidence.node.log_lines.iter().map(|l| l.text.as_str()).collect();
    let mut kernel: Vec<&str> = Vec::new();
    for &key in path {
        if let Key::Thread(t) = key {
            kernel.extend(case.evidence.node.threads[t].frames.iter().map(|f| f.function.as_str()));
        }
    }
    let roles: Vec<&str> = path
        .iter()
        .filter_map(|k| if let Key::Process(p) = k { Some(case.processes.all[*p].role.as_str()) } else { None })
        .collect();
    let leaked = matches!(path.last(), Some(&Key::Lock(s, l)) if case.holdings[s][l].status == crate::diagnosis::HolderStatus::Leaked);
    known_issue(
        case.rules,
        &Chain { nodes: &nodes, leaked, cycle: circle, log: &log, kernel: &kernel, versions: &[], roles: &roles },
    )
}
