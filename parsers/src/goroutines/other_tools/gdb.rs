//! gdb with Go's script (`src/runtime/runtime-gdb.py`, Go 1.26): `info goroutines` and `goroutine N bt`.
//!
//! ```text
//! (gdb) info goroutines
//! * 1 running  runtime.futex
//!   2 waiting  runtime.gopark
//! (gdb) goroutine 2 bt
//! #0  runtime.gopark (unlockf={void (...)} 0x0, lock=0x0) at /usr/local/go/src/runtime/proc.go:381
//! #1  0x0000000000439b36 in main.wait (m=0xc000012345)
//!     at /x/main.go:12
//! ```

use super::{Found, FoundFrame, Output, call, file_and_line, text_of};
use crate::evidence::Flags;
use crate::goroutines::lines::{Line, Lines};
use memchr::memmem;

/// What the debugger was asked last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Something,
    List,
    /// The stack of one goroutine.
    Stack(u64),
    /// The stacks of all: whose each is, nothing says.
    AllStacks,
}

pub(super) fn read(text: &[u8]) -> Option<Output> {
    memmem::find(text, b"goroutine")?;
    memmem::find(text, b"(gdb)")?;
    let mut output = Output::default();
    let mut rows: Vec<Found> = Vec::new();
    let mut asked = Asked::Something;
    let mut lines = Lines::new(text);
    while let Some(line) = lines.next() {
        let Some(text) = text_of(&line).filter(|text| !text.is_empty()) else { continue };
        if let Some(command) = text.strip_prefix("(gdb)") {
            asked = command_of(command);
            if let Asked::Stack(id) = asked {
                output.goroutines.push(Found::new(Some(id), &line));
            }
            continue;
        }
        match asked {
            Asked::List => rows.extend(row(&line, text)),
            Asked::Stack(_) | Asked::AllStacks => {
                let Some((number, frame)) = frame(&line, text, &mut lines) else { continue };
                if asked == Asked::AllStacks && number == 0 {
                    let mut found = Found::new(None, &line);
                    found.flags.set(Flags::HEADLESS);
                    output.goroutines.push(found);
                }
                if let Some(found) = output.goroutines.last_mut() {
                    found.frames.push(frame);
                    found.span.1 = lines.offset();
                }
            }
            Asked::Something => {}
        }
    }
    output.goroutines.retain(|g| !g.frames.is_empty());
    output.whole = !rows.is_empty();
    // With the stacks of all, the list would count each goroutine twice.
    let nameless = output.goroutines.iter().any(|g| g.id.is_none());
    for row in rows {
        match output.goroutines.iter_mut().find(|g| g.id == row.id) {
            Some(known) => known.state = row.state,
            None if nameless => {}
            None => output.goroutines.push(row),
        }
    }
    if output.goroutines.is_empty() {
        return None;
    }
    output.notes.push((
        output.goroutines.first().map(|g| g.line),
        "gdb wrote this: it knows no wait reasons and no ages, and its list shows one function of each goroutine"
            .to_string(),
    ));
    Some(output)
}

fn command_of(command: &str) -> Asked {
    let mut words = command.split_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some("info" | "i"), Some(what), _) if what.starts_with("goroutine") => Asked::List,
        (Some("goroutine"), Some(id), Some("bt" | "backtrace" | "where")) => match id.parse() {
            Ok(id) => Asked::Stack(id),
            Err(_) if id == "all" => Asked::AllStacks,
            Err(_) => Asked::Something,
        },
        _ => Asked::Something,
    }
}

/// `* 1 running  runtime.futex`.
fn row(line: &Line<'_>, text: &str) -> Option<Found> {
    let mut words = text.strip_prefix('*').unwrap_or(text).split_whitespace();
    let id = words.next()?.parse().ok()?;
    let status = words.next()?;
    let function = words.next().filter(|function| function.contains('.'))?;
    let mut found = Found::new(Some(id), line);
    // Why it waits, the frames may tell; the status does not.
    found.state = if status == "waiting" { String::new() } else { status.to_string() };
    let function = function.to_string();
    found.frames.push(FoundFrame { function, line: line.number, arguments: (line.start, 0), ..FoundFrame::default() });
    Some(found)
}

/// `#1  0x0000000000439b36 in main.wait (m=0xc000012345) at /x/main.go:12`, perhaps over several lines.
fn frame<'t>(line: &Line<'t>, text: &str, lines: &mut Lines<'t>) -> Option<(u32, FoundFrame)> {
    let rest = text.strip_prefix('#')?;
    let (number, rest) = rest.split_once(' ')?;
    let number: u32 = number.parse().ok()?;
    let rest = rest.trim_start();
    let rest = if rest.starts_with("0x") { rest.split_once(" in ")?.1 } else { rest };
    let (head, mut place) = match rest.rsplit_once(" at ") {
        Some((head, place)) => (head, file_and_line(place)),
        None => (rest, None),
    };
    if place.is_none() {
        // gdb breaks long frames before an argument or before `at`.
        let mut ahead = *lines;
        for _ in 0..8 {
            let Some(next) = ahead.next().filter(|next| next.is_indented()) else { break };
            let Some(more) = text_of(&next) else { break };
            place = more.rsplit_once("at ").and_then(|(_, place)| file_and_line(place));
            *lines = ahead;
            if place.is_some() {
                break;
            }
        }
    }
    let (name, arguments) = call(head).or_else(|| head.split_once(" ("))?;
    let (file, file_line) = place.unwrap_or(("", 0));
    let frame = FoundFrame {
        function: name.trim_end().to_string(),
        file: file.to_string(),
        file_line,
        line: line.number,
        arguments: (line.offset_of(arguments.as_bytes()), arguments.len()),
    };
    Some((number, frame))
}
