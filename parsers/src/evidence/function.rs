//! The parts of a Go function's name.

/// A Go function name taken apart: `k8s.io/kubernetes/pkg/kubelet/pleg.(*GenericPLEG).relist`.
///
/// Rules: the package path ends at the first `.` behind the last `/` that stands before any bracket
/// (Go's `runtime/symtab.go`, `funcpkgpath`); dots of the last path element are written `%2e`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionName<'a> {
    /// The name as printed.
    pub full: &'a str,
    /// Package path, vendor prefix included.
    pub package: &'a str,
    /// The receiver's type without `*` and parentheses, if this is a method: `GenericPLEG`.
    pub receiver: Option<&'a str>,
    /// Everything after package and receiver: `relist`, `relist.func1`, `main`.
    pub rest: &'a str,
}

impl<'a> FunctionName<'a> {
    /// Takes a name apart; never fails, at worst everything is `rest`.
    pub fn parse(full: &'a str) -> Self {
        let bracket = full.find(['(', '[', '{']).unwrap_or(full.len());
        let after_slash = full[..bracket].rfind('/').map_or(0, |i| i + 1);
        let Some(dot) = full[after_slash..].find('.').map(|i| after_slash + i) else {
            return FunctionName { full, package: "", receiver: None, rest: full };
        };
        let (package, tail) = (&full[..dot], &full[dot + 1..]);
        if let Some(inner) = tail.strip_prefix("(*") {
            // A receiver may itself be generic or hold a path in parentheses: find the matching one.
            let mut depth = 1usize;
            for (i, byte) in inner.bytes().enumerate() {
                match byte {
                    b'(' => depth += 1,
                    b')' => depth -= 1,
                    _ => {}
                }
                if depth == 0 {
                    let rest = inner[i + 1..].strip_prefix('.').unwrap_or(&inner[i + 1..]);
                    return FunctionName { full, package, receiver: Some(&inner[..i]), rest };
                }
            }
            return FunctionName { full, package, receiver: None, rest: tail };
        }
        // `pkg.Type.Method` of a value receiver looks like `pkg.func.func1` of a closure: closures are named
        // funcN, gowrapN, deferwrapN, N or -rangeN, and so tell themselves apart.
        if let Some((first, second)) = tail.split_once('.')
            && !first.is_empty()
            && !is_closure_part(second)
            && first != "glob"
            && first != "init"
        {
            return FunctionName { full, package, receiver: Some(first), rest: second };
        }
        FunctionName { full, package, receiver: None, rest: tail }
    }

    /// Package path without everything up to the last `/vendor/`.
    pub fn package_without_vendor(&self) -> &'a str {
        without_vendor(self.package)
    }

    /// The name without everything up to the last `/vendor/`.
    pub fn without_vendor(&self) -> &'a str {
        without_vendor(self.full)
    }

    /// The method or function itself, without the closures inside it: `relist` for `relist.func1.2`.
    pub fn outer(&self) -> &'a str {
        let mut end = self.rest.len();
        for (i, _) in self.rest.match_indices('.') {
            if is_closure_part(&self.rest[i + 1..]) {
                end = i;
                break;
            }
        }
        self.rest[..end].trim_end_matches("-fm")
    }

    /// Last element of the package path and the rest, as people say it: `pleg.(*GenericPLEG).relist`.
    pub fn short(&self) -> &'a str {
        let bracket = self.full.find(['(', '[', '{']).unwrap_or(self.full.len());
        self.full[..bracket].rfind('/').map_or(self.full, |i| &self.full[i + 1..])
    }

    /// Whether the package belongs to the standard library: its first path element has no dot.
    pub fn is_standard_library(&self) -> bool {
        let package = self.package_without_vendor();
        let first = package.split('/').next().unwrap_or("");
        package != "main" && !first.is_empty() && !first.contains('.') && STANDARD.binary_search(&first).is_ok()
    }

    /// Whether the package is part of the runtime.
    pub fn is_runtime(&self) -> bool {
        matches!(self.package, "runtime" | "") && !self.full.is_empty() && self.full != "main.main"
            || self.package.starts_with("runtime/internal/")
            || self.package.starts_with("internal/runtime/")
    }
}

/// First path elements of the standard library (`go list std`, Go 1.27), sorted.
const STANDARD: &[&str] = &[
    "archive",
    "arena",
    "bufio",
    "bytes",
    "cmp",
    "compress",
    "container",
    "context",
    "crypto",
    "database",
    "debug",
    "embed",
    "encoding",
    "errors",
    "expvar",
    "flag",
    "fmt",
    "go",
    "hash",
    "html",
    "image",
    "index",
    "internal",
    "io",
    "iter",
    "log",
    "maps",
    "math",
    "mime",
    "net",
    "os",
    "path",
    "plugin",
    "reflect",
    "regexp",
    "runtime",
    "simd",
    "slices",
    "sort",
    "strconv",
    "strings",
    "structs",
    "sync",
    "syscall",
    "testing",
    "text",
    "time",
    "unicode",
    "unique",
    "unsafe",
    "vendor",
    "weak",
];

fn without_vendor(name: &str) -> &str {
    match name.rfind("/vendor/") {
        Some(i) => &name[i + "/vendor/".len()..],
        None => name.strip_prefix("vendor/").unwrap_or(name),
    }
}

fn is_closure_part(part: &str) -> bool {
    let head = part.split(['.', '-']).next().unwrap_or(part);
    let digits = ["func", "gowrap", "deferwrap"].iter().find_map(|p| head.strip_prefix(p)).unwrap_or(head);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_apart() {
        let cases = [
            ("main.main", "main", None, "main", "main"),
            ("main.f.func1.2", "main", None, "f.func1.2", "f"),
            (
                "k8s.io/kubernetes/pkg/kubelet/pleg.(*GenericPLEG).relist",
                "k8s.io/kubernetes/pkg/kubelet/pleg",
                Some("GenericPLEG"),
                "relist",
                "relist",
            ),
            (
                "gopkg.in/yaml%2ev2.(*Decoder).Decode.func3",
                "gopkg.in/yaml%2ev2",
                Some("Decoder"),
                "Decode.func3",
                "Decode",
            ),
            ("main.T.M", "main", Some("T"), "M", "M"),
            ("main.(*L[...]).push", "main", Some("L[...]"), "push", "push"),
            ("net/http.HandlerFunc.ServeHTTP", "net/http", Some("HandlerFunc"), "ServeHTTP", "ServeHTTP"),
            ("main.init.0", "main", None, "init.0", "init"),
            ("main.glob..func1", "main", None, "glob..func1", "glob."),
            ("panic", "", None, "panic", "panic"),
        ];
        for (full, package, receiver, rest, outer) in cases {
            let name = FunctionName::parse(full);
            assert_eq!(
                (name.package, name.receiver, name.rest, name.outer()),
                (package, receiver, rest, outer),
                "{full}"
            );
        }
        let vendored = FunctionName::parse("k8s.io/kubernetes/vendor/google.golang.org/grpc.(*Server).Serve");
        assert_eq!(vendored.without_vendor(), "google.golang.org/grpc.(*Server).Serve");
        assert_eq!(vendored.short(), "grpc.(*Server).Serve");
        assert!(FunctionName::parse("net/http.(*conn).serve").is_standard_library());
        assert!(!FunctionName::parse("main.main").is_standard_library());
        assert!(!FunctionName::parse("github.com/x/net.F").is_standard_library());
        assert!(STANDARD.is_sorted());
    }
}
