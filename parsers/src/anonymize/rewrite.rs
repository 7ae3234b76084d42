//! Writing a text anew with every name replaced.

use super::embedded;
use super::patterns::{self, counts};
use super::pseudonym::{Kind, Pseudonyms, Replaced};
use aho_corasick::AhoCorasick;
use rayon::prelude::*;
use regex::bytes::Regex;
use rustc_hash::FxHashSet;
use std::ops::Range;
use std::sync::OnceLock;

/// Encodings within encodings.
const DEPTH: usize = 4;

/// Replaces what was learned, and what has a form of its own.
#[derive(Debug)]
pub struct Rewriter {
    names: Pseudonyms,
    automaton: Option<AhoCorasick>,
    needles: Vec<Needle>,
}

/// Something to look for.
#[derive(Debug)]
struct Needle {
    /// What it stands for.
    original: String,
    kind: Kind,
    /// How it is written: the replacement is written likewise.
    slash: &'static str,
    dash: &'static str,
    /// Without the path's first slash, as in a unit's name: `mnt-nas-logs.mount`.
    unit: bool,
    /// A word that also means something else: replaced only where names stand.
    weak: bool,
}

/// A piece of text to be replaced.
struct Piece {
    range: Range<usize>,
    /// Lower wins where pieces overlap from the same start on.
    rank: usize,
    original: Option<String>,
    by: Vec<u8>,
}

impl Rewriter {
    /// Prepares for what `names` has learned.
    pub fn new(names: Pseudonyms) -> Self {
        const WAYS: [(&str, &str); 6] =
            [("/", "-"), ("\\/", "-"), ("%2F", "-"), ("%2f", "-"), ("\\u002f", "\\u002d"), ("/", "\\x2d")];
        let mut needles = Vec::new();
        let mut spelled: Vec<String> = Vec::new();
        let mut known: FxHashSet<String> = FxHashSet::default();
        let mut add = |original: &str, kind: Kind, unit: bool| {
            let ways: &[(&str, &str)] = if unit { &[("-", "-"), ("-", "\\x2d")] } else { &WAYS };
            for &(slash, dash) in ways {
                let plain = if unit { original.trim_start_matches('/') } else { original };
                let written = plain.replace('-', dash).replace('/', slash);
                if known.insert(written.clone()) {
                    spelled.push(written);
                    let weak = kind != Kind::Path && is_weak(original);
                    needles.push(Needle { original: original.to_string(), kind, slash, dash, unit, weak });
                }
            }
        };
        for path in names.paths() {
            add(path, Kind::Path, false);
            if path.trim_start_matches('/').contains('/') {
                add(path, Kind::Path, true);
            }
        }
        for (name, kind) in names.learned() {
            add(name, kind, false);
        }
        let automaton = AhoCorasick::new(&spelled).ok();
        Rewriter { names, automaton: automaton.filter(|_| !spelled.is_empty()), needles }
    }

    /// What was replaced.
    pub fn replaced(&self) -> Vec<Replaced> {
        self.names.replaced()
    }

    /// The text without names.
    pub fn text(&mut self, text: &[u8]) -> Vec<u8> {
        self.rewritten(text, 0)
    }

    fn rewritten(&mut self, text: &[u8], depth: usize) -> Vec<u8> {
        let mut pieces = Vec::new();
        if depth < DEPTH {
            for embedded in embedded::find(text) {
                let inner = self.rewritten(&embedded.inner, depth + 1);
                if inner != embedded.inner {
                    let by = embedded.encode(&inner);
                    pieces.push(Piece { range: embedded.range, rank: 0, original: None, by });
                }
            }
        }
        let code = code(text);
        self.formed(text, &mut pieces);
        self.private_modules(text, &code, &mut pieces);
        self.learned(text, &code, &mut pieces);
        pieces.sort_by_key(|p| (p.range.start, p.rank, std::cmp::Reverse(p.range.end)));
        let mut out = Vec::with_capacity(text.len() + text.len() / 16);
        let mut at = 0;
        for piece in pieces {
            if piece.range.start < at {
                continue;
            }
            out.extend_from_slice(text.get(at..piece.range.start).unwrap_or(&[]));
            out.extend_from_slice(&piece.by);
            at = piece.range.end;
            if let Some(original) = &piece.original {
                self.names.count(original);
            }
        }
        out.extend_from_slice(text.get(at..).unwrap_or(&[]));
        out
    }

