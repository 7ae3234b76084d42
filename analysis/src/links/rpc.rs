//! A client that waits for an answer, to the goroutine that should give it, in another process's dump.

use crate::case::Case;
use crate::describe;
use crate::diagnosis::Trust;
use crate::graph::{Key, Link};
use crate::holders::AGE_SLACK;
use rustc_hash::{FxHashMap, FxHashSet};

/// The goroutines of one snapshot that answer one call.
#[derive(Debug, Clone)]
struct Handlers {
    snap: usize,
    /// Minutes waited and index, youngest first.
    by_age: Vec<(u32, usize)>,
}

/// Goroutines that answer calls, by the call's key.
pub struct Servers {
    by_key: FxHashMap<String, Vec<Handlers>>,
    /// The handler of each snapshot that most callers end at: among those that queue for a lock, the longest waiting.
    queueing: Vec<(usize, usize)>,
}

impl Servers {
    /// Asks the rules once a group of every primary snapshot.
    pub fn of(case: &Case<'_>) -> Self {
        let mut by_key: FxHashMap<String, Vec<Handlers>> = FxHashMap::default();
        let mut queueing = Vec::new();
        for snap in case.primaries() {
            let s = &case.snaps[snap];
            let age = |i: usize| s.goroutine(i).minutes.unwrap_or(0);
            let mut all: Vec<usize> = Vec::new();
            for group in s.groups.iter().filter(|g| g.idle.is_none()) {
                let Some(&first) = group.members.first() else { continue };
                let Some(found) = s.bound.rpc_server(s.s, s.goroutine(first as usize)) else { continue };
                let lists = by_key.entry(found.key()).or_default();
                if lists.last().is_none_or(|handlers| handlers.snap != snap) {
                    lists.push(Handlers { snap, by_age: Vec::new() });
                }
                if let Some(handlers) = lists.last_mut() {
                    handlers.by_age.extend(group.members.iter().map(|&m| (age(m as usize), m as usize)));
                }
                all.extend(group.members.iter().map(|&m| m as usize));
            }
            let most = all.into_iter().max_by_key(|&i| {
                (s.waits[i].primitive.is_exclusive_lock(), s.goroutine(i).minutes, std::cmp::Reverse(i))
            });
            queueing.extend(most.map(|i| (snap, i)));
        }
        for handlers in by_key.values_mut().flatten() {
            handlers.by_age.sort_unstable();
        }
        Servers { by_key, queueing }
    }
}

impl Handlers {
    /// The handler whose age is nearest to `age` minutes.
    fn nearest(&self, age: u32) -> Option<(u32, usize)> {
        let at = self.by_age.partition_point(|h| h.0 < age);
        let around = [at.checked_sub(1), Some(at)].into_iter().flatten().filter_map(|n| self.by_age.get(n).copied());
        around.min_by_key(|h| h.0.abs_diff(age))
    }
}

