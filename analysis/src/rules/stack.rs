//! What a stack must look like for a rule, compiled, and how it is compared.

use super::pattern::{Atom, Matches};
use super::wait::Wait;
use holdup_parsers::evidence::{Goroutine, Snapshot};

/// What may stand between the frames that a rule names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gaps {
    /// Any frame.
    Free,
    /// Plumbing and what the rule allows by name: the named frames are what is parked.
    Plumbing,
}

/// A compiled stack pattern.
#[derive(Debug, Clone)]
pub(crate) struct StackSpec {
    /// Innermost first; each one of several atoms.
    pub(crate) elements: Vec<Vec<Atom>>,
    pub(crate) gaps: Gaps,
    pub(crate) inner: Vec<Atom>,
    pub(crate) without: Vec<Atom>,
    /// Bits of [`Wait`].
    pub(crate) states: u32,
    pub(crate) created_by: Vec<Atom>,
    pub(crate) minutes: (u32, u32),
}

/// Indices of the first and last frame that a pattern named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) inner: usize,
    pub(crate) outer: usize,
}

impl StackSpec {
    /// Compares with a whole goroutine.
    pub(crate) fn matches(&self, m: &Matches, s: &Snapshot, g: &Goroutine, wait: Wait) -> Option<Hit> {
        if self.states & wait.bit() == 0 {
            return None;
        }
        let minutes = g.minutes.unwrap_or(0);
        if minutes < self.minutes.0 || minutes > self.minutes.1 {
            return None;
        }
        if !self.created_by.is_empty() {
            let creator = g.created_by?;
            if !m.has_any(s.site(creator.site).func, &self.created_by) {
                return None;
            }
        }
        let frames = s.frames_of(g);
        let (mut next, mut hit) = (0usize, Hit { inner: 0, outer: 0 });
        for (i, frame) in frames.iter().enumerate() {
            let Some(wanted) = self.elements.get(next) else {
                break;
            };
            let func = s.site(frame.site).func;
            if m.has_any(func, wanted) {
                if next == 0 {
                    hit.inner = i;
                }
                hit.outer = i;
                next += 1;
            } else if self.gaps == Gaps::Plumbing {
                // Closures and recursion of a frame that has matched.
                let again = next.checked_sub(1).and_then(|last| self.elements.get(last));
                let again = again.is_some_and(|last| m.has_any(func, last));
                if !again && !m.plumbing(func) && !m.has_any(func, &self.inner) {
                    return None;
                }
            }
        }
        if next < self.elements.len() {
            return None;
        }
        if !self.without.is_empty() && frames.iter().any(|f| m.has_any(s.site(f.site).func, &self.without)) {
            return None;
        }
        Some(hit)
    }
}
