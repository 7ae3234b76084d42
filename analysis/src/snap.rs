//! One snapshot with everything about it that the later steps ask for.

use crate::functions::{Class, Function, Functions};
use crate::rules::{Bound, Rules};
use crate::waits::{self, ArgumentRules, Primitive, Wait};
use holdup_parsers::evidence::{FunctionName, Goroutine, SiteId, Snapshot, Sym};
use rustc_hash::FxHashMap;
use std::sync::OnceLock;

/// Goroutines that stand at the same places in the same state, started at the same place.
#[derive(Debug, Clone, Default)]
pub struct Group {
    /// Indexes of its goroutines.
    pub members: Vec<u32>,
    /// Why they are idle by design, if they are.
    pub idle: Option<String>,
}

/// A snapshot, prepared.
pub struct Snap<'a> {
    /// `s1`.
    pub id: String,
    /// The evidence.
    pub s: &'a Snapshot,
    /// Its functions.
    pub functions: Functions,
    /// The rules, matched against its functions.
    pub bound: Bound<'a>,
    /// Which printed words may be believed.
    pub arguments: ArgumentRules,
    /// What each goroutine waits for, by index.
    pub waits: Vec<Wait>,
    /// Equal stacks.
    pub groups: Vec<Group>,
    /// Each goroutine's group.
    pub group_of: Vec<u32>,
    /// `kubelet`, `dockerd` … or `unknown`.
    pub role: String,
    /// Program name, or the role, or the main package.
    pub name: String,
    by_id: OnceLock<FxHashMap<u64, usize>>,
    possible_holders: OnceLock<Vec<bool>>,
}

impl<'a> Snap<'a> {
    /// Prepares a snapshot.
    pub fn new(index: usize, s: &'a Snapshot, rules: &'a Rules) -> Self {
        let functions = Functions::of(s);
        let bound = rules.bind(s);
        let arguments = ArgumentRules::of(s);
        let waits: Vec<Wait> = s.goroutines.iter().map(|g| waits::classify(s, &functions, arguments, g)).collect();
        let (groups, group_of) = group(s);
        let (role, name) = identify(s, &bound);
        let mut snap = Snap {
            id: format!("s{}", index + 1),
            s,
            functions,
            bound,
            arguments,
            waits,
            groups,
            group_of,
            role,
            name,
            by_id: OnceLock::new(),
            possible_holders: OnceLock::new(),
        };
        for i in 0..snap.groups.len() {
            let Some(&first) = snap.groups[i].members.first() else { continue };
            snap.groups[i].idle = snap.judge_idle(first as usize);
        }
        snap
    }

