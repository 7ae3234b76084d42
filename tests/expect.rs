//! What an `expect.json` asks of an answer. docs/golden.md describes the fields.

use regex::RegexBuilder;
use serde_json::Value;
use std::collections::BTreeSet;

/// One thing that was asked.
pub struct Check {
    /// What: `verdict`, `lock0.holder` …
    pub name: String,
    /// Whether it is so.
    pub holds: bool,
    /// What was found instead.
    pub found: String,
}

const TRUST: [&str; 4] = ["guess", "likely", "strong", "proven"];

/// Everything that `expect` asks of the diagnosis `answer`.
pub fn checks(expect: &Value, answer: &Value) -> Vec<Check> {
    let mut of = Checks { expect, answer, out: Vec::new() };
    of.verdict();
    of.counts();
    for (i, want) in list(&expect["locks"]).iter().enumerate() {
        of.lock(&format!("lock{i}"), want);
    }
    of.deadlocks();
    of.roots();
    of.words();
    of.chain_roles();
    of.out
}

/// How much trust a claim has, from 0; -1 where none is said.
fn rank(trust: &Value) -> i32 {
    TRUST.iter().position(|word| trust == word).map_or(-1, |at| at as i32)
}

fn sure(trust: &Value) -> bool {
    rank(trust) >= 2
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A value that may also be a list of them.
fn any_of(wanted: &Value, found: &Value) -> bool {
    wanted.as_array().map_or(wanted == found, |all| all.contains(found))
}

fn asked(value: &Value) -> bool {
    !value.is_null()
}

fn address(value: &Value) -> Option<u64> {
    let text = value.as_str()?;
    u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}

fn matches(pattern: &str, text: &str) -> bool {
    let regex = RegexBuilder::new(pattern).case_insensitive(true).size_limit(1 << 24).build();
    regex.unwrap_or_else(|error| panic!("{error}")).is_match(text)
}

/// Every string inside a value, a line each.
fn text_of(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => {
            out.push_str(text);
            out.push('\n');
        }
        Value::Array(all) => all.iter().for_each(|value| text_of(value, out)),
        Value::Object(all) => all.values().for_each(|value| text_of(value, out)),
        _ => {}
    }
}

fn texts(values: &[&Value]) -> String {
    let mut out = String::new();
    values.iter().for_each(|value| text_of(value, &mut out));
    out
}

/// The goroutines among all nodes inside a value.
fn goroutines_in(value: &Value, out: &mut BTreeSet<u64>) {
    match value {
        Value::Array(all) => all.iter().for_each(|value| goroutines_in(value, out)),
        Value::Object(all) => {
            if value["kind"] == "goroutine" {
                out.extend(value["id"].as_u64());
            }
            all.values().for_each(|value| goroutines_in(value, out));
        }
        _ => {}
    }
}

/// Ids in a list of numbers.
fn ids(value: &Value) -> BTreeSet<u64> {
    list(value).iter().filter_map(Value::as_u64).collect()
}

fn waiters(lock: &Value) -> BTreeSet<u64> {
    list(&lock["waiters"]).iter().filter_map(|waiter| waiter["goroutine"].as_u64()).collect()
}

/// The role of a snapshot's process.
fn role<'a>(answer: &'a Value, snapshot: &Value) -> &'a str {
    let found = list(&answer["snapshots"]).iter().find(|s| s["id"] == *snapshot);
    found.and_then(|s| s["process"]["role"].as_str()).unwrap_or("")
}

/// Locks of the answer that may be the wanted one: by role, address and waiters, or failing those by holder.
pub fn candidates<'a>(want: &Value, answer: &'a Value) -> Vec<&'a Value> {
    let all = list(&answer["locks"]).iter();
    let there: Vec<&Value> = match want["snapshot_role"].as_str() {
        Some(wanted) => all.filter(|lock| role(answer, &lock["snapshot"]) == wanted).collect(),
        None => all.collect(),
    };
    let addresses: Vec<u64> = list(&want["addresses"]).iter().chain([&want["address"]]).filter_map(address).collect();
    let wait = ids(&want["waiters"]);
    let fits = |lock: &&Value| {
        let same = addresses.is_empty() || address(&lock["address"]).is_some_and(|a| addresses.contains(&a));
        same && wait.is_subset(&waiters(lock))
    };
    let mut found: Vec<&Value> = there.iter().copied().filter(fits).collect();
    if addresses.is_empty() && wait.is_empty() && asked(&want["holder"]) {
        let held = |lock: &&Value| lock["holder"]["goroutine"] == want["holder"];
        found = there.iter().copied().filter(held).collect();
        if found.is_empty() {
            found = there;
        }
    }
    found
}

