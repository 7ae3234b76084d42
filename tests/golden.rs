//! Goldens: how an answer looked when somebody last read and approved it.

use similar::{ChangeTag, TextDiff};
use std::fmt::Write;
use std::path::Path;

/// The text report of a case, beside its evidence.
pub const TEXT: &str = "golden.txt";
/// Its Markdown report.
pub const MARKDOWN: &str = "golden.md";

/// `HOLDUP_BLESS=1` writes what is measured instead of comparing.
pub fn blessing() -> bool {
    std::env::var_os("HOLDUP_BLESS").is_some_and(|value| !value.is_empty() && value != "0")
}

/// Compares `now` with the file, or writes it. The difference, if any, is told for a person.
pub fn check(file: &Path, now: &str) -> Result<(), String> {
    let before = std::fs::read_to_string(file).unwrap_or_default();
    if before == now {
        return Ok(());
    }
    if blessing() {
        return std::fs::write(file, now).map_err(|error| format!("{}: {error}", file.display()));
    }
    let mut told = format!("{} (- as approved, + now; HOLDUP_BLESS=1 approves):\n", file.display());
    let diff = TextDiff::from_lines(before.as_str(), now);
    for hunk in diff.unified_diff().context_radius(2).iter_hunks() {
        let _ = writeln!(told, "  {}", hunk.header());
        for change in hunk.iter_changes() {
            let sign = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            let _ = writeln!(told, "  {sign} {}", change.value().trim_end_matches('\n'));
        }
    }
    Err(told)
}
