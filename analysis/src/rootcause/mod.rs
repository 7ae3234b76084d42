//! From the graph to findings: where every wait ends, how many end there, and which of those ends are a cause.

mod basin;
mod circle;
mod crash;
mod leak;
mod remedy;
mod sink;

pub use basin::{Basins, process_of};

use crate::case::Case;
use crate::diagnosis::Finding;
use crate::graph::WaitGraph;

/// A finding with what decides its rank and the verdict.
#[derive(Debug, Clone, Default)]
pub struct Ranked {
    /// The finding.
    pub finding: Finding,
    /// Higher is likelier the root.
    pub score: i64,
    /// The same process at another moment shows that it moves.
    pub moving: bool,
    /// Least age of the stuck chain in minutes, where known.
    pub minutes: Option<u32>,
    /// Nodes of the chain, for the timeline and the subjects.
    pub path: Vec<crate::graph::Key>,
}

/// All findings, the likeliest root cause first.
pub fn findings(case: &Case<'_>, graph: &WaitGraph) -> Vec<Ranked> {
    let circles = graph.circles();
    let basins = Basins::of(case, graph, &circles);
    let mut found: Vec<Ranked> = Vec::new();
    found.extend(circle::findings(case, graph, &circles, &basins));
    found.extend(sink::findings(case, graph, &basins));
    found.extend(crash::findings(case));
    found.extend(leak::findings(case));
    found.sort_by(|a, b| b.score.cmp(&a.score).then_with(|| a.finding.title.cmp(&b.finding.title)));
    for (n, ranked) in found.iter_mut().enumerate() {
        ranked.finding.rank = n as u32 + 1;
    }
    found
}
