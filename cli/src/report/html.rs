//! The page: one file that opens offline, reads well without script, and answers on its first screen.

use super::escape::{html, push_html, push_html_bytes, script_json, visible};
use super::graph::{self, Scope};
use super::members::{self, Found};
use super::quote::{self, Quotes};
use super::view::{
    Row, View, goroutine_anchor, goroutine_of, interesting, key, lock_anchor, lock_name, ordered, short_function,
};
use super::words::{ALL, Words, fill, number};
use super::{Incident, Style, markdown, svg};
use askama::Template;
use holdup_analysis::diagnosis::{
    Evidence, Finding, Group, Holder, HolderStatus, Lock, Node, Source, Trust, VerdictKind,
};
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;

/// Bytes of stacks that stand in the page itself; the rest is in the packed list.
const STACKS: usize = 1_600_000;
/// Bytes of locks with their waiters.
const LOCKS: usize = 900_000;
/// Bytes of further findings.
const FINDINGS: usize = 500_000;
/// Width of a picture that may stand beside the reasons.
const BESIDE: f64 = 620.0;
/// Ids in links of their own; beyond that they are text that the script makes links of.
const LINKED: usize = 24;
/// Bytes of one printed goroutine.
const BLOCK: usize = 32 * 1024;
/// Rows of small lists.
const ROWS: usize = 400;

#[derive(Template)]
#[template(path = "report.html")]
struct Page {
    w: &'static Words,
    lang: &'static str,
    kind: &'static str,
    verdict: &'static str,
    summary: String,
    facts: Vec<String>,
    trust: String,
    version: String,
    read: String,
    made_by: String,
    style: &'static str,
    script: &'static str,
    answer: String,
    chain: String,
    beside: bool,
    why: String,
    timeline: String,
    locks: String,
    groups: String,
    findings: String,
    idle: String,
    inputs: String,
    goroutines: String,
    list_note: String,
    table: String,
    markdown: String,
    words: String,
}

const CSS: &str = concat!(include_str!("../../../templates/graph.css"), include_str!("../../../templates/report.css"));
const SCRIPT: &str = include_str!("../../../templates/report.js");

/// Writes the page.
pub fn write(incident: &Incident<'_>, style: &Style) -> String {
    let view = View::new(incident, style);
    let diagnosis = view.diagnosis();
    let found = Found::new(&view);
    let quotes = Quotes::new(incident.evidence, sources(&view));
    let writer = Writer { view: &view, found: &found, quotes };
    let order = group_order(&view);
    let table = members::build(&view, &found, &order);
    let mut facts: Vec<String> = view.since().into_iter().collect();
    if let Some(blocked) = view.first().and_then(|f| view.blocked(f)) {
        facts.push(fill(view.words.behind_it, &[("what", &blocked)]));
    }
    let list_note = match table.without_text {
        0 => String::new(),
        n => fill(view.words.not_verbatim, &[("n", &number(n))]),
    };
    let words: BTreeMap<&str, &str> = ALL
        .iter()
        .filter(|(name, ..)| SCRIPT.contains(&format!("w.{name}")))
        .map(|(name, en, zh)| (*name, if style.lang == crate::locale::Lang::Zh { *zh } else { *en }))
        .collect();
    let (chain, wide) = view.first().map(|f| writer.chain(f)).unwrap_or_default();
    let page = Page {
        w: view.words,
        lang: style.lang.tag(),
        kind: diagnosis.verdict.kind.as_str(),
        verdict: view.verdict(),
        summary: visible(&diagnosis.verdict.summary),
        facts,
        trust: writer.trust(diagnosis.verdict.trust),
        version: visible(&diagnosis.tool.version),
        read: view.what_was_read(),
        made_by: fill(view.words.made_by, &[("what", &visible(&diagnosis.tool.version))]),
        style: CSS,
        script: SCRIPT,
        answer: writer.answer(),
        beside: !wide && !chain.is_empty(),
        chain,
        why: view.first().map(|f| writer.why(f, true)).unwrap_or_default(),
        timeline: writer.timeline(),
        locks: writer.locks(),
        groups: writer.groups(&order),
        findings: writer.findings(),
        idle: writer.idle(),
        inputs: writer.inputs(),
        goroutines: number(diagnosis.snapshots.iter().map(|s| s.goroutines).sum()),
        list_note,
        table: table.packed,
        markdown: script_json(&serde_json::to_string(&markdown::write(incident, style)).unwrap_or_default()),
        words: script_json(&serde_json::to_string(&words).unwrap_or_default()),
    };
    // Rendering into a string fails only if a value's own display fails, and all values here are texts.
    page.render().unwrap_or_default()
}

