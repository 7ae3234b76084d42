//! Known bugs: which one a stuck chain looks like. Without a stuck chain there is nothing to match.

use super::Rules;
use super::bound::Bound;
use super::model::KnownIssueRule;
use super::stack::StackSpec;
use super::wait::Wait;
use holdup_parsers::evidence::{Goroutine, Snapshot};

/// What a goroutine is in the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// It waits for a lock (or something else) of the chain.
    Waiter,
    /// It holds what others wait for.
    Holder,
    /// The chain ends here.
    Root,
    /// It stands between: a server that waits further in, a member of a cycle.
    Link,
}

/// A goroutine of a stuck chain.
#[derive(Debug, Clone, Copy)]
pub struct ChainNode<'a> {
    /// Its snapshot.
    pub snapshot: &'a Snapshot,
    /// That snapshot's bound rules.
    pub bound: &'a Bound<'a>,
    /// The goroutine.
    pub goroutine: &'a Goroutine,
    /// What it is in the chain.
    pub part: Part,
    /// How many it stands for: the caller may give one of a group of equal stacks.
    pub count: u32,
}

/// A stuck chain with what is known around it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Chain<'a> {
    /// Its goroutines, or the piled-up groups of a leak or crash (as [`Part::Root`]).
    ///
    /// A goroutine that plays two parts stands here twice: as a waiter and as a holder, if it waits for itself or is
    /// a member of a circle.
    pub nodes: &'a [ChainNode<'a>],
    /// The lock is locked, and nobody alive holds it.
    pub leaked: bool,
    /// It is a circle.
    pub cycle: bool,
    /// Messages of logs beside it.
    pub log: &'a [&'a str],
    /// Functions of the kernel stacks of its threads.
    pub kernel: &'a [&'a str],
    /// Versions that are known: role, version.
    pub versions: &'a [(&'a str, &'a str)],
    /// Roles of its processes that are known without a dump (from ps, from an rpc peer).
    pub roles: &'a [&'a str],
}

/// The known issue that a stuck chain looks like best, if any: a match, never a proof.
pub fn known_issue<'r>(rules: &'r Rules, chain: &Chain<'_>) -> Option<&'r KnownIssueRule> {
    let mut best: Option<(u32, &KnownIssueRule)> = None;
    for rule in &rules.known {
        if let Some(weight) = weight(rule, chain)
            && best.is_none_or(|(known, _)| known < weight)
        {
            best = Some((weight, rule));
        }
    }
    best.map(|(_, rule)| rule)
}

/// How much of a rule a chain shows; `None` if something that it asks for is missing.
fn weight(rule: &KnownIssueRule, chain: &Chain<'_>) -> Option<u32> {
    if rule.leaked.is_some_and(|leaked| leaked != chain.leaked)
        || rule.cycle.is_some_and(|cycle| cycle != chain.cycle)
        || !version_fits(rule, chain)
        || !role_fits(rule, chain)
    {
        return None;
    }
    let mut weight = 0u32;
    if !rule.waiter.is_empty() {
        let hits = chain.nodes.iter().filter(|n| any(&rule.waiter, n));
        let waiters: u32 = hits.map(|n| n.count).fold(0, u32::saturating_add);
        if waiters < rule.min_waiters.max(1) {
            return None;
        }
        weight += 3 + longest(&rule.waiter);
    } else if rule.min_waiters > 0 {
        let all = chain.nodes.iter().map(|n| n.count).fold(0, u32::saturating_add);
        if all < rule.min_waiters {
            return None;
        }
    }
    if !rule.holder.is_empty() {
        let hits = chain.nodes.iter().filter(|n| n.part != Part::Waiter && any(&rule.holder, n));
        let held =
            hits.fold((false, false), |(_, same), n| (true, same || any(&rule.waiter, n) && waits_too(n, chain)));
        match held {
            (true, same) if same || !rule.same_goroutine => weight += 4 + longest(&rule.holder),
            // The holder's dump may be missing; a holder of another shape speaks against the bug.
            (false, _)
                if rule.waiter_alone && chain.nodes.iter().all(|n| matches!(n.part, Part::Waiter | Part::Link)) => {}
            _ => return None,
        }
    }
    for spec in &rule.also {
        chain.nodes.iter().find(|n| matches(spec, n))?;
        weight += 2 + spec.elements.len() as u32;
    }
    if chain.nodes.iter().any(|n| has_absent(rule, n)) {
        return None;
    }
    if rule.same_age && !same_age(chain) {
        return None;
    }
    let logged = rule.log.iter().any(|regex| chain.log.iter().any(|line| regex.is_match(line)));
    let in_kernel = rule.kernel.iter().any(|f| chain.kernel.iter().any(|k| k == f));
    let outside = (!rule.log.is_empty() && logged) || (!rule.kernel.is_empty() && in_kernel);
    if !(rule.log.is_empty() && rule.kernel.is_empty()) {
        if !outside && !rule.log_optional {
            return None;
        }
        weight += u32::from(outside) * 6;
    }
    let particular = if rule.general { 0 } else { 1 << 16 };
    Some(particular + weight * 4 + rule.confidence as u32)
}

