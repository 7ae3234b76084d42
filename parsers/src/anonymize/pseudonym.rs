//! What a name is replaced by: always the same, of the same length and structure where that can be.

use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

/// What a name is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Kind {
    Host,
    User,
    Pod,
    Container,
    Namespace,
    Image,
    Volume,
    Path,
    Id,
    Uuid,
    Ip,
    Mac,
    Email,
    Secret,
}

impl Kind {
    /// In a list for the user, and the stem of pseudonyms.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Host => "host",
            Kind::User => "user",
            Kind::Pod => "pod",
            Kind::Container => "container",
            Kind::Namespace => "namespace",
            Kind::Image => "image",
            Kind::Volume => "volume",
            Kind::Path => "path",
            Kind::Id => "id",
            Kind::Uuid => "uuid",
            Kind::Ip => "ip",
            Kind::Mac => "mac",
            Kind::Email => "email",
            Kind::Secret => "secret",
        }
    }

    fn stem(self) -> &'static str {
        match self {
            Kind::Namespace => "ns",
            Kind::Container => "ctr",
            Kind::Volume => "vol",
            Kind::Image => "img",
            Kind::Path => "dir",
            Kind::Secret => "redacted",
            other => other.as_str(),
        }
    }
}

/// A name that was replaced.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Replaced {
    /// What it is of.
    pub kind: Kind,
    /// As it was.
    pub original: String,
    /// As it is now.
    pub pseudonym: String,
    /// How often.
    pub count: u64,
}

/// All pseudonyms.
#[derive(Debug, Default)]
pub struct Pseudonyms {
    seed: u64,
    /// Names that were learned from where they stood.
    learned: BTreeMap<String, Kind>,
    /// Paths that were learned, each as a whole.
    paths: BTreeSet<String>,
    /// Long ids, so that short forms find theirs.
    ids: BTreeSet<String>,
    made: FxHashMap<String, (Kind, String)>,
    used: FxHashMap<String, String>,
    numbers: FxHashMap<Kind, u64>,
    counts: FxHashMap<String, u64>,
}

impl Pseudonyms {
    /// Nothing yet.
    pub fn new(seed: u64) -> Self {
        Pseudonyms { seed, ..Pseudonyms::default() }
    }

    /// Learns a name. What was learned first is kept.
    pub fn name(&mut self, kind: Kind, name: &str) {
        self.learned.entry(name.to_string()).or_insert(kind);
    }

    /// Learns a path with names in it.
    pub fn path(&mut self, path: &str) {
        self.paths.insert(path.to_string());
    }

    /// Learns a long id.
    pub fn id(&mut self, id: &str) {
        self.ids.insert(id.to_string());
    }

    /// Whether hex digits are the beginning of an id that was learned.
    pub fn is_part(&self, digits: &str) -> bool {
        let mixed = digits.bytes().any(|b| b.is_ascii_digit()) && digits.bytes().any(|b| b.is_ascii_alphabetic());
        mixed && self.ids.range(digits.to_string()..).next().is_some_and(|id| id.starts_with(digits))
    }

    /// The names that were learned.
    pub fn learned(&self) -> impl Iterator<Item = (&str, Kind)> {
        self.learned.iter().map(|(name, kind)| (name.as_str(), *kind))
    }

