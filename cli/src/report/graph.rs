//! The wait-for graph as it is drawn: what leads to the findings, with alike waiters folded into one box.

use super::view::{Key, View, anchor, goroutine_of, key};
use super::words::{fill, number};
use holdup_analysis::diagnosis::{Finding, Node, NodeId, Trust};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Boxes that are drawn at most; the least telling are left out and counted.
pub const MOST_BOXES: usize = 300;
/// Rounds of telling nodes apart by their neighbours.
const ROUNDS: usize = 12;

/// What is drawn.
#[derive(Debug, Default)]
pub struct Graph {
    /// Boxes; those of the first finding's chain come first, in its order.
    pub boxes: Vec<Box>,
    /// Arrows from who waits to what is waited for.
    pub arrows: Vec<Arrow>,
    /// Boxes that were left out.
    pub left_out: usize,
}

/// A node, or several that wait alike.
#[derive(Debug, Clone, Default)]
pub struct Box {
    /// `terwayd 14117`.
    pub process: String,
    /// `g34`, `1,047 g`.
    pub id: String,
    /// What it does.
    pub what: String,
    /// `8 min`.
    pub age: String,
    /// `goroutine`, `lock`, `process`, `thread`, `resource`.
    pub kind: String,
    /// How many nodes it stands for.
    pub count: u64,
    /// A chain ends here.
    pub root: bool,
    /// The chain of the first finding starts here.
    pub symptom: bool,
    /// Part of a cycle.
    pub cycle: bool,
    /// On the chain of the first finding.
    pub chain: bool,
    /// Where the HTML has more.
    pub anchor: Option<String>,
}

/// One waits for the other.
#[derive(Debug, Clone)]
pub struct Arrow {
    /// Index of the box that waits.
    pub from: usize,
    /// Index of what it waits for.
    pub to: usize,
    /// `lock`, `rpc` …
    pub why: String,
    /// How sure; of several, the least.
    pub trust: Trust,
    /// Closes a cycle or lies on one.
    pub cycle: bool,
    /// On the chain of the first finding.
    pub chain: bool,
}

/// Of which findings.
#[derive(Debug, Clone, Copy)]
pub enum Scope<'a> {
    /// All, or every edge where there is no finding.
    All,
    /// One.
    Finding(&'a Finding),
}

struct Raw<'a> {
    nodes: Vec<Member<'a>>,
    index: HashMap<Key<'a>, usize>,
    edges: Vec<(usize, usize, &'a str, Trust)>,
}

#[derive(Clone, Copy)]
struct Member<'a> {
    node: &'a Node,
    /// Waiters that have no node of their own.
    crowd: u64,
}

impl<'a> Raw<'a> {
    fn add(&mut self, node: &'a Node) -> usize {
        match self.index.entry(key(node)) {
            Entry::Occupied(found) => *found.get(),
            Entry::Vacant(free) => {
                self.nodes.push(Member { node, crowd: 0 });
                *free.insert(self.nodes.len() - 1)
            }
        }
    }
}

/// Builds the graph of a scope.
pub fn build<'a>(view: &View<'a>, scope: Scope<'a>) -> Graph {
    let diagnosis = view.diagnosis();
    let findings: Vec<&'a Finding> = match scope {
        Scope::Finding(finding) => vec![finding],
        Scope::All => diagnosis.findings.iter().collect(),
    };
    let mut raw = Raw { nodes: Vec::new(), index: HashMap::new(), edges: Vec::new() };
    let mut targets: Vec<usize> = Vec::new();
    for finding in &findings {
        targets.extend(finding.chain.iter().map(|node| raw.add(node)));
        targets.push(raw.add(&finding.root.node));
    }
    let mut known: HashSet<(usize, usize)> = HashSet::new();
    for edge in &diagnosis.edges {
        let (from, to) = (raw.add(&edge.from), raw.add(&edge.to));
        if known.insert((from, to)) {
            raw.edges.push((from, to, edge.why.as_str(), edge.trust));
        }
    }
    for finding in &findings {
        for pair in finding.chain.windows(2) {
            let [a, b] = pair else { continue };
            let (from, to) = (raw.add(a), raw.add(b));
            if known.insert((from, to)) {
                let held = view.lock(a).and_then(|lock| lock.holder.as_ref()).map(|h| h.trust);
                let why = if a.kind == "lock" || b.kind == "lock" { "lock" } else { "" };
                raw.edges.push((from, to, why, held.unwrap_or(finding.trust)));
            }
        }
    }
    if findings.is_empty() {
        targets = (0..raw.nodes.len()).collect();
    }
    let kept = reaching(&raw, &targets);
    add_crowds(view, &mut raw, &kept);
    let kept: Vec<usize> = kept.into_iter().chain(raw.index.len()..raw.nodes.len()).collect();
    let pinned: HashSet<usize> = targets.iter().copied().collect();
    fold(view, &raw, &kept, &pinned, findings.first().copied())
}

