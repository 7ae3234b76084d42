//! All goroutines in little space, for the page's script: a group's stack once, and for each member its id, age and
//! the words in which its text differs.
//!
//! The table is JSON, packed (raw deflate, base 64). Its size is bounded: ids and ages come first for all, then the
//! texts as long as there is room.

use super::escape::base64;
use super::quote;
use super::view::{View, interesting, lock_anchor, lock_name, short_function};
use flate2::Compression;
use flate2::write::DeflateEncoder;
use holdup_analysis::diagnosis::Group;
use holdup_parsers::evidence::{Evidence, FunctionName, Goroutine, Snapshot};
use rayon::prelude::*;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::io::Write;

/// Packed bytes at most, before base 64.
const PACKED: usize = 3_600_000;
/// Bytes of texts that are packed at most, whatever they shrink to.
const TEXTS: usize = 48_000_000;
/// Bytes of one goroutine's text at most.
const TEXT: usize = 64 * 1024;

/// The packed table.
pub struct Table {
    /// Base 64 of the deflated JSON.
    pub packed: String,
    /// Goroutines whose text did not fit.
    pub without_text: u64,
}

/// Where goroutines stand in the evidence, by snapshot and id.
pub struct Found<'a> {
    evidence: &'a Evidence,
    by_snapshot: HashMap<&'a str, (usize, HashMap<u64, u32>)>,
}

impl<'a> Found<'a> {
    /// Indexes the goroutines of all snapshots.
    pub fn new(view: &View<'a>) -> Self {
        let evidence = view.incident.evidence;
        let snapshots: Vec<_> = view.diagnosis().snapshots.iter().zip(&evidence.snapshots).enumerate().collect();
        let by_snapshot = snapshots
            .into_par_iter()
            .map(|(at, (known, found))| {
                let mut ids = HashMap::with_capacity(found.goroutines.len());
                for (index, goroutine) in found.goroutines.iter().enumerate() {
                    if let Some(id) = goroutine.id {
                        ids.entry(id).or_insert(index as u32);
                    }
                }
                (known.id.as_str(), (at, ids))
            })
            .collect();
        Found { evidence, by_snapshot }
    }

    /// A goroutine and its snapshot.
    pub fn get(&self, snapshot: &str, id: u64) -> Option<(&'a Snapshot, &'a Goroutine)> {
        let (at, ids) = self.by_snapshot.get(snapshot)?;
        let snapshot = self.evidence.snapshots.get(*at)?;
        Some((snapshot, snapshot.goroutines.get(*ids.get(&id)? as usize)?))
    }
}

/// Builds the table; `order` are indexes of groups, the most telling first.
pub fn build(view: &View<'_>, found: &Found<'_>, order: &[usize]) -> Table {
    let diagnosis = view.diagnosis();
    let mut locks: HashMap<(&str, u64), usize> = HashMap::new();
    for (index, lock) in diagnosis.locks.iter().enumerate() {
        for waiter in &lock.waiters {
            if let Some(id) = waiter.goroutine {
                locks.entry((lock.snapshot.as_str(), id)).or_insert(index);
            }
        }
    }
    let mut words = Words::default();
    let groups: Vec<Value> = order
        .iter()
        .filter_map(|&at| diagnosis.groups.get(at))
        .map(|group| head(group, found, &locks, &mut words))
        .collect();
    let snapshots: Vec<Value> = diagnosis
        .snapshots
        .iter()
        .map(|s| {
            let input = diagnosis.inputs.get(s.input).map_or("", |input| input.path.as_str());
            json!([s.id, view.process(&s.id), input])
        })
        .collect();
    // Only locks that some goroutine of the table waits for can be chosen.
    let names: BTreeMap<usize, Value> = locks
        .values()
        .map(|&at| (at, diagnosis.locks.get(at)))
        .filter_map(|(at, lock)| {
            lock.map(|lock| {
                (at, json!([lock_anchor(&lock.id), format!("{} · {}", view.process(&lock.snapshot), lock_name(lock))]))
            })
        })
        .collect();
    let head = json!({"snapshots": snapshots, "words": words.list, "locks": names, "groups": groups});

    let mut packer = DeflateEncoder::new(Vec::new(), Compression::new(5));
    let mut head = head.to_string();
    head.pop();
    head.push_str(",\"texts\":[");
    let mut without_text = 0;
    // A write into memory does not fail; if it did, the page would say that the list cannot be unpacked.
    let _ = packer.write_all(head.as_bytes());
    let mut written = 0usize;
    for batch in order.chunks(256) {
        let texts: Vec<String> = batch
            .par_iter()
            .map(|&at| diagnosis.groups.get(at).and_then(|group| texts(group, found)).unwrap_or_else(|| "0".into()))
            .collect();
        for (text, &at) in texts.iter().zip(batch) {
            let fits = written + text.len() <= TEXTS && packer.get_ref().len() + text.len() / 20 <= PACKED;
            if !fits {
                without_text += diagnosis.groups.get(at).map_or(0, |group| group.count);
            }
            let _ = packer.write_all(if fits { text.as_bytes() } else { b"0" });
            let _ = packer.write_all(b",");
            written += text.len();
        }
    }
    let _ = packer.write_all(b"0]}");
    Table { packed: base64(&packer.finish().unwrap_or_default()), without_text }
}

