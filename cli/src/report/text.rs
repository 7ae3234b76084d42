//! Text for terminals and chats: one screen that a tired person understands.

use super::escape::visible;
use super::view::{Row, View, interesting, lock_name, ordered, short_function};
use super::words::{fill, number};
use super::{Incident, Style};
use holdup_analysis::diagnosis::{Evidence, Finding, HolderStatus, Lock, VerdictKind};
use std::fmt::Write;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Findings behind the first that are listed.
const OTHER_FINDINGS: usize = 6;
/// Pieces of evidence that are listed.
const EVIDENCE: usize = 12;
/// Snapshots that a healthy answer lists.
const SNAPSHOTS: usize = 20;

/// Writes the screen.
pub fn write(incident: &Incident<'_>, style: &Style) -> String {
    let view = View::new(incident, style);
    let mut page = Page { out: String::new(), view: &view, style, width: style.width.clamp(40, 200) };
    page.headline();
    page.crash_notices();
    if let Some(finding) = view.first() {
        page.chain(finding);
        page.why(finding);
    }
    page.looked_at();
    page.advice();
    page.other_findings();
    page.last_line();
    page.out
}

struct Page<'v, 'a> {
    out: String,
    view: &'v View<'a>,
    style: &'v Style,
    width: usize,
}

/// What a text says.
#[derive(Clone, Copy)]
pub(super) enum Paint {
    Verdict(VerdictKind),
    Bold,
    Dim,
    For,
    Against,
}

/// Text in the colour of what it says, if colour is wanted.
pub(super) fn paint(style: &Style, paint: Paint, text: &str) -> String {
    use anstyle::{AnsiColor, Style as Ansi};
    if !style.color || text.is_empty() {
        return text.to_owned();
    }
    let of = |color: AnsiColor| Ansi::new().fg_color(Some(color.into()));
    let ansi = match paint {
        Paint::Verdict(VerdictKind::Healthy) => of(AnsiColor::Green).bold(),
        Paint::Verdict(VerdictKind::Hang | VerdictKind::Deadlock | VerdictKind::Crash) => of(AnsiColor::Red).bold(),
        Paint::Verdict(_) => of(AnsiColor::Yellow).bold(),
        Paint::Bold => Ansi::new().bold(),
        Paint::Dim => Ansi::new().dimmed(),
        Paint::For => of(AnsiColor::Green),
        Paint::Against => of(AnsiColor::Yellow),
    };
    format!("{ansi}{text}{ansi:#}")
}

impl Page<'_, '_> {
    fn paint(&self, with: Paint, text: &str) -> String {
        paint(self.style, with, text)
    }

    fn line(&mut self, line: &str) {
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }

