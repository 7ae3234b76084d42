//! The words that mark evidence, found in one pass over the text.

use regex::bytes::Regex;
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
}

/// Words, and whom they concern. A longer word must stand before one that it begins with.
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
];

static ANY: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let all: Vec<String> = WORDS.iter().map(|(word, _)| regex::escape(word)).collect();
    Regex::new(&all.join("|")).ok()
});

/// Every word in `bytes`, in order: where it begins, and its class.
pub(super) fn find(bytes: &[u8]) -> impl Iterator<Item = (usize, Class)> + '_ {
    ANY.iter().flat_map(move |re| re.find_iter(bytes)).filter_map(|found| {
        let word = found.as_bytes();
        let (_, class) = WORDS.iter().find(|(known, _)| known.as_bytes() == word)?;
        Some((found.start(), *class))
    })
}
