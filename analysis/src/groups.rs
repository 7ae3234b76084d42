//! Equal stacks, for the reader: the odd ones out before the crowd.

use crate::case::Case;
use crate::diagnosis::{Group, GroupFrame, Idle, MinuteRange};
use crate::snap::Snap;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

/// All groups of all snapshots.
pub fn groups(case: &Case<'_>) -> Vec<Group> {
    case.snaps.iter().flat_map(of_snapshot).collect()
}

fn of_snapshot(snap: &Snap<'_>) -> Vec<Group> {
    let groups = snap.groups.iter().filter_map(|group| {
        let first = *group.members.first()? as usize;
        let g = snap.goroutine(first);
        let telling = snap.telling_frame(first);
        let frames: Vec<GroupFrame> = snap
            .s
            .frames_of(g)
            .iter()
            .enumerate()
            .map(|(n, frame)| {
                let site = snap.s.site(frame.site);
                GroupFrame {
                    function: snap.s.names.get(site.func).to_string(),
                    file: snap.s.names.get(site.file).to_string(),
                    line: site.line,
                    standard: snap.functions.get(site.func).standard,
                    interesting: n == telling,
                }
            })
            .collect();
        let state = snap.s.names.get(g.state).to_string();
        let ages = group.members.iter().map(|&m| snap.goroutine(m as usize).minutes);
        let known: Vec<u32> = ages.clone().flatten().collect();
        let all_known = known.len() == group.members.len();
        Some(Group {
            snapshot: snap.id.clone(),
            signature: signature(&frames, &state),
            count: group.members.iter().map(|&m| u64::from(snap.goroutine(m as usize).count)).sum(),
            state,
            minutes: MinuteRange {
                min: if all_known { known.iter().copied().min() } else { None },
                max: known.iter().copied().max(),
            },
            goroutines: group.members.iter().filter_map(|&m| snap.goroutine(m as usize).id).collect(),
            frames,
            created_by: g.created_by.map(|c| snap.s.function(c.site).to_string()),
            idle: group.idle.clone(),
        })
    });
    let mut groups: Vec<Group> = groups.collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    groups
}

/// Equal for equal stacks in any dump.
fn signature(frames: &[GroupFrame], state: &str) -> String {
    let mut hasher = rustc_hash::FxHasher::default();
    state.hash(&mut hasher);
    for frame in frames {
        frame.function.hash(&mut hasher);
        frame.line.hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

/// How many goroutines were judged idle, by reason.
pub fn idle(case: &Case<'_>) -> Vec<Idle> {
    let mut found = Vec::new();
    for snap in &case.snaps {
        let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
        for group in &snap.groups {
            if let Some(reason) = &group.idle {
                let count = group.members.iter().map(|&m| u64::from(snap.goroutine(m as usize).count)).sum::<u64>();
                *reasons.entry(reason).or_default() += count;
            }
        }
        let mut rows: Vec<Idle> = reasons
            .into_iter()
            .map(|(reason, goroutines)| Idle { snapshot: snap.id.clone(), reason: reason.to_string(), goroutines })
            .collect();
        rows.sort_by(|a, b| b.goroutines.cmp(&a.goroutines).then_with(|| a.reason.cmp(&b.reason)));
        found.extend(rows);
    }
    found
}