/// Interned states, functions and packages.
#[derive(Default)]
struct Words {
    list: Vec<String>,
    index: HashMap<String, usize>,
}

impl Words {
    fn of(&mut self, word: &str) -> usize {
        if let Some(&at) = self.index.get(word) {
            return at;
        }
        self.list.push(word.to_owned());
        self.index.insert(word.to_owned(), self.list.len() - 1);
        self.list.len() - 1
    }
}

/// What can be filtered by: snapshot, state, ages, lock, package, ids, places.
fn head(group: &Group, found: &Found<'_>, locks: &HashMap<(&str, u64), usize>, words: &mut Words) -> Value {
    let frame = interesting(group);
    let function = frame.map_or("", |f| f.function.as_str());
    let members: Vec<_> = group.goroutines.iter().map(|&id| (id, found.get(&group.snapshot, id))).collect();
    let minutes = members.iter().map(|(_, at)| at.and_then(|(_, g)| g.minutes).map_or(-1, i64::from));
    let line =
        |at: &Option<(&Snapshot, &Goroutine)>| at.and_then(|(s, g)| s.place(g.line)).map_or(0, |p| i64::from(p.line));
    let lock = members.iter().map(|(id, _)| locks.get(&(group.snapshot.as_str(), *id)).map_or(-1, |&at| at as i64));
    json!({
        "s": group.snapshot,
        "st": words.of(&group.state),
        "f": words.of(short_function(function)),
        "p": words.of(FunctionName::parse(function).package_without_vendor()),
        "at": words.of(&frame.map(|f| format!("{}:{}", f.file.rsplit('/').next().unwrap_or(&f.file), f.line)).unwrap_or_default()),
        "idle": group.idle.as_deref().map_or(-1, |reason| words.of(reason) as i64),
        "n": group.count,
        "ids": deltas(members.iter().map(|(id, _)| *id as i64)),
        "min": uniform(minutes.collect()),
        "ln": deltas(members.iter().map(|(_, at)| line(at))),
        "lk": uniform(lock.collect()),
    })
}

/// Differences between neighbours pack better than the numbers.
fn deltas(numbers: impl Iterator<Item = i64>) -> Vec<i64> {
    let mut last = 0;
    numbers.map(|n| n - std::mem::replace(&mut last, n)).collect()
}

/// One number where all are equal.
fn uniform(numbers: Vec<i64>) -> Value {
    match numbers.split_first() {
        Some((first, rest)) if rest.iter().all(|n| n == first) => json!(first),
        _ => json!(numbers),
    }
}

/// A group's text in pieces, between which the members' words stand; JSON.
fn texts(group: &Group, found: &Found<'_>) -> Option<String> {
    let blocks: Vec<Option<Cow<'_, [u8]>>> = group
        .goroutines
        .iter()
        .map(|&id| found.get(&group.snapshot, id).map(|(s, g)| quote::block(s, g)).filter(|b| b.len() <= TEXT))
        .collect();
    // Headers differ in shape (`[semacquire]`, `[semacquire, 7 minutes]`), so they stand apart, without the id.
    let headers: Vec<Cow<'_, str>> = blocks
        .iter()
        .zip(&group.goroutines)
        .map(|(block, id)| {
            let header = block.as_deref().map_or(&b""[..], |block| split_header(block).0);
            let known = format!("goroutine {id}");
            let tail = header.strip_prefix(known.as_bytes()).unwrap_or(header);
            Cow::Owned(lossy(tail).into_owned())
        })
        .collect();
    let headers = match headers.split_first() {
        Some((first, rest)) if rest.iter().all(|h| h == first) => json!(first),
        _ => json!(headers),
    };
    let blocks: Vec<Option<&[u8]>> = blocks.iter().map(|block| block.as_deref().map(|b| split_header(b).1)).collect();
    let sample = *blocks.iter().flatten().next()?;
    // Of each member the words that differ from the sample's, by place in the sample.
    let differences: Vec<Option<Vec<Difference<'_>>>> =
        blocks.iter().map(|block| block.and_then(|block| differences(sample, block))).collect();
    let mut slots: BTreeMap<usize, usize> = BTreeMap::new();
    for difference in differences.iter().flatten().flatten() {
        slots.insert(difference.at, difference.len);
    }
    let column: HashMap<usize, usize> = slots.keys().enumerate().map(|(i, &at)| (at, i)).collect();
    let default: Vec<&[u8]> = slots.iter().map(|(&at, &len)| sample.get(at..at + len).unwrap_or(&[])).collect();
    let mut pieces = Vec::new();
    let mut from = 0;
    for (&at, &len) in &slots {
        pieces.push(lossy(sample.get(from..at).unwrap_or(&[])));
        from = at + len;
    }
    pieces.push(lossy(sample.get(from..).unwrap_or(&[])));

    let mut columns: Vec<Vec<&[u8]>> = vec![Vec::with_capacity(blocks.len()); slots.len()];
    let mut odd = serde_json::Map::new();
    for (member, (block, difference)) in blocks.iter().zip(&differences).enumerate() {
        let mut row = default.clone();
        match (block, difference) {
            (_, Some(difference)) => {
                for d in difference {
                    if let Some(cell) = column.get(&d.at).and_then(|&i| row.get_mut(i)) {
                        *cell = d.word;
                    }
                }
            }
            (Some(block), None) => {
                odd.insert(member.to_string(), json!(lossy(block)));
            }
            (None, None) => {
                odd.insert(member.to_string(), Value::Null);
            }
        }
        for (column, cell) in columns.iter_mut().zip(row) {
            column.push(cell);
        }
    }
    let columns = packed_columns(&columns);
    Some(json!({"h": headers, "t": pieces, "c": columns, "o": odd}).to_string())
}

