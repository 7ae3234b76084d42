//! What all writers show of a diagnosis, prepared once: the chain as rows, names, ages, sources.

use super::quote;
use super::words::{Words, fill, number};
use super::{Incident, Style};
use holdup_analysis::diagnosis::{
    Diagnosis, Edge, Evidence, Finding, Group, GroupFrame, Holder, HolderStatus, Lock, Node, NodeId, Snapshot, Source,
    Trust, VerdictKind,
};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// A node's identity: kind, snapshot, id.
pub type Key<'a> = (&'a str, &'a str, &'a NodeId);

/// The identity of a node.
pub fn key(node: &Node) -> Key<'_> {
    (&node.kind, node.snapshot.as_deref().unwrap_or(""), &node.id)
}

/// A goroutine of a snapshot.
pub type GoroutineKey<'a> = (&'a str, u64);

/// The diagnosis with what is looked up in it again and again.
pub struct View<'a> {
    /// What was found, and where it stands.
    pub incident: Incident<'a>,
    /// The words of the reader's language.
    pub words: &'static Words,
    edges: HashMap<(Key<'a>, Key<'a>), &'a Edge>,
    locks: HashMap<&'a str, &'a Lock>,
    snapshots: HashMap<&'a str, &'a Snapshot>,
    ages: HashMap<GoroutineKey<'a>, u32>,
    groups: HashMap<GoroutineKey<'a>, usize>,
    found: HashMap<GoroutineKey<'a>, (usize, usize)>,
    input_names: Vec<&'a str>,
}

/// A row of the chain.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// `kubelet 14371`.
    pub process: String,
    /// `g512`, `t14130`, `1,048 g`.
    pub id: String,
    /// What it does or waits for.
    pub what: String,
    /// `7 min`, `1–7 min`.
    pub age: String,
    /// Why it waits for the next row.
    pub why: String,
    /// How sure that is.
    pub trust: Option<Trust>,
    /// Where the chain ends.
    pub root: bool,
    /// Repeats an earlier row: a cycle.
    pub back: bool,
    /// Where the HTML has more about it.
    pub anchor: Option<String>,
}

/// What speaks for a finding.
pub struct Reasons<'a> {
    /// The locks of its chain with their holders, the root's first.
    pub holders: Vec<(&'a Lock, &'a Holder)>,
    /// Evidence that is not about a holder.
    pub rest: Vec<&'a Evidence>,
}

impl<'a> View<'a> {
    /// Prepares a report.
    pub fn new(incident: &Incident<'a>, style: &Style) -> Self {
        let diagnosis = incident.diagnosis;
        let edges = diagnosis.edges.iter().map(|e| ((key(&e.from), key(&e.to)), e)).collect();
        let mut view = View {
            incident: *incident,
            words: Words::of(style.lang),
            edges,
            locks: diagnosis.locks.iter().map(|lock| (lock.id.as_str(), lock)).collect(),
            snapshots: diagnosis.snapshots.iter().map(|s| (s.id.as_str(), s)).collect(),
            ages: HashMap::new(),
            groups: HashMap::new(),
            found: HashMap::new(),
            input_names: short_names(diagnosis),
        };
        view.look_up_goroutines();
        view
    }