/// Everything that leads to `targets`, these first.
fn reaching(raw: &Raw<'_>, targets: &[usize]) -> Vec<usize> {
    let mut into: Vec<Vec<usize>> = vec![Vec::new(); raw.nodes.len()];
    for &(from, to, ..) in &raw.edges {
        into[to].push(from);
    }
    let mut seen = vec![false; raw.nodes.len()];
    let mut order = Vec::new();
    for &target in targets {
        if !std::mem::replace(&mut seen[target], true) {
            order.push(target);
        }
    }
    let mut next = 0;
    while let Some(&node) = order.get(next) {
        for &from in &into[node] {
            if !std::mem::replace(&mut seen[from], true) {
                order.push(from);
            }
        }
        next += 1;
    }
    order
}

/// Waiters of a lock that no edge tells of stand behind it as one node.
fn add_crowds<'a>(view: &View<'a>, raw: &mut Raw<'a>, kept: &[usize]) {
    let mut told: HashMap<usize, u64> = HashMap::new();
    for &(from, to, ..) in &raw.edges {
        if raw.nodes[from].node.kind == "goroutine" {
            *told.entry(to).or_default() += 1;
        }
    }
    for &index in kept {
        let node = raw.nodes[index].node;
        let Some(lock) = view.lock(node) else { continue };
        let missing = lock.waiter_count.saturating_sub(told.get(&index).copied().unwrap_or(0));
        if missing > 0 {
            raw.nodes.push(Member { node, crowd: missing });
            raw.edges.push((raw.nodes.len() - 1, index, "lock", Trust::Proven));
        }
    }
}

