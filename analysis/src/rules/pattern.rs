//! The pattern language of rules, and the one pass that matches all patterns against a snapshot's names.
//!
//! A pattern names a function as people say it: `pleg.(*GenericPLEG).relist`. It matches a function whose name ends
//! with it at a package boundary, whatever stands before: vendor prefixes, forks, other hosts. Closures inside the
//! function match too (`relist.func1`), unless the pattern itself names a closure. `*` stands for any text, except
//! right behind `(`, where it is Go's own pointer star.
//!
//! Both sides are compared without vendor prefix, type arguments (`[...]`) and `-fm`, and with as well as without
//! major version elements (`/v2`, `.v1` of gopkg.in): `godbus/dbus.(*Conn).Auth` finds `godbus/dbus/v5.(*Conn).Auth`.

use holdup_parsers::evidence::{FunctionName, Snapshot, Sym};
use rustc_hash::FxHashMap;
use std::borrow::Cow;

/// A distinct pattern of a rule set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Atom(pub(crate) u32);

/// The normal form of a function name: see the module's page.
pub fn normal(name: &str) -> Cow<'_, str> {
    rewrite(name, true)
}

/// The normal form with its version elements kept: `runtime/v2` is a package as well as a module's version.
fn plain(name: &str) -> Cow<'_, str> {
    rewrite(name, false)
}

fn rewrite(name: &str, strip: bool) -> Cow<'_, str> {
    let name = FunctionName::parse(name).without_vendor();
    let name = name.strip_suffix("-fm").unwrap_or(name);
    if !(name.contains(['[', '%']) || strip && has_version(name)) {
        return Cow::Borrowed(name);
    }
    let mut out = String::with_capacity(name.len());
    let mut depth = 0usize;
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            '%' if rest.starts_with("%2e") => {
                rest = &rest[3..];
                match version(rest) {
                    Some(len) if strip => rest = &rest[len..],
                    _ => out.push('.'),
                }
                continue;
            }
            '/' => match version(&rest[1..]) {
                Some(len) if strip => {
                    rest = &rest[1 + len..];
                    continue;
                }
                _ => out.push(c),
            },
            _ => out.push(c),
        }
        rest = &rest[c.len_utf8()..];
    }
    Cow::Owned(out)
}

fn has_version(name: &str) -> bool {
    name.match_indices("/v").any(|(i, _)| version(&name[i + 1..]).is_some())
}

/// Length of a `v2` that ends a path element; `None` if `text` does not start with one.
fn version(text: &str) -> Option<usize> {
    let digits = text.strip_prefix('v')?.bytes().take_while(u8::is_ascii_digit).count();
    let behind = text.as_bytes().get(1 + digits);
    (digits > 0 && matches!(behind, Some(b'/' | b'.'))).then_some(1 + digits)
}

/// A normal name without the closures at its end.
fn without_closures(name: &str) -> &str {
    let parsed = FunctionName::parse(name);
    let cut = parsed.rest.len().saturating_sub(parsed.outer().len());
    &name[..name.len() - cut]
}

/// What is wrong with a pattern, if anything.
pub(crate) fn fault(pattern: &str) -> Option<String> {
    if pattern.trim() != pattern || pattern.is_empty() {
        return Some("a pattern is a function name without spaces around it".into());
    }
    if pattern.contains(char::is_whitespace) {
        return Some(format!("`{pattern}` holds a space: a pattern is one function name"));
    }
    if pattern.chars().all(|c| matches!(c, '*' | '.')) {
        return Some(format!("`{pattern}` matches everything"));
    }
    let package = pattern.contains('.') || pattern.contains('/') && pattern.ends_with('*');
    if !package && pattern != "panic" {
        return Some(format!("`{pattern}` has no package: write `package.{pattern}` or `*.{pattern}`"));
    }
    let (open, close) = (pattern.matches('(').count(), pattern.matches(')').count());
    if open != close {
        return Some(format!("`{pattern}` has unbalanced parentheses: a method is `package.(*Type).method`"));
    }
    None
}

/// A pattern with wildcards, cut into its literal pieces.
#[derive(Debug)]
struct Wild {
    atom: Atom,
    pieces: Vec<String>,
    /// Starts with `*`, so it is tried on the whole name only.
    floating: bool,
}

impl Wild {
    fn matches(&self, text: &str) -> bool {
        let Some((first, later)) = self.pieces.split_first() else {
            return false;
        };
        let Some(mut rest) = text.strip_prefix(first.as_str()) else {
            return false;
        };
        let Some((last, middle)) = later.split_last() else {
            return rest.is_empty();
        };
        for piece in middle {
            match rest.find(piece.as_str()) {
                Some(at) => rest = &rest[at + piece.len()..],
                None => return false,
            }
        }
        rest.ends_with(last.as_str())
    }
}

