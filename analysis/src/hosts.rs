//! Which files are of which node. Several nodes in one folder stay several: no chain leads from one to the other.
//!
//! Files are of one node unless the evidence contradicts that: two folders (or archives) whose process lists have the
//! same pids for different programs, or the same daemon under different pids, are two nodes.

use crate::processes::program;
use holdup_parsers::evidence::{Evidence, ProcessRow};
use std::collections::BTreeMap;

/// Daemons of which a node runs one.
const SINGLE: &[&str] = &["containerd", "crio", "dockerd", "kubelet"];
/// Pids with different programs that two lists of one node may have: those that ended in between.
const REUSED: usize = 3;

/// The node of each input.
#[derive(Debug, Default)]
pub struct Hosts {
    of_input: Vec<usize>,
}

impl Hosts {
    /// Tells the nodes apart by their process lists.
    pub fn of(evidence: &Evidence) -> Self {
        let folders: Vec<&str> = evidence.inputs.iter().map(|input| folder(&input.path)).collect();
        let mut rows: BTreeMap<&str, Vec<&ProcessRow>> = BTreeMap::new();
        for row in &evidence.node.processes {
            let place = row.place.and_then(|place| folders.get(place.input as usize));
            if let Some(folder) = place {
                rows.entry(folder).or_default().push(row);
            }
        }
        // Each node by the folders that its lists came from.
        let mut nodes: Vec<Vec<&str>> = Vec::new();
        for (folder, own) in &rows {
            let same = |node: &&mut Vec<&str>| node.iter().all(|other| !contradict(own, &rows[other]));
            match nodes.iter_mut().find(same) {
                Some(node) => node.push(folder),
                None => nodes.push(vec![folder]),
            }
        }
        let node_of = |folder: &&str| {
            let shared = |node: &Vec<&str>| node.iter().map(|other| common(folder, other)).max();
            (0..nodes.len()).max_by_key(|&n| (shared(&nodes[n]), std::cmp::Reverse(n))).unwrap_or(0)
        };
        Hosts { of_input: folders.iter().map(node_of).collect() }
    }

    /// The node of an input.
    pub fn of_input(&self, input: u32) -> usize {
        self.of_input.get(input as usize).copied().unwrap_or(0)
    }
}

/// The folder or archive that a file lies in.
fn folder(path: &str) -> &str {
    let archive = path.split_once("!/").map(|(archive, _)| archive);
    archive.unwrap_or_else(|| path.rsplit_once(['/', '\\']).map_or("", |(folder, _)| folder))
}

/// Leading bytes that two folders share; equal ones share most.
fn common(a: &str, b: &str) -> usize {
    if a == b { usize::MAX } else { a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count() }
}

fn contradict(a: &[&ProcessRow], b: &[&ProcessRow]) -> bool {
    let programs =
        |rows: &[&ProcessRow]| -> BTreeMap<u32, String> { rows.iter().map(|r| (r.pid, program(r))).collect() };
    let (a, b) = (programs(a), programs(b));
    let both: Vec<_> = a.iter().filter_map(|(pid, name)| Some((name, b.get(pid)?))).collect();
    let different = both.iter().filter(|(x, y)| x != y).count();
    let mostly = different > REUSED && different * 2 > both.len();
    let elsewhere = |name: &str| {
        let pids = |rows: &BTreeMap<u32, String>| -> Vec<u32> {
            rows.iter().filter(|(_, program)| program.as_str() == name).map(|(pid, _)| *pid).collect()
        };
        let (x, y) = (pids(&a), pids(&b));
        !x.is_empty() && !y.is_empty() && !x.iter().any(|pid| y.contains(pid))
    };
    // A daemon that was restarted between two lists of one node has a new pid too; then most others kept theirs.
    mostly || SINGLE.iter().any(|name| elsewhere(name)) && both.len() < 2 * a.len().min(b.len()) / 3
}
