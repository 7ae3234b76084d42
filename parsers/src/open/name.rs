//! What a file's name tells: pid, program, moment.

use crate::evidence::ProcessHint;
use jiff::Timestamp;
use regex::Regex;
use std::sync::OnceLock;

/// Words of file names that are no program's name.
const WORDS: [&str; 26] = [
    "goroutine",
    "goroutines",
    "stack",
    "stacks",
    "dump",
    "dumps",
    "pprof",
    "core",
    "log",
    "logs",
    "debug",
    "trace",
    "out",
    "output",
    "journal",
    "proc",
    "process",
    "pid",
    "stderr",
    "stdout",
    "sigquit",
    "sigusr1",
    "txt",
    "all",
    "full",
    "tmp",
];

/// Pid and program by the patterns that daemons and people use: `containerd.30090.stacks.log`, `kubelet-4242-goroutines.txt`,
/// `dockerd-pprof-goroutine-debug2.txt`, `pid-4242-stack.txt`.
pub(crate) fn process(path: &str) -> ProcessHint {
    static PID: OnceLock<Option<Regex>> = OnceLock::new();
    let name = file_name(path);
    let mut hint = ProcessHint::default();
    let pattern = r"(?i)^(?:[a-z0-9_]+[.-])*?([a-z][a-z0-9_+-]*?)[._-](?:pid[._-]?)?(\d{2,8})[._-](?:[a-z0-9_]+[._-])*?(?:stacks?|goroutines?|sigquit|sigabrt|dump|pprof)\b";
    let pid = PID.get_or_init(|| Regex::new(pattern).ok());
    if let Some(found) = pid.as_ref().and_then(|re| re.captures(name)) {
        hint.pid = found.get(2).and_then(|pid| pid.as_str().parse().ok());
        hint.name = found.get(1).map(|name| name.as_str()).filter(|name| is_program(name)).map(String::from);
    }
    if hint.name.is_none() && hint.pid.is_none() {
        hint.name = leading_program(name);
    }
    hint
}

/// `dockerd` of `dockerd-pprof-goroutine-debug2.txt`: a first word before one that speaks of dumps.
fn leading_program(name: &str) -> Option<String> {
    static NAMED: OnceLock<Option<Regex>> = OnceLock::new();
    let pattern = r"(?i)^([a-z][a-z0-9_]*(?:-[a-z]+)??)[._-](?:pprof|goroutines?|stacks?|sigquit|sigabrt)\b";
    let named = NAMED.get_or_init(|| Regex::new(pattern).ok());
    let found = named.as_ref()?.captures(name)?.get(1)?.as_str();
    is_program(found).then(|| found.to_string())
}

fn is_program(word: &str) -> bool {
    !word.split('-').any(|part| WORDS.contains(&part.to_ascii_lowercase().as_str()))
}

/// The moment in a name such as `goroutine-stacks-2026-11-29T122007Z.log`; `None` if it tells no zone.
pub(crate) fn moment(path: &str) -> Option<Timestamp> {
    static STAMP: OnceLock<Option<Regex>> = OnceLock::new();
    let pattern = r"(\d{4})-?(\d{2})-?(\d{2})[T_-](\d{2})[:_-]?(\d{2})[:_-]?(\d{2})(?:[.,]\d+)?(Z|[+-]\d{2}:?\d{2})";
    let stamp = STAMP.get_or_init(|| Regex::new(pattern).ok());
    let found = stamp.as_ref()?.captures(file_name(path))?;
    let part = |index: usize| found.get(index).map_or("", |m| m.as_str());
    let zone = match part(7) {
        "Z" => "Z".to_string(),
        zone if zone.len() == 5 => format!("{}:{}", &zone[..3], &zone[3..]),
        zone => zone.to_string(),
    };
    let text = format!("{}-{}-{}T{}:{}:{}{zone}", part(1), part(2), part(3), part(4), part(5), part(6));
    text.parse().ok()
}

/// The last part of a path, of an archive's member too.
fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pids_programs_and_moments() {
        let told = |path: &str| {
            let hint = process(path);
            (hint.name, hint.pid)
        };
        assert_eq!(told("a/containerd.30090.stacks.log"), (Some("containerd".into()), Some(30090)));
        assert_eq!(told("x.tar.gz!/run/kubelet-4242-goroutines.txt"), (Some("kubelet".into()), Some(4242)));
        assert_eq!(told("containerd-shim-runc-v2.77.stacks.log").1, Some(77));
        assert_eq!(told("dockerd-pprof-goroutine-debug2.txt"), (Some("dockerd".into()), None));
        assert_eq!(told("goroutine-stacks-2026-11-29T122007Z.log"), (None, None));
        assert_eq!(told("dump.txt"), (None, None));
        let at = |path: &str| moment(path).map(|t| t.to_string());
        assert_eq!(at("goroutine-stacks-2026-11-29T122007Z.log"), Some("2026-11-29T12:20:07Z".into()));
        assert_eq!(at("goroutine-stacks-2026-11-29T202007+0800.log"), Some("2026-11-29T12:20:07Z".into()));
        assert_eq!(at("kubelet-20261129-122007.log"), None);
    }
}
