//! WaitGroups and channels: who waits for goroutines that it started itself.

use crate::case::Case;
use crate::describe;
use crate::diagnosis::Trust;
use crate::graph::{Key, Link};
use crate::waits::Primitive;
use rustc_hash::FxHashMap;

/// Children kept for one waiter or one function; the longest waiting tell enough.
const KEPT: usize = 2_000;

/// The stuck goroutines of each primary snapshot by who started them, indexed once.
#[derive(Default)]
pub struct Children {
    by_creator: FxHashMap<(usize, u64), Vec<u32>>,
    by_family: FxHashMap<usize, FxHashMap<String, Vec<u32>>>,
}

impl Children {
    /// Indexes the goroutines that are blocked and not idle by design.
    pub fn of(case: &Case<'_>) -> Self {
        let mut children = Children::default();
        for snap in case.primaries() {
            let s = &case.snaps[snap];
            let families = children.by_family.entry(snap).or_default();
            for (j, child) in s.s.goroutines.iter().enumerate() {
                let Some(created) = child.created_by else { continue };
                if s.idle(j).is_some() || !s.waits[j].primitive.is_blocked() {
                    continue;
                }
                let list = match created.goroutine {
                    Some(id) => children.by_creator.entry((snap, id)).or_default(),
                    None => {
                        let family = &s.function(created.site).family;
                        if !families.contains_key(family) {
                            families.insert(family.clone(), Vec::new());
                        }
                        let Some(list) = families.get_mut(family) else { continue };
                        list
                    }
                };
                if list.len() < KEPT {
                    list.push(j as u32);
                }
            }
        }
        children
    }
}

/// The goroutines that goroutine `i` started and that are themselves stuck: the longest waiting first.
///
/// `created by F in goroutine N` (Go 1.21 and later) names the waiter; before, the function that holds the `go`
/// statement must be one of the waiter's own frames, which is weaker.
pub fn of(case: &Case<'_>, children: &Children, snap: usize, i: usize) -> Vec<(Key, Link)> {
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
    let in_family = |j: u32| {
        let created = s.goroutine(j as usize).created_by;
        created.is_some_and(|c| families.contains(&s.function(c.site).family.as_str()))
    };
    let own = g.id.and_then(|id| children.by_creator.get(&(snap, id)));
    let mut found: Vec<(usize, bool)> =
        own.into_iter().flatten().filter(|&&j| in_family(j)).map(|&j| (j as usize, true)).collect();
    if primitive == Primitive::WaitGroup
        && let Some(by_family) = children.by_family.get(&snap)
    {
        let started_here = families.iter().filter_map(|&f| by_family.get(f)).flatten();
        found.extend(started_here.map(|&j| (j as usize, false)));
    }
    found.retain(|&(j, _)| j != i);
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
