//! holdup-analysis: evidence in, diagnosis out. Pure functions: no files, no clock.

pub mod diagnosis;
pub mod rules;

use diagnosis::Diagnosis;
use holdup_parsers::evidence::{Evidence, Severity};
use rules::Rules;

/// What the caller decides.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Version of the program, for `tool.version`.
    pub version: String,
}

/// Diagnoses the evidence. For now it only says what was read.
pub fn analyze(evidence: &Evidence, rules: &Rules, options: &Options) -> Diagnosis {
    let _ = rules;
    let mut diagnosis = Diagnosis { schema_version: "1".into(), ..Diagnosis::default() };
    diagnosis.tool = diagnosis::Tool { name: "holdup".into(), version: options.version.clone() };
    diagnosis.verdict.summary = "the evidence was read but not judged".into();
    for input in &evidence.inputs {
        let problems = input.problems.iter().map(|p| diagnosis::Problem {
            severity: match p.severity {
                Severity::Note => "note".into(),
                Severity::Warning => "warning".into(),
                Severity::Error => "error".into(),
            },
            line: p.line,
            message: p.message.clone(),
        });
        diagnosis.inputs.push(diagnosis::Input {
            path: input.path.clone(),
            kind: input.kind.as_str().into(),
            envelopes: input.envelopes.clone(),
            bytes: input.bytes,
            snapshots: Vec::new(),
            problems: problems.collect(),
        });
    }
    for (i, snapshot) in evidence.snapshots.iter().enumerate() {
        let id = format!("s{}", i + 1);
        if let Some(input) = diagnosis.inputs.get_mut(snapshot.input as usize) {
            input.snapshots.push(id.clone());
        }
        diagnosis.snapshots.push(diagnosis::Snapshot {
            id,
            input: snapshot.input as usize,
            process: diagnosis::Process {
                name: snapshot.process.name.clone(),
                role: "unknown".into(),
                pid: snapshot.process.pid,
                go_version: snapshot.process.go_version.clone(),
                build_id: snapshot.process.build_id.clone(),
            },
            taken_at: snapshot.taken_at.map(|t| t.to_string()),
            complete: snapshot.complete,
            goroutines: snapshot.goroutine_count(),
            ..diagnosis::Snapshot::default()
        });
    }
    diagnosis
}
