//! The grammar of a frame's two lines, and of `created by`.
//!
//! ```text
//! FUNC(ARGS)
//! \tFILE:LINE[ +0xOFF][ fp=0xH sp=0xH[ pc=0xH]]
//! ```
//!
//! `created by FUNC` gained ` in goroutine N` in Go 1.21; ` pc=` came with 1.9. The parenthesis of the argument list is
//! the last `(` of the line, since arguments hold none. The line number is behind the last `:`.

use super::header::{hex, hex_value};
use super::lines::{is_blank, trim_end, trim_start};
use crate::evidence::SiteKind;
use memchr::{memchr, memmem, memrchr};
use nom::bytes::complete::tag;
use nom::character::complete::{space0, space1, u32 as decimal, u64 as wide};
use nom::combinator::{eof, opt};
use nom::sequence::{preceded, terminated};
use nom::{IResult, Parser};

/// `FUNC(ARGS)` or `created by FUNC`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Function<'t> {
    pub name: &'t [u8],
    /// Between the parentheses.
    pub args: &'t [u8],
    pub kind: SiteKind,
    /// `in goroutine N` of a `created by`.
    pub creator: Option<u64>,
    /// The list of arguments is not closed.
    pub cut: bool,
}

/// `FILE:LINE +0xOFF fp=…`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Location<'t> {
    pub file: &'t [u8],
    pub line: u32,
    pub offset: Option<u32>,
}

/// `fp=` and `sp=` of a file line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pointers {
    pub fp: u64,
    pub sp: u64,
}

/// Reads a whole function line; `line` has no blanks around it.
pub(super) fn function(line: &[u8]) -> Option<Function<'_>> {
    let open = memrchr(b'(', line)?;
    let name = line.get(..open)?;
    let args = line.get(open + 1..)?.strip_suffix(b")")?;
    if !is_name(name) || !is_arguments(args) {
        return None;
    }
    let kind = if is_ellipsis(args) { SiteKind::Inlined } else { SiteKind::Go };
    Some(Function { name, args, kind, creator: None, cut: false })
}

/// Reads a function line whose arguments are cut off: `main.f(0xc000123, 0x`.
pub(super) fn cut_function(line: &[u8]) -> Option<Function<'_>> {
    let open = memrchr(b'(', line)?;
    let (name, args) = (line.get(..open)?, line.get(open + 1..)?);
    let args = args.strip_suffix("…".as_bytes()).unwrap_or(args);
    if !is_name(name) || !name.contains(&b'.') || !is_arguments(args) || args.contains(&b')') {
        return None;
    }
    Some(Function { name, args, kind: SiteKind::Go, creator: None, cut: true })
}

/// Reads `created by FUNC[ in goroutine N]`.
pub(super) fn created_by(line: &[u8]) -> Option<Function<'_>> {
    let rest = trim_start(line.strip_prefix(b"created by ")?);
    let (name, creator) = match memmem::rfind(rest, b" in goroutine ") {
        Some(at) => {
            let tail: IResult<&[u8], u64> = terminated(wide, eof).parse(rest.get(at + 14..)?);
            (rest.get(..at)?, tail.ok().map(|(_, id)| id))
        }
        None => (rest, None),
    };
    let whole = is_name(name);
    whole.then_some(Function { name, args: b"", kind: SiteKind::CreatedBy, creator, cut: false })
}

/// Reads a file line, its registers already split off by [`split_registers`].
///
/// `loose` accepts files without a known suffix, for lines that must be file lines by where they stand.
pub(super) fn location(core: &[u8], loose: bool) -> Option<Location<'_>> {
    let core = trim_start(trim_end(core));
    let colon = memrchr(b':', core)?;
    let (file, tail) = (core.get(..colon)?, core.get(colon + 1..)?);
    let offset = opt(preceded((space1, tag("+")), hex));
    let parsed: IResult<&[u8], (u32, Option<u64>)> = terminated(preceded(space0, (decimal, offset)), eof).parse(tail);
    let (_, (line, offset)) = parsed.ok()?;
    if file.is_empty() || !(loose || offset.is_some() || is_source(file)) {
        return None;
    }
    Some(Location { file, line, offset: offset.and_then(|o| u32::try_from(o).ok()) })
}

