//! WaitGroups and channels: who waits for goroutines that it started itself.

use crate::case::Case;
use crate::describe;
use crate::diagnosis::Trust;
use crate::graph::{Key, Link};
use crate::waits::Primitive;

/// Children looked at for one waiter.
const LOOKED_AT: usize = 2_000;

/// The goroutines that goroutine `i` started and that are themselves stuck: the longest waiting first.
///
/// `created by F in goroutine N` (Go 1.21 and later) names the waiter; before, the function that holds the `go`
/// statement must be one of the waiter's own frames, which is weaker.
pub fn of(case: &Case<'_>, snap: usize, i: usize) -> Vec<(Key, Link)> {
    let s = &case.snaps[snap];
    let g = s.goroutine(i);
    let primitive = s.waits[i].primitive;
    if !matches!(primitive, Primitive::WaitGroup | Primitive::ChanReceive | Primitive::Select) {
        return Vec::new();
    }
    let frames = s.s.frames_of(g);
    let near = s.waits[i].caller..(s.waits[i].caller + 3).min(frames.len());
    let families: Vec<&str> =
        near.filter_map(|n| s.frame_function(i, n)).filter(|f| !f.standard).map(|f| f.family.as_str()).collect();
    if families.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (j, child) in s.s.goroutines.iter().enumerate() {
        let Some(created) = child.created_by else { continue };
        let by_id = created.goroutine.is_some() && created.goroutine == g.id;
        let by_function = created.goroutine.is_none() && primitive == Primitive::WaitGroup;
        if j == i || !(by_id || by_function) || !families.contains(&s.function(created.site).family.as_str()) {
            continue;
        }
        if s.idle(j).is_some() || !s.waits[j].primitive.is_blocked() {
            continue;
        }
        found.push((j, by_id));
        if found.len() >= LOOKED_AT {
            break;
        }
    }
    // Someone may have more children than it waits for: only a WaitGroup is taken to wait for all of them.
    let trust = match (primitive, found.len()) {
        (Primitive::WaitGroup, 1) => Trust::Likely,
        (Primitive::WaitGroup, _) => Trust::Guess,
        (_, 1) => Trust::Guess,
        _ => return Vec::new(),
    };
    found.sort_by_key(|&(j, _)| (std::cmp::Reverse(s.goroutine(j).minutes), j));
    found.truncate(16);
    let why = if primitive == Primitive::WaitGroup { "waitgroup" } else { "channel" };
    found
        .into_iter()
        .map(|(j, by_id)| {
            let child = s.goroutine(j);
            let text = if by_id { "was started by the waiter" } else { "was started in the waiter's function" };
            let line = child.created_by.map_or(child.line, |c| c.line);
            let evidence = vec![describe::frame_evidence(s, "created-by", text.into(), line)];
            (Key::Goroutine(snap, j), Link { why, trust, evidence })
        })
        .collect()
}
