//! Where the runtime's structures keep what, by Go release.
//!
//! Offsets come from the DWARF of binaries that the real toolchains built, constants (wait reasons, function ids,
//! statuses) from the toolchains' sources; `generate.py` beside this file writes the table and names its sources.
//! All structures used here have the same layout on amd64 and arm64, which the script checks.

mod table;

/// Offsets within `runtime.g`.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct G {
    pub stack_lo: u16,
    pub stack_hi: u16,
    pub panic: u16,
    pub defer: u16,
    pub m: u16,
    pub sched_sp: u16,
    pub sched_pc: u16,
    pub sched_g: u16,
    pub sched_lr: u16,
    pub syscall_sp: u16,
    pub syscall_pc: u16,
    pub status: u16,
    pub goid: u16,
    pub wait_since: u16,
    pub wait_reason: u16,
    pub locked_m: u16,
    pub go_pc: u16,
    pub ancestors: u16,
    pub start_pc: u16,
    /// Since 1.21.
    pub parent: Option<u16>,
    pub waiting: u16,
    pub labels: u16,
    /// `syncGroup` in 1.24, `bubble` since 1.25.
    pub bubble: Option<u16>,
}

/// Offsets within `runtime.m`.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct M {
    pub g0: u16,
    pub procid: u16,
    pub gsignal: u16,
    pub curg: u16,
    pub p: u16,
    pub next_p: u16,
    pub old_p: u16,
    pub id: u16,
    pub all_link: u16,
    pub vdso_sp: u16,
    pub vdso_pc: u16,
}

/// Offsets within `runtime.p`: its clocks only.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct P {
    pub sched_when: u16,
    pub syscall_when: u16,
    pub mark_worker_start: u16,
}

/// Offsets within `runtime.sudog`.
///
/// Since 1.26 `elem` and `c` are two words each; the first may be cleared by the leak detector, the second, which
/// stands here, is the truth.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct Sudog {
    pub g: u16,
    pub next: u16,
    pub prev: u16,
    pub elem: u16,
    pub is_select: u16,
    pub parent: u16,
    pub wait_link: u16,
    pub wait_tail: u16,
    pub channel: u16,
}

/// Offsets within `runtime.hchan`.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct Channel {
    pub count: u16,
    pub capacity: u16,
    pub elem_size: u16,
    pub closed: u16,
    pub receivers: u16,
    pub senders: u16,
    /// Since 1.23.
    pub timer: Option<u16>,
}

/// Offsets within `runtime._defer`.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct Defer {
    /// Up to 1.17, whose records carry arguments.
    pub siz: Option<u16>,
    pub started: Option<u16>,
    pub heap: u16,
    /// 1.14 to 1.21: the record repeats a frame's defer bits.
    pub open_coded: Option<u16>,
    /// Since 1.22 (1.23 for user code): the calls hang on `head`.
    pub range_func: Option<u16>,
    pub sp: u16,
    pub pc: u16,
    pub fun: u16,
    pub link: u16,
    pub head: Option<u16>,
}

/// Offsets within `runtime.semaRoot`.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct SemaRoot {
    pub treap: u16,
    pub waiters: u16,
}

/// `funcID`s, renumbered nearly every release.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct FuncIds {
    pub wrapper: Option<u8>,
    pub gopanic: Option<u8>,
    pub sigpanic: Option<u8>,
    pub panicwrap: Option<u8>,
    pub asyncpreempt: Option<u8>,
    pub debugcall: Option<u8>,
    pub cgocallback: Option<u8>,
    pub morestack: Option<u8>,
    pub systemstack: Option<u8>,
    pub runtime_main: Option<u8>,
    pub handle_async_event: Option<u8>,
    pub corostart: Option<u8>,
    pub run_finalizers: Option<u8>,
    pub run_cleanups: Option<u8>,
}

/// Everything that moves between releases.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct Layout {
    /// The release that it was read from.
    pub release: &'static str,
    /// `N` of `go1.N`.
    pub minor: u32,
    pub g: G,
    pub m: M,
    pub p: P,
    pub sudog: Sudog,
    pub channel: Channel,
    pub defer: Defer,
    pub semaroot: SemaRoot,
    pub defer_size: u16,
    pub sudog_size: u16,
    /// Offset of `id` in `synctestBubble` (1.25 and later).
    pub bubble_id: Option<u16>,
    pub ids: FuncIds,
    /// Texts of `atomicstatus`.
    pub statuses: &'static [&'static str],
    /// Texts of `waitreason`.
    pub wait_reasons: &'static [&'static str],
}

impl Layout {
    /// The layout of `go1.minor`, or of the release nearest to it.
    pub fn nearest(minor: u32) -> &'static Layout {
        let distance = |layout: &&Layout| layout.minor.abs_diff(minor);
        table::LAYOUTS.iter().min_by_key(distance).unwrap_or(&table::LAYOUTS[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_layouts() {
        assert_eq!(Layout::nearest(5).minor, 13);
        assert_eq!(Layout::nearest(24).minor, 24);
        assert_eq!(Layout::nearest(99).minor, 27);
        // The one offset that no release has moved; the scan for lost goroutines rests on it.
        assert!(table::LAYOUTS.iter().all(|layout| layout.g.sched_g == 72));
    }
}