/// The handler of the call that a goroutine waits for; else the process that should have one.
pub fn server(case: &Case<'_>, servers: &Servers, snap: usize, i: usize) -> Option<(Key, Link)> {
    let s = &case.snaps[snap];
    let g = s.goroutine(i);
    let call = s.bound.rpc_client(s.s, g)?;
    let why = if call.rule.transport.starts_with("http") { "http" } else { "rpc" };
    let own = case.processes.of_snap[snap];
    let line = s.s.frames_of(g).get(call.frame).map_or(g.line, |f| f.line);
    let mut evidence = vec![describe::frame_evidence(
        s,
        "rpc",
        format!("waits for the answer to {} ({})", call.name(), call.rule.transport),
        line,
    )];
    let role_fits =
        |role: &str| call.rule.server_role.as_deref().is_none_or(|wanted| wanted == role || role == "unknown");
    let lists: Vec<&Handlers> = servers
        .by_key
        .get(&call.key())
        .into_iter()
        .flatten()
        .filter(|h| case.processes.of_snap[h.snap] != own && role_fits(&case.snaps[h.snap].role))
        .collect();
    // The two dumps may have been taken at different times, so an older handler is not ruled out, only less likely.
    let age = g.minutes.unwrap_or(0);
    let nearest = lists.iter().filter_map(|h| h.nearest(age).map(|(minutes, i)| (h.snap, minutes, i)));
    if let Some((there_snap, minutes, handler_index)) = nearest.min_by_key(|(_, minutes, _)| minutes.abs_diff(age)) {
        let there = &case.snaps[there_snap];
        let handler = there.goroutine(handler_index);
        let count: usize = lists.iter().map(|h| h.by_age.len()).sum();
        let text = format!(
            "{} {} {} since {minutes} minutes at least; the caller waits {age}",
            describe::count(count as u64, "goroutine", "goroutines"),
            if count == 1 { "handles" } else { "handle" },
            call.name(),
        );
        evidence.push(describe::frame_evidence(there, "rpc", text, handler.line));
        let close = age.abs_diff(minutes) <= AGE_SLACK;
        let trust = match (count, close) {
            (1, true) => Trust::Strong,
            (_, true) => Trust::Likely,
            _ => Trust::Guess,
        };
        return Some((Key::Goroutine(there_snap, handler_index), Link { why, trust, evidence }));
    }
    let role = call.rule.server_role.as_deref()?;
    let process = only_process(case, role, own)?;
    Some((Key::Process(process), Link { why, trust: Trust::Likely, evidence }))
}

/// The process of a role without a dump: the only one, or the only one that itself has something stuck below it.
fn only_process(case: &Case<'_>, role: &str, own: usize) -> Option<usize> {
    let of_role: Vec<usize> = case
        .processes
        .all
        .iter()
        .enumerate()
        .filter(|(p, process)| *p != own && process.role == role)
        .map(|(p, _)| p)
        .collect();
    if let [only] = of_role[..] {
        return Some(only);
    }
    let busy: Vec<usize> = of_role
        .into_iter()
        .filter(|&p| {
            let children = case.processes.all[p].pid.and_then(|pid| case.processes.children.get(&pid));
            children.into_iter().flatten().any(|&c| case.processes.all[c].role == "runc")
        })
        .collect();
    match busy[..] {
        [only] => Some(only),
        _ => None,
    }
}

/// A process without a dump that is known to call one daemon (a CNI plugin its agent): the daemon's stuck handler.
pub fn daemon_of(case: &Case<'_>, servers: &Servers, p: usize) -> Option<(Key, Link)> {
    let process = &case.processes.all[p];
    if process.primary.is_some() {
        return None;
    }
    let roles: FxHashSet<&str> = case
        .rules
        .rpc_rules()
        .filter(|rule| rule.client_role.as_deref() == Some(process.role.as_str()))
        .filter_map(|rule| rule.server_role.as_deref())
        .collect();
    // `terway` calls `terwayd`, `cilium-cni` calls `cilium-agent`: a plugin and its daemon share a name.
    let stem = process.name.split(['-', '_']).next().unwrap_or("");
    let named = |snap: usize| stem.len() >= 3 && case.snaps[snap].name.starts_with(stem);
    let known = |snap: usize| roles.contains(case.snaps[snap].role.as_str());
    let by = |fits: &dyn Fn(usize) -> bool| {
        let fitting = servers.queueing.iter().copied().filter(|&(snap, _)| fits(snap));
        fitting.max_by_key(|&(snap, i)| (case.snaps[snap].goroutine(i).minutes, std::cmp::Reverse(snap)))
    };
    let (snap, i) = by(&named).or_else(|| by(&known))?;
    let there = &case.snaps[snap];
    let text = format!("{} calls {}, whose handlers are stuck", process.label(), there.name);
    let evidence = vec![describe::frame_evidence(there, "rpc", text, there.goroutine(i).line)];
    Some((Key::Goroutine(snap, i), Link { why: "rpc", trust: Trust::Likely, evidence }))
}
