//! The wait-for graph: who waits for whom, across processes, as far as the evidence goes.
//!
//! It is grown from the goroutines that are certainly stuck or in somebody's way: every node is expanded once, so the
//! cost is linear in what hangs, not in what idles.

use crate::case::Case;
use crate::diagnosis::{Edge, Evidence, Node, NodeId, Trust};
use crate::links;
use petgraph::algo::{has_path_connecting, tarjan_scc};
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;
use rustc_hash::FxHashMap;

/// A node, by where it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Key {
    /// Snapshot, goroutine.
    Goroutine(usize, usize),
    /// Snapshot, lock.
    Lock(usize, usize),
    /// Index into `Processes::all`.
    Process(usize),
    /// Index into `NodeEvidence::threads`.
    Thread(usize),
    /// Index into `NativeLocks::groups`.
    NativeLock(usize),
    /// Index into [`WaitGraph::resources`].
    Resource(usize),
}

/// Something outside all processes: a mount, a bus, a kernel facility.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Resource {
    /// `netlink`, `dbus`, `fuse`, `nfs`, `disk` …
    pub kind: String,
    /// For a person: `FUSE filesystem /mnt/nas`.
    pub label: String,
    /// What to do about it.
    pub remedy: Option<String>,
    /// Node that it is part of.
    pub host: usize,
}

/// Why one waits for the other.
#[derive(Debug, Clone)]
pub struct Link {
    /// The contract's word.
    pub why: &'static str,
    /// How sure.
    pub trust: Trust,
    /// Why.
    pub evidence: Vec<Evidence>,
}

/// The graph.
#[derive(Default)]
pub struct WaitGraph {
    graph: DiGraph<Key, Link>,
    index: FxHashMap<Key, NodeIndex>,
    /// The resources, by number.
    pub resources: Vec<Resource>,
}

impl WaitGraph {
    /// Grows the graph from every goroutine that waits for a lock or is stuck by itself.
    pub fn grow(case: &Case<'_>) -> Self {
        let mut graph = WaitGraph::default();
        let context = links::Context::new(case);
        let mut work: Vec<Key> = Vec::new();
        for snap in case.primaries() {
            work.extend(links::starts(case, snap).into_iter().map(|i| Key::Goroutine(snap, i)));
        }
        work.extend(links::stuck_threads(case));
        work.reverse();
        while let Some(key) = work.pop() {
            if graph.index.contains_key(&key) && graph.expanded(key) {
                continue;
            }
            graph.node(key);
            for (to, link) in links::expand(case, &context, key, &mut graph.resources) {
                if graph.would_close_a_guess(key, to, &link) {
                    continue;
                }
                let fresh = !graph.index.contains_key(&to);
                graph.edge(key, to, link);
                if fresh {
                    work.push(to);
                }
            }
        }
        graph
    }

    /// That a process as a whole waits for another is inferred from who usually calls whom: it may lead a chain on,
    /// but a circle of such steps is no deadlock.
    fn would_close_a_guess(&self, from: Key, to: Key, link: &Link) -> bool {
        let between_processes = matches!(from, Key::Process(_)) || matches!(to, Key::Process(_));
        if !between_processes || link.trust > Trust::Likely {
            return false;
        }
        match (self.index.get(&from), self.index.get(&to)) {
            (Some(&from), Some(&to)) => has_path_connecting(&self.graph, to, from, None),
            _ => false,
        }
    }

    fn expanded(&self, key: Key) -> bool {
        self.index.get(&key).is_some_and(|&n| self.graph.edges(n).next().is_some())
    }

    fn node(&mut self, key: Key) -> NodeIndex {
        *self.index.entry(key).or_insert_with(|| self.graph.add_node(key))
    }

    fn edge(&mut self, from: Key, to: Key, link: Link) {
        let (from, to) = (self.node(from), self.node(to));
        if self.graph.find_edge(from, to).is_none() {
            self.graph.add_edge(from, to, link);
        }
    }

    /// All nodes.
    pub fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        self.graph.node_weights().copied()
    }

    /// The edges out of a node, best trusted first; among equals in the order found.
    pub fn out(&self, key: Key) -> Vec<(Key, &Link)> {
        let Some(&n) = self.index.get(&key) else { return Vec::new() };
        let mut edges: Vec<_> = self.graph.edges(n).map(|e| (e.id(), self.graph[e.target()], e.weight())).collect();
        edges.sort_by(|a, b| b.2.trust.cmp(&a.2.trust).then(a.0.cmp(&b.0)));
        edges.into_iter().map(|(_, to, link)| (to, link)).collect()
    }

    /// The edge from one node to another.
    pub fn link(&self, from: Key, to: Key) -> Option<&Link> {
        let (from, to) = (self.index.get(&from)?, self.index.get(&to)?);
        self.graph.find_edge(*from, *to).map(|e| &self.graph[e])
    }

    /// Circles: strongly connected components of more than one node, each in a stable order.
    pub fn circles(&self) -> Vec<Vec<Key>> {
        let mut circles: Vec<Vec<Key>> = tarjan_scc(&self.graph)
            .into_iter()
            .filter(|component| component.len() > 1)
            .map(|component| {
                let mut keys: Vec<Key> = component.into_iter().map(|n| self.graph[n]).collect();
                keys.sort_unstable();
                keys
            })
            .collect();
        circles.sort();
        circles
    }

    /// The edges as the contract prints them, in a stable order.
    pub fn edges(&self, case: &Case<'_>) -> Vec<Edge> {
        let mut edges: Vec<(Key, Key, &Link)> = self
            .graph
            .edge_references()
            .map(|e| (self.graph[e.source()], self.graph[e.target()], e.weight()))
            .collect();
        edges.sort_by_key(|(from, to, _)| (*from, *to));
        edges
            .into_iter()
            .map(|(from, to, link)| Edge {
                from: self.describe(case, from),
                to: self.describe(case, to),
                why: link.why.into(),
                trust: link.trust,
                evidence: link.evidence.clone(),
            })
            .collect()
    }

    /// A node as the contract prints it.
    pub fn describe(&self, case: &Case<'_>, key: Key) -> Node {
        match key {
            Key::Goroutine(snap, i) => {
                let mut node = crate::describe::goroutine_node(&case.snaps[snap], i);
                let process = &case.processes.all[case.processes.of_snap[snap]];
                node.label = node.label.replacen(&case.snaps[snap].name, &process.label(), 1);
                node
            }
            Key::Lock(snap, lock) => {
                let group = &case.locks[snap][lock];
                Node {
                    kind: "lock".into(),
                    snapshot: Some(case.snaps[snap].id.clone()),
                    id: NodeId::Name(group.id.clone()),
                    label: group.label(),
                }
            }
            Key::Process(p) => {
                let process = &case.processes.all[p];
                let snapshot = process.primary.map(|s| case.snaps[s].id.clone());
                let mut label = process.label();
                if process.role != "unknown" && process.role != process.name {
                    label = format!("{label} ({})", process.role);
                }
                let id = process.pid.map_or(NodeId::Name(process.name.clone()), |pid| NodeId::Number(u64::from(pid)));
                Node { kind: "process".into(), snapshot, id, label }
            }
            Key::Thread(t) => links::thread_node(case, t),
            Key::NativeLock(n) => crate::native::node(case, n),
            Key::Resource(r) => {
                let label = self.resources.get(r).map_or(String::new(), |r| r.label.clone());
                Node { kind: "resource".into(), snapshot: None, id: NodeId::Name(label.clone()), label }
            }
        }
    }
}
