//! The samples of `corpus/cores`, and the runtime's own text taken apart into blocks.

use holdup_parsers::ReadOptions;
use holdup_parsers::core::{self, CoreFile, go::Level};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A folder of `corpus/cores`.
pub struct Sample {
    pub name: String,
    pub folder: PathBuf,
}

impl Sample {
    /// All samples, sorted by name.
    pub fn all() -> Vec<Sample> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/cores");
        let mut samples: Vec<Sample> = std::fs::read_dir(&root)
            .expect("corpus/cores")
            .map(|entry| entry.expect("an entry").path())
            .filter(|folder| folder.join("core.zst").exists())
            .map(|folder| Sample {
                name: folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                folder,
            })
            .collect();
        samples.sort_by(|a, b| a.name.cmp(&b.name));
        assert!(samples.len() >= 12, "samples are missing from {}", root.display());
        samples
    }

    pub fn named(name: &str) -> Sample {
        Sample::all().into_iter().find(|sample| sample.name == name).expect(name)
    }

    pub fn core(&self) -> PathBuf {
        self.folder.join("core.zst")
    }

    pub fn exe(&self) -> PathBuf {
        self.folder.join("exe.zst")
    }

    /// Opens the core with its executable.
    pub fn open(&self) -> CoreFile {
        let options = ReadOptions { exe: vec![self.exe()], ..ReadOptions::default() };
        core::open(&self.core(), &options).expect("a core")
    }

    /// The unpacked core.
    pub fn core_bytes(&self) -> Vec<u8> {
        unpack(&self.core())
    }

    /// The runtime's own text in a form, if the sample has it.
    pub fn text(&self, level: Level) -> Option<String> {
        let name = match level {
            Level::Crash => "dump.txt.zst",
            Level::Stack => "stack.txt.zst",
        };
        let path = self.folder.join(name);
        path.exists().then(|| String::from_utf8_lossy(&unpack(&path)).into_owned())
    }
}

pub fn unpack(path: &Path) -> Vec<u8> {
    zstd::decode_all(std::fs::File::open(path).expect("a sample")).expect("zstd")
}

/// What a core gives in a form.
pub fn dump(core: &CoreFile, level: Level) -> String {
    let mut out = Vec::new();
    core.dump(level, &mut out).expect("a Go process");
    String::from_utf8(out).expect("UTF-8")
}

/// Blocks by goroutine id, each line as it is but for `, N minutes`. A goroutine that a crash dump repeats, goroutine 0,
/// and those whose stack the runtime could not show are left out.
pub fn blocks(text: &str) -> BTreeMap<u64, Vec<String>> {
    let mut found: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    let mut current: Option<u64> = None;
    for line in text.lines() {
        if let Some(id) = header(line) {
            current = (id != 0 && !found.contains_key(&id)).then_some(id);
            if current.is_some() {
                found.insert(id, vec![without_minutes(line)]);
            }
        } else if line.trim().is_empty() || line.starts_with("-----") || is_register(line) {
            current = None;
        } else if let Some(block) = current.and_then(|id| found.get_mut(&id)) {
            block.push(line.to_owned());
        }
    }
    found.retain(|_, block| !block.iter().any(|line| line.contains("stack unavailable")));
    found
}

fn header(line: &str) -> Option<u64> {
    let rest = line.strip_prefix("goroutine ")?;
    let end = rest.find(' ')?;
    rest.contains('[').then(|| rest[..end].parse().ok())?
}

/// The first line of a register dump.
fn is_register(line: &str) -> bool {
    let mut words = line.split_whitespace();
    matches!(words.next(), Some("rax" | "r0")) && words.next().is_some_and(|word| word.starts_with("0x"))
}

fn without_minutes(line: &str) -> String {
    let Some(end) = line.find(" minutes") else { return line.to_owned() };
    let start = line[..end].rfind(", ").unwrap_or(end);
    format!("{}{}", &line[..start], &line[end + " minutes".len()..])
}