/// Cuts at the wildcards. `(*` is Go's star.
fn pieces(pattern: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut before = ' ';
    for c in pattern.chars() {
        if c == '*' && before != '(' {
            pieces.push(String::new());
        } else if let Some(last) = pieces.last_mut() {
            last.push(c);
        }
        // `(**)` is a pointer to any type: only the first star is Go's.
        before = c;
    }
    pieces
}

/// All patterns of a rule set, each once.
#[derive(Debug, Default)]
pub(crate) struct Atoms {
    texts: Vec<String>,
    known: FxHashMap<String, Atom>,
    exact: FxHashMap<String, Vec<Atom>>,
    /// Wildcard patterns by their package's last element and everything before it, up to the first dot.
    wild: FxHashMap<String, Vec<Wild>>,
    floating: Vec<Wild>,
}

impl Atoms {
    pub(crate) fn intern(&mut self, pattern: &str) -> Atom {
        if let Some(&atom) = self.known.get(pattern) {
            return atom;
        }
        let atom = Atom(self.texts.len() as u32);
        self.texts.push(pattern.to_string());
        self.known.insert(pattern.to_string(), atom);
        let (normal, plain) = (normal(pattern), plain(pattern));
        self.compile(&normal, atom);
        if plain != normal {
            self.compile(&plain, atom);
        }
        atom
    }