/// Whether a finding's root is the wanted one.
pub fn root_matches(answer: &Value, finding: &Value, want: &Value) -> bool {
    let root = &finding["root"];
    let node = &root["node"];
    let goroutine = if node["kind"] == "goroutine" { &node["id"] } else { &Value::Null };
    let said = |fields: &[&Value], pattern: &Value| {
        let text: Vec<&str> = fields.iter().map(|value| value.as_str().unwrap_or("")).collect();
        pattern.as_str().is_none_or(|pattern| matches(pattern, &text.join(" ")))
    };
    let resource = || texts(&[root, &finding["title"], &finding["explanation"]]);
    (!asked(&want["goroutine"]) || *goroutine == want["goroutine"])
        && (!asked(&want["goroutine_in"]) || list(&want["goroutine_in"]).contains(goroutine))
        && said(&[&root["function"], &node["label"]], &want["function"])
        && said(&[&root["blocked_in"], &node["label"], &finding["title"]], &want["blocked_in"])
        && want["resource"].as_str().is_none_or(|pattern| matches(pattern, &resource()))
        && want["role"].as_str().is_none_or(|wanted| role(answer, &node["snapshot"]) == wanted)
}

struct Checks<'a> {
    expect: &'a Value,
    answer: &'a Value,
    out: Vec<Check>,
}

impl Checks<'_> {
    fn say(&mut self, name: impl Into<String>, holds: bool, found: impl Into<String>) {
        self.out.push(Check { name: name.into(), holds, found: found.into() });
    }

    fn verdict(&mut self) {
        let found = &self.answer["verdict"]["kind"];
        let want = &self.expect["verdict"];
        if asked(want) {
            // Where only waiters are visible, goroutines that pile up may as well be called a leak.
            let leak = self.expect["tier"] == "partial" && found == "leak" && any_of(want, &"hang".into());
            self.say("verdict", leak || any_of(want, found), format!("{found} not in {want}"));
        }
        if asked(&self.expect["not_verdict"]) {
            self.say("not_verdict", !any_of(&self.expect["not_verdict"], found), format!("said {found}"));
        }
    }

    fn counts(&mut self) {
        let snapshots = list(&self.answer["snapshots"]);
        let goroutines: u64 = snapshots.iter().filter_map(|s| s["goroutines"].as_u64()).sum();
        let count = snapshots.len() as u64;
        if let Some(want) = self.expect["goroutines"].as_u64() {
            self.say("goroutines", goroutines == want, format!("{goroutines}, not {want}"));
        }
        if let Some(want) = self.expect["snapshots"].as_u64() {
            self.say("snapshots", count == want, format!("{count}, not {want}"));
        }
        if let Some(want) = self.expect["snapshots_min"].as_u64() {
            self.say("snapshots_min", count >= want, format!("{count} snapshots"));
        }
    }

    fn lock(&mut self, label: &str, want: &Value) {
        let found = candidates(want, self.answer);
        self.say(format!("{label}.found"), !found.is_empty(), format!("no such lock: {want}"));
        // One entry must show all that is asked …
        let best =
            found.iter().map(|lock| lock_shows(want, lock)).min_by_key(|all| all.iter().filter(|c| !c.holds).count());
        for check in best.into_iter().flatten() {
            self.say(format!("{label}.{}", check.name), check.holds, check.found);
        }
        // … and no entry may say the wrong thing.
        for lock in found {
            for check in lock_never_says(want, lock) {
                self.say(format!("{label}.{}", check.name), check.holds, check.found);
            }
        }
    }

    fn deadlocks(&mut self) {
        let deadlock = self.answer["verdict"]["kind"] == "deadlock";
        if asked(&self.expect["cycle"]) {
            let want = ids(&self.expect["cycle"]);
            let shows = |finding: &Value| {
                let mut there = BTreeSet::new();
                goroutines_in(finding, &mut there);
                let named = finding["kind"].as_str().is_some_and(|kind| kind.contains("deadlock"));
                (named || deadlock) && want.is_subset(&there)
            };
            let holds = list(&self.answer["findings"]).iter().any(shows);
            self.say("cycle", holds, format!("no deadlock finding with {want:?}"));
        }
        if let Some(want) = self.expect["self_deadlock"].as_u64() {
            let shows = |lock: &Value| lock["holder"]["goroutine"] == want && waiters(lock).contains(&want);
            let holds = deadlock && list(&self.answer["locks"]).iter().any(shows);
            self.say("self_deadlock", holds, format!("goroutine {want} is not shown holding what it waits for"));
        }
    }

    fn roots(&mut self) {
        let findings = list(&self.answer["findings"]);
        let titles = |n: usize| findings.iter().take(n).map(|f| f["title"].to_string()).collect::<Vec<_>>().join(", ");
        let want = &self.expect["root"];
        if asked(want) {
            let within = want["within"].as_u64().unwrap_or(1) as usize;
            let holds = findings.iter().take(within).any(|finding| root_matches(self.answer, finding, want));
            self.say("root", holds, format!("first findings: {}", titles(within)));
        }
        let not = &self.expect["not_root"];
        if let Some(first) = findings.first().filter(|_| asked(not)) {
            self.say("not_root", !root_matches(self.answer, first, not), format!("blamed: {}", titles(1)));
        }
        let most = &self.expect["max_finding_trust"];
        if asked(most) {
            let holds = findings.iter().all(|finding| rank(&finding["trust"]) <= rank(most));
            self.say("max_finding_trust", holds, format!("more is said in {}", titles(usize::MAX)));
        }
    }

    fn words(&mut self) {
        let findings = &self.answer["findings"];
        if let Some(want) = self.expect["known_issue"].as_str() {
            let known: Vec<&Value> = list(findings).iter().map(|finding| &finding["known_issue"]).collect();
            let said = texts(&known);
            self.say("known_issue", matches(want, &said), format!("got {said:?}"));
        }
        let said = texts(&[&self.answer["verdict"], findings]);
        for want in list(&self.expect["mentions"]).iter().filter_map(Value::as_str) {
            self.say(format!("mentions {want}"), matches(want, &said), "not mentioned");
        }
        let envelopes: Vec<&str> = list(&self.answer["inputs"])
            .iter()
            .flat_map(|input| list(&input["envelopes"]))
            .filter_map(Value::as_str)
            .collect();
        for want in list(&self.expect["envelopes"]).iter().filter_map(Value::as_str) {
            let holds = envelopes.iter().any(|envelope| envelope.contains(want));
            self.say(format!("envelope {want}"), holds, format!("{envelopes:?}"));
        }
    }

    /// The first finding's chain passes processes of these roles, in this order.
    fn chain_roles(&mut self) {
        if !asked(&self.expect["chain_roles"]) {
            return;
        }
        let chain = list(&self.answer["findings"][0]["chain"]);
        let passed: Vec<String> = chain
            .iter()
            .map(|node| format!("{} {}", role(self.answer, &node["snapshot"]), node["label"].as_str().unwrap_or("")))
            .collect();
        let mut rest = passed.iter();
        let mut wanted = list(&self.expect["chain_roles"]).iter().filter_map(Value::as_str);
        let holds = wanted.all(|want| rest.any(|place| place.contains(want)));
        self.say("chain_roles", holds, format!("the chain passes {passed:?}"));
    }
}