fn fold<'a>(
    view: &View<'a>,
    raw: &Raw<'a>,
    kept: &[usize],
    pinned: &HashSet<usize>,
    first: Option<&'a Finding>,
) -> Graph {
    let mut is_kept = vec![false; raw.nodes.len()];
    for &node in kept {
        is_kept[node] = true;
    }
    let edges: Vec<_> = raw.edges.iter().filter(|(from, to, ..)| is_kept[*from] && is_kept[*to]).collect();
    let pairs: Vec<(usize, usize)> = edges.iter().map(|e| (e.0, e.1)).collect();
    let cycles = in_cycles(raw.nodes.len(), &pairs);
    let class = classes(raw, kept, &edges, pinned, &cycles);

    // Members of each class, in the order in which the classes were first met.
    let mut slot: HashMap<u64, usize> = HashMap::new();
    let mut members: Vec<Vec<usize>> = Vec::new();
    for &node in kept {
        let at = *slot.entry(class[node]).or_insert_with(|| {
            members.push(Vec::new());
            members.len() - 1
        });
        members[at].push(node);
    }
    // The least telling boxes go first: not pinned, few members.
    let mut order: Vec<usize> = (0..members.len()).collect();
    let left_out = members.len().saturating_sub(MOST_BOXES);
    if left_out > 0 {
        let weight = |&c: &usize| {
            let important = members[c].iter().any(|m| pinned.contains(m));
            (!important, std::cmp::Reverse(members[c].iter().map(|&m| size(raw, m)).sum::<u64>()), c)
        };
        order.sort_by_key(weight);
        order.truncate(MOST_BOXES);
        order.sort_unstable();
    }
    let position: HashMap<usize, usize> = order.iter().enumerate().map(|(new, &old)| (old, new)).collect();
    let chain: HashSet<Key<'_>> = first.iter().flat_map(|f| &f.chain).map(key).collect();
    let symptom = first.and_then(|f| f.chain.first()).map(key);
    let roots: HashSet<Key<'_>> = match first {
        Some(_) => view.diagnosis().findings.iter().map(|f| key(&f.root.node)).collect(),
        None => HashSet::new(),
    };
    let mut graph = Graph { left_out, ..Graph::default() };
    for &at in &order {
        let mut drawn = draw(view, raw, &members[at]);
        let nodes = || members[at].iter().filter(|&&m| raw.nodes[m].crowd == 0).map(|&m| key(raw.nodes[m].node));
        drawn.root = nodes().any(|k| roots.contains(&k)) && members[at].iter().any(|m| pinned.contains(m));
        drawn.symptom = nodes().any(|k| Some(k) == symptom) && chain.len() > 1;
        drawn.chain = nodes().any(|k| chain.contains(&k));
        drawn.cycle = members[at].iter().any(|&m| cycles[m].is_some());
        graph.boxes.push(drawn);
    }
    let mut arrows: BTreeMap<(usize, usize), Arrow> = BTreeMap::new();
    let links: HashSet<(Key<'_>, Key<'_>)> =
        first.iter().flat_map(|f| f.chain.windows(2)).map(|pair| (key(&pair[0]), key(&pair[1]))).collect();
    for (from, to, why, trust) in edges {
        let place = |node: usize| slot.get(&class[node]).and_then(|at| position.get(at)).copied();
        let (Some(a), Some(b)) = (place(*from), place(*to)) else { continue };
        if a == b && cycles[*from].is_none() {
            continue;
        }
        let cycle = cycles[*from].is_some() && cycles[*from] == cycles[*to];
        let real = raw.nodes[*from].crowd == 0;
        let chain = real && links.contains(&(key(raw.nodes[*from].node), key(raw.nodes[*to].node)));
        let arrow = arrows.entry((a, b)).or_insert_with(|| Arrow {
            from: a,
            to: b,
            why: (*why).to_owned(),
            trust: *trust,
            cycle: false,
            chain: false,
        });
        arrow.trust = arrow.trust.min(*trust);
        arrow.cycle |= cycle;
        arrow.chain |= chain;
    }
    graph.arrows = arrows.into_values().collect();
    graph
}

/// How many goroutines a node stands for.
fn size(raw: &Raw<'_>, node: usize) -> u64 {
    raw.nodes[node].crowd.max(1)
}

/// Nodes are alike when the same kinds of nodes wait for them and they wait for the same nodes: classes are split by
/// their neighbours' classes until nothing changes. What a finding names stands alone.
fn classes(
    raw: &Raw<'_>,
    kept: &[usize],
    edges: &[&(usize, usize, &str, Trust)],
    pinned: &HashSet<usize>,
    cycles: &[Option<usize>],
) -> Vec<u64> {
    let hash = |value: &dyn Fn(&mut DefaultHasher)| {
        let mut hasher = DefaultHasher::new();
        value(&mut hasher);
        hasher.finish()
    };
    let mut class = vec![0u64; raw.nodes.len()];
    for &node in kept {
        let of = raw.nodes[node].node;
        let alone = pinned.contains(&node) || of.kind == "lock" || cycles[node].is_some();
        class[node] = hash(&|h| {
            (of.kind.as_str(), of.snapshot.as_deref(), raw.nodes[node].crowd > 0).hash(h);
            if alone {
                node.hash(h);
            } else if of.kind != "goroutine" {
                of.label.split(' ').next().hash(h);
            }
        });
    }
    // Locks are told apart until their waiters and holders have made the rest alike; many locks with one waiter each
    // would fill the page, so those that are not named may fold too.
    for round in 0..2 {
        if round == 1 {
            if distinct(kept, &class) <= MOST_BOXES / 4 {
                break;
            }
            for &node in kept {
                let of = raw.nodes[node].node;
                if of.kind == "lock" && !pinned.contains(&node) && cycles[node].is_none() {
                    class[node] = hash(&|h| ("lock", of.snapshot.as_deref()).hash(h));
                }
            }
            for &node in kept {
                let of = raw.nodes[node].node;
                if of.kind == "goroutine" && !pinned.contains(&node) && cycles[node].is_none() {
                    class[node] = hash(&|h| ("goroutine", of.snapshot.as_deref(), raw.nodes[node].crowd > 0).hash(h));
                }
            }
        }
        let mut count = distinct(kept, &class);
        for _ in 0..ROUNDS {
            let mut around: Vec<Vec<u64>> = vec![Vec::new(); raw.nodes.len()];
            for (from, to, why, _) in edges {
                around[*from].push(hash(&|h| ("to", class[*to], *why).hash(h)));
                around[*to].push(hash(&|h| ("from", class[*from], *why).hash(h)));
            }
            let mut next = class.clone();
            for &node in kept {
                around[node].sort_unstable();
                around[node].dedup();
                next[node] = hash(&|h| (class[node], &around[node]).hash(h));
            }
            class = next;
            let now = distinct(kept, &class);
            if now == count {
                break;
            }
            count = now;
        }
    }
    class
}