/// Splits ` fp=0xH sp=0xH[ pc=0xH]` off a file line.
#[inline]
pub(super) fn split_registers(line: &[u8]) -> (&[u8], Option<Pointers>) {
    let Some(last) = memrchr(b'=', line) else {
        return (line, None);
    };
    let key = |at: usize| at.checked_sub(3).and_then(|from| line.get(from..at)).unwrap_or_default();
    let value = |at: usize| {
        let digits = line.get(at + 1..).and_then(|v| v.strip_prefix(b"0x")).unwrap_or_default();
        hex_value(digits.split(|b| !b.is_ascii_hexdigit()).next().unwrap_or_default())
    };
    let mut at = last;
    let mut pointers = Pointers { fp: 0, sp: 0 };
    loop {
        match key(at) {
            b" fp" => {
                pointers.fp = value(at);
                return (line.get(..at - 3).unwrap_or(line), Some(pointers));
            }
            b" sp" => pointers.sp = value(at),
            b" pc" => {}
            _ => return (line, None),
        }
        let before = line.get(..at).unwrap_or_default();
        match memrchr(b'=', before) {
            Some(next) if matches!(key(next), b" fp" | b" sp") => at = next,
            // C frames of a cgo traceback have ` pc=` alone.
            _ => return (line.get(..at - 3).unwrap_or(line), None),
        }
    }
}

/// Whether `args` is all there is for an inlined frame; some editors make one character of the dots.
pub(super) fn is_ellipsis(args: &[u8]) -> bool {
    args == b"..." || args == "…".as_bytes()
}

/// Whether this may be the name of a function. Blanks and quotes occur only in the braces of an unnamed struct type.
pub(super) fn is_name(name: &[u8]) -> bool {
    let Some(&first) = name.first() else {
        return false;
    };
    if !(first.is_ascii_alphabetic() || first == b'_' || first >= 0x80) {
        return false;
    }
    let mut depth = 0u32;
    name.iter().enumerate().all(|(at, &b)| {
        match b {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            b' ' => {
                let before = name.get(..at).unwrap_or_default();
                return before.ends_with(b"struct") || before.ends_with(b"interface");
            }
            _ if is_blank(b) || b.is_ascii_control() => return false,
            b'"' | b'\'' | b'`' | b'=' | b'<' | b'>' | b'|' | b'&' | b'!' | b'?' | b';' | b',' | b'\\' | b':' => {
                return false;
            }
            _ => {}
        }
        true
    })
}

/// Whether this may be a list of arguments: words in hex, braces, `_`, `...` and `?`.
fn is_arguments(args: &[u8]) -> bool {
    let plain = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f' | b'x' | b'{' | b'}' | b',' | b' ' | b'.' | b'?' | b'_');
    args.iter().all(|&b| plain(b)) || is_ellipsis(args) || {
        let dots = "…".as_bytes();
        memmem::find(args, dots).is_some() && args.iter().all(|b| plain(*b) || dots.contains(b))
    }
}