/// The first line, and what follows.
fn split_header(block: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr::memchr(b'\n', block).unwrap_or(block.len());
    (&block[..end], block.get(end + 1..).unwrap_or(&[]))
}

fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// Columns as words between spaces. One that equals an earlier one, or differs from it by a constant (a field of the
/// same object), refers to it: `[column, difference]`.
fn packed_columns(columns: &[Vec<&[u8]>]) -> Vec<Value> {
    let value = |word: &[u8]| {
        let digits = word.strip_prefix(b"0x")?;
        i64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let numbers: Vec<Option<Vec<i64>>> = columns.iter().map(|c| c.iter().map(|word| value(word)).collect()).collect();
    let mut packed = Vec::new();
    for (i, column) in columns.iter().enumerate() {
        let same = (0..i).find(|&j| columns.get(j) == Some(column)).map(|j| json!([j, 0]));
        let shifted = || {
            let own = numbers.get(i)?.as_ref()?;
            (0..i).find_map(|j| {
                let other = numbers.get(j)?.as_ref()?;
                let shift = own.first()?.checked_sub(*other.first()?)?;
                own.iter().zip(other).all(|(a, b)| a.checked_sub(*b) == Some(shift)).then(|| json!([j, shift]))
            })
        };
        packed.push(same.or_else(shifted).unwrap_or_else(|| {
            let words: Vec<Cow<'_, str>> = column.iter().map(|word| lossy(word)).collect();
            json!(words.join(" "))
        }));
    }
    packed
}

/// A word of a member's text that differs from the sample's.
struct Difference<'a> {
    /// Start of the sample's word.
    at: usize,
    /// Length of the sample's word.
    len: usize,
    /// The member's word.
    word: &'a [u8],
}

/// Letters, digits and what arguments are made of besides.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'?' | b'.')
}

/// The words in which two texts of the same shape differ; `None` if their shapes differ.
fn differences<'a>(sample: &[u8], member: &'a [u8]) -> Option<Vec<Difference<'a>>> {
    let mut found = Vec::new();
    let (mut a, mut b) = (0usize, 0usize);
    loop {
        let same = sample.get(a..)?.iter().zip(member.get(b..)?).take_while(|(x, y)| x == y).count();
        (a, b) = (a + same, b + same);
        if a == sample.len() && b == member.len() {
            return Some(found);
        }
        let back =
            sample[..a].iter().rev().zip(member[..b].iter().rev()).take_while(|(x, y)| x == y && is_word(**x)).count();
        let forward =
            |text: &[u8], from: usize| text.get(from..).unwrap_or(&[]).iter().take_while(|b| is_word(**b)).count();
        let (ahead_a, ahead_b) = (forward(sample, a), forward(member, b));
        let (len_a, len_b) = (back + ahead_a, back + ahead_b);
        // Different marks after equal words: another shape, and no step ahead.
        if len_a == 0 || len_b == 0 || ahead_a + ahead_b == 0 {
            return None;
        }
        found.push(Difference { at: a - back, len: len_a, word: member.get(b - back..b - back + len_b)? });
        (a, b) = (a - back + len_a, b - back + len_b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_differ_in_words() {
        let words = |a: &str, b: &str| -> Option<Vec<(usize, String)>> {
            let found = differences(a.as_bytes(), b.as_bytes())?;
            Some(found.iter().map(|d| (d.at, String::from_utf8_lossy(d.word).into_owned())).collect())
        };
        assert_eq!(words("f(0xc1, 0x2)", "f(0xd1, 0x25?)"), Some(vec![(2, "0xd1".into()), (8, "0x25?".into())]));
        assert_eq!(words("same", "same"), Some(vec![]));
        assert_eq!(words("f(0x1)", "f(0x1, 0x2)"), None);
        assert_eq!(words("f(...)", "f(0x1)"), Some(vec![(2, "0x1".into())]));
    }

    #[test]
    fn columns_refer_to_equal_and_shifted_ones() {
        let columns =
            vec![vec![&b"0x10"[..], b"0x20"], vec![b"0x10", b"0x20"], vec![b"0x14", b"0x24"], vec![b"7", b"8"]];
        let packed = packed_columns(&columns);
        assert_eq!(packed, [json!("0x10 0x20"), json!([0, 0]), json!([0, 4]), json!("7 8")]);
    }
}