    fn blank(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    fn headline(&mut self) {
        let verdict = &self.view.diagnosis().verdict;
        let word = self.view.verdict();
        let indent = word.width() + 3;
        let painted = self.paint(Paint::Verdict(verdict.kind), word);
        for (i, line) in wrap(&visible(&verdict.summary), self.width - indent).into_iter().enumerate() {
            let line = self.paint(Paint::Bold, &line);
            match i {
                0 => self.line(&format!("{painted}   {line}")),
                _ => self.line(&format!("{:indent$}{line}", "")),
            }
        }
        let mut facts = Vec::new();
        facts.extend(self.view.since());
        facts.push(self.view.trust(verdict.trust).to_owned());
        if let Some(blocked) = self.view.first().and_then(|f| self.view.blocked(f)) {
            facts.push(fill(self.view.words.behind_it, &[("what", &blocked)]));
        }
        for line in wrap(&facts.join(" · "), self.width - indent) {
            self.line(&format!("{:indent$}{line}", ""));
        }
        for subject in self.view.diagnosis().subjects.iter().take(5) {
            let name = subject.name.as_deref().or(subject.id.as_deref()).unwrap_or("");
            let text = format!("{}: {} {name} · {}", self.view.words.about, subject.kind, subject.why);
            for line in wrap(&visible(&text), self.width - indent) {
                self.line(&format!("{:indent$}{line}", ""));
            }
        }
    }

    /// What the runtime itself said, for a crash.
    fn crash_notices(&mut self) {
        if self.view.diagnosis().verdict.kind != VerdictKind::Crash {
            return;
        }
        let snapshots = self.view.diagnosis().snapshots.iter().filter(|s| !s.notices.is_empty());
        let notices: Vec<String> =
            snapshots.flat_map(|s| s.notices.iter().take(4)).take(8).map(|n| visible(n)).collect();
        if notices.is_empty() {
            return;
        }
        self.blank();
        let title = self.paint(Paint::Bold, self.view.words.notices);
        self.line(&title);
        for notice in notices {
            for line in wrap(&notice, self.width - 4) {
                self.line(&format!("    {line}"));
            }
        }
    }

    fn chain(&mut self, finding: &Finding) {
        let rows: Vec<Row> = self.view.rows(finding).into_iter().map(clean).collect();
        let alone = rows.len() < 2 && rows.iter().all(|row| row.what.is_empty());
        if rows.is_empty() || alone {
            return;
        }
        self.blank();
        let column =
            |cell: fn(&Row) -> &str, most: usize| rows.iter().map(|r| cell(r).width()).max().unwrap_or(0).min(most);
        // A narrow screen does without the last columns.
        let (narrow, narrower) = (self.width < 84, self.width < 72);
        let process = column(|r| &r.process, if narrow { 16 } else { 28 });
        let id = column(|r| &r.id, 12);
        let age = column(|r| &r.age, 16);
        let why = if narrow { 0 } else { column(|r| &r.why, 12) };
        let trust_of = |row: &Row| row.trust.filter(|_| !narrower).map_or("", |t| self.view.trust(t));
        let trusts: Vec<&str> = rows.iter().map(trust_of).collect();
        let trust = trusts.iter().map(|t| t.width()).max().unwrap_or(0);
        let fixed = 2 + process + 4 + id + 2 + 2 + age + 2 + why + 2 + trust;
        let room = self.width.saturating_sub(fixed).max(16);
        let what = column(|r| &r.what, room);
        let mut before: &str = "";
        for (row, trust) in rows.iter().zip(&trusts) {
            let mark = if row.root {
                "▶"
            } else if row.back {
                "↺"
            } else {
                " "
            };
            let mark = self.paint(Paint::Bold, mark);
            let lines = wrap(&row.what, what);
            let shown = if row.process == before && rows.len() > 12 { "" } else { row.process.as_str() };
            before = &row.process;
            let first = lines.first().map_or("", String::as_str);
            let first = pad(first, what);
            let first = if row.root { self.paint(Paint::Bold, &first) } else { first };
            self.line(&format!(
                "  {}  {mark} {}  {first}  {}  {}  {trust}",
                pad(&cut(shown, process), process),
                pad(&cut(&row.id, id), id),
                pad(&row.age, age),
                pad(&cut(&row.why, why), why),
            ));
            for line in lines.iter().skip(1) {
                self.line(&format!("{:indent$}{line}", "", indent = 2 + process + 4 + id + 2));
            }
        }
    }

    fn why(&mut self, finding: &Finding) {
        let words = self.view.words;
        let reasons = self.view.reasons(finding);
        let text = visible(&finding.explanation);
        // A chain says the same in columns.
        let told =
            text.is_empty() || text == visible(&self.view.diagnosis().verdict.summary) || finding.chain.len() > 1;
        let mut room = EVIDENCE;
        for (lock, holder) in &reasons.holders {
            if room == 0 {
                break;
            }
            let who = holder.goroutine.map(|id| id.to_string()).unwrap_or_default();
            let title = match reasons.holders.len() {
                1 => fill(words.why_holder, &[("n", &who)]),
                _ => fill(words.why_holder_of, &[("n", &who), ("what", &visible(&lock_name(lock)))]),
            };
            self.reasons(&title, ordered(&holder.evidence), &mut room);
        }
        if !reasons.holders.is_empty() && reasons.rest.is_empty() || reasons.rest.is_empty() && told {
            return;
        }
        self.blank();
        let title = self.paint(Paint::Bold, words.why_this);
        self.line(&title);
        if !told {
            for line in wrap(&text, self.width - 2) {
                self.line(&format!("  {line}"));
            }
        }
        self.list(ordered(reasons.rest), &mut room);
    }

    fn reasons(&mut self, title: &str, evidence: Vec<&Evidence>, room: &mut usize) {
        self.blank();
        let title = self.paint(Paint::Bold, title);
        self.line(&title);
        self.list(evidence, room);
    }

    fn list(&mut self, evidence: Vec<&Evidence>, room: &mut usize) {
        let shown = evidence.len().min((*room).max(2));
        for evidence in evidence.iter().take(shown) {
            self.evidence(evidence);
        }
        *room = room.saturating_sub(shown);
        if evidence.len() > shown {
            let more = number((evidence.len() - shown) as u64);
            self.line(&format!("     … {}", fill(self.view.words.more, &[("n", &more)])));
        }
    }

    fn evidence(&mut self, evidence: &Evidence) {
        let sign = match evidence.against {
            true => self.paint(Paint::Against, "–"),
            false => self.paint(Paint::For, "+"),
        };
        let source = visible(&evidence.source.as_ref().map(|s| self.view.source(s)).unwrap_or_default());
        let beside = source.width() + 2 <= self.width / 2;
        let room = if beside { self.width - 5 - source.width() - 2 } else { self.width - 5 };
        let lines = wrap(&visible(&evidence.text), room);
        for (i, line) in lines.iter().enumerate() {
            let text = if i == 0 { format!("  {sign}  {}", pad(line, room)) } else { format!("     {line}") };
            match i == 0 && beside {
                true => {
                    let source = self.paint(Paint::Dim, &source);
                    self.line(&format!("{text}  {source}"));
                }
                false => self.line(&text),
            }
        }
        if !beside {
            let source = self.paint(Paint::Dim, &source);
            self.line(&format!("     {source}"));
        }
    }

    /// For answers without a culprit: what the answer rests on.
    fn looked_at(&mut self) {
        let diagnosis = self.view.diagnosis();
        if !matches!(diagnosis.verdict.kind, VerdictKind::Healthy | VerdictKind::Inconclusive) {
            return;
        }
        let words = self.view.words;
        self.blank();
        let title = self.paint(Paint::Bold, words.looked_at);
        self.line(&title);
        for snapshot in diagnosis.snapshots.iter().take(SNAPSHOTS) {
            let idle: u64 = diagnosis.idle.iter().filter(|i| i.snapshot == snapshot.id).map(|i| i.goroutines).sum();
            let mut facts = vec![self.view.goroutines(snapshot.goroutines)];
            if idle > 0 {
                facts.push(format!("{}: {}", words.judged_idle, number(idle)));
            }
            let mut states: Vec<_> = snapshot.states.iter().collect();
            states.sort_by_key(|(state, count)| (std::cmp::Reverse(**count), state.as_str()));
            facts.extend(states.iter().take(4).map(|(state, count)| format!("{} {}", number(**count), visible(state))));
            if !snapshot.complete {
                facts.push(words.incomplete.to_owned());
            }
            let name = visible(&self.view.process(&snapshot.id));
            let name = if name.is_empty() { snapshot.id.clone() } else { name };
            let indent = name.width().max(18) + 4;
            for (i, line) in wrap(&facts.join(" · "), self.width.saturating_sub(indent).max(20)).iter().enumerate() {
                match i {
                    0 => self.line(&format!("  {}  {line}", pad(&name, indent - 4))),
                    _ => self.line(&format!("{:indent$}{line}", "")),
                }
            }
        }
        if diagnosis.verdict.kind == VerdictKind::Inconclusive && diagnosis.findings.is_empty() {
            self.open_locks();
        }
        if diagnosis.snapshots.len() > SNAPSHOTS {
            let more = (diagnosis.snapshots.len() - SNAPSHOTS) as u64;
            self.line(&format!("  … {}", fill(words.more, &[("n", &number(more))])));
        }
        let longest = diagnosis.groups.iter().filter(|g| g.idle.is_none() && g.minutes.max.is_some());
        if let Some(group) = longest.max_by_key(|g| g.minutes.max)
            && let Some(frame) = interesting(group)
        {
            let age = self.view.range(None, group.minutes.max).replace("0–", "");
            let text = format!("{}: {age} · {} · {}", words.oldest, group.state, short_function(&frame.function));
            for line in wrap(&visible(&text), self.width - 2) {
                self.line(&format!("  {line}"));
            }
        }
    }

    /// The most waited-for locks of which nobody is known to hold them.
    fn open_locks(&mut self) {
        let open = |l: &&Lock| !matches!(l.holder_status, HolderStatus::Named | HolderStatus::NotApplicable);
        let mut locks: Vec<&Lock> = self.view.diagnosis().locks.iter().filter(open).collect();
        locks.sort_by_key(|lock| std::cmp::Reverse(lock.waiter_count));
        for lock in locks.into_iter().take(5) {
            let facts = [
                self.view.process(&lock.snapshot),
                fill(self.view.words.g_count, &[("n", &number(lock.waiter_count))]),
                fill(self.view.words.wait_for, &[("what", &lock_name(lock))]),
                self.view.lock_ages(lock),
                self.view.holder_status(lock).to_owned(),
            ];
            let facts: Vec<&str> = facts.iter().map(String::as_str).filter(|fact| !fact.is_empty()).collect();
            for line in wrap(&visible(&facts.join(" · ")), self.width - 2) {
                self.line(&format!("  {line}"));
            }
        }
    }

    fn advice(&mut self) {
        let words = self.view.words;
        let mut rows: Vec<(&str, String)> = Vec::new();
        if let Some(finding) = self.view.first() {
            let of = |kind: &'static str| finding.remedies.iter().filter(move |r| r.kind == kind);
            for (kind, word) in [("do", words.do_now), ("dont", words.do_not)] {
                for remedy in of(kind) {
                    let risk = remedy.risk.as_ref().map(|r| format!(" ({})", fill(words.risk, &[("what", r)])));
                    rows.push((word, format!("{}{}", remedy.text, risk.unwrap_or_default())));
                }
            }
            rows.extend(of("collect").map(|r| (words.would_settle, r.text.clone())));
        }
        for missing in self.view.diagnosis().missing.iter().take(6) {
            let how = missing.command.as_deref().filter(|c| !c.is_empty());
            rows.push((
                words.would_settle,
                match how {
                    Some(command) => format!("{command}   ({}: {})", missing.what, missing.why),
                    None => format!("{}: {}", missing.what, missing.why),
                },
            ));
        }
        if let Some(finding) = self.view.first() {
            rows.extend(
                finding.remedies.iter().filter(|r| r.kind == "prevent").map(|r| (words.prevent, r.text.clone())),
            );
            if let Some(issue) = &finding.known_issue {
                let mut text = format!("{}: {}", issue.id, issue.title);
                if !issue.references.is_empty() {
                    text.push_str(&format!(" — {}", issue.references.join(", ")));
                }
                if let Some(fixed) = &issue.fixed_in {
                    text.push_str(&format!("; {}", fill(words.fixed_in, &[("what", fixed)])));
                }
                rows.push((words.known, text));
            }
        }
        if rows.is_empty() {
            return;
        }
        self.blank();
        let head = rows.iter().map(|(head, _)| head.width()).max().unwrap_or(0);
        let mut before = "";
        for (word, text) in rows {
            let shown = if word == before { "" } else { word };
            before = word;
            let painted = self.paint(Paint::Bold, &pad(shown, head));
            let text = visible(&text);
            for (i, line) in wrap(&text, self.width.saturating_sub(head + 2).max(20)).iter().enumerate() {
                match i {
                    0 => self.line(&format!("{painted}  {line}")),
                    _ => self.line(&format!("{:indent$}{line}", "", indent = head + 2)),
                }
            }
        }
    }

    fn other_findings(&mut self) {
        let others = self.view.diagnosis().findings.get(1..).unwrap_or(&[]);
        if others.is_empty() {
            return;
        }
        self.blank();
        let words = self.view.words;
        let title = self.paint(Paint::Bold, words.also_found);
        self.line(&title);
        for finding in others.iter().take(OTHER_FINDINGS) {
            let blocked = self.view.blocked(finding).map(|b| format!(" · {b}")).unwrap_or_default();
            let text = format!("{} · {}{blocked}", visible(&finding.title), self.view.trust(finding.trust));
            for (i, line) in wrap(&text, self.width - 5).iter().enumerate() {
                match i {
                    0 => self.line(&format!("  {}. {line}", finding.rank)),
                    _ => self.line(&format!("     {line}")),
                }
            }
        }
        if others.len() > OTHER_FINDINGS {
            let more = (others.len() - OTHER_FINDINGS) as u64;
            self.line(&format!("  … {}", fill(words.more, &[("n", &number(more))])));
        }
    }

    fn last_line(&mut self) {
        self.blank();
        let mut text = self.view.what_was_read();
        let problems =
            self.view.diagnosis().inputs.iter().flat_map(|i| &i.problems).filter(|p| p.severity == "error").count();
        if problems > 0 {
            let _ = write!(text, " · {}: {}", self.view.words.problems, number(problems as u64));
        }
        if let Some(report) = &self.style.report {
            let _ = write!(text, " · {}", fill(self.view.words.full_report, &[("what", &visible(report))]));
        }
        let text = self.paint(Paint::Dim, &text);
        self.line(&text);
    }
}

fn clean(mut row: Row) -> Row {
    for cell in [&mut row.process, &mut row.id, &mut row.what, &mut row.why] {
        *cell = visible(cell);
    }
    row
}

/// Fills with spaces to `width` columns; Chinese characters take two.
pub(super) fn pad(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(text.width());
    format!("{text}{:missing$}", "")
}

/// Shortens to `width` columns.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    if width == 0 {
        return String::new();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used + 1 > width {
            break;
        }
        out.push(c);
    }
    out.push('…');
    out
}

/// Breaks into lines of at most `width` columns, at spaces where there are any; at least one line.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(8);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_inclusive([' ', '，', '；', '。']) {
        let bare = word.trim_end().width();
        if used > 0 && used + bare > width {
            lines.push(String::new());
            used = 0;
        }
        for c in word.chars() {
            let wide = c.width().unwrap_or(0);
            if used + wide > width {
                if c == ' ' {
                    continue;
                }
                lines.push(String::new());
                used = 0;
            }
            if let Some(line) = lines.last_mut() {
                line.push(c);
            }
            used += wide;
        }
    }
    for line in &mut lines {
        line.truncate(line.trim_end().len());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces_and_long_words_anywhere() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("abcdefghijkl m", 8), ["abcdefgh", "ijkl m"]);
        assert_eq!(wrap("", 8), [""]);
        assert_eq!(wrap("等待锁等待锁", 8), ["等待锁等", "待锁"]);
    }

    #[test]
    fn columns_count_wide_characters_twice() {
        assert_eq!(pad("锁", 4), "锁  ");
        assert_eq!(cut("goroutine", 5), "goro…");
    }
}