/// What is asked of the entry that shows a lock.
fn lock_shows(want: &Value, lock: &Value) -> Vec<Check> {
    let mut out = Vec::new();
    let mut say = |name: &str, holds: bool, found: &Value| {
        out.push(Check { name: name.into(), holds, found: format!("{found}, asked for {}", want[name]) });
    };
    let (holder, trust) = (&lock["holder"]["goroutine"], &lock["holder"]["trust"]);
    if asked(&want["kind"]) {
        say("kind", any_of(&want["kind"], &lock["kind"]), &lock["kind"]);
    }
    if asked(&want["waiter_count"]) {
        say("waiter_count", lock["waiter_count"] == want["waiter_count"], &lock["waiter_count"]);
    }
    if let Some(least) = want["waiter_count_min"].as_u64() {
        say("waiter_count_min", lock["waiter_count"].as_u64().unwrap_or(0) >= least, &lock["waiter_count"]);
    }
    if asked(&want["oldest_wait_minutes"]) {
        let found = &lock["oldest_wait_minutes"];
        say("oldest_wait_minutes", *found == want["oldest_wait_minutes"], found);
    }
    if asked(&want["holder"]) {
        say("holder", *holder == want["holder"], holder);
    }
    if asked(&want["holder_in"]) {
        say("holder_in", list(&want["holder_in"]).contains(holder), holder);
    }
    if asked(&want["min_trust"]) {
        say("min_trust", rank(trust) >= rank(&want["min_trust"]), trust);
    }
    out
}

/// What no entry of a lock may say.
fn lock_never_says(want: &Value, lock: &Value) -> Vec<Check> {
    let (holder, trust) = (&lock["holder"]["goroutine"], &lock["holder"]["trust"]);
    let mut out = Vec::new();
    let mut say = |name: &str, holds: bool| {
        out.push(Check { name: name.into(), holds, found: format!("goroutine {holder} is named as {trust}") });
    };
    if want.get("holder").is_some_and(Value::is_null) {
        say("no_false_holder", holder.is_null() || !sure(trust));
    }
    if asked(&want["holder"]) && !holder.is_null() && sure(trust) {
        say("no_false_holder", *holder == want["holder"]);
    }
    if asked(&want["holder_not"]) {
        say("holder_not", !list(&want["holder_not"]).contains(holder));
    }
    if asked(&want["max_trust"]) {
        say("max_trust", rank(trust) <= rank(&want["max_trust"]));
    }
    out
}
