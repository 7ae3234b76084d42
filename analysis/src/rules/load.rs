//! From rule files to compiled rules, with every fault at its line and column.

use super::format::*;
use super::model::*;
use super::pattern::{self, Atom};
use super::stack::{Gaps, StackSpec};
use super::wait::Wait;
use super::{Index, Rules};
use rustc_hash::FxHashMap;
use std::ops::Range;
use toml::Spanned;

/// A fault in a rule file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleError {
    /// The file, as given.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// One sentence: what is wrong and how it should be.
    pub message: String,
}

impl std::fmt::Display for RuleError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)
    }
}

/// States in which a goroutine may be idle, unless its rule says otherwise. Locks, sends and wait groups are not.
const IDLE_STATES: &[Wait] = &[
    Wait::Select,
    Wait::ChanReceive,
    Wait::Io,
    Wait::Sleep,
    Wait::Cond,
    Wait::Syscall,
    Wait::Runnable,
    Wait::Runtime,
    Wait::Unknown,
];

/// States in which an observer does not only observe: what it sends or asks the kernel for may be the trouble itself.
const NOT_OBSERVING: &[Wait] = &[Wait::ChanSend, Wait::Syscall, Wait::Running, Wait::Runnable];

/// Every state.
const ANY_STATE: u32 = u32::MAX;

fn bits(states: &[Wait]) -> u32 {
    states.iter().fold(0, |all, wait| all | wait.bit())
}

/// One file's text and where its lines begin.
struct Source<'a> {
    file: &'a str,
    text: &'a str,
    builtin: bool,
}

impl Source<'_> {
    fn place(&self, at: usize) -> (u32, u32) {
        let before = self.text.get(..at).unwrap_or(self.text);
        let line = before.bytes().filter(|&b| b == b'\n').count() as u32 + 1;
        let start = before.rfind('\n').map_or(0, |i| i + 1);
        (line, before[start..].chars().count() as u32 + 1)
    }

    fn error(&self, span: Range<usize>, message: impl Into<String>) -> RuleError {
        let (line, column) = self.place(span.start);
        RuleError { file: self.file.to_string(), line, column, message: message.into() }
    }
}

/// Collects rules of several files; a later rule of the same id takes the place of an earlier one of another file.
pub(crate) struct Loader {
    rules: Rules,
    errors: Vec<RuleError>,
    /// Id to the position in `Rules::all`, and its file.
    known: FxHashMap<String, usize>,
}

impl Loader {
    pub(crate) fn new() -> Self {
        Loader { rules: Rules::none(), errors: Vec::new(), known: FxHashMap::default() }
    }

    pub(crate) fn file(&mut self, file: &str, text: &str, builtin: bool) {
        let source = Source { file, text, builtin };
        let raw: RawFile = match toml::from_str(text) {
            Ok(raw) => raw,
            Err(error) => {
                let span = error.span().unwrap_or(0..0);
                self.errors.push(source.error(span, error.message().to_string()));
                return;
            }
        };
        for id in &raw.off {
            if !self.remove(id.get_ref()) {
                self.errors.push(source.error(id.span(), format!("there is no rule `{}` to switch off", id.get_ref())));
            }
        }
        for rule in raw.role {
            self.role(&source, rule.into_inner());
        }
        for rule in raw.benign {
            let span = rule.span();
            self.benign(&source, span, rule.into_inner());
        }
        for rule in raw.symptom {
            let span = rule.span();
            self.symptom(&source, span, rule.into_inner());
        }
        for rule in raw.rpc {
            let span = rule.span();
            self.rpc(&source, span, rule.into_inner());
        }
        for rule in raw.holds {
            let span = rule.span();
            self.holds(&source, span, rule.into_inner());
        }
        for rule in raw.external {
            let span = rule.span();
            self.external(&source, span, rule.into_inner());
        }
        for rule in raw.known_issue {
            let span = rule.span();
            self.known_issue(&source, span, rule.into_inner());
        }
    }

    pub(crate) fn finish(mut self) -> Result<Rules, Vec<RuleError>> {
        if !self.errors.is_empty() {
            self.errors.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
            return Err(self.errors);
        }
        let Rules { benign, symptom, holds, external, rpc, .. } = &self.rules;
        let index = Index {
            benign: by_first(benign.iter().map(|r| &r.stack)),
            symptom: by_first(symptom.iter().map(|r| &r.stack)),
            holds: by_first(holds.iter().map(|r| &r.stack)),
            external: by_first(external.iter().map(|r| &r.stack)),
            client: by_first_of(rpc.iter().map(|r| r.client.as_ref())),
            server: by_first_of(rpc.iter().map(|r| r.server.as_ref())),
        };
        self.rules.index = index;
        Ok(self.rules)
    }

