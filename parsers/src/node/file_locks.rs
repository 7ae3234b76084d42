//! File locks: `lslocks`, `/proc/locks`.

use super::lines::{Line, Lines, Stop};
use crate::evidence::{FileLock, NodeEvidence};
use regex::Regex;
use std::sync::LazyLock;

static LSLOCKS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^\s*\S.*?\s+(-?\d+)\s+(FLOCK|POSIX|OFDLCK|LEASE|ACCESS|DELEG)\s+(?:[\d.]+[BKMGT]?\s+)?(READ|WRITE|RW|NONE)(\*?)\s+[01]\s+\d+\s+\d+\s*(.*?)\s*$").ok()
});
// 1: -> FLOCK  ADVISORY  WRITE 25029 fe:00:10010830 0 EOF
static PROC: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^(\d+):\s+(-> )?\s*(FLOCK|POSIX|OFDLCK|LEASE|ACCESS|DELEG)\s+(?:ADVISORY|MANDATORY|\*NOINODE\*|BREAKER|ACTIVE|BREAKING|MSNFS)\s*\s+(READ|WRITE|RW|NONE)\s+(-?\d+)\s+([0-9a-f]+:[0-9a-f]+:\d+)\s+\d+\s+(?:\d+|EOF)").ok()
});

/// Reads `lslocks`, whose header is `line`.
pub(super) fn read_lslocks(lines: &Lines<'_>, line: &Line<'_>, out: &mut NodeEvidence) -> Option<Stop> {
    let names: Vec<&str> = line.text.split_whitespace().collect();
    if !(names.contains(&"COMMAND") && names.contains(&"MODE") && names.contains(&"TYPE") && names.contains(&"PATH")) {
        return None;
    }
    let with_blocker = names.last() == Some(&"BLOCKER");
    let before = out.file_locks.len();
    let mut stop = Stop::after(line);
    for row in lines.from(line).skip(1) {
        let Some(found) = LSLOCKS.as_ref().and_then(|re| re.captures(&row.text)) else { break };
        let text = |i: usize| found.get(i).map_or("", |m| m.as_str());
        let (mut path, mut blocker) = (text(5), None);
        if with_blocker {
            let (rest, last) = path.rsplit_once(char::is_whitespace).unwrap_or(("", path));
            if let Ok(pid) = last.parse() {
                (path, blocker) = (rest.trim_end(), Some(pid));
            }
        }
        out.file_locks.push(FileLock {
            // Locks of open file descriptions have no owner: -1.
            pid: text(1).parse().unwrap_or(0),
            kind: text(2).to_string(),
            mode: text(3).to_string(),
            path: path.to_string(),
            waits: text(4) == "*" || blocker.is_some(),
            blocker,
            place: lines.place(row.number),
        });
        stop = Stop::after(&row);
    }
    (out.file_locks.len() > before).then_some(stop)
}

/// Reads `/proc/locks` from `line` on (fs/locks.c, `lock_get_status`): a waiter stands below its blocker, with its number.
pub(super) fn read_proc(lines: &Lines<'_>, line: &Line<'_>, out: &mut NodeEvidence) -> Option<Stop> {
    let mut stop = None;
    let mut holder: Option<(String, u32)> = None;
    for row in lines.from(line) {
        let Some(found) = PROC.as_ref().and_then(|re| re.captures(&row.text)) else { break };
        let text = |i: usize| found.get(i).map_or("", |m| m.as_str());
        let pid = text(5).parse().unwrap_or(0);
        let waits = found.get(2).is_some();
        let blocker = holder.as_ref().filter(|(number, _)| waits && number == text(1)).map(|(_, pid)| *pid);
        if !waits {
            holder = Some((text(1).to_string(), pid));
        }
        out.file_locks.push(FileLock {
            pid,
            kind: text(3).to_string(),
            mode: text(4).to_string(),
            path: text(6).to_string(),
            waits,
            blocker,
            place: lines.place(row.number),
        });
        stop = Some(Stop::after(&row));
    }
    stop
}
