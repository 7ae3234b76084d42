//! Bounds on hostile or absurd input, in one place. What happens at each is stated as a problem of the input.

/// Largest goroutine header, function or file line that is looked at, in bytes; Go's own lines stay far below.
pub const LINE: usize = 64 * 1024;
/// Frames of one goroutine that are kept; the runtime itself prints at most 100 (1.21 and later) or a few more.
pub const FRAMES_PER_GOROUTINE: u32 = 10_000;
/// Goroutines of one snapshot.
pub const GOROUTINES: usize = 20_000_000;
/// Problems that are kept a file; further ones are counted.
pub const PROBLEMS: usize = 200;
/// Archives within archives.
pub const NESTING: usize = 6;
/// Members of all archives together.
pub const MEMBERS: usize = 200_000;
/// Bytes that compressed inputs may expand to, all together.
pub const EXPANDED: u64 = 64 << 30;
/// Expansion ratio beyond which a member is refused (once it is large).
pub const RATIO: u64 = 2_000;
/// Bytes of text that one compressed file or archive may expand to.
pub const EXPANDED_TEXT: u64 = 4 << 30;
/// Below this much expanded data no ratio is too high.
pub const RATIO_FREE: u64 = 256 << 20;
/// Expanded text that is kept in memory; more goes to a temporary file.
pub const SPOOL: usize = 128 << 20;
/// Smaller files are read, larger ones mapped.
pub const MAPPED: u64 = 16 << 20;
/// Of larger texts only the parts around dumps are read.
pub const WHOLE_TEXT: usize = 1 << 30;
