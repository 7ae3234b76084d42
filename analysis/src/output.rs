//! The plain parts of the diagnosis: inputs, snapshots, locks.

use crate::case::Case;
use crate::diagnosis::{Holder, Input, Lock, Problem, Process, Snapshot, Waiter};
use crate::holders::Candidate;
use crate::links;
use crate::locks::{Identity, LockGroup};
use crate::native;
use crate::snap::Snap;
use crate::waits::Primitive;
use holdup_parsers::evidence::Severity;
use std::collections::BTreeMap;

/// Every file, with what was found and lost.
pub fn inputs(case: &Case<'_>) -> Vec<Input> {
    let mut inputs: Vec<Input> = case
        .evidence
        .inputs
        .iter()
        .map(|input| Input {
            path: input.path.clone(),
            kind: input.kind.as_str().into(),
            envelopes: input.envelopes.clone(),
            bytes: input.bytes,
            snapshots: Vec::new(),
            problems: input
                .problems
                .iter()
                .map(|p| Problem {
                    severity: match p.severity {
                        Severity::Note => "note",
                        Severity::Warning => "warning",
                        Severity::Error => "error",
                    }
                    .into(),
                    line: p.line,
                    message: p.message.clone(),
                })
                .collect(),
        })
        .collect();
    for snap in &case.snaps {
        if let Some(input) = inputs.get_mut(snap.s.input as usize) {
            input.snapshots.push(snap.id.clone());
        }
    }
    inputs
}

/// Every snapshot.
pub fn snapshots(case: &Case<'_>) -> Vec<Snapshot> {
    let one = |(n, snap): (usize, &Snap<'_>)| {
        let process = &case.processes.all[case.processes.of_snap[n]];
        let mut states: BTreeMap<String, u64> = BTreeMap::new();
        for g in &snap.s.goroutines {
            let state = snap.s.names.get(g.state);
            if !state.is_empty() {
                *states.entry(state.to_string()).or_default() += u64::from(g.count);
            }
        }
        Snapshot {
            id: snap.id.clone(),
            input: snap.s.input as usize,
            process: Process {
                name: Some(snap.name.clone()),
                role: snap.role.clone(),
                pid: process.pid,
                go_version: snap.s.process.go_version.clone(),
                build_id: snap.s.process.build_id.clone(),
            },
            taken_at: snap.s.taken_at.map(|t| t.to_string()),
            complete: snap.s.complete,
            goroutines: snap.s.goroutine_count(),
            threads: None,
            states,
            notices: snap.s.notices.iter().map(|n| n.text.chars().take(500).collect()).collect(),
        }
    };
    case.snaps.iter().enumerate().map(one).collect()
}

/// Every lock of every snapshot.
pub fn locks(case: &Case<'_>) -> Vec<Lock> {
    let mut found = Vec::new();
    for (n, snap) in case.snaps.iter().enumerate() {
        for (l, lock) in case.locks[n].iter().enumerate() {
            let holding = &case.holdings[n][l];
            found.push(Lock {
                id: lock.id.clone(),
                snapshot: snap.id.clone(),
                address: lock.address.map(|a| format!("{a:#x}")),
                address_of: match lock.identity {
                    Identity::Exact | Identity::Computed => "lock".into(),
                    Identity::Object => "object".into(),
                    Identity::Site => "unknown".into(),
                },
                kind: lock.kind.into(),
                type_: lock.type_name.clone(),
                waiter_count: lock.waiter_count(snap),
                oldest_wait_minutes: lock.oldest(snap),
                waiters: lock
                    .waiters
                    .iter()
                    .map(|&w| {
                        let g = snap.goroutine(w as usize);
                        Waiter {
                            goroutine: g.id,
                            thread: None,
                            mode: mode(snap, lock, w as usize).into(),
                            minutes: g.minutes,
                        }
                    })
                    .collect(),
                holder: holding.holder.as_ref().map(|c| holder(snap, c)),
                holder_status: holding.status,
                candidates: holding.others.iter().map(|c| holder(snap, c)).collect(),
            });
        }
    }
    found.extend(native::locks(case));
    found
}

/// How a waiter waits. A select's mode for one of its channels stands in that channel's queue only.
fn mode(snap: &Snap<'_>, lock: &LockGroup, i: usize) -> &'static str {
    let primitive = snap.waits[i].primitive;
    let queued = snap.s.memory.as_ref().filter(|_| primitive == Primitive::Select).and_then(|memory| {
        let word = memory.locks.iter().find(|w| Some(w.address) == lock.address)?;
        word.queue.iter().find(|q| Some(q.goroutine) == snap.goroutine(i).id).map(|q| q.mode)
    });
    queued.unwrap_or(primitive.mode())
}

fn holder(snap: &Snap<'_>, candidate: &Candidate) -> Holder {
    Holder {
        goroutine: snap.goroutine(candidate.goroutine).id,
        thread: snap.goroutine(candidate.goroutine).tid,
        mode: if candidate.reads { "rlock" } else { "lock" }.into(),
        trust: candidate.trust,
        evidence: links::evidence_of(snap, candidate),
    }
}
