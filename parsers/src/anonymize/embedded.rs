//! Text that does not stand as it is: UTF-16, base64, arrays of byte values (how journald's JSON writes a message that
//! is no UTF-8).

use regex::bytes::Regex;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

/// A text in UTF-8 where it was UTF-16.
pub fn plain(text: &[u8]) -> Cow<'_, [u8]> {
    let (little, skip) = match text {
        [0xff, 0xfe, ..] => (true, 2),
        [0xfe, 0xff, ..] => (false, 2),
        _ => {
            let head = text.get(..text.len().min(512)).unwrap_or(text);
            let nul = |odd: usize| head.iter().skip(odd).step_by(2).filter(|&&b| b == 0).count();
            let half = head.len() / 2;
            match (nul(1), nul(0)) {
                (high, low) if half >= 8 && high * 10 > half * 9 && low * 10 < half => (true, 0),
                (high, low) if half >= 8 && low * 10 > half * 9 && high * 10 < half => (false, 0),
                _ => return Cow::Borrowed(text),
            }
        }
    };
    let units = text.get(skip..).unwrap_or(&[]).chunks_exact(2).map(|pair| match pair {
        [a, b] if little => u16::from_le_bytes([*a, *b]),
        [a, b] => u16::from_be_bytes([*a, *b]),
        _ => 0,
    });
    let decoded: String = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    Cow::Owned(decoded.into_bytes())
}

/// Encoded text within a text.
pub struct Embedded {
    /// Where it stands.
    pub range: Range<usize>,
    /// What it says.
    pub inner: Vec<u8>,
    form: Form,
}

enum Form {
    Array,
    /// With the length of its lines, if it has several.
    Base64(Option<usize>),
}

impl Embedded {
    /// `inner` in the same form as before.
    pub fn encode(&self, inner: &[u8]) -> Vec<u8> {
        match self.form {
            Form::Array => {
                let numbers: Vec<String> = inner.iter().map(u8::to_string).collect();
                format!("[{}]", numbers.join(",")).into_bytes()
            }
            Form::Base64(width) => {
                let flat = base64(inner);
                match width {
                    None => flat,
                    Some(width) => flat.chunks(width.max(1)).collect::<Vec<_>>().join(&b'\n'),
                }
            }
        }
    }
}

/// What is encoded within `text`, in order.
pub fn find(text: &[u8]) -> Vec<Embedded> {
    static ARRAY: OnceLock<Option<Regex>> = OnceLock::new();
    static BASE64: OnceLock<Option<Regex>> = OnceLock::new();
    let array = ARRAY.get_or_init(|| Regex::new(r"(?-u)\[[ ]*(?:[0-9]{1,3}[ ]*,[ \n]*){7,}[0-9]{1,3}[ ]*\]").ok());
    let base64 = BASE64.get_or_init(|| Regex::new(r"(?-u)(?:[A-Za-z0-9+/]{60,76}\r?\n)*[A-Za-z0-9+/]{16,}={0,2}").ok());
    let mut found = Vec::new();
    for range in array.iter().flat_map(|re| re.find_iter(text)).map(|m| m.range()) {
        let digits = text.get(range.clone()).unwrap_or(&[]);
        if let Some(inner) = bytes_of(digits).filter(|inner| says_something(inner)) {
            found.push(Embedded { range, inner, form: Form::Array });
        }
    }
    for range in base64.iter().flat_map(|re| re.find_iter(text)).map(|m| m.range()) {
        let coded = text.get(range.clone()).unwrap_or(&[]);
        if let Some(inner) = from_base64(coded).filter(|inner| says_something(inner)) {
            let width = coded.iter().position(|&b| b == b'\n' || b == b'\r');
            found.push(Embedded { range, inner, form: Form::Base64(width) });
        }
    }
    found.sort_by_key(|e| e.range.start);
    found
}

/// What is encoded within `text`.
pub fn decoded(text: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    find(text).into_iter().map(|e| e.inner)
}

/// Nearly all of it can be read: a word that happens to be made of base64's letters decodes to noise.
fn says_something(inner: &[u8]) -> bool {
    let read = inner.iter().filter(|&&b| matches!(b, b' '..=b'~' | b'\n' | b'\t' | b'\r' | 0x1b)).count();
    inner.len() >= 6 && read * 20 >= inner.len() * 19 && std::str::from_utf8(inner).is_ok() || {
        inner.len() >= 64 && read * 10 >= inner.len() * 9
    }
}

fn bytes_of(digits: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(digits).ok()?;
    text.trim_matches(['[', ']', ' ']).split(',').map(|number| number.trim().parse().ok()).collect()
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn from_base64(coded: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(coded.len() / 4 * 3);
    let (mut bits, mut have) = (0u32, 0u32);
    for &byte in coded.iter().filter(|b| !matches!(b, b'\n' | b'\r' | b'=')) {
        let value = ALPHABET.iter().position(|&a| a == byte)?;
        bits = (bits << 6) | value as u32;
        have += 6;
        if have >= 8 {
            have -= 8;
            out.push((bits >> have) as u8);
            bits &= (1 << have) - 1;
        }
    }
    Some(out)
}

fn base64(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |word, &b| (word << 8) | u32::from(b)) << (8 * (3 - chunk.len()));
        for n in 0..4 {
            let letter = ALPHABET.get((word >> (18 - 6 * n)) as usize & 63).copied().unwrap_or(b'A');
            out.push(if n <= chunk.len() { letter } else { b'=' });
        }
    }
    out
}
