//! Any constant or counting prefix before the lines of a dump, known or not.
//!
//! A header tells what stands before it; if the lines around begin in the same way, up to changing numbers, that is a
//! prefix: `agent-1  | `, `   12\t`, `kubelet.log:`, `> `, four blanks.

use super::Stream;
use super::recover::{Recovered, lines};
use super::sample::{Sample, line_start};
use super::shape;

/// Longest prefix that is believed.
const LONGEST: usize = 240;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(Vec<u8>),
    /// Digits, with blanks before them if the numbers are aligned.
    Number,
}

/// What each line begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Template(Vec<Part>);

impl Template {
    fn of(prefix: &[u8], counting: bool) -> Self {
        let mut parts = Vec::new();
        let mut literal = Vec::new();
        let mut rest = prefix;
        while let Some(&byte) = rest.first() {
            let number = if counting { number_at(rest, parts.is_empty() && literal.is_empty()) } else { None };
            match number {
                Some(len) => {
                    if !literal.is_empty() {
                        parts.push(Part::Literal(std::mem::take(&mut literal)));
                    }
                    parts.push(Part::Number);
                    rest = rest.get(len..).unwrap_or(&[]);
                }
                None => {
                    literal.push(byte);
                    rest = rest.get(1..).unwrap_or(&[]);
                }
            }
        }
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Template(parts)
    }

    /// Length of the prefix of `line`; for an empty line that lost the blanks at its end too.
    fn fit(&self, line: &[u8]) -> Option<usize> {
        let mut at = 0;
        let last = self.0.len().saturating_sub(1);
        for (index, part) in self.0.iter().enumerate() {
            let rest = line.get(at..)?;
            match part {
                Part::Literal(text) if rest.starts_with(text) => at += text.len(),
                Part::Literal(text) if index == last && rest == text.trim_ascii_end() => {
                    return Some(line.len());
                }
                Part::Literal(_) => return None,
                Part::Number => at += number_at(rest, true)?,
            }
        }
        Some(at)
    }

    fn name(&self) -> &'static str {
        let text: Vec<u8> =
            self.0.iter().flat_map(|p| if let Part::Literal(t) = p { t.clone() } else { vec![b'0'] }).collect();
        match text.trim_ascii() {
            b"" => "indent",
            t if t.iter().all(|&b| b == b'>' || b == b' ') => "quote",
            b"0" | b"0:" | b"0|" => "line-numbers",
            _ => "prefix",
        }
    }
}

/// Length of a number, with the blanks before it that align it: any at a line's start, two or more elsewhere.
fn number_at(text: &[u8], anywhere: bool) -> Option<usize> {
    let blanks = text.iter().take_while(|&&b| b == b' ').count();
    let digits = text.iter().skip(blanks).take_while(|b| b.is_ascii_digit()).count();
    (digits > 0 && (blanks != 1 || anywhere)).then_some(blanks + digits)
}

/// Takes the prefix off; lines without it become a stream of their own.
pub(crate) fn peel(stream: &Stream, sample: &Sample<'_>) -> Option<Vec<Stream>> {
    let bytes = stream.text.bytes();
    let template = sample.headers.iter().find_map(|&header| template(bytes, header))?;
    Some(cut(stream, &template))
}

/// The same where each line goes on with a JSON object.
pub(crate) fn before_json(stream: &Stream, sample: &Sample<'_>) -> Option<Vec<Stream>> {
    let bytes = stream.text.bytes();
    let template = sample.headers.iter().find_map(|&at| template_before_json(bytes, line_start(bytes, at), at))?;
    Some(cut(stream, &template))
}

fn cut(stream: &Stream, template: &Template) -> Vec<Stream> {
    let bytes = stream.text.bytes();
    let mut inner = Recovered::of(stream);
    inner.reserve(bytes.len());
    let mut rest = Recovered::of(stream);
    let mut in_dump = false;
    for (number, line) in lines(bytes) {
        match template.fit(line) {
            Some(len) => {
                let body = line.get(len..).unwrap_or(&[]);
                in_dump = shape::is_dump_line(body) || body.is_empty();
                inner.line(body, number);
            }
            None if line.trim_ascii().is_empty() => {
                // A quote's empty lines may have lost their mark; outside it they mean nothing.
                if in_dump {
                    inner.line(b"", number);
                }
            }
            None => rest.line(line, number),
        }
    }
    let mut streams = vec![inner.finish(template.name())];
    if !rest.is_empty() {
        streams.push(rest.finish(""));
    }
    streams
}

/// The template of the prefix before a header, if the lines after it bear it out.
fn template(bytes: &[u8], header: usize) -> Option<Template> {
    let start = line_start(bytes, header);
    let prefix = bytes.get(start..header).filter(|p| !p.is_empty() && p.len() <= LONGEST)?;
    let after: Vec<&[u8]> = lines(bytes.get(start..)?).take(24).map(|(_, line)| line).collect();
    [Template::of(prefix, false), Template::of(prefix, true)].into_iter().find(|template| {
        let (mut fitting, mut other, mut good) = (0, 0, 0);
        for line in &after {
            match template.fit(line) {
                Some(len) => {
                    fitting += 1;
                    good += usize::from(shape::is_dump_line(line.get(len..).unwrap_or(&[])));
                }
                None if line.trim_ascii().is_empty() => {}
                None => other += 1,
            }
        }
        // Lines of another writer may stand between.
        good >= 3 && fitting >= other && good * 10 >= fitting * 6
    })
}

/// The same where each line goes on with a JSON object.
fn template_before_json(bytes: &[u8], start: usize, header: usize) -> Option<Template> {
    let before = bytes.get(start..header)?;
    let brace = memchr::memmem::find(before, b"{\"").filter(|&at| at > 0 && at <= LONGEST)?;
    let after: Vec<&[u8]> = lines(bytes.get(start..)?).take(24).map(|(_, line)| line).collect();
    let prefix = before.get(..brace)?;
    [Template::of(prefix, false), Template::of(prefix, true)].into_iter().find(|template| {
        let fits =
            |line: &&&[u8]| template.fit(line).is_some_and(|len| line.get(len..).unwrap_or(&[]).starts_with(b"{\""));
        after.len() >= 3 && after.iter().filter(fits).count() * 10 >= after.len() * 8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_grow_and_be_aligned() {
        let template = Template::of(b"     1\t", true);
        assert_eq!(template.fit(b"   120\tmain.f()"), Some(7));
        assert_eq!(Template::of(b"9:", true).fit(b"10:x"), Some(3));
        assert_eq!(Template::of(b"> ", false).fit(b">"), Some(1));
        assert_eq!(Template::of(b"a-1 | ", false).fit(b"a-2 | x"), None);
    }
}
