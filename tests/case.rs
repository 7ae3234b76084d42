//! Cases of a corpus, and the answer that the program gives to each.

use holdup_analysis::diagnosis::Diagnosis;
use holdup_analysis::rules::Rules;
use holdup_parsers::ReadOptions;
use holdup_parsers::evidence::{Evidence, InputKind};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The checkout.
pub fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in the checkout")
}

/// The corpus that comes with the checkout.
pub fn corpus() -> PathBuf {
    checkout().join("corpus")
}

/// The larger corpus, which is not ours to copy: `HOLDUP_SHARED_CORPUS`, or `../shared/corpus` beside the checkout.
pub fn shared_corpus() -> Option<PathBuf> {
    let named = std::env::var_os("HOLDUP_SHARED_CORPUS").map(PathBuf::from);
    let beside = checkout().parent().map(|parent| parent.join("shared/corpus"));
    named.or(beside).filter(|folder| folder.is_dir())
}

/// Reads a JSON file.
pub fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Folders under `top` (itself included) that hold a file `name`, in order.
pub fn folders_with(top: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![top.to_owned()];
    while let Some(folder) = open.pop() {
        if folder.join(name).is_file() {
            found.push(folder.clone());
        }
        open.extend(entries(&folder).into_iter().filter(|path| path.is_dir()));
    }
    found.sort();
    found
}

/// What lies in a folder, in order of names.
pub fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(listing) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = listing.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

/// A folder of evidence with an `expect.json` beside it.
pub struct Case {
    /// The folder's name.
    pub name: String,
    /// The folder.
    pub folder: PathBuf,
    /// What must be true.
    pub expect: Value,
}

impl Case {
    /// All cases under a folder. Those whose arguments name a variable that is not set are left out, and said.
    pub fn all(top: &Path) -> Vec<Case> {
        let mut cases = Vec::new();
        for folder in folders_with(top, "expect.json") {
            let expect = json(&folder.join("expect.json"));
            let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
            if expect["args"].to_string().contains('$') {
                println!("{name}: skipped, it needs {}", expect["args"]);
                continue;
            }
            cases.push(Case { name, folder, expect });
        }
        cases
    }

    /// Where its evidence lies: what `inputs` says, else all files but truths, goldens and pages about them.
    pub fn inputs(&self) -> Vec<PathBuf> {
        if let Some(named) = self.expect["inputs"].as_array() {
            return named.iter().filter_map(|name| Some(self.folder.join(name.as_str()?))).collect();
        }
        let evidence = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            !(name.ends_with(".json") || name.ends_with(".md") || name == crate::golden::TEXT)
        };
        entries(&self.folder).into_iter().filter(evidence).collect()
    }

    /// Reads and analyzes the case as `holdup analyze` does in its folder, so that no path tells of this machine.
    pub fn analyze(&self, rules: &Rules) -> Answer {
        let names: Vec<&str> = self.expect["args"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let exe = names.chunks(2).filter(|pair| pair[0] == "--exe").map(|pair| self.folder.join(pair[1])).collect();
        Answer::of(&self.folder, &self.inputs(), &ReadOptions { exe, ..ReadOptions::default() }, rules)
    }
}

/// What the program says of some evidence.
pub struct Answer {
    /// What was read.
    pub evidence: Evidence,
    /// What was inferred.
    pub diagnosis: Diagnosis,
    /// The diagnosis as others see it, for the contract is JSON.
    pub json: Value,
    /// The exit code of `holdup analyze`.
    pub exit: i64,
}

impl Answer {
    /// Reads and analyzes; inputs are named as seen from `folder`.
    pub fn of(folder: &Path, inputs: &[PathBuf], options: &ReadOptions, rules: &Rules) -> Answer {
        let (mut evidence, unreadable) = holdup_parsers::read(inputs, options);
        let here = format!("{}/", folder.display());
        for input in &mut evidence.inputs {
            if let Some(inside) = input.path.strip_prefix(&here) {
                input.path = inside.to_owned();
            }
        }
        let version = holdup_analysis::Options { version: "0".into() };
        let diagnosis = holdup_analysis::analyze(&evidence, rules, &version);
        let nothing = |kind: &InputKind| matches!(kind, InputKind::Other | InputKind::Executable);
        let exit = match () {
            () if !unreadable.is_empty() => 2,
            () if evidence.snapshots.is_empty() && evidence.inputs.iter().all(|i| nothing(&i.kind)) => 3,
            () => 0,
        };
        let json = serde_json::to_value(&diagnosis).expect("a diagnosis is JSON");
        Answer { evidence, diagnosis, json, exit }
    }
}