/// Everything that the page quotes.
fn sources<'a>(view: &View<'a>) -> impl Iterator<Item = &'a Source> {
    let diagnosis = view.diagnosis();
    let nodes: HashSet<_> = diagnosis.findings.iter().flat_map(|f| &f.chain).map(key).collect();
    let edges = diagnosis.edges.iter().filter(move |e| nodes.contains(&key(&e.from)));
    let holders = diagnosis.locks.iter().flat_map(|l| l.holder.iter().chain(&l.candidates));
    let evidence = diagnosis.findings.iter().flat_map(|f| &f.evidence);
    evidence
        .chain(holders.flat_map(|h| &h.evidence))
        .chain(edges.flat_map(|e| &e.evidence))
        .filter_map(|e| e.source.as_ref())
}

/// Groups in the order of interest: those that claims are about, then odd ones before crowds, idle ones last.
fn group_order(view: &View<'_>) -> Vec<usize> {
    let groups = &view.diagnosis().groups;
    let mut order: Vec<usize> = (0..groups.len()).collect();
    let named: HashSet<usize> = view.named_groups();
    let root = view.first().and_then(|f| goroutine_of(&f.root.node)).and_then(|g| view.group(g)).map(|(at, _)| at);
    order.sort_by_key(|&at| {
        let group = groups.get(at);
        (
            Some(at) != root,
            !named.contains(&at),
            group.is_some_and(|g| g.idle.is_some()),
            std::cmp::Reverse(group.and_then(|g| g.minutes.max)),
            group.map_or(0, |g| g.count),
            at,
        )
    });
    order
}

struct Writer<'v, 'a> {
    view: &'v View<'a>,
    found: &'v Found<'a>,
    quotes: Quotes<'a>,
}

