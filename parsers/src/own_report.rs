//! Our own reports beside the evidence that they are about.
//!
//! A report quotes stacks, torn from their dump. People keep it in the incident's folder and hand over the whole
//! folder again: what it quotes must not count as further dumps. Alone it is all that is left, and is read.

use crate::evidence::Text;

/// The page's own name for what made it.
const GENERATOR: &[u8] = b"name=\"generator\" content=\"holdup ";
/// How JSON reports begin.
const JSON: &[u8] = b"\"name\": \"holdup\"";
/// How Markdown reports end, in either language.
const FOOTERS: [&str; 2] = ["made by holdup ", "由 holdup "];
/// Bytes at either end in which a report says what it is.
const HEAD: usize = 2048;
const TAIL: usize = 256;

/// Whether a text is a report that this program wrote.
pub fn is_own_report(text: &Text) -> bool {
    let bytes = text.bytes();
    let head = bytes.get(..HEAD).unwrap_or(bytes);
    let tail = bytes.get(bytes.len().saturating_sub(TAIL)..).unwrap_or(bytes);
    let has = |part: &[u8], needle: &[u8]| memchr::memmem::find(part, needle).is_some();
    let page = has(head, GENERATOR);
    let json = head.starts_with(b"{") && has(head, b"\"schema_version\"") && has(head, JSON);
    let last = tail.trim_ascii_end().rsplit(|&byte| byte == b'\n').next().unwrap_or(tail);
    page || json || FOOTERS.iter().any(|footer| has(last, footer.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_told_by_what_they_say_of_themselves() {
        let told = |text: &str| is_own_report(&Text::from_vec(text.as_bytes().to_vec()));
        assert!(told("<!DOCTYPE html>\n<meta name=\"generator\" content=\"holdup 0.1.0\">\n"));
        assert!(told("{\n  \"schema_version\": \"1\",\n  \"tool\": {\n    \"name\": \"holdup\",\n"));
        assert!(told("# HANG\n\n---\n2 snapshots from 3 files · made by holdup 0.1.0\n"));
        assert!(told("---\n3 个文件中的 2 个快照 · 由 holdup 0.1.0 生成\n"));
        assert!(!told("goroutine 1 [running]:\nmain.main()\n\t/src/holdup/main.go:3 +0x1d\n"));
        assert!(!told("somebody wrote: made by holdup 0.1.0\ngoroutine 1 [running]:\n"));
        assert!(!told(""));
    }
}
