//! The call sites of a text, found by the bytes of a frame's two lines.
//!
//! A dump of millions of frames has a few thousand distinct ones. The lines are parsed once for each; all others
//! cost a hash and a comparison.

use super::frame::{Function, Location};
use crate::evidence::SiteKind;
use rustc_hash::FxHasher;
use std::hash::Hasher;

/// A call site as it stands in the text.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawSite<'t> {
    pub name: &'t [u8],
    pub file: &'t [u8],
    pub line: u32,
    pub offset: Option<u32>,
    pub kind: SiteKind,
    /// The file line without blanks around it and without registers: with `name` and `kind`, the key.
    core: &'t [u8],
    hash: u64,
}

/// Sites by their lines: open addressing over indices.
#[derive(Debug, Default)]
pub(super) struct SiteTable<'t> {
    sites: Vec<RawSite<'t>>,
    /// Index + 1; 0 is free. The length is a power of two.
    slots: Vec<u32>,
}

/// Slots that are looked at before a lookup gives up. Only a text made for collisions gets there; it then has
/// equal sites more than once.
const PROBES: usize = 128;

impl<'t> SiteTable<'t> {
    /// All sites, in the order in which they were first seen.
    pub fn into_sites(self) -> Vec<RawSite<'t>> {
        self.sites
    }

    /// Whether the frames below a site may lie on another stack: the functions that move from one to another.
    pub fn switches_stack(&self, site: u32) -> bool {
        const SWITCHES: [&[u8]; 6] = [b"systemstack", b"mcall", b"morestack", b"asmcgocall", b"sigtramp", b"sigreturn"];
        self.sites.get(site as usize).is_none_or(|s| {
            let name = s.name.strip_prefix(b"runtime.").unwrap_or_default();
            SWITCHES.iter().any(|switch| name == *switch || name.starts_with(b"sigtramp")) || s.file.is_empty()
        })
    }

    /// The site of these lines, if it was seen before.
    #[inline]
    pub fn find(&self, name: &[u8], core: &[u8], kind: SiteKind) -> Option<u32> {
        self.find_hashed(hash(name, core, kind), name, core, kind)
    }

    #[inline]
    fn find_hashed(&self, hash: u64, name: &[u8], core: &[u8], kind: SiteKind) -> Option<u32> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut slot = hash as usize & mask;
        for _ in 0..PROBES {
            let index = (*self.slots.get(slot)?).checked_sub(1)?;
            let site = self.sites.get(index as usize)?;
            if site.hash == hash && site.kind == kind && site.core == core && site.name == name {
                return Some(index);
            }
            slot = (slot + 1) & mask;
        }
        None
    }

    /// The site of a function and its location, new or known. `core` is the file line that `location` was read from.
    pub fn intern(&mut self, function: &Function<'t>, core: &'t [u8], location: Option<Location<'t>>) -> u32 {
        let hash = hash(function.name, core, function.kind);
        if let Some(known) = self.find_hashed(hash, function.name, core, function.kind) {
            return known;
        }
        let location = location.unwrap_or(Location { file: b"", line: 0, offset: None });
        self.add(RawSite {
            name: function.name,
            file: location.file,
            line: location.line,
            offset: location.offset,
            kind: function.kind,
            core,
            hash,
        })
    }

    /// Takes in the sites of another table. Returns what each of them is here.
    pub fn absorb(&mut self, other: SiteTable<'t>) -> Vec<u32> {
        let take = |site: RawSite<'t>| {
            let known = self.find_hashed(site.hash, site.name, site.core, site.kind);
            known.unwrap_or_else(|| self.add(site))
        };
        other.sites.into_iter().map(take).collect()
    }

    fn add(&mut self, site: RawSite<'t>) -> u32 {
        let (index, hash) = (self.sites.len() as u32, site.hash);
        self.sites.push(site);
        if self.sites.len() * 2 > self.slots.len() {
            self.grow();
        } else {
            self.place(index, hash);
        }
        index
    }

    fn grow(&mut self) {
        self.slots = vec![0; (self.slots.len() * 2).max(1024)];
        let hashes: Vec<u64> = self.sites.iter().map(|site| site.hash).collect();
        for (index, hash) in hashes.into_iter().enumerate() {
            self.place(index as u32, hash);
        }
    }

    fn place(&mut self, index: u32, hash: u64) {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        for _ in 0..PROBES {
            if let Some(free @ 0) = self.slots.get_mut(slot) {
                *free = index + 1;
                return;
            }
            slot = (slot + 1) & mask;
        }
    }
}

#[inline]
fn hash(name: &[u8], core: &[u8], kind: SiteKind) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(name);
    hasher.write(core);
    hasher.write_u8(kind as u8);
    hasher.finish()
}