    /// Ids, addresses, tokens: what has a form of its own.
    fn formed(&mut self, text: &[u8], pieces: &mut Vec<Piece>) {
        let ranges = |pattern: &patterns::Pattern| -> Vec<Range<usize>> {
            let found = pattern.regex.captures_iter(text);
            found.filter_map(|found| found.get(1).or_else(|| found.get(0)).map(|part| part.range())).collect()
        };
        let found: Vec<Vec<Range<usize>>> = patterns::all().par_iter().map(ranges).collect();
        for (rank, (pattern, found)) in patterns::all().iter().zip(found).enumerate() {
            for range in found {
                let Some(Ok(original)) = text.get(range.clone()).map(std::str::from_utf8) else { continue };
                let (before, after) = (text.get(..range.start).unwrap_or(&[]), text.get(range.end..).unwrap_or(&[]));
                let pod = matches!(pattern.kind, Kind::Uuid | Kind::Id) && before.ends_with(b"pod");
                if pattern.bounded && !(pod || free_before(before)) || pattern.bounded && !free_after(after) {
                    continue;
                }
                let part = pattern.kind == Kind::Id && self.names.is_part(original);
                if !part && !counts(pattern.kind, original, before, after) {
                    continue;
                }
                let by = match pattern.kind {
                    Kind::Secret if original.len() > 200 => blotted(original.as_bytes()),
                    kind => self.names.of(kind, original).into_bytes(),
                };
                pieces.push(Piece { range, rank: rank + 1, original: Some(original.to_string()), by });
            }
        }
    }

    /// Hosts and owners of packages that are not public: `git.corp.example/team/agent/pool.(*Pool).Get`.
    fn private_modules(&mut self, text: &[u8], code: &[Range<usize>], pieces: &mut Vec<Piece>) {
        static MODULE: OnceLock<Option<Regex>> = OnceLock::new();
        let pattern = r"(?-u)(?:^|[/@])((?:[a-z0-9-]+\.)+[a-z]{2,})(?::[0-9]+)?/([A-Za-z0-9._-]+)/";
        let Some(module) = MODULE.get_or_init(|| Regex::new(pattern).ok()) else { return };
        for range in code {
            let Some(found) = text.get(range.clone()).and_then(|token| module.captures(token)) else { continue };
            let host = found.get(1).and_then(|m| std::str::from_utf8(m.as_bytes()).ok()).unwrap_or("");
            if patterns::is_public_host(host) {
                continue;
            }
            for (n, kind) in [(1, Kind::Host), (2, Kind::Path)] {
                let Some(part) = found.get(n) else { continue };
                let Ok(original) = std::str::from_utf8(part.as_bytes()) else { continue };
                let by = self.names.of(kind, original).into_bytes();
                let range = range.start + part.start()..range.start + part.end();
                pieces.push(Piece { range, rank: 50, original: Some(original.to_string()), by });
            }
        }
    }

    /// Names that were learned, wherever they stand but in Go's own names.
    fn learned(&mut self, text: &[u8], code: &[Range<usize>], pieces: &mut Vec<Piece>) {
        let Some(automaton) = &self.automaton else { return };
        let commands = commands(text);
        let within = |ranges: &[Range<usize>], at: usize| {
            let next = ranges.partition_point(|r| r.end <= at);
            ranges.get(next).is_some_and(|r| r.start <= at)
        };
        let mut hits: Vec<(Range<usize>, usize)> = Vec::new();
        for found in automaton.find_overlapping_iter(text) {
            let range = found.range();
            let Some(needle) = self.needles.get(found.pattern().as_usize()) else { continue };
            let (before, after) = (text.get(..range.start).unwrap_or(&[]), text.get(range.end..).unwrap_or(&[]));
            let path = needle.kind == Kind::Path;
            let deep = path && !needle.unit && needle.original.matches('/').count() > 1;
            if !(deep || free_before(before)) || !free_after(after) {
                continue;
            }
            if within(code, range.start) && !path {
                continue;
            }
            let user = needle.kind == Kind::User && is_user(before, after);
            if needle.weak && !(user || named(before, after) || within(&commands, range.start)) {
                continue;
            }
            hits.push((range, found.pattern().as_usize()));
        }
        for (range, n) in hits {
            let Some(needle) = self.needles.get(n) else { continue };
            let (slash, dash, needle_unit) = (needle.slash, needle.dash, needle.unit);
            let (original, kind) = (needle.original.clone(), needle.kind);
            let pseudonym = self.names.of(kind, &original);
            let plain = if needle_unit { pseudonym.trim_start_matches('/') } else { &pseudonym };
            let by = plain.replace('-', dash).replace('/', slash).into_bytes();
            pieces.push(Piece { range, rank: 60, original: Some(original), by });
        }
    }
}

/// Plain words and very short names mean other things too.
fn is_weak(name: &str) -> bool {
    name.len() <= 3 || name.bytes().all(|b| b.is_ascii_lowercase()) || name.bytes().all(|b| b.is_ascii_uppercase())
}