    fn remove(&mut self, id: &str) -> bool {
        let Some(at) = self.known.remove(id) else {
            return false;
        };
        self.rules.all.remove(at);
        for position in self.known.values_mut() {
            if *position > at {
                *position -= 1;
            }
        }
        let rules = &mut self.rules;
        rules.roles.retain(|r| r.id != id);
        rules.benign.retain(|r| r.id != id);
        rules.symptom.retain(|r| r.id != id);
        rules.rpc.retain(|r| r.id != id);
        rules.holds.retain(|r| r.id != id);
        rules.external.retain(|r| r.id != id);
        rules.known.retain(|r| r.id != id);
        true
    }

    /// Registers the common part; `None` if the id is bad.
    #[allow(clippy::too_many_arguments)]
    fn common(
        &mut self,
        source: &Source<'_>,
        kind: RuleKind,
        id: Spanned<String>,
        title: String,
        why: &str,
        references: &OneOf,
        tests: &[RawTest],
        looks_like: Vec<String>,
    ) -> Option<String> {
        let span = id.span();
        let id = id.into_inner();
        if id.is_empty() || !id.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
            self.errors.push(source.error(span, format!("`{id}`: an id has letters, digits and `-` only")));
            return None;
        }
        if let Some(&at) = self.known.get(&id) {
            let same = self.rules.all.get(at).is_some_and(|r| r.file == source.file && r.builtin == source.builtin);
            if same || source.builtin {
                self.errors.push(source.error(span, format!("there already is a rule `{id}`")));
                return None;
            }
            self.remove(&id);
        }
        if why.trim().is_empty() {
            self.errors.push(source.error(span.clone(), format!("rule `{id}` does not say why")));
        }
        let (line, _) = source.place(span.start);
        self.known.insert(id.clone(), self.rules.all.len());
        self.rules.all.push(Rule {
            id: id.clone(),
            kind,
            title,
            why: why.to_string(),
            references: references.0.clone(),
            file: source.file.to_string(),
            line,
            builtin: source.builtin,
            looks_like,
            remedy: None,
            facts: Vec::new(),
            example: tests.iter().find(|t| t.fires && !t.stack.is_empty()).map(|t| t.stack.clone()),
        });
        Some(id)
    }

    fn last(&mut self) -> Option<&mut Rule> {
        self.rules.all.last_mut()
    }

    fn atoms(&mut self, source: &Source<'_>, patterns: &[Spanned<String>]) -> Vec<Atom> {
        patterns.iter().filter_map(|p| self.atom(source, p.get_ref(), p.span())).collect()
    }

    fn one_of(&mut self, source: &Source<'_>, patterns: &Spanned<OneOf>) -> Vec<Atom> {
        if patterns.get_ref().0.is_empty() {
            self.errors.push(source.error(patterns.span(), "an empty array matches nothing"));
        }
        patterns.get_ref().0.iter().filter_map(|p| self.atom(source, p, patterns.span())).collect()
    }

    fn atom(&mut self, source: &Source<'_>, pattern: &str, span: Range<usize>) -> Option<Atom> {
        if let Some(fault) = pattern::fault(pattern) {
            self.errors.push(source.error(span, fault));
            return None;
        }
        Some(self.rules.atoms.intern(pattern))
    }

    fn states(&mut self, source: &Source<'_>, states: &[Spanned<String>], otherwise: u32) -> u32 {
        if states.is_empty() {
            return otherwise;
        }
        let mut bits = 0;
        for state in states {
            match Wait::parse(state.get_ref()) {
                Some(wait) => bits |= wait.bit(),
                None => {
                    let known: Vec<_> = Wait::WORDS.iter().map(|(word, _)| *word).collect();
                    let message = format!("`{}` is no state; known are {}", state.get_ref(), known.join(", "));
                    self.errors.push(source.error(state.span(), message));
                }
            }
        }
        // Counted profiles have no states: then the frames must do.
        bits | Wait::Unknown.bit()
    }

    /// Every rule but a known issue names frames: an index by the innermost one finds it.
    fn need_stack(&mut self, source: &Source<'_>, span: Range<usize>, raw: &RawStack) {
        if raw.stack.is_empty() {
            self.errors.push(source.error(span, "a rule needs a `stack` (innermost frame first)"));
        }
    }

    fn spec(&mut self, source: &Source<'_>, raw: &RawStack, gaps: Gaps, every: u32) -> StackSpec {
        StackSpec {
            elements: raw.stack.iter().map(|element| self.one_of(source, element)).collect(),
            gaps,
            inner: self.atoms(source, &raw.inner),
            without: self.atoms(source, &raw.without),
            states: self.states(source, &raw.states, every),
            created_by: raw.created_by.as_ref().map(|by| self.one_of(source, by)).unwrap_or_default(),
            minutes: (raw.min_minutes.unwrap_or(0), raw.max_minutes.unwrap_or(u32::MAX)),
        }
    }

    fn role(&mut self, source: &Source<'_>, raw: RawRole) {
        let name = raw.name.clone().unwrap_or_else(|| raw.role.clone());
        let mut looks: Vec<String> = raw.functions.iter().map(|f| f.get_ref().clone()).collect();
        looks.extend(raw.main.iter().map(|m| format!("main in {m}")));
        looks.extend(raw.process.iter().map(|p| format!("process {p}")));
        if looks.is_empty() {
            self.errors.push(source.error(raw.id.span(), "a role needs `functions`, `main` or `process`"));
        }
        let title = format!("the process is {name}");
        let functions = self.atoms(source, &raw.functions);
        let common = self.common(source, RuleKind::Role, raw.id, title, &raw.why, &raw.reference, &raw.test, looks);
        let Some(id) = common else { return };
        let RawRole { role, main, process, priority, .. } = raw;
        self.rules.roles.push(RoleRule { id, role, name, functions, main, process, priority });
    }

    fn benign(&mut self, source: &Source<'_>, span: Range<usize>, raw: RawBenign) {
        let stack = RawStack {
            stack: raw.stack,
            inner: raw.inner,
            without: raw.without,
            states: raw.states,
            created_by: raw.created_by,
            ..RawStack::default()
        };
        self.need_stack(source, span, &stack);
        let spec = self.spec(source, &stack, Gaps::Plumbing, bits(IDLE_STATES));
        let title = format!("idle: {}", first_sentence(&raw.why));
        let looks = looks(&stack);
        let common = self.common(source, RuleKind::Benign, raw.id, title, &raw.why, &raw.reference, &raw.test, looks);
        let Some(id) = common else { return };
        self.rules.benign.push(BenignRule { id, why: raw.why, stack: spec });
    }

    fn symptom(&mut self, source: &Source<'_>, span: Range<usize>, raw: RawSymptom) {
        let stack = RawStack { stack: raw.stack, without: raw.without, states: raw.states, ..RawStack::default() };
        self.need_stack(source, span, &stack);
        let spec = self.spec(source, &stack, Gaps::Free, !bits(NOT_OBSERVING));
        let title = raw.text.clone();
        let looks = looks(&stack);
        let common = self.common(source, RuleKind::Symptom, raw.id, title, &raw.why, &raw.reference, &raw.test, looks);
        let Some(id) = common else { return };
        self.rules.symptom.push(SymptomRule { id, text: raw.text, stack: spec });
    }

    fn rpc(&mut self, source: &Source<'_>, span: Range<usize>, raw: RawRpc) {
        if raw.client.is_empty() && raw.server.is_empty() {
            self.errors.push(source.error(span.clone(), "an rpc rule needs `client` or `server` frames"));
            return;
        }
        let derive = raw.derive.as_ref().and_then(|word| {
            let found = Derive::WORDS.iter().find(|(w, _)| w == word.get_ref()).map(|(_, d)| *d);
            if found.is_none() {
                let known: Vec<_> = Derive::WORDS.iter().map(|(w, _)| *w).collect();
                let message = format!("`{}` is not known; `derive` is one of {}", word.get_ref(), known.join(", "));
                self.errors.push(source.error(word.span(), message));
            }
            found
        });
        if raw.derive.is_none() && (raw.service.is_none() || raw.method.is_none()) {
            self.errors.push(source.error(raw.id.span(), "an rpc rule needs `service` and `method`, or `derive`"));
        }
        let side = |stack: Vec<Spanned<OneOf>>| (!stack.is_empty()).then(|| RawStack { stack, ..RawStack::default() });
        let (client, server) = (side(raw.client), side(raw.server));
        let mut how = Vec::new();
        for (word, stack) in [("client", &client), ("server", &server)] {
            how.extend(stack.iter().flat_map(looks).map(|line| format!("{word}: {line}")));
        }
        let client = client.map(|stack| self.spec(source, &stack, Gaps::Free, ANY_STATE));
        let server = server.map(|stack| self.spec(source, &stack, Gaps::Free, ANY_STATE));
        let title = match (&raw.service, &raw.method) {
            (Some(service), Some(method)) => {
                format!("{} call {service}/{method}", raw.transport.get_ref())
            }
            _ => format!("{} calls, by generated names", raw.transport.get_ref()),
        };
        let common = self.common(source, RuleKind::Rpc, raw.id, title, &raw.why, &raw.reference, &raw.test, how);
        let Some(id) = common else { return };
        self.rules.rpc.push(RpcRule {
            id,
            transport: raw.transport.into_inner(),
            service: raw.service,
            method: raw.method,
            client_role: raw.client_role,
            server_role: raw.server_role,
            derive,
            client,
            server,
        });
    }

    fn holds(&mut self, source: &Source<'_>, span: Range<usize>, raw: RawHolds) {
        let stack = RawStack { stack: raw.stack, without: raw.without, states: raw.states, ..RawStack::default() };
        self.need_stack(source, span, &stack);
        let spec = self.spec(source, &stack, Gaps::Free, ANY_STATE);
        let waiters = self.atoms(source, &raw.waiters);
        let mode = match raw.mode.as_ref().map(|m| m.get_ref().as_str()) {
            None | Some("lock") => "lock",
            Some("rlock") => "rlock",
            Some(other) => {
                let at = raw.mode.as_ref().map(Spanned::span).unwrap_or_default();
                self.errors.push(source.error(at, format!("`{other}` is no mode: `lock` or `rlock`")));
                "lock"
            }
        };
        let certainty = match raw.certainty.as_ref().map(|c| c.get_ref().as_str()) {
            None | Some("always") => Certainty::Always,
            Some("sometimes") => Certainty::Sometimes,
            Some(other) => {
                let at = raw.certainty.as_ref().map(Spanned::span).unwrap_or_default();
                self.errors.push(source.error(at, format!("`{other}`: certainty is `always` or `sometimes`")));
                Certainty::Sometimes
            }
        };
        let mut how = looks(&stack);
        how.extend(raw.waiters.iter().map(|w| format!("waiters in {}", w.get_ref())));
        let title = format!("runs under {}", raw.lock);
        let common = self.common(source, RuleKind::Holds, raw.id, title, &raw.why, &raw.reference, &raw.test, how);
        let Some(id) = common else { return };
        let (lock, why, mode) = (raw.lock, raw.why, mode.to_string());
        self.rules.holds.push(HoldsRule { id, lock, mode, why, certainty, stack: spec, waiters });
    }

    fn external(&mut self, source: &Source<'_>, span: Range<usize>, raw: RawExternal) {
        let stack = RawStack { stack: raw.stack, without: raw.without, states: raw.states, ..RawStack::default() };
        self.need_stack(source, span, &stack);
        let spec = self.spec(source, &stack, Gaps::Free, ANY_STATE);
        let title = format!("waits for {}", raw.waits_for);
        let looks = looks(&stack);
        let common = self.common(source, RuleKind::External, raw.id, title, &raw.why, &raw.reference, &raw.test, looks);
        let Some(id) = common else { return };
        if let Some(last) = self.last() {
            last.remedy = raw.remedy.clone();
        }
        let RawExternal { resource, waits_for, peer, remedy, .. } = raw;
        self.rules.external.push(ExternalRule { id, resource, waits_for, peer, remedy, stack: spec });
    }

    fn known_issue(&mut self, source: &Source<'_>, span: Range<usize>, raw: RawKnown) {
        let confidence = match raw.confidence.get_ref().as_str() {
            "diagnosed" => Confidence::Diagnosed,
            "reported" => Confidence::Reported,
            "derived" => Confidence::Derived,
            other => {
                let message = format!("`{other}`: confidence is `diagnosed`, `reported` or `derived`");
                self.errors.push(source.error(raw.confidence.span(), message));
                Confidence::Derived
            }
        };
        if raw.waiter.is_empty() && raw.holder.is_empty() && raw.kernel.is_empty() && raw.log.is_empty() {
            self.errors.push(source.error(span, "a known issue needs `waiter`, `holder`, `log` or `kernel`"));
        }
        if raw.reference.0.is_empty() {
            self.errors.push(source.error(raw.id.span(), "a known issue needs a `reference`"));
        }
        let mut how = Vec::new();
        for (word, list) in [("waiter", &raw.waiter), ("holder", &raw.holder), ("also", &raw.also)] {
            how.extend(list.iter().flat_map(|s| looks(s.get_ref())).map(|line| format!("{word}: {line}")));
        }
        how.extend(raw.absent.iter().map(|a| format!("absent: {}", a.get_ref())));
        how.extend(raw.log.iter().map(|l| format!("log: {}", l.get_ref())));
        how.extend(raw.kernel.iter().map(|k| format!("kernel: {k}")));
        let mut specs = |list: &[Spanned<RawStack>]| -> Vec<StackSpec> {
            list.iter().map(|raw| self.spec(source, raw.get_ref(), Gaps::Free, ANY_STATE)).collect()
        };
        let (waiter, holder, also) = (specs(&raw.waiter), specs(&raw.holder), specs(&raw.also));
        let absent = self.atoms(source, &raw.absent);
        let mut log = Vec::new();
        for pattern in &raw.log {
            match regex::RegexBuilder::new(pattern.get_ref()).case_insensitive(true).size_limit(1 << 20).build() {
                Ok(regex) => log.push(regex),
                Err(error) => self.errors.push(source.error(pattern.span(), error.to_string())),
            }
        }
        let title = raw.title.clone();
        let common = self.common(source, RuleKind::KnownIssue, raw.id, title, &raw.why, &raw.reference, &raw.test, how);
        let Some(id) = common else { return };
        if let Some(last) = self.last() {
            last.remedy = raw.remedy.clone();
            let facts = [
                ("affected", &raw.affected),
                ("fix", &raw.fixed_in),
                ("do not", &raw.dont),
                ("risk", &raw.risk),
                ("looks like", &raw.looks_like),
            ];
            last.facts = facts.into_iter().filter_map(|(key, v)| Some((key, v.clone()?))).collect();
        }
        self.rules.known.push(KnownIssueRule {
            id,
            title: raw.title,
            references: raw.reference.0,
            affected: raw.affected,
            fixed_in: raw.fixed_in,
            remedy: raw.remedy,
            dont: raw.dont,
            risk: raw.risk,
            confidence,
            why: raw.why,
            roles: raw.roles,
            versions: raw.versions,
            waiter,
            holder,
            also,
            absent,
            min_waiters: raw.min_waiters,
            leaked: raw.leaked,
            cycle: raw.cycle,
            same_goroutine: raw.same_goroutine,
            waiter_alone: raw.waiter_alone,
            general: raw.general,
            same_age: raw.same_age,
            log,
            kernel: raw.kernel,
            log_optional: raw.log_optional,
        });
    }
}

