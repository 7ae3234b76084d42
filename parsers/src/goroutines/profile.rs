//! pprof `debug=1`.
use super::dump::Draft;
use super::lines::Line;
use super::scan::Scan;
use super::snapshot::Builder;
use crate::evidence::Snapshot;

/// A profile.
#[derive(Debug)]
pub(super) struct Profile {
    pub span: (usize, usize),
    pub lines: (u32, u32),
}

impl Profile {
    /// Reads a profile that begins with `line`.
    pub fn read<'t>(_scan: &mut Scan<'t>, _line: Line<'t>, _text: &'t [u8]) -> Option<Self> {
        None
    }
    /// Fills a snapshot.
    pub fn fill(self, _snapshot: &mut Snapshot, _builder: &mut Builder<'_, '_>, _draft: &Draft) {}
}