    /// What was found.
    pub fn diagnosis(&self) -> &'a Diagnosis {
        self.incident.diagnosis
    }

    /// The likeliest root cause.
    pub fn first(&self) -> Option<&'a Finding> {
        self.diagnosis().findings.first()
    }

    /// The edge between two nodes.
    pub fn edge(&self, from: &Node, to: &Node) -> Option<&'a Edge> {
        self.edges.get(&(key(from), key(to))).copied()
    }

    /// The lock that a node stands for.
    pub fn lock(&self, node: &Node) -> Option<&'a Lock> {
        match &node.id {
            NodeId::Name(id) if node.kind == "lock" => self.locks.get(id.as_str()).copied(),
            _ => None,
        }
    }

    /// The group of equal stacks that a goroutine belongs to; only known for those that some claim is about.
    pub fn group(&self, goroutine: GoroutineKey<'_>) -> Option<(usize, &'a Group)> {
        let index = *self.groups.get(&goroutine)?;
        Some((index, self.diagnosis().groups.get(index)?))
    }

    /// Whole minutes that a goroutine has waited; only known for those that some claim is about.
    pub fn age(&self, goroutine: GoroutineKey<'_>) -> Option<u32> {
        self.ages.get(&goroutine).copied()
    }

    /// A goroutine's block as printed; only known for those that some claim is about.
    pub fn block(&self, goroutine: GoroutineKey<'_>) -> Option<Cow<'a, [u8]>> {
        let (snapshot, index) = *self.found.get(&goroutine)?;
        let snapshot = self.incident.evidence.snapshots.get(snapshot)?;
        Some(quote::block(snapshot, snapshot.goroutines.get(index)?))
    }

    /// Whether some claim is about a goroutine.
    pub fn is_named(&self, goroutine: GoroutineKey<'_>) -> bool {
        self.groups.contains_key(&goroutine)
    }

    /// Groups that some claim is about, by index.
    pub fn named_groups(&self) -> HashSet<usize> {
        self.groups.values().copied().collect()
    }

    /// Goroutines that some claim is about: in chains, at their roots, holders, candidates.
    fn named(&self) -> HashSet<GoroutineKey<'a>> {
        let diagnosis = self.diagnosis();
        let nodes = diagnosis.findings.iter().flat_map(|f| f.chain.iter().chain([&f.root.node]));
        let moments = diagnosis.timeline.iter().filter_map(|m| m.node.as_ref());
        let of_nodes = nodes.chain(moments).filter_map(goroutine_of);
        let of_locks = diagnosis.locks.iter().flat_map(|lock| {
            let held = lock.holder.iter().chain(lock.candidates.iter().take(5));
            held.filter_map(|h| Some((lock.snapshot.as_str(), h.goroutine?)))
        });
        of_nodes.chain(of_locks).collect()
    }

    fn look_up_goroutines(&mut self) {
        let named = self.named();
        let diagnosis = self.incident.diagnosis;
        for (index, group) in diagnosis.groups.iter().enumerate() {
            for &id in &group.goroutines {
                let goroutine = (group.snapshot.as_str(), id);
                if named.contains(&goroutine) {
                    self.groups.insert(goroutine, index);
                }
            }
        }
        let snapshots = diagnosis.snapshots.iter().zip(&self.incident.evidence.snapshots);
        for (at, (snapshot, found)) in snapshots.enumerate() {
            for (index, goroutine) in found.goroutines.iter().enumerate() {
                let Some(id) = goroutine.id else { continue };
                let name = (snapshot.id.as_str(), id);
                if named.contains(&name) {
                    self.found.entry(name).or_insert((at, index));
                    if let Some(minutes) = goroutine.minutes {
                        self.ages.insert(name, minutes);
                    }
                }
            }
        }
        for lock in &diagnosis.locks {
            for waiter in &lock.waiters {
                if let (Some(id), Some(minutes)) = (waiter.goroutine, waiter.minutes)
                    && named.contains(&(lock.snapshot.as_str(), id))
                {
                    self.ages.insert((lock.snapshot.as_str(), id), minutes);
                }
            }
        }
        for finding in &diagnosis.findings {
            if let (Some(goroutine), Some(minutes)) = (goroutine_of(&finding.root.node), finding.root.minutes) {
                self.ages.insert(goroutine, minutes);
            }
        }
    }

    /// `terwayd 14117`.
    pub fn process(&self, snapshot: &str) -> String {
        let Some(snapshot) = self.snapshots.get(snapshot) else { return String::new() };
        let process = &snapshot.process;
        let name = match process.name.as_deref() {
            Some(name) if !name.is_empty() => name,
            _ if !process.role.is_empty() => &process.role,
            _ => &snapshot.id,
        };
        match process.pid {
            Some(pid) => format!("{name} {pid}"),
            None => name.to_owned(),
        }
    }

    /// `file.txt:120`, by the file's own name where that is enough.
    pub fn source(&self, source: &Source) -> String {
        let name = self.input_names.get(source.input).copied().unwrap_or("?");
        match (source.line_start, source.line_end, &source.address) {
            (Some(start), Some(end), _) if end > start => format!("{name}:{start}-{end}"),
            (Some(start), _, _) => format!("{name}:{start}"),
            (None, _, Some(address)) => format!("{name}@{address}"),
            (None, _, None) => name.to_owned(),
        }
    }

    /// The verdict's word, in capitals.
    pub fn verdict(&self) -> &'static str {
        verdict_word(self.words, self.diagnosis().verdict.kind)
    }

    /// The word of a degree of trust.
    pub fn trust(&self, trust: Trust) -> &'static str {
        trust_word(self.words, trust)
    }

    /// What that word means.
    pub fn trust_meaning(&self, trust: Trust) -> &'static str {
        let w = self.words;
        match trust {
            Trust::Proven => w.trust_proven,
            Trust::Strong => w.trust_strong,
            Trust::Likely => w.trust_likely,
            Trust::Guess => w.trust_guess,
        }
    }

    /// `7 min`.
    pub fn minutes(&self, minutes: u32) -> String {
        fill(self.words.minutes, &[("n", &number(minutes.into()))])
    }

    /// `1–7 min`.
    pub fn range(&self, min: Option<u32>, max: Option<u32>) -> String {
        match (min, max) {
            (Some(min), Some(max)) if min < max => {
                let range = format!("{}–{}", number(min.into()), number(max.into()));
                fill(self.words.minutes, &[("n", &range)])
            }
            (None, Some(max)) if max > 0 => fill(self.words.minutes, &[("n", &format!("0–{}", number(max.into())))]),
            (_, Some(one)) | (Some(one), None) => self.minutes(one),
            (None, None) => String::new(),
        }
    }

    /// `at least 1,595 minutes (26 h 35 min)`.
    pub fn since(&self) -> Option<String> {
        let minutes = self.diagnosis().verdict.since_minutes.or_else(|| self.first()?.root.minutes)?;
        let mut text = match minutes {
            0 => return Some(self.words.under_a_minute.to_owned()),
            1 => self.words.at_least_minute.to_owned(),
            n => fill(self.words.at_least_minutes, &[("n", &number(n.into()))]),
        };
        if minutes >= 120 {
            let hours = (minutes / 60).to_string();
            let rest = (minutes % 60).to_string();
            text.push_str(&format!(" ({})", fill(self.words.hours, &[("h", &hours), ("m", &rest)])));
        }
        Some(text)
    }

    /// `1,048 goroutines in 4 processes`.
    pub fn blocked(&self, finding: &Finding) -> Option<String> {
        let (goroutines, processes) = (finding.blocked.goroutines, finding.blocked.processes);
        if goroutines == 0 {
            return None;
        }
        let goroutines = self.goroutines(goroutines);
        Some(match processes {
            0 | 1 => goroutines,
            n => {
                let processes = fill(self.words.processes, &[("n", &number(n))]);
                fill(self.words.in_processes, &[("goroutines", &goroutines), ("processes", &processes)])
            }
        })
    }

    /// `34 goroutines`.
    pub fn goroutines(&self, n: u64) -> String {
        plural(n, self.words.goroutine_one, self.words.goroutines)
    }

    /// `9 snapshots from 21 files, 2 cut short`.
    pub fn what_was_read(&self) -> String {
        let d = self.diagnosis();
        let snapshots = plural(d.snapshots.len() as u64, self.words.snapshot_one, self.words.snapshots);
        let files = plural(d.inputs.len() as u64, self.words.file_one, self.words.files);
        let mut text = fill(self.words.from_files, &[("snapshots", &snapshots), ("files", &files)]);
        let cut = d.snapshots.iter().filter(|s| !s.complete).count();
        if cut > 0 {
            text.push_str(", ");
            text.push_str(&fill(self.words.cut_short, &[("n", &number(cut as u64))]));
        }
        text
    }

    /// The lock that the root of a finding holds, as far as the chain shows one.
    pub fn held_by_root(&self, finding: &'a Finding) -> Option<(&'a Lock, &'a Holder)> {
        let root = goroutine_of(&finding.root.node)?;
        let in_chain = finding.chain.iter().filter_map(|node| self.lock(node));
        let any = self.diagnosis().locks.iter().filter(|lock| lock.waiter_count > 0);
        in_chain.chain(any).find_map(|lock| {
            let holder = lock.holder.as_ref()?;
            ((lock.snapshot.as_str(), holder.goroutine?) == root).then_some((lock, holder))
        })
    }

    /// Why the holders of a finding's chain are said to hold: who, and the evidence. Then what else speaks for it.
    pub fn reasons(&self, finding: &'a Finding) -> Reasons<'a> {
        let mut holders: Vec<(&'a Lock, &'a Holder)> = Vec::new();
        for lock in finding.chain.iter().filter_map(|node| self.lock(node)) {
            if let Some(holder) = &lock.holder
                && !holder.evidence.is_empty()
                && !holders.iter().any(|(known, _)| known.id == lock.id)
            {
                holders.push((lock, holder));
            }
        }
        if holders.is_empty() {
            holders.extend(self.held_by_root(finding).filter(|(_, holder)| !holder.evidence.is_empty()));
        }
        // The root's own lock first.
        let root = goroutine_of(&finding.root.node);
        holders.sort_by_key(|(lock, holder)| holder.goroutine.map(|g| (lock.snapshot.as_str(), g)) != root);
        let told = |e: &Evidence| holders.iter().any(|(_, holder)| holder.evidence.contains(e));
        let rest = finding.evidence.iter().filter(|e| !told(e)).collect();
        Reasons { holders, rest }
    }

    /// The chain of a finding, a row a link; a goroutine and the lock that it waits for share one.
    pub fn rows(&self, finding: &'a Finding) -> Vec<Row> {
        let chain: &'a [Node] =
            if finding.chain.is_empty() { std::slice::from_ref(&finding.root.node) } else { &finding.chain };
        let mut rows = Vec::new();
        let mut seen: HashSet<Key<'a>> = HashSet::new();
        let mut i = 0;
        while let Some(node) = chain.get(i) {
            let waited = chain.get(i + 1).and_then(|next| self.lock(next)).filter(|_| node.kind == "goroutine");
            let previous = i.checked_sub(1).and_then(|p| chain.get(p));
            let mut row = self.row(finding, node, previous, waited);
            if !seen.insert(key(node)) {
                let name = if row.id.is_empty() { std::mem::take(&mut row.process) } else { row.id.clone() };
                row.what = fill(self.words.back_to, &[("what", &name)]);
                row.age.clear();
                (row.back, row.root) = (true, false);
                rows.push(row);
                break;
            }
            let used = if waited.is_some() { 2 } else { 1 };
            if let (Some(last), Some(next)) = (chain.get(i + used - 1), chain.get(i + used)) {
                // A client may be known to wait for a lock of the server before it is known through which handler.
                let beyond = chain.get(i + used + 1).filter(|n| next.kind == "goroutine" && n.kind == "lock");
                match self.edge(last, next).or_else(|| self.edge(last, beyond?)) {
                    Some(edge) => (row.why, row.trust) = (edge.why.clone(), Some(edge.trust)),
                    None if waited.is_some() => row.why = "lock".to_owned(),
                    None => {}
                }
                if let Some(holder) = self.lock(last).and_then(|lock| lock.holder.as_ref()) {
                    row.trust = Some(holder.trust);
                }
            }
            if let Some(lock) = waited {
                seen.insert(key(&chain[i + 1]));
                if chain.get(i + 2).is_none() {
                    row.what = format!("{}: {}", row.what, self.holder_status(lock));
                }
            }
            rows.push(row);
            i += used;
        }
        rows
    }

    /// A node by itself: its process, id, what it does, age.
    pub fn name(&self, node: &Node) -> Row {
        let mut row = Row { anchor: anchor(node), ..Row::default() };
        row.process = self.process(node.snapshot.as_deref().unwrap_or(""));
        row.id = match (&node.id, node.kind.as_str()) {
            (NodeId::Number(id), "goroutine") => format!("g{id}"),
            (NodeId::Number(id), "thread") => format!("t{id}"),
            _ => String::new(),
        };
        let label = node.label.trim();
        row.what = self.without_names(label, &row);
        match node.kind.as_str() {
            "process" => (row.process, row.what) = split_process(label, &node.id),
            "goroutine" => {
                if let Some(goroutine) = goroutine_of(node) {
                    row.age = self.age(goroutine).map(|m| self.minutes(m)).unwrap_or_default();
                    let frame = || self.group(goroutine).and_then(|(_, group)| interesting(group));
                    if row.what.is_empty() {
                        row.what = frame().map(|f| short_function(&f.function).to_owned()).unwrap_or_default();
                    }
                }
            }
            "thread" if row.process.is_empty() => row.process = "kernel".to_owned(),
            _ => {}
        }
        row
    }

    fn row(&self, finding: &Finding, node: &'a Node, previous: Option<&Node>, waited: Option<&Lock>) -> Row {
        let mut row = Row { root: key(node) == key(&finding.root.node), ..self.name(node) };
        if node.kind == "lock" {
            {
                let lock = self.lock(node);
                row.what = fill(self.words.wait_for, &[("what", node.label.trim())]);
                if let Some(lock) = lock {
                    row.id = fill(self.words.g_count, &[("n", &number(lock.waiter_count))]);
                    row.age = self.lock_ages(lock);
                    if row.root {
                        row.what = format!("{}: {}", row.what, self.holder_status(lock));
                    }
                }
                return row;
            }
        }
        let holds = previous.is_some_and(|p| p.kind == "lock");
        if row.root && row.age.is_empty() {
            row.age = finding.root.minutes.map(|m| self.minutes(m)).unwrap_or_default();
        }
        if let Some(lock) = waited {
            let name = lock_name(lock);
            if lock.waiter_count > 1 && !holds && !row.root {
                row.id = fill(self.words.g_count, &[("n", &number(lock.waiter_count))]);
                row.age = self.lock_ages(lock);
                row.what = fill(self.words.wait_for, &[("what", &name)]);
            } else {
                let word = if holds { self.words.holds_and_waits } else { self.words.waits_for };
                row.what = fill(word, &[("what", &name)]);
            }
        } else if row.root {
            let blocked = finding.root.blocked_in.as_deref().filter(|text| !text.is_empty());
            let doing = match blocked {
                Some(what) if what.starts_with("in ") || what.starts_with("waiting") => Some(what.to_owned()),
                Some(what) => Some(fill(self.words.stuck_in, &[("what", what)])),
                None => (!row.what.is_empty()).then(|| row.what.clone()).or_else(|| finding.root.function.clone()),
            };
            row.what = match (holds, doing) {
                (true, Some(what)) => fill(self.words.holds_it_in, &[("what", &what)]),
                (true, None) => self.words.holds_it.to_owned(),
                (false, Some(what)) => what,
                (false, None) => row.what,
            };
        } else if holds {
            row.what = match row.what.as_str() {
                "" => self.words.holds_it.to_owned(),
                what => fill(self.words.holds_it_in, &[("what", what)]),
            };
        }
        row
    }

    /// A label without the process and id that have columns of their own.
    fn without_names(&self, label: &str, row: &Row) -> String {
        let mut rest = label;
        let name = row.process.split(' ').next().unwrap_or("");
        let number = row.id.get(1..).unwrap_or("");
        let spellings = [
            row.process.clone(),
            row.id.clone(),
            format!("goroutine {number}"),
            format!("thread {number}"),
            name.to_owned(),
        ];
        for _ in 0..2 {
            for prefix in spellings.iter().filter(|p| !p.is_empty()) {
                if let Some(tail) = rest.strip_prefix(prefix.as_str())
                    && tail.chars().next().is_none_or(|c| matches!(c, ' ' | ':' | ',' | '(' | '·'))
                {
                    rest = tail.trim_start_matches([' ', ':', ',', '·']);
                }
            }
        }
        unwrapped(rest).to_owned()
    }

    /// Why a lock has or lacks a holder.
    pub fn holder_status(&self, lock: &Lock) -> &'static str {
        match lock.holder_status {
            HolderStatus::Leaked => self.words.left_locked,
            HolderStatus::NotInEvidence => self.words.holder_not_here,
            HolderStatus::Unknown => self.words.holder_unknown,
            HolderStatus::Named | HolderStatus::NotApplicable => "",
        }
    }

    /// `1–7 min`, from its waiters.
    pub fn lock_ages(&self, lock: &Lock) -> String {
        let min = lock.waiters.iter().map(|w| w.minutes).min().flatten();
        let max = lock.oldest_wait_minutes.or_else(|| lock.waiters.iter().filter_map(|w| w.minutes).max());
        self.range(min, max)
    }
}

