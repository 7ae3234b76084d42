//! holdup-analysis: evidence in, diagnosis out. Pure functions: no files, no clock.
//!
//! The way of an incident: [`snap`] prepares each snapshot (functions, waits, groups), [`locks`] says which waits are
//! for the same object, [`holders`] who holds it, [`links`] where a wait goes on in another process or the kernel,
//! [`graph`] joins that, [`rootcause`] finds where it ends, [`verdict`] says it.

mod case;
pub mod compare;
mod describe;
pub mod diagnosis;
mod functions;
mod graph;
mod groups;
mod holders;
mod hosts;
mod kernel;
mod links;
mod locks;
mod missing;
mod native;
mod output;
mod peers;
mod processes;
mod rootcause;
pub mod rules;
mod snap;
mod subjects;
mod timeline;
mod verdict;
mod waits;

use case::Case;
pub use compare::compare;
use diagnosis::Diagnosis;
use graph::WaitGraph;
use holdup_parsers::evidence::Evidence;
use kernel::KernelRules;
use rules::Rules;

/// What the caller decides.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Version of the program, for `tool.version`.
    pub version: String,
}

/// Diagnoses the evidence.
pub fn analyze(evidence: &Evidence, rules: &Rules, options: &Options) -> Diagnosis {
    let kernel = KernelRules::builtin();
    let peers = peers::Peers::builtin();
    let case = Case::new(evidence, rules, &kernel, &peers);
    let graph = WaitGraph::grow(&case);
    let findings = rootcause::findings(&case, &graph);
    diagnose(&case, &graph, &findings, options)
}

/// Puts the diagnosis together.
fn diagnose(case: &Case<'_>, graph: &WaitGraph, findings: &[rootcause::Ranked], options: &Options) -> Diagnosis {
    Diagnosis {
        schema_version: "1".into(),
        tool: diagnosis::Tool { name: "holdup".into(), version: options.version.clone() },
        verdict: verdict::judge(case, findings),
        inputs: output::inputs(case),
        snapshots: output::snapshots(case),
        locks: output::locks(case),
        edges: graph.edges(case),
        timeline: timeline::timeline(case, graph, findings),
        groups: groups::groups(case),
        subjects: subjects::subjects(case, findings),
        missing: missing::missing(case, graph, findings),
        idle: groups::idle(case),
        findings: findings.iter().map(|ranked| ranked.finding.clone()).collect(),
    }
}
