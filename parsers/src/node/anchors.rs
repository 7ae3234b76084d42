//! The words that mark evidence, found in one pass over the text.

use super::service_log::PATTERNS;
use regex::bytes::Regex;
use rustc_hash::FxHashMap;
use std::sync::LazyLock;

/// Which parser to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// A table with a column `PID`.
    PidColumn,
    ProcStack,
    ProcStatus,
    Kernel,
    Mount,
    Findmnt,
    /// A line of a service's log.
    Log,
    /// `bt` of crash.
    Crash,
    Native,
    Ss,
    ProcLocks,
    Strace,
    Containers,
    Conditions,
    Unit,
    Jobs,
}

/// Words, and whom they concern; those of service logs stand beside their meaning, in [`PATTERNS`].
const WORDS: &[(&str, Class)] = &[
    ("PID", Class::PidColumn),
    ("LWP", Class::PidColumn),
    (" TID", Class::PidColumn),
    ("[<", Class::ProcStack),
    (" wchan ", Class::ProcStack),
    (" state ", Class::ProcStack),
    ("/stack", Class::ProcStack),
    ("Name:\t", Class::ProcStatus),
    ("blocked ", Class::Kernel),
    ("task:", Class::Kernel),
    (" 0x0000", Class::Kernel),
    (" 0x8000", Class::Kernel),
    ("hung task", Class::Kernel),
    ("not responding", Class::Kernel),
    ("has not responded", Class::Kernel),
    (" OK\n", Class::Kernel),
    ("I/O ", Class::Kernel),
    (" error, dev ", Class::Kernel),
    ("NFS: ", Class::Kernel),
    ("ceph: ", Class::Kernel),
    ("rbd: ", Class::Kernel),
    ("block nbd", Class::Kernel),
    ("nvme nvme", Class::Kernel),
    ("scsi ", Class::Kernel),
    ("sd ", Class::Kernel),
    (" ata", Class::Kernel),
    (" connection", Class::Kernel),
    (" session", Class::Kernel),
    ("device-mapper: ", Class::Kernel),
    ("EXT4-fs ", Class::Kernel),
    ("JBD2: ", Class::Kernel),
    ("Aborting journal", Class::Kernel),
    ("XFS", Class::Kernel),
    ("BTRFS", Class::Kernel),
    ("overlayfs: ", Class::Kernel),
    ("out of memory: ", Class::Kernel),
    ("Out of memory", Class::Kernel),
    ("oom-kill", Class::Kernel),
    ("page allocation ", Class::Kernel),
    ("soft lockup", Class::Kernel),
    ("hard LOCKUP", Class::Kernel),
    ("stall", Class::Kernel),
    ("workqueue lockup", Class::Kernel),
    ("BUG", Class::Kernel),
    ("Oops: ", Class::Kernel),
    ("general protection", Class::Kernel),
    ("Kernel panic", Class::Kernel),
    ("segfault at", Class::Kernel),
    ("unregister_netdevice", Class::Kernel),
    ("table full", Class::Kernel),
    ("table overflow", Class::Kernel),
    ("audit: ", Class::Kernel),
    ("fork rejected", Class::Kernel),
    ("fuse: ", Class::Kernel),
    ("9pnet", Class::Kernel),
    (" type ", Class::Mount),
    (" 0 0", Class::Mount),
    (" - ", Class::Mount),
    ("TARGET", Class::Findmnt),
    ("TASK: ", Class::Crash),
    ("(LWP ", Class::Native),
    ("#0 ", Class::Native),
    ("TID ", Class::Native),
    ("Recv-Q", Class::Ss),
    ("u_str ", Class::Ss),
    ("u_dgr ", Class::Ss),
    ("u_seq ", Class::Ss),
    ("FLOCK", Class::ProcLocks),
    ("POSIX", Class::ProcLocks),
    ("OFDLCK", Class::ProcLocks),
    ("strace: Process ", Class::Strace),
    (" <unfinished ...>", Class::Strace),
    ("[pid ", Class::Strace),
    (" <detached ...>", Class::Strace),
    ("CONTAINER ", Class::Containers),
    ("POD ID ", Class::Containers),
    ("Conditions:", Class::Conditions),
    ("Loaded: ", Class::Unit),
    ("JOB ", Class::Jobs),
];

/// The words as they are searched for, each with all that it stands for: a word within a longer one is found there.
struct Index {
    regex: Regex,
    classes: FxHashMap<&'static [u8], Vec<Class>>,
    patterns: FxHashMap<&'static [u8], Vec<usize>>,
}

static INDEX: LazyLock<Option<Index>> = LazyLock::new(|| {
    let mut words: Vec<&'static str> = WORDS.iter().map(|(word, _)| *word).collect();
    words.extend(PATTERNS.iter().map(|p| p.word));
    // Of words that begin alike the longest must be tried first.
    words.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
    words.dedup();
    let mut classes: FxHashMap<&'static [u8], Vec<Class>> = FxHashMap::default();
    let mut patterns: FxHashMap<&'static [u8], Vec<usize>> = FxHashMap::default();
    for word in &words {
        let own = classes.entry(word.as_bytes()).or_default();
        for (part, class) in WORDS {
            if word.contains(part) && !own.contains(class) {
                own.push(*class);
            }
        }
        let marks: Vec<usize> =
            (0..PATTERNS.len()).filter(|i| PATTERNS.get(*i).is_some_and(|p| word.contains(p.word))).collect();
        if !marks.is_empty() {
            own.push(Class::Log);
            patterns.insert(word.as_bytes(), marks);
        }
    }
    let all: Vec<String> = words.iter().map(|word| regex::escape(word)).collect();
    let regex = Regex::new(&all.join("|")).ok()?;
    Some(Index { regex, classes, patterns })
});

/// Every word in `bytes`, in order: where it begins, and whom it may concern.
pub(super) fn find(bytes: &[u8]) -> impl Iterator<Item = (usize, &'static [Class])> + '_ {
    let index = INDEX.as_ref();
    index.into_iter().flat_map(move |index| {
        index
            .regex
            .find_iter(bytes)
            .filter_map(|found| Some((found.start(), index.classes.get(found.as_bytes()).map(Vec::as_slice)?)))
    })
}

/// The indices of all [`PATTERNS`] whose word stands in `line`, sorted.
pub(super) fn patterns_in(line: &[u8]) -> Vec<usize> {
    let mut marks = Vec::new();
    let Some(index) = INDEX.as_ref() else { return marks };
    let mut from = 0;
    while let Some(found) = index.regex.find_at(line, from) {
        if let Some(own) = index.patterns.get(found.as_bytes()) {
            marks.extend(own.iter().filter(|i| !marks.contains(i)).copied().collect::<Vec<_>>());
        }
        from = found.start() + 1;
    }
    marks.sort_unstable();
    marks
}
