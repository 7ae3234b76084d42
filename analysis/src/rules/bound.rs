//! Rules bound to one snapshot: every question about a goroutine is answered here.

use super::model::*;
use super::pattern::{Atom, Matches};
use super::stack::{Hit, StackSpec};
use super::wait::Wait;
use super::{Index, Rules, role, rpc};
use holdup_parsers::evidence::{Goroutine, Snapshot, Sym};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Rules with what their patterns match in one snapshot. Made by [`Rules::bind`]; ask it about that snapshot only.
#[derive(Debug)]
pub struct Bound<'r> {
    pub(crate) rules: &'r Rules,
    pub(crate) matches: Matches,
}

/// The process that a snapshot shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoleMatch<'r> {
    /// The contract's role word.
    pub role: &'r str,
    /// Program name.
    pub name: &'r str,
    /// Id of the rule.
    pub rule: &'r str,
    /// What told: a function, the main package's path, or the process's name.
    pub by: String,
}

/// Which end of a remote call a goroutine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// It called and waits for the answer.
    Client,
    /// It is answering.
    Server,
}

/// A goroutine at one end of a remote call.
#[derive(Debug, Clone)]
pub struct RpcMatch<'r> {
    /// The rule.
    pub rule: &'r RpcRule,
    /// Which end.
    pub side: Side,
    /// `RuntimeService`, `Task`; as the generated names have it, first letter capital.
    pub service: String,
    /// `StopPodSandbox`.
    pub method: String,
    /// Index among the goroutine's frames of the stub (client) or handler (server).
    pub frame: usize,
}

impl RpcMatch<'_> {
    /// Equal for both ends of a call, however the generators spell service and method.
    pub fn key(&self) -> String {
        rpc::key(&self.service, &self.method)
    }

    /// `RuntimeService/StopPodSandbox`.
    pub fn name(&self) -> String {
        if self.method.is_empty() { self.service.clone() } else { format!("{}/{}", self.service, self.method) }
    }
}

/// A goroutine that holds a lock by what its call is known to do.
#[derive(Debug, Clone)]
pub struct HoldsMatch<'r> {
    /// The rule.
    pub rule: &'r HoldsRule,
    /// Index among the goroutine's frames of the innermost frame that the rule names: what it is doing.
    pub doing: usize,
    /// Index among the goroutine's frames of the function that took the lock.
    pub frame: usize,
}

/// A goroutine that waits for something outside the process.
#[derive(Debug, Clone)]
pub struct ExternalMatch<'r> {
    /// The rule.
    pub rule: &'r ExternalRule,
    /// Index among the goroutine's frames of the innermost frame that the rule names.
    pub frame: usize,
}

impl<'r> Bound<'r> {
    pub(crate) fn new(rules: &'r Rules, s: &Snapshot) -> Self {
        Bound { rules, matches: Matches::new(&rules.atoms, s) }
    }

