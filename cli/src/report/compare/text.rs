//! A comparison for terminals and chats.

use super::super::escape::visible;
use super::super::text::{Paint, cut, pad, paint, wrap};
use super::super::view::{trust_word, verdict_word};
use super::{Compared, Shared, Style, Table};
use crate::report::words::{fill, number};
use unicode_width::UnicodeWidthStr;

/// Rows of a table.
const ROWS: usize = 8;
/// Findings.
const FINDINGS: usize = 5;

/// Writes the screen.
pub fn write(compared: &Compared<'_>, style: &Style) -> String {
    let shared = Shared::new(compared, style);
    let mut page = Page { out: String::new(), shared, style, width: style.width.clamp(40, 200) };
    page.headline();
    let moments = page.shared.moments();
    page.table(&moments, "", false);
    let findings = page.shared.findings(FINDINGS);
    page.table(&findings, "", true);
    let mut quiet = Vec::new();
    for part in page.shared.parts(ROWS) {
        if part.tables.is_empty() && part.notes.is_empty() {
            quiet.push(format!("{}: {}", part.title, part.facts.join(", ")));
            continue;
        }
        page.blank();
        let head = format!("{}   {}", page.paint(Paint::Bold, &visible(&part.title)), part.facts.join(" · "));
        page.line(&head);
        for note in &part.notes {
            page.wrapped(note, 2);
        }
        for table in &part.tables {
            page.table(table, "  ", true);
        }
    }
    if !quiet.is_empty() {
        page.blank();
        for line in quiet {
            page.wrapped(&line, 0);
        }
    }
    page.out
}

struct Page<'a> {
    out: String,
    shared: Shared<'a>,
    style: &'a Style,
    width: usize,
}

impl Page<'_> {
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

    fn wrapped(&mut self, text: &str, indent: usize) {
        for line in wrap(&visible(text), self.width.saturating_sub(indent).max(20)) {
            let line = format!("{:indent$}{}", "", self.paint(Paint::Dim, &line));
            self.line(&line);
        }
    }

    fn headline(&mut self) {
        let comparison = self.shared.comparison();
        let verdict = &comparison.verdict;
        let word = verdict_word(self.shared.words, verdict.kind);
        let indent = word.width() + 3;
        let painted = self.paint(Paint::Verdict(verdict.kind), word);
        for (i, line) in wrap(&visible(&verdict.summary), self.width - indent).into_iter().enumerate() {
            let line = self.paint(Paint::Bold, &line);
            match i {
                0 => self.line(&format!("{painted}   {line}")),
                _ => self.line(&format!("{:indent$}{line}", "")),
            }
        }
        let facts = format!("{} · {}", self.shared.span(), trust_word(self.shared.words, verdict.trust));
        self.line(&format!("{:indent$}{facts}", ""));
        for note in &comparison.notes {
            self.wrapped(note, indent);
        }
    }

    fn table(&mut self, table: &Table, indent: &str, with_more: bool) {
        if table.rows.is_empty() {
            return;
        }
        self.blank();
        let title = self.paint(Paint::Bold, table.title);
        self.line(&format!("{indent}{title}"));
        let columns = table.head.len();
        let rows: Vec<Vec<String>> =
            table.rows.iter().map(|row| row.cells.iter().map(|cell| visible(cell)).collect()).collect();
        let widths: Vec<usize> = (0..columns)
            .map(|c| rows.iter().filter_map(|row| row.get(c)).map(|cell| cell.width()).max().unwrap_or(0))
            .collect();
        let widths = self.fit(widths, indent.width() + 2);
        for (row, told) in rows.iter().zip(&table.rows) {
            let cells: Vec<Vec<String>> = row.iter().zip(&widths).map(|(cell, &width)| wrap(cell, width)).collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(1).min(3);
            for at in 0..height {
                let mut line = format!("{indent}  ");
                for (cell, &width) in cells.iter().zip(&widths) {
                    if width == 0 {
                        continue;
                    }
                    let text = cell.get(at).map_or("", String::as_str);
                    let text = if at + 1 == height && cell.len() > height {
                        cut(&format!("{text}…"), width)
                    } else {
                        text.to_owned()
                    };
                    let padded = pad(&text, width);
                    line.push_str(&if told.strong { self.paint(Paint::Bold, &padded) } else { padded });
                    line.push_str("  ");
                }
                self.line(&line);
            }
            if with_more && !told.more.is_empty() {
                let more: Vec<&str> = told.more.iter().map(String::as_str).filter(|m| !m.is_empty()).collect();
                self.wrapped(&more.join(" · "), indent.width() + 6);
            }
        }
        if table.left_out > 0 {
            let more = fill(self.shared.words.more, &[("n", &number(table.left_out as u64))]);
            let line = format!("{indent}  {}", self.paint(Paint::Dim, &format!("… {more}")));
            self.line(&line);
        }
    }

    /// Takes from the widest columns until all fit.
    fn fit(&self, mut widths: Vec<usize>, indent: usize) -> Vec<usize> {
        loop {
            let used: usize = indent + widths.iter().map(|w| if *w == 0 { 0 } else { w + 2 }).sum::<usize>();
            let Some(widest) = widths.iter_mut().max() else { return widths };
            if used <= self.width || *widest <= 10 {
                return widths;
            }
            *widest -= 1;
        }
    }
}
