//! The functions that take and give back locks, by name. The standard library's; their receivers say which lock.

/// What a call does to the lock that is its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::core::go) enum Action {
    /// Nothing that is known.
    None,
    /// Takes it (or waits for it, in the slow part that inlining leaves over).
    Acquire { read: bool },
    /// Gives it back.
    Release { read: bool },
}

/// Offset of `readerCount` in a `sync.RWMutex`: the word that an inlined `RLock` or `RUnlock` works on.
pub(super) const READER_COUNT: u64 = 16;

/// What the function called `name` does. `internal/sync` holds Mutex since 1.24.
pub(in crate::core::go) fn action(name: &str) -> Action {
    let method = |ty: &str| {
        name.strip_prefix("internal/").unwrap_or(name).strip_prefix("sync.(*")?.strip_prefix(ty)?.strip_prefix(").")
    };
    if let Some(method) = method("Mutex") {
        return match method {
            "Lock" | "lockSlow" | "TryLock" => Action::Acquire { read: false },
            "Unlock" | "unlockSlow" => Action::Release { read: false },
            _ => Action::None,
        };
    }
    match method("RWMutex") {
        Some("Lock" | "TryLock") => Action::Acquire { read: false },
        Some("RLock" | "TryRLock") => Action::Acquire { read: true },
        Some("Unlock") => Action::Release { read: false },
        Some("RUnlock" | "rUnlockSlow") => Action::Release { read: true },
        _ => Action::None,
    }
}