    fn compile(&mut self, pattern: &str, atom: Atom) {
        let pieces = pieces(pattern);
        if pieces.len() == 1 {
            // Two spellings may share a form (`dbus/v5.X`, `dbus.X`).
            self.exact.entry(pattern.to_string()).or_default().push(atom);
            return;
        }
        let key = pieces.first().and_then(|head| package_key(head)).map(str::to_string);
        match key {
            Some(key) => self.wild.entry(key).or_default().push(Wild { atom, pieces, floating: false }),
            None => {
                let floating = pieces.first().is_some_and(String::is_empty);
                self.floating.push(Wild { atom, pieces, floating });
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }

    /// Adds to `out` every atom that a function name matches.
    pub(crate) fn of(&self, name: &str, out: &mut Vec<Atom>) {
        let from = out.len();
        let (normal, plain) = (normal(name), plain(name));
        self.of_form(&normal, out);
        if plain != normal {
            self.of_form(&plain, out);
        }
        out[from..].sort_unstable();
        let mut kept = from;
        for i in from..out.len() {
            if kept == from || out[kept - 1] != out[i] {
                out[kept] = out[i];
                kept += 1;
            }
        }
        out.truncate(kept);
    }

    fn of_form(&self, name: &str, out: &mut Vec<Atom>) {
        let bare = without_closures(name);
        let path_end = name.find(['(', '{']).unwrap_or(name.len());
        let starts = std::iter::once(0).chain(name[..path_end].match_indices('/').map(|(i, _)| i + 1));
        for start in starts {
            let (whole, bare) = (&name[start..], bare.get(start..).unwrap_or(""));
            out.extend(self.exact.get(whole).into_iter().flatten());
            if bare.len() != whole.len() {
                out.extend(self.exact.get(bare).into_iter().flatten());
            }
            let wild = package_key(whole).and_then(|key| self.wild.get(key));
            for wild in wild.into_iter().flatten() {
                if wild.matches(whole) || wild.matches(bare) {
                    out.push(wild.atom);
                }
            }
            for wild in &self.floating {
                if (start == 0 || !wild.floating) && (wild.matches(whole) || wild.matches(bare)) {
                    out.push(wild.atom);
                }
            }
        }
    }
}

/// Everything up to the dot that ends the package, or `None` if it does not end within `text`.
fn package_key(text: &str) -> Option<&str> {
    let bracket = text.find(['(', '{']).unwrap_or(text.len());
    let slash = text[..bracket].rfind('/').map_or(0, |i| i + 1);
    let dot = text[slash..].find('.')?;
    Some(&text[..slash + dot])
}

/// Which atoms each function name of a snapshot matches.
#[derive(Debug, Default)]
pub(crate) struct Matches {
    /// By symbol: where its list starts. One more than symbols, so that an end is always there.
    starts: Vec<u32>,
    lists: Vec<Atom>,
    /// By symbol: the function is plumbing (see [`super::plumbing`]).
    plumbing: Vec<bool>,
}

impl Matches {
    pub(crate) fn new(atoms: &Atoms, s: &Snapshot) -> Self {
        let mut wanted = vec![false; s.names.len()];
        for site in &s.sites {
            if let Some(flag) = wanted.get_mut(site.func.0 as usize) {
                *flag = true;
            }
        }
        let mut starts = Vec::with_capacity(s.names.len() + 1);
        let mut plumbing = vec![false; s.names.len()];
        let mut lists = Vec::new();
        for ((sym, name), wanted) in s.names.iter().zip(wanted) {
            starts.push(lists.len() as u32);
            if wanted && !name.is_empty() {
                if atoms.len() > 0 {
                    atoms.of(name, &mut lists);
                }
                if let Some(flag) = plumbing.get_mut(sym.0 as usize) {
                    *flag = super::plumbing::is_plumbing(name);
                }
            }
        }
        starts.push(lists.len() as u32);
        Matches { starts, lists, plumbing }
    }

    pub(crate) fn of(&self, sym: Sym) -> &[Atom] {
        let at = sym.0 as usize;
        match (self.starts.get(at), self.starts.get(at + 1)) {
            (Some(&from), Some(&to)) => self.lists.get(from as usize..to as usize).unwrap_or(&[]),
            _ => &[],
        }
    }

    pub(crate) fn has_any(&self, sym: Sym, atoms: &[Atom]) -> bool {
        let list = self.of(sym);
        !list.is_empty() && atoms.iter().any(|atom| list.binary_search(atom).is_ok())
    }

    pub(crate) fn plumbing(&self, sym: Sym) -> bool {
        self.plumbing.get(sym.0 as usize).copied().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(pattern: &str, name: &str) -> bool {
        let mut atoms = Atoms::default();
        let atom = atoms.intern(pattern);
        let mut found = Vec::new();
        atoms.of(name, &mut found);
        found.contains(&atom)
    }

    #[test]
    fn patterns_match_at_package_boundaries_whatever_stands_before() {
        let relist = "k8s.io/kubernetes/pkg/kubelet/pleg.(*GenericPLEG).relist";
        for (pattern, name, expected) in [
            ("pleg.(*GenericPLEG).relist", relist, true),
            ("kubelet/pleg.(*GenericPLEG).relist", relist, true),
            ("let/pleg.(*GenericPLEG).relist", relist, false),
            ("leg.(*GenericPLEG).relist", relist, false),
            ("pleg.(*GenericPLEG).re*", relist, true),
            ("pleg.(**).relist", relist, true),
            ("pleg.*", relist, true),
            ("*.relist", relist, true),
            ("*.(*GenericPLEG).relist", relist, true),
            ("wait.JitterUntil", "k8s.io/kubernetes/vendor/k8s.io/apimachinery/pkg/util/wait.JitterUntil", true),
            ("wait.BackoffUntil", "k8s.io/apimachinery/pkg/util/wait.BackoffUntil.func1", true),
            ("wait.BackoffUntil.func1", "k8s.io/apimachinery/pkg/util/wait.BackoffUntil", false),
            ("wait.Until", "k8s.io/apimachinery/pkg/util/wait.UntilWithContext", false),
            ("dbus.(*Object).Call", "github.com/godbus/dbus/v5.(*Object).Call", true),
            (
                "godbus/dbus.(*Object).Call",
                "github.com/opencontainers/runc/vendor/github.com/godbus/dbus/v5.(*Object).Call",
                true,
            ),
            ("go-systemd/dbus.(*Conn).startJob", "github.com/coreos/go-systemd/v22/dbus.(*Conn).startJob", true),
            ("fsnotify.(*Watcher).readEvents", "gopkg.in/fsnotify%2ev1.(*Watcher).readEvents", true),
            ("v2.(*binary).Start", "github.com/containerd/containerd/runtime/v2.(*binary).Start.func3", true),
            ("containerd/runtime/v2.*", "github.com/containerd/containerd/runtime/v2.(*binary).Start", true),
            ("workqueue.(*Typed).Get", "k8s.io/client-go/util/workqueue.(*Typed[...]).Get", true),
            ("main.(*H).Fire", "main.(*H).Fire-fm", true),
            ("*_Handler", "k8s.io/cri-api/pkg/apis/runtime/v1._RuntimeService_Version_Handler", true),
            ("net/http.(*conn).serve", "net/http.(*conn).serve", true),
        ] {
            assert_eq!(hit(pattern, name), expected, "{pattern} on {name}");
        }
    }

    #[test]
    fn faults_are_told() {
        for bad in ["", " a.b", "relist", "*", "*.*", "a.(*T.f", "a.b c.d"] {
            assert!(fault(bad).is_some(), "{bad}");
        }
        assert_eq!(fault("pleg.(*GenericPLEG).relist"), None);
    }
}
