//! Reports of a comparison: the same tables as text, Markdown and HTML.

mod html;
mod markdown;
mod text;

use super::view::{plural, short_function};
use super::words::{Words, fill, number};
use super::{Format, Incident, Style};
use holdup_analysis::compare::model::{
    ComparedFinding, ComparedLock, ComparedMoment, ComparedProcess, Comparison, Course, Fate, Growing, MomentPlace,
    Moving, Stuck,
};
use holdup_parsers::evidence::Evidence;

/// A comparison, and the evidence of each of its paths.
#[derive(Debug, Clone, Copy)]
pub struct Compared<'a> {
    /// What was found.
    pub comparison: &'a Comparison,
    /// In the order given.
    pub evidences: &'a [Evidence],
    /// The paths as given, for the moments' names.
    pub paths: &'a [String],
}

/// Writes a report. The graphs are those of the newest moment.
pub fn render(format: Format, compared: &Compared<'_>, style: &Style) -> String {
    match format {
        Format::Text => text::write(compared, style),
        Format::Markdown => markdown::write(compared, style),
        Format::Html => html::write(compared, style),
        Format::Json => {
            let mut text = serde_json::to_string_pretty(compared.comparison).unwrap_or_default();
            text.push('\n');
            text
        }
        Format::Dot | Format::Mermaid | Format::Svg => {
            latest(compared).map(|incident| super::render(format, &incident, style)).unwrap_or_default()
        }
    }
}

/// The newest moment alone.
fn latest<'a>(compared: &Compared<'a>) -> Option<Incident<'a>> {
    let latest = compared.comparison.latest.as_ref()?;
    Some(Incident { diagnosis: &latest.diagnosis, evidence: compared.evidences.get(latest.evidence)? })
}

/// A table of a report.
struct Table {
    title: &'static str,
    head: Vec<&'static str>,
    rows: Vec<Row>,
    /// Rows that are not shown.
    left_out: usize,
}

/// A row of a table.
struct Row {
    cells: Vec<String>,
    /// What more there is to say: a reason, places in the files.
    more: Vec<String>,
    /// It carries the answer.
    strong: bool,
}

/// A process's part of a report.
struct Part {
    title: String,
    facts: Vec<String>,
    notes: Vec<String>,
    tables: Vec<Table>,
}

/// What the writers share.
struct Shared<'a> {
    compared: Compared<'a>,
    words: &'static Words,
}

impl<'a> Shared<'a> {
    fn new(compared: &Compared<'a>, style: &Style) -> Self {
        Shared { compared: *compared, words: Words::of(style.lang) }
    }