/// Nothing of a word stands before: a letter that ends an escape (`\n`, `\u003c`, `#012`, `%2F`) is none.
fn free_before(before: &[u8]) -> bool {
    match before.last() {
        Some(b) if b.is_ascii_alphanumeric() || *b >= 0x80 => ends_escape(before),
        _ => true,
    }
}

fn ends_escape(before: &[u8]) -> bool {
    static ESCAPE: OnceLock<Option<Regex>> = OnceLock::new();
    let pattern = concat!(
        r"(?-u)(?:\\+[nrtabfv0]|\\+u[0-9a-fA-F]{4}|\\+x[0-9a-fA-F]{2}|#[0-7]{3}|\\+[0-7]{3}|%[0-9a-fA-F]{2}|=[0-9A-F]{2}",
        r"|(?:\x1b|\\+x1b|\\+u001b|#033|\^\[)\[[0-9;]*m)$"
    );
    let tail = before.get(before.len().saturating_sub(20)..).unwrap_or(before);
    ESCAPE.get_or_init(|| Regex::new(pattern).ok()).as_ref().is_some_and(|escape| escape.is_match(tail))
}

fn free_after(after: &[u8]) -> bool {
    !after.first().is_some_and(|b| b.is_ascii_alphanumeric() || *b >= 0x80)
}

/// A value in quotes, after `=`, between slashes or underscores: a plain word that stands so is a name.
fn named(before: &[u8], after: &[u8]) -> bool {
    let opens = |b: &u8| {
        matches!(
            b,
            b'"' | b'\'' | b'=' | b'/' | b'(' | b'[' | b'{' | b',' | b':' | b'_' | b'@' | b'!' | b'>' | b'`' | b'|'
        )
    };
    let closes = |b: &u8| {
        matches!(
            b,
            b'"' | b'\''
                | b'/'
                | b')'
                | b']'
                | b'}'
                | b','
                | b':'
                | b'_'
                | b'\\'
                | b' '
                | b'\n'
                | b'\r'
                | b'@'
                | b'?'
                | b'%'
                | b'<'
                | b'&'
                | b';'
                | b'`'
                | b'|'
        )
    };
    before.last().is_some_and(opens) && after.first().is_none_or(closes)
}

/// The first column of `ps`, or the word behind "user".
fn is_user(before: &[u8], after: &[u8]) -> bool {
    let column = (before.is_empty() || before.ends_with(b"\n") || before.ends_with(b"\\n")) && after.starts_with(b" ");
    column || before.ends_with(b"user ")
}

/// Where Go's own names stand: function names with their packages, source files.
fn code(text: &[u8]) -> Vec<Range<usize>> {
    static CODE: OnceLock<Option<Regex>> = OnceLock::new();
    let pattern = concat!(
        r#"(?-u)[^\s"'()=\\,\[\]]*\.(?:go|s|c|h):[0-9]+"#,
        r"|[A-Za-z0-9_.~%@+/-]*[A-Za-z0-9_]\.(?:\(\*?[A-Za-z0-9_.\[\]/*,-]+\)\.)?[A-Za-z0-9_.\[\]-]+\(",
        r"|created by [A-Za-z0-9_.~%@+/()*\[\]-]+"
    );
    let Some(code) = CODE.get_or_init(|| Regex::new(pattern).ok()) else { return Vec::new() };
    // In escaped text the letters of an escape stand before a name: `\ngithub.com/…`.
    let begin = |range: Range<usize>| {
        let escaped = (1..=5).rev().filter(|&n| range.start + n < range.end);
        let skip = escaped.into_iter().find(|&n| ends_escape(text.get(..range.start + n).unwrap_or(&[]))).unwrap_or(0);
        range.start + skip..range.end
    };
    code.find_iter(text).map(|found| begin(found.range())).collect()
}

/// Rest of the lines behind a command that takes containers' names: `docker exec worker ls`; and rows of its listings.
fn commands(text: &[u8]) -> Vec<Range<usize>> {
    static COMMAND: OnceLock<Option<Regex>> = OnceLock::new();
    let pattern = concat!(
        r"(?m-u)\b(?:docker|crictl|kubectl|ctr|podman|nerdctl|docker-runc|runc) [^\n]*",
        r"|^[0-9a-f]{12,64} {2,}[^\n]*"
    );
    let Some(command) = COMMAND.get_or_init(|| Regex::new(pattern).ok()) else { return Vec::new() };
    command.find_iter(text).map(|found| found.range()).collect()
}

/// A long secret, letter by letter, so that its lines stay.
fn blotted(secret: &[u8]) -> Vec<u8> {
    let mut out = secret.to_vec();
    let mut escape = false;
    for byte in &mut out {
        if !escape && byte.is_ascii_alphanumeric() {
            *byte = b'X';
        }
        escape = *byte == b'\\';
    }
    out
}