/// Whether a path ends as Go, C and assembler sources and generated code do.
fn is_source(file: &[u8]) -> bool {
    const SUFFIXES: [&[u8]; 11] =
        [b".go", b".s", b".c", b".h", b".cc", b".cpp", b".cxx", b".S", b".y", b".rl", b"<autogenerated>"];
    SUFFIXES.iter().any(|suffix| file.ends_with(suffix)) && memchr(b'"', file).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_all_shapes() {
        let cases: [(&str, &str, &str, SiteKind); 9] = [
            ("main.f()", "main.f", "", SiteKind::Go),
            ("main.(*T).M(0xc000, {0x1, ...}, 0x0?)", "main.(*T).M", "0xc000, {0x1, ...}, 0x0?", SiteKind::Go),
            ("sync.(*Mutex).Lock(...)", "sync.(*Mutex).Lock", "...", SiteKind::Inlined),
            ("main.(*list[...]).conv[...](_, {})", "main.(*list[...]).conv[...]", "_, {}", SiteKind::Go),
            ("gopkg.in/yaml%2ev2.(*Decoder).Decode(0x1)", "gopkg.in/yaml%2ev2.(*Decoder).Decode", "0x1", SiteKind::Go),
            ("main.日本語(0x1)", "main.日本語", "0x1", SiteKind::Go),
            ("main.f·dwrap·1()", "main.f·dwrap·1", "", SiteKind::Go),
            ("_cgoexp_d00e88fa2782_goCallback(0x0?)", "_cgoexp_d00e88fa2782_goCallback", "0x0?", SiteKind::Go),
            (
                "go.(*struct { sync.Mutex; n int }).Lock(0x1)",
                "go.(*struct { sync.Mutex; n int }).Lock",
                "0x1",
                SiteKind::Go,
            ),
        ];
        for (line, name, args, kind) in cases {
            let f = function(line.as_bytes()).unwrap_or_else(|| panic!("no function: {line}"));
            assert_eq!((f.name, f.args, f.kind), (name.as_bytes(), args.as_bytes(), kind), "{line}");
        }
        for text in ["failed to start (exit 1)", "foo: bar(0x1)", "PASS", "main.f(err)", "(0x1)", "x=f(1)"] {
            assert_eq!(function(text.as_bytes()), None, "{text}");
        }
        let cut = cut_function(b"a/b.(*C).d(0xc000c18000, 0xed").expect("a cut function");
        assert_eq!((cut.name, cut.args, cut.cut), (&b"a/b.(*C).d"[..], &b"0xc000c18000, 0xed"[..], true));
    }

    #[test]
    fn creators() {
        let c = created_by(b"created by net/http.(*Server).Serve in goroutine 41").expect("a creator");
        assert_eq!((c.name, c.creator), (&b"net/http.(*Server).Serve"[..], Some(41)));
        assert_eq!(created_by(b"created by time.goFunc").map(|c| c.creator), Some(None));
        assert_eq!(created_by(b"created by the user who filed this"), None);
    }

    #[test]
    fn locations_of_all_shapes() {
        let read = |line: &'static str| {
            let (core, pointers) = split_registers(line.as_bytes());
            location(core, false).map(|l| (l.file, l.line, l.offset, pointers.map(|p| (p.fp, p.sp))))
        };
        assert_eq!(read("\t/a b/c.go:12 +0x1f"), Some((&b"/a b/c.go"[..], 12, Some(0x1f), None)));
        assert_eq!(read("        c:/go/src/x.go:47"), Some((&b"c:/go/src/x.go"[..], 47, None, None)));
        assert_eq!(
            read("\t/a.go:9 +0x2 fp=0xc000043dd0 sp=0xc000043db0 pc=0x4af1ca"),
            Some((&b"/a.go"[..], 9, Some(2), Some((0xc000043dd0, 0xc000043db0))))
        );
        assert_eq!(read("\t/a.s:9 fp=0x20 sp=0x10"), Some((&b"/a.s"[..], 9, None, Some((0x20, 0x10)))));
        assert_eq!(read("\t<autogenerated>:1 +0x1d"), Some((&b"<autogenerated>"[..], 1, Some(0x1d), None)));
        assert_eq!(read("\t/x/nap.c:3 pc=0x401234"), Some((&b"/x/nap.c"[..], 3, None, None)));
        assert_eq!(read("/go/src/locks.go: 269 +0x86"), Some((&b"/go/src/locks.go"[..], 269, Some(0x86), None)));
        assert_eq!(read("note: 12"), None);
        assert_eq!(read("/workspace/kubernetes/_output/docker"), None);
    }
}
