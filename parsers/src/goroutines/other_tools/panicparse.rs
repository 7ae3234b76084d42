//! panicparse's console output (`github.com/maruel/panicparse`, `internal/ui.go`): equal goroutines in one bucket.
//!
//! ```text
//! 2: chan send [3~5 minutes] [locked] [Created by stop.(*Stopper).RunWorker @ stopper.go:197]
//!     storage store.go:2040       (*Store).removeReplicaImpl(#2619, #2734, 0xd8)
//! ```

use super::{Found, FoundFrame, Output, call, file_and_line, text_of};
use crate::evidence::Flags;
use crate::goroutines::lines::{Line, Lines};
use memchr::memmem;

/// A bucket's line.
#[derive(Debug, PartialEq, Eq)]
struct Bucket<'t> {
    count: u32,
    state: &'t str,
    minutes: Option<u32>,
    locked: bool,
    /// Function, file and line of the `go` statement.
    created: Option<(&'t str, &'t str, u32)>,
}

pub(super) fn read(text: &[u8]) -> Option<Output> {
    memmem::find(text, b".go:")?;
    let mut output = Output::default();
    let mut lines = Lines::new(text);
    let mut unnamed = None;
    while let Some(line) = lines.next() {
        let Some(bucket) = line.raw.first().filter(|b| b.is_ascii_digit()).and_then(|_| bucket(text_of(&line)?)) else {
            continue;
        };
        let mut ahead = lines;
        let mut found = Found::new(None, &line);
        while let Some(next) = ahead.next() {
            match frame(&next) {
                Some(frame) if next.is_indented() => {
                    if frame.function.is_empty() {
                        unnamed = unnamed.or(Some(next.number));
                    } else {
                        found.frames.push(frame);
                    }
                }
                _ if next.is_indented() && next.trimmed() == b"(...)" => found.flags.set(Flags::ELIDED),
                _ => break,
            }
            found.span.1 = next.end();
            lines = ahead;
        }
        if found.frames.is_empty() {
            continue;
        }
        found.count = bucket.count;
        found.state = bucket.state.to_string();
        found.minutes = bucket.minutes;
        if bucket.locked {
            found.flags.set(Flags::LOCKED);
        }
        found.created_by = bucket.created.map(|(function, file, file_line)| FoundFrame {
            function: function.to_string(),
            file: file.to_string(),
            file_line,
            line: line.number,
            ..FoundFrame::default()
        });
        output.goroutines.push(found);
    }
    if output.goroutines.is_empty() {
        return None;
    }
    output.notes.push((
        output.goroutines.first().map(|g| g.line),
        "panicparse wrote this: it leaves out goroutine ids, folders and the addresses behind its #numbers, and puts \
         equal goroutines together; the runtime's own text says more"
            .to_string(),
    ));
    if let Some(line) = unnamed {
        output.notes.push((Some(line), "this frame has lost its function".to_string()));
    }
    Some(output)
}

fn bucket(text: &str) -> Option<Bucket<'_>> {
    let (count, rest) = text.split_once(": ")?;
    let count: u32 = count.parse().ok().filter(|&n| n > 0)?;
    let (state, mut marks) = rest.find(" [").map_or((rest, ""), |at| (&rest[..at], &rest[at..]));
    let mut bucket = Bucket { count, state, minutes: None, locked: false, created: None };
    while let Some(mark) = marks.strip_prefix(" [") {
        let created = mark.strip_prefix("Created by ");
        let end = if created.is_some() { mark.rfind(']')? } else { mark.find(']')? };
        let word = mark.get(..end)?;
        marks = mark.get(end + 1..)?;
        if let Some(minutes) = word.strip_suffix(" minutes").or_else(|| word.strip_suffix(" minute")) {
            // `3~5`: somebody in the bucket has waited the longer time.
            bucket.minutes = Some(minutes.rsplit('~').next()?.parse().ok()?);
        } else if word == "locked" {
            bucket.locked = true;
        } else if created.is_some() {
            let (function, place) = word.strip_prefix("Created by ")?.rsplit_once(" @ ")?;
            let (file, line) = file_and_line(place)?;
            bucket.created = Some((function, file, line));
        } else {
            return None;
        }
    }
    let is_state = !state.is_empty()
        && state.len() < 60
        && state.bytes().all(|b| b.is_ascii_alphabetic() || b" ().-".contains(&b));
    (marks.is_empty() && is_state).then_some(bucket)
}

/// `storage store.go:2040 (*Store).removeReplicaImpl(#2619)`, in columns.
fn frame(line: &Line<'_>) -> Option<FoundFrame> {
    let text = text_of(line)?;
    let (package, rest) = text.split_once(' ')?;
    let rest = rest.trim_start();
    let (place, function) = rest.split_once(' ').map_or((rest, ""), |(place, function)| (place, function.trim_start()));
    let (file, file_line) = file_and_line(place)?;
    let (name, arguments) = call(function).unwrap_or((function, ""));
    let qualified = name.split('.').next().is_some_and(|first| first == package) && name.contains('.');
    let name = match name {
        "" => String::new(),
        name if qualified => name.to_string(),
        name => format!("{package}.{name}"),
    };
    Some(FoundFrame {
        function: name,
        file: file.to_string(),
        file_line,
        line: line.number,
        arguments: (line.offset_of(arguments.as_bytes()), arguments.len()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_of_all_kinds() {
        let some = bucket("12: semacquire [3~5 minutes] [locked] [Created by a.(*T[...]).b @ t.go:7]");
        let whole = Bucket {
            count: 12,
            state: "semacquire",
            minutes: Some(5),
            locked: true,
            created: Some(("a.(*T[...]).b", "t.go", 7)),
        };
        assert_eq!(some, Some(whole));
        assert_eq!(bucket("1: select (no cases)").map(|b| b.state), Some("select (no cases)"));
        for other in ["0: running", "1: [x]", "7: error [code 5]", "3: a/b"] {
            assert_eq!(bucket(other), None, "{other}");
        }
    }
}