    /// The paths that were learned.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().map(String::as_str)
    }

    /// Counts a replacement that was made.
    pub fn count(&mut self, original: &str) {
        *self.counts.entry(original.to_string()).or_default() += 1;
    }

    /// What was replaced.
    pub fn replaced(&self) -> Vec<Replaced> {
        let mut all: Vec<Replaced> = self
            .made
            .iter()
            .filter_map(|(original, (kind, pseudonym))| {
                let count = *self.counts.get(original)?;
                Some(Replaced { kind: *kind, original: original.clone(), pseudonym: pseudonym.clone(), count })
            })
            .collect();
        all.sort();
        all
    }

    /// The pseudonym of `original`.
    pub fn of(&mut self, kind: Kind, original: &str) -> String {
        if let Some((_, made)) = self.made.get(original) {
            return made.clone();
        }
        let made = match kind {
            Kind::Id => self.hex(original),
            Kind::Uuid => self.uuid(original),
            Kind::Mac => self.mac(original),
            Kind::Ip => self.ip(original),
            Kind::Email => {
                let n = self.next(kind);
                format!("user{n}@mail.invalid")
            }
            Kind::Path => self.of_path(original),
            Kind::Host if original.contains('.') => self.of_host(original),
            Kind::Secret => {
                // Its length would tell something of it.
                let n = self.next(kind);
                format!("redacted{n}")
            }
            _ => self.word(kind, original),
        };
        self.used.insert(made.clone(), original.to_string());
        self.made.insert(original.to_string(), (kind, made.clone()));
        made
    }

    fn next(&mut self, kind: Kind) -> u64 {
        let n = self.numbers.entry(kind).or_default();
        *n += 1;
        *n
    }

    /// A word of the same length, if any is left.
    fn word(&mut self, kind: Kind, original: &str) -> String {
        loop {
            let n = self.next(kind);
            let stem = kind.stem();
            let length = original.chars().count();
            let number = n.to_string();
            let word = match length.checked_sub(stem.len() + number.len()) {
                Some(0) => format!("{stem}{number}"),
                Some(1) => format!("{stem}x{number}"),
                Some(pad) => format!("{stem}-{}{number}", "x".repeat(pad - 1)),
                None => {
                    let room = length.saturating_sub(number.len()).max(1);
                    format!("{}{number}", stem.get(..room.min(stem.len())).unwrap_or(stem))
                }
            };
            if !self.used.contains_key(&word) && !self.learned.contains_key(&word) {
                return word;
            }
        }
    }

    /// The first label of a host is what it is called alone; the rest is its domain.
    fn of_host(&mut self, host: &str) -> String {
        const KEPT: [&str; 12] =
            ["com", "net", "org", "io", "cn", "local", "internal", "svc", "cluster", "localdomain", "lan", "invalid"];
        let labels: Vec<&str> = host.split('.').collect();
        let made: Vec<String> = labels
            .iter()
            .enumerate()
            .map(|(n, label)| {
                let known =
                    label.is_empty() || n > 0 && KEPT.contains(label) || label.bytes().all(|b| b.is_ascii_digit());
                if known { (*label).to_string() } else { self.of(Kind::Host, label) }
            })
            .collect();
        made.join(".")
    }

    /// Each folder of a path gets its own; those that every system has are kept.
    fn of_path(&mut self, path: &str) -> String {
        let made: Vec<String> = path
            .split('/')
            .map(|part| {
                if part.is_empty() || super::learn::is_system_folder(part) {
                    part.to_string()
                } else {
                    self.word_of(part)
                }
            })
            .collect();
        made.join("/")
    }

    /// The pseudonym of a folder's name: a learned name has its own.
    fn word_of(&mut self, part: &str) -> String {
        match self.learned.get(part) {
            Some(&kind) if kind != Kind::Path => self.of(kind, part),
            _ => {
                let key = format!("{part}/");
                if let Some((_, made)) = self.made.get(&key) {
                    return made.clone();
                }
                let made = self.word(Kind::Path, part);
                self.used.insert(made.clone(), key.clone());
                self.made.insert(key, (Kind::Path, made.clone()));
                made
            }
        }
    }

    /// Hex digits of the same length; a short form begins as its long form does.
    fn hex(&mut self, id: &str) -> String {
        let lower = id.to_ascii_lowercase();
        let long = self
            .ids
            .range(lower.clone()..)
            .next()
            .filter(|long| long.len() > lower.len() && long.starts_with(&lower))
            .cloned();
        if let Some(long) = long {
            let made = self.of(Kind::Id, &long);
            return made.get(..id.len()).unwrap_or(&made).to_string();
        }
        let mut out = String::with_capacity(id.len() + 16);
        while out.len() < id.len() {
            out.push_str(&format!("{:016x}", self.random()));
        }
        out.truncate(id.len());
        // An id without a letter could be taken for a number, and one without a digit for a word.
        if out.len() > 2 {
            let letter = char::from(b'a' + (self.random() % 6) as u8);
            out.replace_range(..2, &format!("{letter}{}", self.random() % 10));
        }
        if id.bytes().any(|b| b.is_ascii_uppercase()) { out.to_ascii_uppercase() } else { out }
    }

    /// Dashed or with underscores, as cgroup names have it: the same digits.
    fn uuid(&mut self, uuid: &str) -> String {
        let digits: String = uuid.chars().filter(char::is_ascii_hexdigit).collect();
        let made = self.of(Kind::Id, &digits.to_ascii_lowercase());
        let mut digits = made.chars();
        uuid.chars().map(|c| if c.is_ascii_hexdigit() { digits.next().unwrap_or('0') } else { c }).collect()
    }

    fn mac(&mut self, mac: &str) -> String {
        let n = self.next(Kind::Mac);
        let separator = mac.chars().nth(2).unwrap_or(':');
        let bytes = [2, 0, (n >> 24) as u8, (n >> 16) as u8, (n >> 8) as u8, n as u8];
        bytes.map(|b| format!("{b:02x}")).join(&separator.to_string())
    }

    /// Addresses of networks that are set aside for benchmarks (RFC 2544) and documentation (RFC 3849).
    fn ip(&mut self, ip: &str) -> String {
        let n = self.next(Kind::Ip);
        if ip.contains(':') {
            return Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, (n >> 32) as u16, (n >> 16) as u16, n as u16).to_string();
        }
        format!("198.{}.{}.{}", 18 + (n / 64_516) % 2, (n / 254) % 254, n % 254 + 1)
    }

    /// The next number of a splitmix64 sequence: a pseudonym has nothing of its original in it.
    fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
