//! Delve's `goroutines` (with `-t` their stacks, with `-with` some of them), `goroutine N bt` and `bt`
//! (`github.com/go-delve/delve`, `pkg/terminal/command.go`).
//!
//! ```text
//! * Goroutine 1 - User: ./main.go:12 main.main (0x49f3c1) [chan receive 27413]
//!         0  0x0000000000439b36 in runtime.gopark
//!             at /usr/local/go/src/runtime/proc.go:381
//! [5 goroutines]
//! ```

use super::{Found, FoundFrame, Output, file_and_line, text_of};
use crate::evidence::Flags;
use crate::goroutines::lines::{Line, Lines};
use memchr::memmem;

pub(super) fn read(text: &[u8]) -> Option<Output> {
    let listed = memmem::find(text, b"Goroutine ").is_some() && memmem::find(text, b" (0x").is_some();
    if !listed && memmem::find(text, b" in ").is_none() {
        return None;
    }
    let mut output = Output::default();
    let mut told = None;
    let mut asked = None;
    // The header of a listed goroutine is followed by its stack or not.
    let mut open: Option<Found> = None;
    let mut lines = Lines::new(text);
    while let Some(line) = lines.next() {
        let Some(text) = text_of(&line).filter(|text| !text.is_empty()) else { continue };
        if let Some(found) = header(&line, text) {
            output.goroutines.extend(open.replace(found));
        } else if let Some(id) = selected(text) {
            output.goroutines.extend(open.take());
            asked = Some(id);
        } else if let Some((number, function)) = frame(text) {
            let mut ahead = lines;
            let Some(next) = ahead.next() else { continue };
            let place = text_of(&next).and_then(|t| t.strip_prefix("at ")).and_then(file_and_line);
            let Some((file, file_line)) = place else { continue };
            lines = ahead;
            let goes_on = open.as_ref().is_some_and(|g| number > 0 || !g.flags.has(Flags::HEADLESS));
            if !goes_on {
                let mut found = Found::new(asked.take(), &line);
                // Marks a stack that no header opened, until it is known to be one.
                found.flags.set(Flags::HEADLESS);
                output.goroutines.extend(open.replace(found));
            }
            let Some(found) = &mut open else { continue };
            if number == 0 {
                // The stack begins further in than the header's place in the user's code.
                found.frames.clear();
            }
            let (function, file) = (function.to_string(), file.to_string());
            found.frames.push(FoundFrame { function, file, file_line, line: line.number, arguments: (line.start, 0) });
            found.span.1 = next.end();
        } else if text == "(truncated)" {
            if let Some(found) = &mut open {
                found.flags.set(Flags::ELIDED);
            }
        } else if let Some(count) = text.strip_prefix('[').and_then(|t| t.strip_suffix(" goroutines]")) {
            told = count.parse::<usize>().ok().map(|count| (line.number, count));
            output.goroutines.extend(open.take());
        }
    }
    output.goroutines.extend(open);
    for found in &mut output.goroutines {
        if found.id.is_some() {
            found.flags.0 &= !Flags::HEADLESS;
        }
    }
    if output.goroutines.is_empty() {
        return None;
    }
    let listed = output.goroutines.len();
    output.whole = told.is_some_and(|(_, count)| count == listed);
    output.notes.push((
        output.goroutines.first().map(|g| g.line),
        "delve wrote this: it leaves out ages and arguments, so locks have no addresses here".to_string(),
    ));
    if let Some((line, count)) = told.filter(|&(_, count)| count != listed) {
        output.notes.push((Some(line), format!("delve counted {count} goroutines here; {listed} of them can be read")));
    }
    Some(output)
}

/// `* Goroutine 1 - User: ./main.go:12 main.main (0x49f3c1) [chan receive 27413] (thread 1234)`.
fn header(line: &Line<'_>, text: &str) -> Option<Found> {
    let rest = text.strip_prefix("* ").unwrap_or(text).trim_start().strip_prefix("Goroutine ")?;
    let (id, rest) = rest.split_once(" - ")?;
    let (view, rest) = rest.split_once(": ")?;
    if !matches!(view, "User" | "Runtime" | "Go" | "Start") {
        return None;
    }
    let mut found = Found::new(Some(id.parse().ok()?), line);
    let (place, rest) = rest.split_once(' ')?;
    let (file, file_line) = file_and_line(place)?;
    let (function, rest) = rest.rsplit_once(" (0x")?;
    if let Some(reason) = rest.split_once(" [").and_then(|(_, r)| r.split(']').next()) {
        // The number behind the reason is the runtime's clock, not an age.
        found.state = reason.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end().to_string();
    } else if rest.contains("(thread ") {
        found.state = "running".to_string();
    }
    let place = FoundFrame {
        function: function.to_string(),
        file: file.to_string(),
        file_line,
        line: line.number,
        arguments: (line.start, 0),
    };
    match view {
        // Where it was started, and by whom, is not where it stands.
        "Go" => found.created_by = Some(place),
        "Start" => {}
        _ => found.frames.push(place),
    }
    Some(found)
}

/// `Switched from 1 to 7 (thread 12)`, `(dlv) goroutine 7 bt`: whose stack comes next.
fn selected(text: &str) -> Option<u64> {
    if let Some(rest) = text.strip_prefix("Switched from ") {
        return rest.split_once(" to ")?.1.split(' ').next()?.parse().ok();
    }
    let command = text.strip_prefix("(dlv) ")?;
    let mut words = command.split_whitespace();
    let command = words.next()?;
    if matches!(command, "goroutine" | "gr") { words.next()?.parse().ok() } else { None }
}

/// `0  0x0000000000439b36 in runtime.gopark`.
fn frame(text: &str) -> Option<(u32, &str)> {
    let (number, rest) = text.split_once(' ')?;
    let (address, function) = rest.trim_start().strip_prefix("0x")?.split_once(" in ")?;
    let is_address = address.len() == 16 && address.bytes().all(|b| b.is_ascii_hexdigit());
    (is_address && !function.contains(' ')).then_some((number.parse().ok()?, function))
}
