//! A client that waits for an answer, to the goroutine that should give it, in another process's dump.

use crate::case::Case;
use crate::describe;
use crate::diagnosis::Trust;
use crate::graph::{Key, Link};
use crate::holders::AGE_SLACK;
use rustc_hash::{FxHashMap, FxHashSet};

/// A goroutine that answers a call.
#[derive(Debug, Clone)]
struct Server {
    snap: usize,
    goroutine: usize,
    role: String,
}

/// Goroutines that answer calls, by the call's key.
pub struct Servers {
    by_key: FxHashMap<String, Vec<Server>>,
}

impl Servers {
    /// Asks the rules once a group of every primary snapshot.
    pub fn of(case: &Case<'_>) -> Self {
        let mut by_key: FxHashMap<String, Vec<Server>> = FxHashMap::default();
        for snap in case.primaries() {
            let s = &case.snaps[snap];
            for group in s.groups.iter().filter(|g| g.idle.is_none()) {
                let Some(&first) = group.members.first() else { continue };
                let Some(found) = s.bound.rpc_server(s.s, s.goroutine(first as usize)) else { continue };
                let list = by_key.entry(found.key()).or_default();
                list.extend(group.members.iter().map(|&m| Server {
                    snap,
                    goroutine: m as usize,
                    role: s.role.clone(),
                }));
            }
        }
        for (_, list) in by_key.iter_mut() {
            // Oldest first: the k-th oldest client is matched with the k-th oldest handler.
            list.sort_by_key(|x| (std::cmp::Reverse(case.snaps[x.snap].goroutine(x.goroutine).minutes), x.goroutine));
        }
        Servers { by_key }
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
    let mut handlers: Vec<&Server> = servers
        .by_key
        .get(&call.key())
        .into_iter()
        .flatten()
        .filter(|x| case.processes.of_snap[x.snap] != own)
        .filter(|x| case.processes.all[case.processes.of_snap[x.snap]].host == case.processes.all[own].host)
        .filter(|x| call.rule.server_role.as_ref().is_none_or(|role| *role == x.role || x.role == "unknown"))
        .collect();
    let age = |minutes: Option<u32>| minutes.unwrap_or(0);
    // The two dumps may have been taken at different times, so an older handler is not ruled out, only less likely.
    handlers.sort_by_key(|x| age(g.minutes).abs_diff(age(case.snaps[x.snap].goroutine(x.goroutine).minutes)));
    if let Some(best) = handlers.first() {
        let there = &case.snaps[best.snap];
        let handler = there.goroutine(best.goroutine);
        let text = format!(
            "{} {} {} since {} minutes at least; the caller waits {}",
            describe::count(handlers.len() as u64, "goroutine", "goroutines"),
            if handlers.len() == 1 { "handles" } else { "handle" },
            call.name(),
            age(handler.minutes),
            age(g.minutes)
        );
        evidence.push(describe::frame_evidence(there, "rpc", text, handler.line));
        let close = age(g.minutes).abs_diff(age(handler.minutes)) <= AGE_SLACK;
        let trust = match (handlers.len(), close) {
            (1, true) => Trust::Strong,
            (_, true) => Trust::Likely,
            _ => Trust::Guess,
        };
        return Some((Key::Goroutine(best.snap, best.goroutine), Link { why, trust, evidence }));
    }
    let role = call.rule.server_role.as_deref()?;
    let process = only_process(case, role, own)?;
    Some((Key::Process(process), Link { why, trust: Trust::Likely, evidence }))
}

/// Kinds of resources that are another process's answer.
const ANSWERS: &[&str] = &["csi", "grpc", "http", "plugin", "ttrpc", "unix-socket"];

/// The process that should answer where a rule knows only its role, not the call.
pub fn peer(case: &Case<'_>, snap: usize, i: usize) -> Option<(Key, Link)> {
    let s = &case.snaps[snap];
    let g = s.goroutine(i);
    let found = s.bound.external(s.s, g).filter(|found| ANSWERS.contains(&found.rule.resource.as_str()))?;
    let role = found.rule.peer.as_deref()?;
    let process = only_process(case, role, case.processes.of_snap[snap])?;
    // A dump of it would show a handler, if one waited.
    if case.processes.all[process].primary.is_some() {
        return None;
    }
    let line = s.s.frames_of(g).get(found.frame).map_or(g.line, |f| f.line);
    let text = format!(
        "waits for {} (rule {}): {} is the only one",
        found.rule.waits_for,
        found.rule.id,
        case.processes.all[process].label()
    );
    let evidence = vec![describe::frame_evidence(s, "rpc", text, line)];
    Some((Key::Process(process), Link { why: "rpc", trust: Trust::Likely, evidence }))
}

/// The process of a role without a dump: the only one, or the only one that itself has something stuck below it.
fn only_process(case: &Case<'_>, role: &str, own: usize) -> Option<usize> {
    let of_role: Vec<usize> = case
        .processes
        .all
        .iter()
        .enumerate()
        .filter(|(p, process)| *p != own && process.role == role && process.host == case.processes.all[own].host)
        .map(|(p, _)| p)
        .collect();
    if let [only] = of_role[..] {
        return Some(only);
    }
    let busy: Vec<usize> = of_role
        .into_iter()
        .filter(|&p| {
            let children = case.processes.all[p]
                .pid
                .and_then(|pid| case.processes.children.get(&(case.processes.all[p].host, pid)));
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
    let named = |x: &&Server| stem.len() >= 3 && case.snaps[x.snap].name.starts_with(stem);
    let here = |x: &&Server| case.processes.all[case.processes.of_snap[x.snap]].host == process.host;
    let mut handlers: Vec<&Server> = servers.by_key.values().flatten().filter(here).filter(named).collect();
    if handlers.is_empty() {
        handlers = servers.by_key.values().flatten().filter(here).filter(|x| roles.contains(x.role.as_str())).collect();
    }
    // Most calls of a plugin end among the many that queue for a lock, not at the one that holds it.
    let best = handlers.into_iter().max_by_key(|x| {
        let there = &case.snaps[x.snap];
        let queues = there.waits[x.goroutine].primitive.is_exclusive_lock();
        (queues, there.goroutine(x.goroutine).minutes, std::cmp::Reverse((x.snap, x.goroutine)))
    })?;
    let there = &case.snaps[best.snap];
    let handler = there.goroutine(best.goroutine);
    let text = format!("{} calls {}, whose handlers are stuck", process.label(), there.name);
    let evidence = vec![describe::frame_evidence(there, "rpc", text, handler.line)];
    Some((Key::Goroutine(best.snap, best.goroutine), Link { why: "rpc", trust: Trust::Likely, evidence }))
}