/// A stack pattern as a person reads it, one line.
fn looks(raw: &RawStack) -> Vec<String> {
    let mut lines = Vec::new();
    let frames: Vec<String> = raw.stack.iter().map(|e| e.get_ref().0.join(" | ")).collect();
    if !frames.is_empty() {
        lines.push(frames.join(" <- "));
    }
    let list = |items: &[Spanned<String>]| items.iter().map(|i| i.get_ref().as_str()).collect::<Vec<_>>().join(", ");
    if let Some(by) = &raw.created_by {
        lines.push(format!("created by {}", by.get_ref().0.join(" | ")));
    }
    if !raw.states.is_empty() {
        lines.push(format!("in {}", list(&raw.states)));
    }
    if !raw.without.is_empty() {
        lines.push(format!("without {}", list(&raw.without)));
    }
    lines
}

fn first_sentence(text: &str) -> &str {
    text.trim().split_inclusive(". ").next().unwrap_or(text).trim().trim_end_matches('.')
}

fn by_first<'a>(specs: impl Iterator<Item = &'a StackSpec>) -> FxHashMap<Atom, Vec<u32>> {
    by_first_of(specs.map(Some))
}

/// Rules by the atoms of the innermost frame that they name.
fn by_first_of<'a>(specs: impl Iterator<Item = Option<&'a StackSpec>>) -> FxHashMap<Atom, Vec<u32>> {
    let mut index: FxHashMap<Atom, Vec<u32>> = FxHashMap::default();
    for (i, spec) in specs.enumerate() {
        let Some(spec) = spec else { continue };
        for &atom in spec.elements.first().into_iter().flatten() {
            index.entry(atom).or_default().push(i as u32);
        }
    }
    index
}