fn distinct(kept: &[usize], class: &[u64]) -> usize {
    kept.iter().map(|&node| class[node]).collect::<HashSet<_>>().len()
}

/// For each node the cycle (strongly connected component of more than one node, or a self-loop) that it is part of.
fn in_cycles(count: usize, edges: &[(usize, usize)]) -> Vec<Option<usize>> {
    let mut graph = petgraph::graph::DiGraph::<(), (), u32>::with_capacity(count, edges.len());
    for _ in 0..count {
        graph.add_node(());
    }
    let mut selfish = HashSet::new();
    for &(from, to) in edges {
        if from == to {
            selfish.insert(from);
        }
        graph.add_edge(petgraph::graph::NodeIndex::new(from), petgraph::graph::NodeIndex::new(to), ());
    }
    let mut cycle = vec![None; count];
    for (number, component) in petgraph::algo::tarjan_scc(&graph).into_iter().enumerate() {
        if component.len() > 1 || component.iter().any(|n| selfish.contains(&n.index())) {
            for node in component {
                cycle[node.index()] = Some(number);
            }
        }
    }
    cycle
}

fn draw(view: &View<'_>, raw: &Raw<'_>, members: &[usize]) -> Box {
    let Some(&one) = members.first() else { return Box::default() };
    let Member { node, crowd } = raw.nodes[one];
    let total: u64 = members.iter().map(|&m| size(raw, m)).sum();
    let row = view.name(node);
    let mut drawn = Box {
        process: row.process,
        id: row.id,
        what: row.what,
        age: row.age,
        kind: node.kind.clone(),
        count: total,
        anchor: anchor(node),
        ..Box::default()
    };
    if crowd > 0 {
        drawn.kind = "goroutine".to_owned();
        drawn.id = view.goroutines(total);
        drawn.what = String::new();
        drawn.age = view.lock(node).map(|lock| view.lock_ages(lock)).unwrap_or_default();
        return drawn;
    }
    if members.len() > 1 {
        drawn.id = match node.kind.as_str() {
            "goroutine" => view.goroutines(total),
            kind => fill("{n} × {kind}", &[("n", &number(total)), ("kind", kind)]),
        };
        let same = members.iter().all(|&m| view.name(raw.nodes[m].node).what == drawn.what);
        if !same {
            drawn.what.clear();
        }
        if node.kind == "process" {
            drawn.process = node.label.split(' ').next().unwrap_or("").to_owned();
        }
        let ages = || members.iter().filter_map(|&m| view.age(goroutine_of(raw.nodes[m].node)?));
        drawn.age = view.range(ages().min(), ages().max());
        if drawn.age.is_empty() {
            drawn.age = crowd_age(view, raw, members);
        }
    }
    drawn
}

/// Ages of a folded crowd, from the lock that all of it waits for.
fn crowd_age(view: &View<'_>, raw: &Raw<'_>, members: &[usize]) -> String {
    let Some(&one) = members.first() else { return String::new() };
    let lock = raw.edges.iter().find(|e| e.0 == one).and_then(|e| view.lock(raw.nodes[e.1].node));
    let Some(lock) = lock else { return String::new() };
    let ids: HashSet<&NodeId> = members.iter().map(|&m| &raw.nodes[m].node.id).collect();
    let waiters = || lock.waiters.iter().filter(|w| w.goroutine.is_some_and(|g| ids.contains(&NodeId::Number(g))));
    view.range(waiters().map(|w| w.minutes).min().flatten(), waiters().filter_map(|w| w.minutes).max())
}
