//! Interned strings of one snapshot.

use rustc_hash::FxHashMap;
use std::hash::BuildHasher;

/// A string of a snapshot's [`Names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Sym(pub u32);

/// The distinct strings of a snapshot: function names, files, states. `Sym(0)` is the empty string.
#[derive(Clone)]
pub struct Names {
    strings: Vec<Box<str>>,
    /// Hash of the bytes to the symbols that have it; nearly always one.
    index: FxHashMap<u64, Vec<u32>>,
}

impl Default for Names {
    fn default() -> Self {
        let mut names = Names { strings: Vec::new(), index: FxHashMap::default() };
        names.intern("");
        names
    }
}

impl std::fmt::Debug for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Names({})", self.strings.len())
    }
}

impl Names {
    /// The symbol of `name`, new or known.
    pub fn intern(&mut self, name: &str) -> Sym {
        if let Some(known) = self.find(name) {
            return known;
        }
        let sym = Sym(self.strings.len() as u32);
        self.strings.push(name.into());
        self.index.entry(hash(name)).or_default().push(sym.0);
        sym
    }

    /// The symbol of `name`, if it was interned.
    pub fn find(&self, name: &str) -> Option<Sym> {
        let candidates = self.index.get(&hash(name))?;
        candidates.iter().copied().find(|&i| &*self.strings[i as usize] == name).map(Sym)
    }

    /// The string of `sym`; empty for a symbol of another table.
    pub fn get(&self, sym: Sym) -> &str {
        self.strings.get(sym.0 as usize).map_or("", |s| s)
    }

    /// How many distinct strings there are.
    pub fn len(&self) -> usize {
        self.strings.len()
    }

    /// Whether only the empty string is known.
    pub fn is_empty(&self) -> bool {
        self.strings.len() <= 1
    }

    /// All symbols with their strings.
    pub fn iter(&self) -> impl Iterator<Item = (Sym, &str)> {
        self.strings.iter().enumerate().map(|(i, s)| (Sym(i as u32), &**s))
    }
}

fn hash(name: &str) -> u64 {
    rustc_hash::FxBuildHasher.hash_one(name)
}
