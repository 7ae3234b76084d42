//! Lines that structure a dump or stand between dumps: rules, registers, markers, cuts, log lines.

use super::lines::{is_blank, trim_end, trim_start};
use super::scan::MarkKind;
use memchr::memmem;

/// What kind of structuring line `text` (blanks trimmed) is.
pub(super) fn mark(text: &[u8]) -> Option<MarkKind> {
    match *text.first()? {
        b'-' if text == b"-----" => Some(MarkKind::Rule),
        b'r' if text == b"runtime stack:" => Some(MarkKind::ThreadStack(false)),
        b'=' | b'*' | b'#' | b'B' | b'E' => marker(text),
        b'a'..=b'z' => register(text).map(MarkKind::Registers).or_else(|| is_cut(text).then_some(MarkKind::Cut)),
        b'[' | b'.' | b'<' | b'(' | 0xe2 => is_cut(text).then_some(MarkKind::Cut),
        _ => None,
    }
}

/// containerd's and dockerd's `=== BEGIN goroutine stack dump ===` and `=== END goroutine stack dump ===`.
fn marker(text: &[u8]) -> Option<MarkKind> {
    memmem::find(text, b"goroutine stack dump")?;
    if memmem::find(text, b"BEGIN ").is_some() {
        return Some(MarkKind::Begin);
    }
    memmem::find(text, b"END ").map(|_| MarkKind::End)
}

/// A line of a register block (`runtime/signal_*.go`, `dumpregs`): a name, blanks, `0x…`. Some pairs stand on one line.
/// Tells the architecture where the name alone does.
fn register(text: &[u8]) -> Option<Option<&'static str>> {
    let space = text.iter().position(|&b| is_blank(b))?;
    let (name, value) = text.split_at(space);
    let value = trim_start(value);
    let digits = value.strip_prefix(b"0x")?;
    let is_name = name.len() <= 7 && name.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    if !is_name || digits.is_empty() || digits.len() > 16 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    Some(match name {
        b"rax" | b"rip" | b"rflags" => Some("amd64"),
        b"eax" | b"eip" | b"eflags" => Some("386"),
        b"lr" if digits.len() > 8 => Some("arm64"),
        b"r29" => Some("arm64"),
        b"cpsr" | b"oldmask" => Some("arm"),
        _ => None,
    })
}

/// Whether somebody marked here that lines were taken out: `[... cut ...]`, `<snip>`, `...`, `(truncated)`.
pub(super) fn is_cut(text: &[u8]) -> bool {
    const WORDS: [&[u8]; 10] =
        [b"cut", b"snip", b"snipped", b"truncated", b"omitted", b"skipped", b"removed", b"elided", b"lines", b"more"];
    if text.len() > 60 || text.is_empty() {
        return false;
    }
    let is_frame_of =
        |b: u8| matches!(b, b'[' | b']' | b'.' | b'<' | b'>' | b'(' | b')' | b'-' | b' ' | b'/') || b >= 0x80;
    let opens = |b: u8| matches!(b, b'[' | b'.' | b'<' | b'(') || b >= 0x80;
    if !text.first().is_some_and(|&b| opens(b)) {
        return false;
    }
    if text.starts_with(b"...") && text.ends_with(b"frames elided...") {
        return false;
    }
    let mut words = text.split(|&b| is_frame_of(b)).filter(|w| !w.is_empty()).peekable();
    if words.peek().is_none() {
        return text.len() >= 3;
    }
    words.all(|w| WORDS.contains(&w.to_ascii_lowercase().as_slice()) || w.iter().all(u8::is_ascii_digit))
}

/// Whether `text` looks like a line of somebody's log: klog, logrus, a stamp, JSON.
pub(super) fn is_log_line(text: &[u8]) -> bool {
    let at = |i: usize| text.get(i).copied().unwrap_or(0);
    let digits = |from: usize, to: usize| (from..to).all(|i| at(i).is_ascii_digit());
    let klog = matches!(at(0), b'I' | b'W' | b'E' | b'F') && digits(1, 5) && at(5) == b' ' && at(8) == b':';
    let date = digits(0, 4) && matches!(at(4), b'-' | b'/') && digits(5, 7) && digits(8, 10);
    let syslog = at(0).is_ascii_uppercase() && at(3) == b' ' && at(6) == b' ' && at(9) == b':' && at(12) == b':';
    let bracket = at(0) == b'[' && (digits(1, 5) || text.starts_with(b"[GIN"));
    klog || date
        || syslog
        || bracket
        || [&b"time=\""[..], b"level=", b"{\"", b"ts="].iter().any(|p| text.starts_with(p))
}

/// Whether a line of the runtime's own says that it could not walk a stack, or is part of the words in hex that follow
/// (`runtime: g 12: unexpected return pc …`, `stack: frame={sp:…`, Go 1.9 and later).
pub(super) fn is_broken_stack(text: &[u8]) -> bool {
    let hexdump = || {
        let word = text.split(|&b| b == b':').next().unwrap_or_default();
        let word = word.strip_prefix(b"0x").unwrap_or(word);
        word.len() >= 8 && word.len() <= 16 && word.len() < text.len() && word.iter().all(u8::is_ascii_hexdigit)
    };
    text.starts_with(b"runtime: g ")
        || text.starts_with(b"runtime: frame ")
        || text.starts_with(b"stack: frame={")
        || text.starts_with(b"runtime: unexpected return pc")
        || hexdump()
}

/// `...N frames elided...` (Go 1.21 and later), `...additional frames elided...` (before).
pub(super) fn is_elision(text: &[u8]) -> bool {
    let text = trim_end(text);
    (text.starts_with(b"...") || text.starts_with("…".as_bytes())) && memmem::find(text, b"frames elided").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_and_what_is_none() {
        for text in ["[... cut ...]", "[...]", "<snip>", "...", "…", "(truncated)", "[ 120 lines omitted ]", "....."]
        {
            assert!(is_cut(text.as_bytes()), "{text}");
        }
        for text in
            ["...additional frames elided...", "...12 frames elided...", "[signal SIGSEGV]", "cut", "--", "[running]"]
        {
            assert!(!is_cut(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn registers_tell_the_architecture() {
        assert_eq!(mark(b"rax    0xca"), Some(MarkKind::Registers(Some("amd64"))));
        assert_eq!(mark(b"eax    0xca"), Some(MarkKind::Registers(Some("386"))));
        assert_eq!(mark(b"r0      0x5500800890"), Some(MarkKind::Registers(None)));
        assert_eq!(mark(b"fault   0x0"), Some(MarkKind::Registers(None)));
        assert_eq!(mark(b"took 0x5 tries"), None);
    }

    #[test]
    fn logs_are_told() {
        for text in [
            "I1129 12:46:25.980217   17760 main.go:30] x",
            "time=\"2026-11-29T12:44:43Z\" level=info",
            "2026/11/29 12:00:00 http: panic",
            "Nov 29 12:43:40 node kubelet[1]: x",
        ] {
            assert!(is_log_line(text.as_bytes()), "{text}");
        }
        assert!(!is_log_line(b"main.f(0x1)"));
    }
}