/// The goroutine that a node stands for.
pub fn goroutine_of(node: &Node) -> Option<GoroutineKey<'_>> {
    match node.id {
        NodeId::Number(id) if node.kind == "goroutine" => Some((node.snapshot.as_deref()?, id)),
        _ => None,
    }
}

/// Where the HTML has more about a node: `s1-g34`, `s1-l3`.
pub fn anchor(node: &Node) -> Option<String> {
    match (&node.id, node.kind.as_str()) {
        (NodeId::Number(id), "goroutine") => Some(goroutine_anchor(node.snapshot.as_deref()?, *id)),
        (NodeId::Name(id), "lock") => Some(lock_anchor(id)),
        _ => None,
    }
}

/// `s1-g34`.
pub fn goroutine_anchor(snapshot: &str, id: u64) -> String {
    format!("{}-g{id}", plain(snapshot))
}

/// `s1-l3` for `s1/l3`.
pub fn lock_anchor(id: &str) -> String {
    plain(id)
}

/// Ids are letters and digits; anything else could mean something in a link.
fn plain(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

/// What to call a lock: type or kind, and address.
pub fn lock_name(lock: &Lock) -> String {
    let name = lock
        .type_
        .as_deref()
        .filter(|t| !t.is_empty())
        .map_or(lock.kind.as_str(), |t| t.rsplit('/').next().unwrap_or(t));
    match &lock.address {
        Some(address) => format!("{name} {address}"),
        None => name.to_owned(),
    }
}

/// Without parentheses around all of it.
fn unwrapped(text: &str) -> &str {
    text.strip_prefix('(').and_then(|r| r.strip_suffix(')')).filter(|r| !r.contains(['(', ')'])).unwrap_or(text)
}

/// `runc 30694` and the rest of a process's label.
fn split_process(label: &str, id: &NodeId) -> (String, String) {
    let mut words = label.splitn(2, ' ');
    let name = words.next().unwrap_or("");
    let rest = words.next().unwrap_or("");
    let NodeId::Number(pid) = id else { return (name.to_owned(), rest.to_owned()) };
    let pid = pid.to_string();
    // `terway DEL, pid 17661`, `runc 30694`, `terway`: the number stands once, beside the name.
    let rest = rest.replace(&format!(", pid {pid}"), "").replace(&format!("pid {pid}"), "");
    let rest = rest.strip_prefix(&pid).unwrap_or(&rest);
    (format!("{name} {pid}"), unwrapped(rest.trim_matches([' ', ',', ':'])).to_owned())
}

/// The frame that says most about a stack.
pub fn interesting(group: &Group) -> Option<&GroupFrame> {
    let frames = &group.frames;
    frames.iter().find(|f| f.interesting).or_else(|| frames.iter().find(|f| !f.standard)).or_else(|| frames.first())
}

/// A function's name without the path of its package: `pleg.(*GenericPLEG).relist`.
pub fn short_function(name: &str) -> &str {
    holdup_parsers::evidence::FunctionName::parse(name).short()
}

/// Evidence for a claim first, then against it; each in its order.
pub fn ordered<'e>(evidence: impl IntoIterator<Item = &'e Evidence>) -> Vec<&'e Evidence> {
    let (against, mut ordered): (Vec<_>, Vec<_>) = evidence.into_iter().partition(|e| e.against);
    ordered.extend(against);
    ordered
}