impl<'a> Writer<'_, 'a> {
    /// Trust as a word and a shape.
    fn trust(&self, trust: Trust) -> String {
        let bars = match trust {
            Trust::Proven => "▮▮▮▮",
            Trust::Strong => "▮▮▮▯",
            Trust::Likely => "▮▮▯▯",
            Trust::Guess => "▮▯▯▯",
        };
        format!(
            "<span class=\"trust {}\" title=\"{}\"><span aria-hidden=\"true\">{bars}</span> {}</span>",
            trust.as_str(),
            html(self.view.trust_meaning(trust)),
            html(self.view.trust(trust))
        )
    }

    /// What it is about, what to do, what is missing.
    fn answer(&self) -> String {
        let w = self.view.words;
        let diagnosis = self.view.diagnosis();
        let mut out = String::new();
        if diagnosis.verdict.kind == VerdictKind::Crash {
            for notice in diagnosis.snapshots.iter().flat_map(|s| &s.notices).take(6) {
                let _ = write!(out, "<blockquote>{}</blockquote>", html(notice));
            }
        }
        let mut rows: Vec<(&str, &str, String)> = Vec::new();
        for subject in diagnosis.subjects.iter().take(8) {
            let name = subject.name.as_deref().or(subject.id.as_deref()).unwrap_or("");
            rows.push((
                "about",
                w.about,
                format!(
                    "{} <code>{}</code> <span class=\"soft\">{}</span>",
                    html(&subject.kind),
                    html(name),
                    html(&subject.why)
                ),
            ));
        }
        if let Some(finding) = self.view.first() {
            for (kind, word) in
                [("do", w.do_now), ("dont", w.do_not), ("collect", w.would_settle), ("prevent", w.prevent)]
            {
                for remedy in finding.remedies.iter().filter(|r| r.kind == kind) {
                    let risk = remedy
                        .risk
                        .as_ref()
                        .map(|r| format!(" <span class=\"soft\">({})</span>", html(&fill(w.risk, &[("what", r)]))));
                    rows.push((kind, word, format!("{}{}", html(&remedy.text), risk.unwrap_or_default())));
                }
            }
            if let Some(issue) = self.known(finding) {
                rows.push(("known", w.known, issue));
            }
        }
        for missing in diagnosis.missing.iter().take(8) {
            let command = missing.command.as_ref().map(|c| format!("<code class=\"command\">{}</code> ", html(c)));
            let text = format!("{}{}: {}", command.unwrap_or_default(), html(&missing.what), html(&missing.why));
            rows.push(("collect", w.would_settle, text));
        }
        if rows.is_empty() {
            if diagnosis.verdict.kind == VerdictKind::Healthy {
                let _ = write!(out, "<p class=\"soft\">{}</p>", html(w.none_needed));
            }
            return out;
        }
        out.push_str("<dl class=\"advice\">");
        let mut before = "";
        for (class, word, text) in rows {
            let shown = if word == before { "" } else { word };
            before = word;
            let _ = write!(out, "<dt class=\"{class}\">{}</dt><dd class=\"{class}\">{text}</dd>", html(shown));
        }
        out.push_str("</dl>");
        out
    }

    fn known(&self, finding: &Finding) -> Option<String> {
        let issue = finding.known_issue.as_ref()?;
        let mut text = format!("<b>{}</b> {}", html(&issue.id), html(&issue.title));
        for reference in &issue.references {
            text.push_str(" · ");
            let web = reference.starts_with("https://") || reference.starts_with("http://");
            let plain = reference
                .bytes()
                .all(|b| b.is_ascii_graphic() && !matches!(b, b'"' | b'\'' | b'<' | b'>' | b'`' | b'\\'));
            if web && plain {
                let short = reference.trim_start_matches("https://").trim_start_matches("http://");
                let _ =
                    write!(text, "<a href=\"{0}\" rel=\"noreferrer noopener\">{1}</a>", html(reference), html(short));
            } else {
                text.push_str(&html(reference));
            }
        }
        if let Some(fixed) = &issue.fixed_in {
            let _ = write!(text, " · {}", html(&fill(self.view.words.fixed_in, &[("what", fixed)])));
        }
        Some(text)
    }

    /// The picture, and the same for who hears the page.
    fn chain(&self, finding: &'a Finding) -> (String, bool) {
        let graph = graph::build(self.view, Scope::Finding(finding));
        let mut out = String::new();
        let mut wide = false;
        if graph.boxes.len() > 1 {
            out.push_str("<div class=\"drawing\" tabindex=\"0\">");
            wide = svg::write(&mut out, self.view, &graph, true) > BESIDE;
            out.push_str("</div>");
            svg::legend(&mut out, self.view);
        }
        out.push_str(&self.chain_list(finding, graph.boxes.len() > 1));
        (out, wide)
    }

    fn chain_list(&self, finding: &'a Finding, beside: bool) -> String {
        let mut out = format!("<ol class=\"chain{}\">", if beside { " heard" } else { "" });
        for row in self.view.rows(finding) {
            let mark = if row.root { self.view.words.root } else { "" };
            let cells = [&row.process, &row.id, &row.age, &row.what].into_iter().map(String::as_str);
            let cells: Vec<String> = cells.filter(|c| !c.is_empty()).map(html).collect();
            let text = cells.join(" · ");
            let text = match &row.anchor {
                Some(anchor) => format!("<a href=\"#{}\">{text}</a>", html(anchor)),
                None => text,
            };
            let _ = write!(out, "<li>{text}");
            if let Some(trust) = row.trust {
                let _ = write!(out, " <span class=\"soft\">{}</span> {}", html(&row.why), self.trust(trust));
            }
            if !mark.is_empty() {
                let _ = write!(out, " <b>{}</b>", html(mark));
            }
            out.push_str("</li>");
        }
        out.push_str("</ol>");
        out
    }

    /// What speaks for each link and against it.
    fn why(&self, finding: &'a Finding, open: bool) -> String {
        let w = self.view.words;
        let mut out = String::new();
        if !finding.explanation.is_empty() {
            let _ = write!(out, "<p>{}</p>", html(&finding.explanation));
        }
        let reasons = self.view.reasons(finding);
        for (lock, holder) in &reasons.holders {
            let who = holder.goroutine.map(|id| id.to_string()).unwrap_or_default();
            let title = fill(w.why_holder_of, &[("n", &who), ("what", &lock_name(lock))]);
            let _ = write!(out, "<h3>{} {}</h3>", html(&title), self.trust(holder.trust));
            self.evidence(&mut out, ordered(&holder.evidence), open);
        }
        if !reasons.rest.is_empty() {
            let _ = write!(out, "<h3>{} {}</h3>", html(w.why_this), self.trust(finding.trust));
            self.evidence(&mut out, ordered(reasons.rest), open && reasons.holders.is_empty());
        }
        for pair in finding.chain.windows(2) {
            let [from, to] = pair else { continue };
            let Some(edge) = self.view.edge(from, to).filter(|e| !e.evidence.is_empty()) else { continue };
            // A lock's holder has been explained above.
            if reasons.holders.iter().any(|(lock, _)| self.view.lock(from).is_some_and(|l| l.id == lock.id)) {
                continue;
            }
            let _ = write!(
                out,
                "<h3>{} → {} <span class=\"soft\">{}</span> {}</h3>",
                self.node(from),
                self.node(to),
                html(&edge.why),
                self.trust(edge.trust)
            );
            self.evidence(&mut out, ordered(&edge.evidence), false);
        }
        out
    }

    /// A node's name, as a link where there is more about it.
    fn node(&self, node: &Node) -> String {
        let Row { process, id, what, anchor, .. } = self.view.name(node);
        let id = if node.kind == "lock" { what } else { id };
        let name = [process, id].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
        match anchor {
            Some(anchor) => format!("<a href=\"#{}\">{}</a>", html(&anchor), html(&name)),
            None => html(&name),
        }
    }

    fn evidence(&self, out: &mut String, all: Vec<&Evidence>, open: bool) {
        let w = self.view.words;
        out.push_str("<ul class=\"evidence\">");
        for evidence in all.iter().take(60) {
            let (class, sign, word) =
                if evidence.against { ("against", "–", w.against_it) } else { ("for", "+", w.for_it) };
            let _ = write!(
                out,
                "<li class=\"{class}\"><span class=\"sign\" role=\"img\" aria-label=\"{}\">{sign}</span>",
                html(word)
            );
            let source = evidence.source.as_ref();
            let lines = source.map(|s| self.quotes.lines(s)).unwrap_or_default();
            let place = source.map(|s| {
                let path = self.view.diagnosis().inputs.get(s.input).map_or("", |i| i.path.as_str());
                format!("<code class=\"place\" title=\"{}\">{}</code>", html(path), html(&self.view.source(s)))
            });
            let place = place.unwrap_or_default();
            if lines.is_empty() {
                let _ = write!(out, "<div><span class=\"text\">{}</span> {place}</div></li>", html(&evidence.text));
                continue;
            }
            let open = if open && lines.len() <= 8 { " open" } else { "" };
            let _ = write!(
                out,
                "<details{open}><summary><span class=\"text\">{}</span> {place}</summary><pre class=\"quote\">",
                html(&evidence.text)
            );
            for line in lines {
                let _ = write!(out, "<i>{}</i> ", line.number);
                push_html_bytes(out, line.bytes);
                out.push_str(if line.cut { "…\n" } else { "\n" });
            }
            out.push_str("</pre></details></li>");
        }
        if all.len() > 60 {
            let _ = write!(out, "<li>… {}</li>", html(&fill(w.more, &[("n", &number(all.len() as u64 - 60))])));
        }
        out.push_str("</ul>");
    }

    fn timeline(&self) -> String {
        let mut out = String::new();
        let moments = &self.view.diagnosis().timeline;
        let longest = moments.iter().filter_map(|m| m.minutes_before_dump).max().unwrap_or(0).max(1);
        for moment in moments.iter().take(ROWS) {
            let age = moment.minutes_before_dump;
            let width = age.map_or(0.0, |m| f64::from(m) / f64::from(longest) * 100.0);
            let _ = write!(
                out,
                "<tr><td class=\"n\">{}</td><td class=\"bar\"><svg width=\"100%\" height=\"10\" aria-hidden=\"true\"><rect x=\"{:.1}%\" width=\"{width:.1}%\" height=\"10\" rx=\"3\"/></svg></td><td>{}{}",
                html(&age.map(|m| self.view.minutes(m)).unwrap_or_default()),
                100.0 - width,
                html(&moment.text),
                moment.at.as_ref().map(|at| format!(" <span class=\"soft\">{}</span>", html(at))).unwrap_or_default()
            );
            if let Some(node) = &moment.node {
                let _ = write!(out, " <span class=\"soft\">{}</span>", self.node(node));
            }
            out.push_str("</td></tr>");
        }
        out
    }

    fn locks(&self) -> String {
        let w = self.view.words;
        let mut locks: Vec<&Lock> = self.view.diagnosis().locks.iter().collect();
        let chain: HashSet<&str> = self
            .view
            .diagnosis()
            .findings
            .iter()
            .flat_map(|f| &f.chain)
            .filter_map(|n| self.view.lock(n))
            .map(|l| l.id.as_str())
            .collect();
        locks.sort_by_key(|lock| {
            let open = lock.holder_status == HolderStatus::NotApplicable;
            (!chain.contains(lock.id.as_str()), lock.holder.is_none(), open, std::cmp::Reverse(lock.waiter_count))
        });
        let mut out = String::new();
        let mut shown = 0;
        for lock in &locks {
            if out.len() > LOCKS {
                break;
            }
            self.lock(&mut out, lock, shown < 1 && chain.contains(lock.id.as_str()));
            shown += 1;
        }
        if shown < locks.len() {
            let _ = write!(
                out,
                "<p class=\"note\">{}</p>",
                html(&fill(w.left_out_locks, &[("n", &number((locks.len() - shown) as u64))]))
            );
        }
        out
    }

    fn lock(&self, out: &mut String, lock: &Lock, open: bool) {
        let w = self.view.words;
        let _ = write!(
            out,
            "<details class=\"item lock\" id=\"{}\"{}><summary><span class=\"count\">{}</span> <b>{}</b> <span class=\"soft\">{} · {}",
            html(&lock_anchor(&lock.id)),
            if open { " open" } else { "" },
            number(lock.waiter_count),
            html(&lock_name(lock)),
            html(&self.view.process(&lock.snapshot)),
            html(&lock.kind)
        );
        let age = self.view.lock_ages(lock);
        if !age.is_empty() {
            let _ = write!(out, " · {}", html(&age));
        }
        out.push_str("</span> ");
        match &lock.holder {
            Some(holder) => {
                let _ = write!(
                    out,
                    "<span class=\"holder\">{} {} {}</span>",
                    html(w.holder),
                    self.who(&lock.snapshot, holder, false),
                    self.trust(holder.trust)
                );
            }
            None => {
                let _ = write!(out, "<span class=\"soft\">{}</span>", html(self.view.holder_status(lock)));
            }
        }
        out.push_str("</summary>");
        if let Some(holder) = &lock.holder {
            let _ = write!(
                out,
                "<h4>{} {} {}</h4>",
                html(w.holder),
                self.who(&lock.snapshot, holder, true),
                self.trust(holder.trust)
            );
            self.evidence(out, ordered(&holder.evidence), false);
        }
        if !lock.candidates.is_empty() {
            let _ = write!(out, "<h4>{}</h4>", html(w.candidates));
            for holder in lock.candidates.iter().take(8) {
                let _ = write!(out, "<p>{} {}</p>", self.who(&lock.snapshot, holder, true), self.trust(holder.trust));
                self.evidence(out, ordered(&holder.evidence), false);
            }
        }
        if !lock.waiters.is_empty() {
            let mut by_age: BTreeMap<std::cmp::Reverse<Option<u32>>, Vec<u64>> = BTreeMap::new();
            for waiter in &lock.waiters {
                if let Some(id) = waiter.goroutine.or(waiter.thread.map(u64::from)) {
                    by_age.entry(std::cmp::Reverse(waiter.minutes)).or_default().push(id);
                }
            }
            let _ = write!(out, "<h4>{}</h4><table class=\"ages\">", html(w.waiters));
            for (std::cmp::Reverse(age), ids) in by_age {
                let age = age.map_or_else(|| w.under_a_minute.to_owned(), |m| self.view.minutes(m));
                let _ = write!(
                    out,
                    "<tr><th scope=\"row\">{}</th><td class=\"n\">{}</td><td>",
                    html(&age),
                    number(ids.len() as u64)
                );
                self.ids(out, &lock.snapshot, &ids);
                out.push_str("</td></tr>");
            }
            out.push_str("</table>");
        }
        out.push_str("</details>");
    }

    fn who(&self, snapshot: &str, holder: &Holder, link: bool) -> String {
        match (holder.goroutine, holder.thread) {
            (Some(id), _) if link => format!("<a href=\"#{}\">g{id}</a>", html(&goroutine_anchor(snapshot, id))),
            (Some(id), _) => format!("g{id}"),
            (None, Some(thread)) => format!("t{thread}"),
            (None, None) => String::new(),
        }
    }

    /// Goroutine ids; many are plain numbers that the script makes links of.
    fn ids(&self, out: &mut String, snapshot: &str, ids: &[u64]) {
        let _ = write!(out, "<span class=\"ids\" data-s=\"{}\">", html(snapshot));
        for (i, id) in ids.iter().enumerate() {
            if i > 0 {
                out.push(' ');
            }
            if ids.len() <= LINKED {
                let _ = write!(out, "<a href=\"#{}\">{id}</a>", html(&goroutine_anchor(snapshot, *id)));
            } else {
                let _ = write!(out, "{id}");
            }
        }
        out.push_str("</span>");
    }

    fn groups(&self, order: &[usize]) -> String {
        let diagnosis = self.view.diagnosis();
        let mut out = String::new();
        let mut shown = 0;
        for group in order.iter().filter_map(|&at| diagnosis.groups.get(at)) {
            if out.len() > STACKS {
                break;
            }
            self.group(&mut out, group);
            shown += 1;
        }
        if shown < order.len() {
            let _ = write!(
                out,
                "<p class=\"note\">{}</p>",
                html(&fill(self.view.words.left_out_groups, &[("n", &number((order.len() - shown) as u64))]))
            );
        }
        out
    }

    fn group(&self, out: &mut String, group: &Group) {
        let w = self.view.words;
        let frame = interesting(group);
        let _ = write!(
            out,
            "<details class=\"item group{}\"><summary><span class=\"count\">{}</span> <b>{}</b> <code class=\"place\">{}</code> <span class=\"soft\">{} · {}",
            if group.idle.is_some() { " idle" } else { "" },
            number(group.count),
            html(frame.map_or("?", |f| short_function(&f.function))),
            html(
                &frame
                    .map(|f| format!("{}:{}", f.file.rsplit('/').next().unwrap_or(&f.file), f.line))
                    .unwrap_or_default()
            ),
            html(&self.view.process(&group.snapshot)),
            html(&group.state)
        );
        let age = self.view.range(group.minutes.min, group.minutes.max);
        if !age.is_empty() {
            let _ = write!(out, " · {}", html(&age));
        }
        if let Some(reason) = &group.idle {
            let _ = write!(out, " · {}: {}", html(w.judged_idle), html(reason));
        }
        out.push_str("</span></summary>");
        // Those that claims are about are printed each; else the one that has waited longest.
        let mut printed: Vec<u64> =
            group.goroutines.iter().copied().filter(|&id| self.view.is_named((&group.snapshot, id))).take(6).collect();
        if printed.is_empty() {
            let age = |id: &u64| self.found.get(&group.snapshot, *id).and_then(|(_, g)| g.minutes);
            printed.extend(group.goroutines.iter().take(5000).max_by_key(|id| (age(id), std::cmp::Reverse(**id))));
        }
        for id in &printed {
            self.stack(out, group, *id);
        }
        if printed.is_empty() {
            out.push_str("<pre class=\"stack\">");
            self.frames(out, group);
            out.push_str("</pre>");
        }
        if group.goroutines.len() > 1 {
            let _ = write!(out, "<p><span class=\"soft\">{}</span> ", html(w.ids));
            self.ids(out, &group.snapshot, &group.goroutines);
            out.push_str("</p>");
        }
        out.push_str("</details>");
    }

    /// One goroutine as it was printed, with the standard library dimmed and the interesting frame marked.
    fn stack(&self, out: &mut String, group: &Group, id: u64) {
        let _ = write!(
            out,
            "<pre class=\"stack\" id=\"{}\" tabindex=\"-1\">",
            html(&goroutine_anchor(&group.snapshot, id))
        );
        match self.found.get(&group.snapshot, id) {
            Some((snapshot, goroutine)) => {
                let block = quote::block(snapshot, goroutine);
                let block = block.get(..block.len().min(BLOCK)).unwrap_or(&block);
                let frames = snapshot.frames_of(goroutine);
                let mut frame = 0usize;
                let mut open = false;
                let best = group.frames.iter().position(|f| f.interesting);
                for (i, line) in block.split(|&b| b == b'\n').enumerate() {
                    let number = goroutine.line + i as u32;
                    let starts = match frames.get(frame) {
                        Some(f) if f.line > 0 => f.line == number,
                        // A core's stacks are put into lines here: two a frame.
                        Some(_) => i == 1 + 2 * frame,
                        None => line.starts_with(b"created by "),
                    };
                    if starts && std::mem::replace(&mut open, false) {
                        out.push_str("</span>");
                    }
                    if starts {
                        let class = match group.frames.get(frame) {
                            _ if Some(frame) == best => "frame best",
                            Some(f) if f.standard => "frame std",
                            Some(_) => "frame",
                            None => "frame std",
                        };
                        let _ = write!(out, "<span class=\"{class}\">");
                        open = true;
                        frame += 1;
                    }
                    push_html_bytes(out, line);
                    out.push('\n');
                }
                if open {
                    out.push_str("</span>");
                }
                if let Some(place) = snapshot.place(goroutine.line) {
                    let path = self.view.diagnosis().inputs.get(place.input as usize).map_or("", |i| i.path.as_str());
                    out.push_str("<i>");
                    push_html(out, path);
                    let _ = write!(out, ":{}</i>", place.line);
                }
            }
            None => {
                let _ = writeln!(out, "goroutine {id} [{}]:", html(&group.state));
                self.frames(out, group);
            }
        }
        out.push_str("</pre>");
    }

    fn frames(&self, out: &mut String, group: &Group) {
        for frame in &group.frames {
            let class = match (frame.interesting, frame.standard) {
                (true, _) => "frame best",
                (_, true) => "frame std",
                _ => "frame",
            };
            let _ = write!(out, "<span class=\"{class}\">");
            push_html(out, &frame.function);
            out.push_str("\n\t");
            push_html(out, &frame.file);
            let _ = writeln!(out, ":{}</span>", frame.line);
        }
        if let Some(created) = &group.created_by {
            out.push_str("<span class=\"frame std\">created by ");
            push_html(out, created);
            out.push_str("\n</span>");
        }
    }

    fn findings(&self) -> String {
        let mut out = String::new();
        let others = self.view.diagnosis().findings.get(1..).unwrap_or(&[]);
        let mut shown = 0;
        for finding in others {
            if out.len() > FINDINGS {
                break;
            }
            shown += 1;
            let _ = write!(
                out,
                "<details class=\"item\" id=\"finding-{}\"><summary><span class=\"count\">{}</span> <b>{}</b> {} <span class=\"soft\">{}</span></summary>",
                finding.rank,
                finding.rank,
                html(&finding.title),
                self.trust(finding.trust),
                html(&self.view.blocked(finding).unwrap_or_default())
            );
            if finding.chain.len() > 1 {
                out.push_str(&self.chain_list(finding, false));
            }
            out.push_str(&self.why(finding, false));
            let w = self.view.words;
            for (kind, word) in
                [("do", w.do_now), ("dont", w.do_not), ("collect", w.would_settle), ("prevent", w.prevent)]
            {
                for remedy in finding.remedies.iter().filter(|r| r.kind == kind) {
                    let _ = write!(out, "<p><b>{}</b> {}</p>", html(word), html(&remedy.text));
                }
            }
            if let Some(issue) = self.known(finding) {
                let _ = write!(out, "<p><b>{}</b> {issue}</p>", html(w.known));
            }
            out.push_str("</details>");
        }
        if shown < others.len() {
            let _ = write!(
                out,
                "<p class=\"note\">… {}</p>",
                html(&fill(self.view.words.more, &[("n", &number((others.len() - shown) as u64))]))
            );
        }
        out
    }

    fn idle(&self) -> String {
        let mut out = String::new();
        let mut rows: Vec<_> = self.view.diagnosis().idle.iter().collect();
        rows.sort_by_key(|idle| std::cmp::Reverse(idle.goroutines));
        for idle in rows.iter().take(ROWS) {
            let _ = write!(
                out,
                "<tr><td class=\"n\">{}</td><td>{}</td><td>{}</td></tr>",
                number(idle.goroutines),
                html(&self.view.process(&idle.snapshot)),
                html(&idle.reason)
            );
        }
        out
    }

    fn inputs(&self) -> String {
        let w = self.view.words;
        let diagnosis = self.view.diagnosis();
        let mut out = String::new();
        for input in diagnosis.inputs.iter().take(ROWS) {
            let _ = write!(out, "<tr><td><code>{}</code></td><td>{}", html(&input.path), html(&input.kind));
            if !input.envelopes.is_empty() {
                let _ = write!(
                    out,
                    "<br><span class=\"soft\">{}: {}</span>",
                    html(w.peeled),
                    html(&input.envelopes.join(", "))
                );
            }
            for id in input.snapshots.iter().take(20) {
                let Some(snapshot) = diagnosis.snapshots.iter().find(|s| s.id == *id) else { continue };
                let mut facts = vec![self.view.process(id), self.view.goroutines(snapshot.goroutines)];
                facts.extend(snapshot.process.go_version.clone());
                facts.extend(snapshot.taken_at.clone());
                if !snapshot.complete {
                    facts.push(w.incomplete.to_owned());
                }
                let _ = write!(out, "<br><span class=\"soft\">{}</span>", html(&facts.join(" · ")));
            }
            let _ = write!(out, "</td><td class=\"n\">{}</td><td>", number(input.bytes));
            if input.problems.is_empty() {
                let _ = write!(out, "<span class=\"soft\">{}</span>", html(w.no_problems));
            }
            for problem in input.problems.iter().take(30) {
                let (class, word) = match problem.severity.as_str() {
                    "error" => ("error", w.severity_error),
                    "warning" => ("warning", w.severity_warning),
                    _ => ("note", w.severity_note),
                };
                let line =
                    problem.line.map(|line| format!("<code class=\"place\">:{line}</code> ")).unwrap_or_default();
                let _ = write!(
                    out,
                    "<p class=\"problem {class}\"><b>{}</b> {line}{}</p>",
                    html(word),
                    html(&problem.message)
                );
            }
            if input.problems.len() > 30 {
                let _ = write!(
                    out,
                    "<p>… {}</p>",
                    html(&fill(w.more, &[("n", &number(input.problems.len() as u64 - 30))]))
                );
            }
            out.push_str("</td></tr>");
        }
        if diagnosis.inputs.len() > ROWS {
            let _ = write!(
                out,
                "<tr><td colspan=\"4\">… {}</td></tr>",
                html(&fill(w.more, &[("n", &number((diagnosis.inputs.len() - ROWS) as u64))]))
            );
        }
        out
    }
}
