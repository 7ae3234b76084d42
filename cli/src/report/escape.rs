//! Text from a dump, made harmless for each form. Names in a dump are whatever somebody chose to call things:
//! markup, terminal escapes and direction overrides among them.

use std::fmt::Write;

/// Whether a character could act on a terminal or change the reading direction instead of being read.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Shows control characters as `\x1b`; line breaks and tabs too, since a name has none.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    push_visible(&mut out, text);
    out
}

fn push_visible(out: &mut String, text: &str) {
    for c in text.chars() {
        push_visible_char(out, c);
    }
}

fn push_visible_char(out: &mut String, c: char) {
    match c {
        '\n' => out.push_str("\\n"),
        '\t' => out.push_str("\\t"),
        '\r' => out.push_str("\\r"),
        c if acts(c) && (c as u32) < 0x100 => {
            let _ = write!(out, "\\x{:02x}", c as u32);
        }
        c if acts(c) => {
            let _ = write!(out, "\\u{{{:x}}}", c as u32);
        }
        c => out.push(c),
    }
}

/// Text and attribute values of HTML and SVG. Appends, since a report is written into one string.
pub fn push_html(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '`' => out.push_str("&#96;"),
            '\n' | '\t' => out.push(c),
            c => push_visible_char(out, c),
        }
    }
}

/// As [`push_html`], for short texts.
pub fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    push_html(&mut out, text);
    out
}

/// Bytes of a dump as HTML; what is no UTF-8 shows as `\x..`.
pub fn push_html_bytes(out: &mut String, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        push_html(out, chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
}

/// Inline text of Markdown, also within a table cell.
pub fn markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '#' | '|' | '~' | '!' | '$' => {
                out.push('\\');
                out.push(c);
            }
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // A zero-width joiner keeps a forge from turning a name into a mention, a reference or a link.
            '@' => out.push_str("&#64;"),
            '\n' | '\t' | '\r' => out.push(' '),
            c => push_visible_char(&mut out, c),
        }
    }
    out
}

/// A code span of Markdown that holds `text` as it is.
pub fn markdown_code(text: &str) -> String {
    let text = visible(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') || text.is_empty() { " " } else { "" };
    // Within a table a bar ends the cell even in code.
    format!("{fence}{pad}{}{pad}{fence}", text.replace('|', "\\|"))
}

/// A fence longer than any run of backticks in `text`, for a code block.
pub fn markdown_fence(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat(longest.max(2) + 1)
}

/// Within the quotes of a DOT string; line breaks become `\n`.
pub fn dot(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c => push_visible_char(&mut out, c),
        }
    }
    out
}

/// Within the quotes of a Mermaid label. Mermaid knows entities without `&` (`#lt;`), and reads labels as HTML.
pub fn mermaid(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '"' | '<' | '>' | '&' | '#' | '`' | ';' | '\\' | '{' | '}' | '[' | ']' | '|' => {
                let _ = write!(out, "#{};", c as u32);
            }
            '\n' => out.push_str("<br/>"),
            c => push_visible_char(&mut out, c),
        }
    }
    out
}

/// JSON that stands inside a `<script>` element.
pub fn script_json(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

/// Base 64 of the standard alphabet.
pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            if i <= chunk.len() {
                out.push(char::from(DIGITS[(word >> (18 - 6 * i)) as usize & 63]));
            } else {
                out.push('=');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_name_acts() {
        let name = "<script>alert(\"x\")</script>'`&\u{1b}[31m\u{202e}|";
        let shown = html(name);
        assert!(!shown.contains(['<', '>', '"', '\'', '`', '\u{1b}', '\u{202e}']), "{shown}");
        assert!(shown.contains("\\x1b[31m") && shown.contains("\\u{202e}"), "{shown}");
        assert!(!visible(name).contains(['\u{1b}', '\u{202e}']));
        assert!(!mermaid(name).contains(['<', '"', '`', '|']));
        assert!(!script_json("</script><!--").contains('<'));
    }

    #[test]
    fn code_spans_hold_backticks() {
        assert_eq!(markdown_code("a"), "`a`");
        assert_eq!(markdown_code("a``b"), "```a``b```");
        assert_eq!(markdown_code("`a"), "`` `a ``");
        assert_eq!(markdown_fence("x\n```\ny"), "````");
    }

    #[test]
    fn base64_of_the_rfc() {
        // RFC 4648, section 10.
        for (plain, coded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE=")]
        {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }
}