    /// The goroutine at `i`.
    pub fn goroutine(&self, i: usize) -> &'a Goroutine {
        &self.s.goroutines[i]
    }

    /// Index of the goroutine with that id, the first if a dump has it twice.
    pub fn index_of(&self, id: u64) -> Option<usize> {
        let index = self.by_id.get_or_init(|| {
            let ids = self.s.goroutines.iter().enumerate().rev();
            ids.filter_map(|(i, g)| g.id.map(|id| (id, i))).collect()
        });
        index.get(&id).copied()
    }

    /// For each goroutine whether it could hold some lock at all, worked out once by `judge`.
    pub fn possible_holders(&self, judge: impl Fn(usize) -> bool) -> &[bool] {
        self.possible_holders.get_or_init(|| (0..self.s.goroutines.len()).map(judge).collect())
    }

    /// The function at a site.
    pub fn function(&self, site: SiteId) -> &Function {
        self.functions.get(self.s.site(site).func)
    }

    /// The function of frame `frame` of goroutine `i`.
    pub fn frame_function(&self, i: usize, frame: usize) -> Option<&Function> {
        let frame = self.s.frames_of(self.goroutine(i)).get(frame)?;
        Some(self.function(frame.site))
    }

    /// The printed name of the function of frame `frame`, shortened as people say it.
    pub fn frame_name(&self, i: usize, frame: usize) -> &'a str {
        let frames = self.s.frames_of(self.goroutine(i));
        frames.get(frame).map_or("", |f| FunctionName::parse(self.s.function(f.site)).short())
    }

    /// Why goroutine `i` is idle by design, if it is.
    pub fn idle(&self, i: usize) -> Option<&str> {
        self.groups[self.group_of[i] as usize].idle.as_deref()
    }

    /// Index of the frame that says most about what goroutine `i` does: its innermost one outside the standard
    /// library, else the innermost that is not machinery.
    pub fn telling_frame(&self, i: usize) -> usize {
        let frames = self.s.frames_of(self.goroutine(i));
        let telling = |plumbing: bool| {
            frames.iter().position(|f| {
                let function = self.function(f.site);
                function.class == Class::Other && !function.lock_wrapper && (plumbing || !function.plumbing)
            })
        };
        telling(false).or_else(|| telling(true)).unwrap_or(self.waits[i].caller).min(frames.len().saturating_sub(1))
    }

    /// What a goroutine's label says: its number and what it does.
    pub fn goroutine_label(&self, i: usize) -> String {
        let g = self.goroutine(i);
        let call = if self.waits[i].primitive.is_exclusive_lock() { None } else { self.bound.rpc_client(self.s, g) };
        let what = call.map_or_else(|| self.frame_name(i, self.telling_frame(i)).to_string(), |call| call.name());
        match g.id {
            Some(id) => format!("{} goroutine {id} {what}", self.name),
            None => format!("{} {what}", self.name),
        }
    }

    fn judge_idle(&self, i: usize) -> Option<String> {
        let g = self.goroutine(i);
        if let Some(rule) = self.bound.benign(self.s, g) {
            return Some(format!("{} ({})", rule.why, rule.id));
        }
        let frames = self.s.frames_of(g);
        let wait = self.waits[i];
        match wait.primitive {
            Primitive::RuntimeIdle => return Some("idle goroutine of the runtime".into()),
            Primitive::PollRead
                if frames.iter().take(6).any(|f| {
                    let function = self.function(f.site);
                    matches!(function.outer.as_str(), "Accept" | "accept") && function.standard
                }) =>
            {
                return Some("accepts connections".into());
            }
            _ => {}
        }
        let inner = frames.first().map_or("", |f| self.s.function(f.site));
        (inner == "os/signal.signal_recv").then(|| "waits for signals".into())
    }
}

fn group(s: &Snapshot) -> (Vec<Group>, Vec<u32>) {
    let mut index: FxHashMap<(Vec<SiteId>, Sym, Option<SiteId>), u32> = FxHashMap::default();
    let mut groups: Vec<Group> = Vec::new();
    let mut group_of = Vec::with_capacity(s.goroutines.len());
    let mut sites: Vec<SiteId> = Vec::new();
    for (i, g) in s.goroutines.iter().enumerate() {
        sites.clear();
        sites.extend(s.frames_of(g).iter().map(|f| f.site));
        let key = (std::mem::take(&mut sites), g.state, g.created_by.map(|c| c.site));
        let id = match index.get(&key) {
            Some(&id) => {
                sites = key.0;
                id
            }
            None => {
                let id = groups.len() as u32;
                groups.push(Group::default());
                index.insert(key, id);
                id
            }
        };
        groups[id as usize].members.push(i as u32);
        group_of.push(id);
    }
    (groups, group_of)
}

/// Role and name: rules first, then what the input says, then the main package.
fn identify(s: &Snapshot, bound: &Bound<'_>) -> (String, String) {
    if let Some(found) = bound.role(s) {
        let name = s.process.name.clone().unwrap_or_else(|| found.name.to_string());
        return (found.role.to_string(), name);
    }
    if let Some(name) = &s.process.name {
        return ("unknown".into(), name.clone());
    }
    ("unknown".into(), main_package(s).unwrap_or_else(|| "process".into()))
}

/// The folder that `main.main`'s file lies in is, by custom, the program's name.
fn main_package(s: &Snapshot) -> Option<String> {
    let site = s.sites.iter().find(|site| s.names.get(site.func) == "main.main")?;
    let file = s.names.get(site.file);
    let folder = file.rsplit(['/', '\\']).nth(1)?;
    (!folder.is_empty()).then(|| folder.to_string())
}