    fn comparison(&self) -> &'a Comparison {
        self.compared.comparison
    }

    /// `2 moments, 31 seconds apart`.
    fn span(&self) -> String {
        let moments = &self.comparison().moments;
        let count = plural(moments.len() as u64, self.words.moment_one, self.words.moments_n);
        let seconds: Option<i64> = moments.iter().skip(1).map(|m| m.seconds_since_previous).sum();
        let minutes: Option<u32> = moments.iter().skip(1).map(|m| m.minutes_by_ages).sum();
        match (seconds.filter(|_| moments.len() > 1), minutes.filter(|&m| m > 0)) {
            (Some(seconds), _) => {
                fill(self.words.moments_over, &[("moments", &count), ("time", &self.seconds(seconds))])
            }
            (None, Some(minutes)) => {
                let time = fill(self.words.minutes, &[("n", &number(minutes.into()))]);
                fill(self.words.moments_about, &[("moments", &count), ("time", &time)])
            }
            _ => count,
        }
    }

    fn seconds(&self, seconds: i64) -> String {
        let n = seconds.unsigned_abs();
        if n < 120 {
            return fill(self.words.seconds, &[("n", &number(n))]);
        }
        fill(self.words.minutes, &[("n", &number(n / 60))])
    }

    /// One row a moment.
    fn moments(&self) -> Table {
        let row = |m: &ComparedMoment| {
            let path = self.path(m);
            let since = match (m.seconds_since_previous, m.minutes_by_ages) {
                (Some(seconds), _) => format!("+{}", self.seconds(seconds)),
                (None, Some(minutes)) if minutes > 0 => {
                    format!("≈ +{}", fill(self.words.minutes, &[("n", &number(minutes.into()))]))
                }
                _ => String::new(),
            };
            let goroutines: u64 = self
                .comparison()
                .processes
                .iter()
                .flat_map(|p| &p.snapshots)
                .filter(|s| s.moment == m.moment)
                .map(|s| s.goroutines)
                .sum();
            let verdict = super::view::verdict_word(self.words, m.verdict.kind);
            Row {
                cells: vec![
                    m.moment.to_string(),
                    path,
                    m.taken_at.clone().unwrap_or_default(),
                    since,
                    number(goroutines),
                    verdict.to_string(),
                ],
                more: vec![m.verdict.summary.clone()],
                strong: false,
            }
        };
        let w = self.words;
        Table {
            title: w.moments,
            head: vec!["", w.file, w.taken_at, w.since_before, w.goroutines_head, w.alone],
            rows: self.comparison().moments.iter().map(row).collect(),
            left_out: 0,
        }
    }

    fn path(&self, moment: &ComparedMoment) -> String {
        self.compared.paths.get((moment.given as usize).saturating_sub(1)).cloned().unwrap_or_default()
    }

    /// What became of each finding.
    fn findings(&self, most: usize) -> Table {
        let all = &self.comparison().findings;
        let row = |f: &ComparedFinding| Row {
            cells: vec![self.fate(f).to_string(), f.finding.title.clone()],
            more: vec![f.why.clone()],
            strong: f.fate == Fate::Stays,
        };
        Table {
            title: self.words.what_became,
            head: vec!["", ""],
            rows: all.iter().take(most).map(row).collect(),
            left_out: all.len().saturating_sub(most),
        }
    }

    fn fate(&self, finding: &ComparedFinding) -> &'static str {
        match finding.fate {
            Fate::Stays => self.words.fate_stays,
            Fate::New => self.words.fate_new,
            Fate::SeenOnce => self.words.fate_seen_once,
            Fate::Moves => self.words.fate_moves,
            Fate::Gone => self.words.fate_gone,
        }
    }

    fn course(&self, course: Course) -> &'static str {
        match course {
            Course::Stuck => self.words.course_stuck,
            Course::ChangesHands => self.words.course_changes_hands,
            Course::New => self.words.course_new,
            Course::Released => self.words.course_released,
            Course::Unclear => self.words.course_unclear,
        }
    }

    /// The processes, each with at most `most` rows a table.
    fn parts(&self, most: usize) -> Vec<Part> {
        self.comparison().processes.iter().map(|p| self.part(p, most)).collect()
    }

    fn part(&self, process: &ComparedProcess, most: usize) -> Part {
        let w = self.words;
        let counts: Vec<String> = process.snapshots.iter().map(|s| number(s.goroutines)).collect();
        let mut facts = vec![fill(w.goroutines, &[("n", &counts.join(" → "))])];
        let more =
            [(process.started, w.n_started), (process.ended, w.n_ended), (process.idle_standing, w.n_idle_standing)];
        facts.extend(more.iter().filter(|(n, _)| *n > 0).map(|(n, word)| fill(word, &[("n", &number(*n))])));
        let mut tables = Vec::new();
        let mut add = |title: &'static str, head: Vec<&'static str>, rows: Vec<Row>, all: usize| {
            if !rows.is_empty() {
                tables.push(Table { title, head, left_out: all.saturating_sub(rows.len()), rows });
            }
        };
        // What nothing waits for is of interest only where nothing else is stuck.
        let told = |s: &&Stuck| s.in_chain || s.waits_for.is_some() || !s.holds.is_empty();
        let telling = process.stuck.iter().filter(told).count();
        let shown = telling.max(most / 2);
        let stuck = process.stuck.iter().take(shown.min(most)).map(|s| self.stuck(process, s)).collect();
        add(w.not_moved, vec![w.goroutine_head, w.stands_in, w.age, w.lock], stuck, process.stuck.len());
        let locks = process.locks.iter().take(most).map(|l| self.lock(process, l)).collect();
        add(w.locks, vec!["", w.lock, w.holder, w.waiters, w.oldest], locks, process.locks.len());
        let growing = process.growing.iter().take(most).map(|g| self.growing(process, g)).collect();
        add(w.grows, vec![w.count, w.stands_in, w.state, w.created_by], growing, process.growing.len());
        let moving = process.moving.iter().take(most).map(|m| self.moving(m)).collect();
        add(w.moves, vec![w.count, w.from, w.to], moving, process.moving.len());
        let name = process.process.name.clone().unwrap_or_else(|| process.process.role.clone());
        let title = process.process.pid.map_or(name.clone(), |pid| format!("{name} {pid}"));
        Part { title, facts, notes: process.notes.clone(), tables }
    }

    fn stuck(&self, process: &ComparedProcess, stuck: &Stuck) -> Row {
        let w = self.words;
        let mut lock: Vec<String> =
            stuck.holds.iter().map(|id| fill(w.holds_lock, &[("what", self.label(process, id))])).collect();
        lock.extend(stuck.waits_for.iter().map(|id| fill(w.waits_for, &[("what", self.label(process, id))])));
        let mut place = short_function(&stuck.function).to_string();
        if !stuck.blocked_in.is_empty() {
            place = format!("{place} ({})", stuck.blocked_in);
        }
        Row {
            cells: vec![ids(&stuck.goroutines), place, self.ages(&stuck.minutes), lock.join("; ")],
            more: self.places(&stuck.places),
            strong: stuck.in_chain,
        }
    }

    fn lock(&self, process: &ComparedProcess, lock: &ComparedLock) -> Row {
        let w = self.words;
        let _ = process;
        let over = |value: &dyn Fn(&holdup_analysis::compare::model::LockAt) -> String| -> String {
            let cells: Vec<String> = lock.at.iter().map(|at| at.as_ref().map_or("–".to_string(), value)).collect();
            arrows(cells)
        };
        let mut waiters = over(&|at| number(at.waiter_count));
        if !lock.new_waiters.is_empty() {
            waiters.push_str(&format!(" ({})", fill(w.n_new, &[("n", &number(lock.new_waiters.len() as u64))])));
        }
        let oldest: Vec<Option<u32>> = lock.at.iter().map(|at| at.as_ref()?.oldest_wait_minutes).collect();
        let places: Vec<MomentPlace> = lock.at.iter().flatten().filter_map(|at| at.place.clone()).collect();
        let mut more = vec![lock.why.clone()];
        more.extend(self.places(&places));
        Row {
            cells: vec![
                self.course(lock.course).to_string(),
                lock.label.clone(),
                over(&|at| at.holder.map_or("?".to_string(), |id| id.to_string())),
                waiters,
                self.ages(&oldest),
            ],
            more,
            strong: lock.course == Course::Stuck,
        }
    }

    fn growing(&self, process: &ComparedProcess, growing: &Growing) -> Row {
        let w = self.words;
        let counts: Vec<String> = growing.counts.iter().map(|&n| number(n)).collect();
        let mut more = Vec::new();
        if let (Some(stayed), Some(&first)) = (growing.stayed, growing.counts.first())
            && first > 0
        {
            more.push(fill(w.stayed_of, &[("n", &number(stayed)), ("all", &number(first))]));
        }
        more.extend(growing.waits_for.iter().map(|id| fill(w.waits_for, &[("what", self.label(process, id))])));
        more.extend(growing.idle.iter().map(|why| format!("{}: {why}", w.judged_idle)));
        more.extend(self.places(growing.place.as_slice()));
        Row {
            cells: vec![
                counts.join(" → "),
                short_function(&growing.function).to_string(),
                growing.state.clone(),
                growing.created_by.as_deref().map(short_function).unwrap_or_default().to_string(),
            ],
            more,
            strong: false,
        }
    }

    fn moving(&self, moving: &Moving) -> Row {
        let to = if moving.came_back { self.words.came_back.to_string() } else { moving.to.clone() };
        Row {
            cells: vec![number(moving.count), moving.from.clone(), to],
            more: vec![ids(&moving.goroutines)],
            strong: false,
        }
    }

    fn label<'p>(&self, process: &'p ComparedProcess, id: &'p str) -> &'p str {
        process.locks.iter().find(|lock| lock.id == id).map_or(id, |lock| &lock.label)
    }

    /// `8 → 12 min`.
    fn ages(&self, minutes: &[Option<u32>]) -> String {
        if minutes.iter().all(Option::is_none) {
            return String::new();
        }
        let cells = minutes.iter().map(|m| m.map_or("?".to_string(), |m| number(m.into())));
        fill(self.words.minutes, &[("n", &arrows(cells.collect()))])
    }

    /// `[1] dockerd.txt:120`, for each moment: within its path where that is a folder or archive.
    fn places(&self, places: &[MomentPlace]) -> Vec<String> {
        let shown = places.iter().filter_map(|p| {
            let moment = self.comparison().moments.get((p.moment as usize).checked_sub(1)?)?;
            // Several dumps of one path have their files listed at the first of them.
            let inputs = self.comparison().moments.iter().find(|m| m.given == moment.given).map(|m| &m.inputs)?;
            let path = inputs.get(p.source.input).map(|input| input.path.as_str())?;
            let given = self.path(moment);
            let within = path.strip_prefix(given.as_str()).map(|rest| rest.trim_start_matches(['!', '/']));
            let name = within.filter(|rest| !rest.is_empty()).or_else(|| path.rsplit('/').next()).unwrap_or(path);
            let line = p.source.line_start.map_or(String::new(), |line| format!(":{line}"));
            Some(format!("[{}] {name}{line}", p.moment))
        });
        shown.collect()
    }
}

fn arrows(cells: Vec<String>) -> String {
    match cells.as_slice() {
        [first, rest @ ..] if rest.iter().all(|cell| cell == first) => first.clone(),
        _ => cells.join(" → "),
    }
}

/// `34` or `31 × 100–129 140`.
fn ids(ids: &[u64]) -> String {
    const RUNS: usize = 6;
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &id in ids {
        match runs.last_mut() {
            Some((_, last)) if id == last.saturating_add(1) => *last = id,
            _ => runs.push((id, id)),
        }
    }
    let shown: Vec<String> =
        runs.iter().take(RUNS).map(|&(a, b)| if a == b { a.to_string() } else { format!("{a}–{b}") }).collect();
    let more = if runs.len() > RUNS { " …" } else { "" };
    match ids.len() {
        0 | 1 => shown.join(" "),
        n => format!("{} × {}{more}", number(n as u64), shown.join(" ")),
    }
}