/// A number with its noun.
pub fn plural(n: u64, one: &str, many: &str) -> String {
    if n == 1 { one.to_owned() } else { fill(many, &[("n", &number(n))]) }
}

/// The word of a verdict, in capitals.
pub fn verdict_word(words: &Words, kind: VerdictKind) -> &'static str {
    match kind {
        VerdictKind::Deadlock => words.deadlock,
        VerdictKind::Hang => words.hang,
        VerdictKind::Slow => words.slow,
        VerdictKind::Crash => words.crash,
        VerdictKind::Leak => words.leak,
        VerdictKind::Healthy => words.healthy,
        VerdictKind::Inconclusive => words.inconclusive,
    }
}

/// The word of a degree of trust.
pub fn trust_word(words: &Words, trust: Trust) -> &'static str {
    match trust {
        Trust::Proven => words.proven,
        Trust::Strong => words.strong,
        Trust::Likely => words.likely,
        Trust::Guess => words.guess,
    }
}

/// A file's own name where no other input has the same, else its path as given.
fn short_names(diagnosis: &Diagnosis) -> Vec<&str> {
    let base = |path: &'_ str| -> String { path.rsplit('/').next().unwrap_or(path).to_owned() };
    let mut count: HashMap<String, usize> = HashMap::new();
    for input in &diagnosis.inputs {
        *count.entry(base(&input.path)).or_default() += 1;
    }
    let short = |path: &'_ str| count.get(&base(path)) == Some(&1) && !base(path).is_empty();
    let names = diagnosis.inputs.iter().map(|input| {
        let path = input.path.as_str();
        if short(path) { path.rsplit('/').next().unwrap_or(path) } else { path }
    });
    names.collect()
}