/// Whether a holder is in the chain as a waiter, too.
fn waits_too(holder: &ChainNode<'_>, chain: &Chain<'_>) -> bool {
    let same = |n: &ChainNode<'_>| std::ptr::eq(n.goroutine, holder.goroutine);
    chain.nodes.iter().any(|n| n.part == Part::Waiter && same(n))
}

fn any(specs: &[StackSpec], node: &ChainNode<'_>) -> bool {
    specs.iter().any(|spec| matches(spec, node))
}

fn matches(spec: &StackSpec, node: &ChainNode<'_>) -> bool {
    let wait = Wait::of(node.snapshot, node.goroutine);
    spec.matches(&node.bound.matches, node.snapshot, node.goroutine, wait).is_some()
}

fn longest(specs: &[StackSpec]) -> u32 {
    specs.iter().map(|spec| spec.elements.len() as u32).max().unwrap_or(0)
}

fn has_absent(rule: &KnownIssueRule, node: &ChainNode<'_>) -> bool {
    if rule.absent.is_empty() {
        return false;
    }
    let s = node.snapshot;
    s.frames_of(node.goroutine).iter().any(|f| node.bound.has_any(s.site(f.site).func, &rule.absent))
}

/// The runtime stamps waits at a collection, forced every two minutes, and a dump may take a minute to print.
const AGE_SLACK: u32 = 3;

fn same_age(chain: &Chain<'_>) -> bool {
    let ages = chain.nodes.iter().map(|n| n.goroutine.minutes.unwrap_or(0));
    let (low, high) = ages.fold((u32::MAX, 0), |(low, high), age| (low.min(age), high.max(age)));
    high.saturating_sub(low) <= AGE_SLACK
}

fn role_fits(rule: &KnownIssueRule, chain: &Chain<'_>) -> bool {
    if rule.roles.is_empty() {
        return true;
    }
    let mut known = false;
    for node in chain.nodes {
        if let Some(found) = node.bound.role(node.snapshot) {
            known = true;
            if rule.roles.iter().any(|role| role == found.role) {
                return true;
            }
        }
    }
    for role in chain.roles {
        known = true;
        if rule.roles.iter().any(|r| r == role) {
            return true;
        }
    }
    // A dump cut so short that its process cannot be told does not rule the bug out.
    !known
}

fn version_fits(rule: &KnownIssueRule, chain: &Chain<'_>) -> bool {
    for range in &rule.versions {
        for (role, version) in chain.versions {
            if *role != range.role {
                continue;
            }
            let Some(version) = numbers(version) else {
                continue;
            };
            let low = range.from.as_deref().and_then(numbers);
            let high = range.before.as_deref().and_then(numbers);
            if low.is_some_and(|low| version < low) || high.is_some_and(|high| version >= high) {
                return false;
            }
        }
    }
    true
}

/// `v1.6.20~ds1` → 1, 6, 20.
fn numbers(version: &str) -> Option<[u32; 3]> {
    let text = version.trim().trim_start_matches('v');
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let mut parts = text[..end].split('.').map(|p| p.parse::<u32>().ok());
    let first = parts.next()??;
    Some([first, parts.next().flatten().unwrap_or(0), parts.next().flatten().unwrap_or(0)])
}
