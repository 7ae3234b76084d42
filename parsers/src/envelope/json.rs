//! A small JSON reader that knows where each value stands, and that survives cut and broken text.

use std::ops::Range;

/// Nesting that is followed.
const DEPTH: usize = 32;

/// A value of an object, however deep, with the key that it stands under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    /// The key's text, still escaped; elements of an array have the array's key.
    pub key: Range<usize>,
    pub value: Value,
    /// Where the value begins.
    pub at: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// Text between the quotes, still escaped.
    String(Range<usize>),
    /// Number, `true` or `false`.
    Bare(Range<usize>),
    Null,
    /// An array of numbers, each a byte: journald's way to show text that is not UTF-8.
    Bytes(Vec<u8>),
}

/// Reads the object that begins at `at`; its fields go to `fields`. The end, or `None` if this is no whole object.
pub(crate) fn object(text: &[u8], at: usize, fields: &mut Vec<Field>) -> Option<usize> {
    fields.clear();
    let mut reader = Reader { text, at, fields };
    (text.get(at) == Some(&b'{')).then_some(())?;
    reader.value(0..0, 0)?;
    Some(reader.at)
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    fields: &'a mut Vec<Field>,
}

impl Reader<'_> {
    fn peek(&mut self) -> Option<u8> {
        let blanks = self.text.get(self.at..)?.iter().take_while(|b| b.is_ascii_whitespace()).count();
        self.at += blanks;
        self.text.get(self.at).copied()
    }

    fn value(&mut self, key: Range<usize>, depth: usize) -> Option<()> {
        if depth > DEPTH {
            return None;
        }
        let first = self.peek()?;
        let at = self.at;
        let value = match first {
            b'{' => return self.members(depth),
            b'[' => return self.elements(key, depth),
            b'"' => Value::String(self.string()?),
            _ => {
                let rest = self.text.get(at..)?;
                let len = rest.iter().position(|b| b",]} \t\r\n".contains(b)).unwrap_or(rest.len());
                let word = rest.get(..len)?;
                self.at += len;
                match word {
                    b"null" => Value::Null,
                    b"true" | b"false" => Value::Bare(at..at + len),
                    [b'-' | b'0'..=b'9', ..] => Value::Bare(at..at + len),
                    _ => return None,
                }
            }
        };
        self.fields.push(Field { key, value, at });
        Some(())
    }

    fn members(&mut self, depth: usize) -> Option<()> {
        self.at += 1;
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(());
        }
        loop {
            (self.peek()? == b'"').then_some(())?;
            let key = self.string()?;
            (self.peek()? == b':').then_some(())?;
            self.at += 1;
            self.value(key, depth + 1)?;
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Some(());
                }
                _ => return None,
            }
        }
    }

    fn elements(&mut self, key: Range<usize>, depth: usize) -> Option<()> {
        let start = self.at;
        let first = self.fields.len();
        self.at += 1;
        if self.peek()? == b']' {
            self.at += 1;
            return Some(());
        }
        loop {
            self.value(key.clone(), depth + 1)?;
            match self.peek()? {
                b',' => self.at += 1,
                b']' => break,
                _ => return None,
            }
        }
        self.at += 1;
        self.fold_bytes(first, key, start);
        Some(())
    }

    /// Turns the numbers of an array, if they all are bytes, into one value.
    fn fold_bytes(&mut self, first: usize, key: Range<usize>, at: usize) {
        let numbers = self.fields.get(first..).unwrap_or(&[]);
        let byte = |field: &Field| match &field.value {
            Value::Bare(range) => std::str::from_utf8(self.text.get(range.clone())?).ok()?.parse::<u8>().ok(),
            _ => None,
        };
        let Some(bytes) = numbers.iter().map(byte).collect::<Option<Vec<u8>>>().filter(|b| !b.is_empty()) else {
            return;
        };
        self.fields.truncate(first);
        self.fields.push(Field { key, value: Value::Bytes(bytes), at });
    }

    fn string(&mut self) -> Option<Range<usize>> {
        let start = self.at + 1;
        let mut from = start;
        loop {
            let at = from + memchr::memchr2(b'"', b'\\', self.text.get(from..)?)?;
            if self.text.get(at) == Some(&b'"') {
                self.at = at + 1;
                return Some(start..at);
            }
            from = at + 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_values_at_any_depth() {
        let text = br#"{"a": "x\"y", "b": {"c": [1, 2, 255]}, "d": null, "e": [["t", "u"]], "f": -1.5, "g": []} tail"#;
        let mut fields = Vec::new();
        let end = object(text, 0, &mut fields).expect("an object");
        assert_eq!(&text[end..], b" tail");
        let shown: Vec<String> = fields
            .iter()
            .map(|f| {
                let value = match &f.value {
                    Value::String(r) | Value::Bare(r) => String::from_utf8_lossy(&text[r.clone()]).into_owned(),
                    other => format!("{other:?}"),
                };
                format!("{}={value}", String::from_utf8_lossy(&text[f.key.clone()]))
            })
            .collect();
        assert_eq!(shown, ["a=x\\\"y", "c=Bytes([1, 2, 255])", "d=Null", "e=t", "e=u", "f=-1.5"]);
        for cut in 0..end {
            assert_eq!(object(&text[..cut], 0, &mut fields), None);
        }
        assert_eq!(object("[".repeat(100_000).as_bytes(), 0, &mut fields), None);
        assert_eq!(object(format!("{{\"a\":{}", "[".repeat(100_000)).as_bytes(), 0, &mut fields), None);
    }
}
