//! How much may be unpacked: counted over all files, and against each one's own size.

use crate::limits;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is left for all files together.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    members: AtomicU64,
    expanded: AtomicU64,
}

impl Budget {
    /// Counts a file or member; false when there have been too many.
    pub fn member(&self) -> bool {
        self.members.fetch_add(1, Ordering::Relaxed) < limits::MEMBERS as u64
    }

    /// The budget of one file of `bytes`.
    pub fn of_file(&self, bytes: u64) -> FileBudget<'_> {
        FileBudget { all: self, bytes, expanded: AtomicU64::new(0) }
    }
}

/// What is left for one file and everything in it.
#[derive(Debug)]
pub(crate) struct FileBudget<'a> {
    all: &'a Budget,
    bytes: u64,
    expanded: AtomicU64,
}

impl FileBudget<'_> {
    /// Counts a member; false when there have been too many.
    pub fn member(&self) -> bool {
        self.all.member()
    }

    /// Counts `bytes` of expanded data; the reason to stop, if there is one.
    pub fn expand(&self, bytes: u64) -> Result<(), String> {
        let all = self.all.expanded.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let own = self.expanded.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if own > limits::RATIO_FREE && own / limits::RATIO > self.bytes {
            return Err(format!(
                "it expands to more than {} times its size, as no log does: the rest was not unpacked",
                limits::RATIO
            ));
        }
        if own > limits::EXPANDED_TEXT {
            return Err(format!(
                "more than {} GiB came out of it: the rest was not unpacked",
                limits::EXPANDED_TEXT >> 30
            ));
        }
        if all > limits::EXPANDED {
            return Err(format!(
                "all files together expand to more than {} GiB: the rest was not unpacked",
                limits::EXPANDED >> 30
            ));
        }
        Ok(())
    }
}