    fn index(&self) -> &'r Index {
        &self.rules.index
    }

    /// Which process this is: told by `main`'s path, by functions that only it has, or by its name.
    pub fn role(&self, s: &Snapshot) -> Option<RoleMatch<'r>> {
        role::of(self, s)
    }

    /// The rule by which `g` is idle by design; `None` says nothing.
    ///
    /// Never matches a goroutine that waits for a lock, sends, writes, or stands in a system call other than a read.
    pub fn benign(&self, s: &Snapshot, g: &Goroutine) -> Option<&'r BenignRule> {
        let rules = &self.rules.benign;
        let (at, _) = self.first(s, g, &self.index().benign, |i| rules.get(i).map(|r| &r.stack))?;
        rules.get(at)
    }

    /// The rule by which `g` only observes: it shows that something hangs, and is never the culprit.
    pub fn symptom(&self, s: &Snapshot, g: &Goroutine) -> Option<&'r SymptomRule> {
        let rules = &self.rules.symptom;
        let (at, _) = self.first(s, g, &self.index().symptom, |i| rules.get(i).map(|r| &r.stack))?;
        rules.get(at)
    }

    /// The remote call that `g` waits for, or else the one that it answers.
    pub fn rpc(&self, s: &Snapshot, g: &Goroutine) -> Option<RpcMatch<'r>> {
        self.rpc_client(s, g).or_else(|| self.rpc_server(s, g))
    }

    /// The remote call that `g` waits for: the innermost one.
    pub fn rpc_client(&self, s: &Snapshot, g: &Goroutine) -> Option<RpcMatch<'r>> {
        let rules = &self.rules.rpc;
        let hits = self.all(s, g, &self.index().client, |i| rules.get(i).and_then(|r| r.client.as_ref()));
        rpc::best(self, s, g, Side::Client, &hits)
    }

    /// The remote call that `g` answers. It may at the same time be a client further in.
    pub fn rpc_server(&self, s: &Snapshot, g: &Goroutine) -> Option<RpcMatch<'r>> {
        let rules = &self.rules.rpc;
        let hits = self.all(s, g, &self.index().server, |i| rules.get(i).and_then(|r| r.server.as_ref()));
        rpc::best(self, s, g, Side::Server, &hits)
    }

    /// The locks that `g` holds by what its calls are known to do, innermost first.
    pub fn holds(&self, s: &Snapshot, g: &Goroutine) -> Vec<HoldsMatch<'r>> {
        let rules = &self.rules.holds;
        let hits = self.all(s, g, &self.index().holds, |i| rules.get(i).map(|r| &r.stack));
        let mut found: Vec<HoldsMatch<'r>> = Vec::new();
        for (at, hit) in hits {
            if let Some(rule) = rules.get(at) {
                found.push(HoldsMatch { rule, doing: hit.inner, frame: hit.outer });
            }
        }
        found.sort_by_key(|m| m.frame);
        found
    }

    /// Whether a function (a waiter's frame that called Lock, RLock) waits for the lock that `rule` is about.
    ///
    /// A rule that names no waiters accepts any function in which the lock could be taken: ask by type or receiver.
    pub fn waits_for(&self, rule: &HoldsRule, s: &Snapshot, g: &Goroutine, frame: usize) -> bool {
        let Some(frame) = s.frames_of(g).get(frame) else {
            return false;
        };
        self.matches.has_any(s.site(frame.site).func, &rule.waiters)
    }

    /// What outside the process `g` waits for; of several rules the one that names most frames, then the innermost.
    pub fn external(&self, s: &Snapshot, g: &Goroutine) -> Option<ExternalMatch<'r>> {
        let rules = &self.rules.external;
        let hits = self.all(s, g, &self.index().external, |i| rules.get(i).map(|r| &r.stack));
        let found = hits.into_iter().filter_map(|(at, hit)| {
            let rule = rules.get(at)?;
            Some((Reverse(rule.stack.elements.len()), hit.inner, at, ExternalMatch { rule, frame: hit.inner }))
        });
        found.min_by_key(|(elements, inner, at, _)| (*elements, *inner, *at)).map(|(.., found)| found)
    }

    /// The first rule that matches, by the innermost frame that it names, then by its place in the files.
    fn first<'s>(
        &self,
        s: &Snapshot,
        g: &Goroutine,
        index: &FxHashMap<Atom, Vec<u32>>,
        spec: impl Fn(usize) -> Option<&'s StackSpec>,
    ) -> Option<(usize, Hit)> {
        if index.is_empty() {
            return None;
        }
        let wait = Wait::of(s, g);
        for (i, frame) in s.frames_of(g).iter().enumerate() {
            let mut best: Option<(usize, Hit)> = None;
            for atom in self.matches.of(s.site(frame.site).func) {
                for &rule in index.get(atom).into_iter().flatten() {
                    let rule = rule as usize;
                    if best.is_some_and(|(known, _)| known <= rule) {
                        continue;
                    }
                    if let Some(hit) = spec(rule).and_then(|spec| spec.matches(&self.matches, s, g, wait))
                        && hit.inner == i
                    {
                        best = Some((rule, hit));
                    }
                }
            }
            if best.is_some() {
                return best;
            }
        }
        None
    }

    /// Every rule that matches, innermost first, each once.
    fn all<'s>(
        &self,
        s: &Snapshot,
        g: &Goroutine,
        index: &FxHashMap<Atom, Vec<u32>>,
        spec: impl Fn(usize) -> Option<&'s StackSpec>,
    ) -> Vec<(usize, Hit)> {
        let mut found: Vec<(usize, Hit)> = Vec::new();
        if index.is_empty() {
            return found;
        }
        let wait = Wait::of(s, g);
        for (i, frame) in s.frames_of(g).iter().enumerate() {
            for atom in self.matches.of(s.site(frame.site).func) {
                for &rule in index.get(atom).into_iter().flatten() {
                    let rule = rule as usize;
                    if found.iter().any(|(known, _)| *known == rule) {
                        continue;
                    }
                    if let Some(hit) = spec(rule).and_then(|spec| spec.matches(&self.matches, s, g, wait))
                        && hit.inner == i
                    {
                        found.push((rule, hit));
                    }
                }
            }
        }
        found
    }

    pub(crate) fn has_any(&self, func: Sym, atoms: &[Atom]) -> bool {
        self.matches.has_any(func, atoms)
    }
}
