//! What paths in a dump tell of its process: the version of Go and the architecture.

use crate::evidence::{FunctionName, Snapshot};

/// Sites that are looked at; the runtime's are among the first.
const SITES: usize = 2000;

/// Fills what the process hint does not know yet.
pub(super) fn fill(snapshot: &mut Snapshot, registers: Option<&'static str>) {
    let mut version = None;
    let mut arch = registers;
    for site in snapshot.sites.iter().take(SITES) {
        if version.is_some() && arch.is_some() {
            break;
        }
        let file = snapshot.names.get(site.file);
        if !FunctionName::parse(snapshot.names.get(site.func)).is_standard_library() {
            continue;
        }
        version = version.or_else(|| go_version(file));
        arch = arch.or_else(|| architecture(file));
    }
    let process = &mut snapshot.process;
    process.go_version = process.go_version.take().or(version);
    process.arch = process.arch.take().or(arch.map(str::to_owned));
}

/// The version in the path of the Go root: `/usr/lib/go-1.19/src/runtime/proc.go`, `/opt/go1.24.3/src/…`,
/// `/go/1.15.6/libexec/src/…`, `…/toolchain@v0.0.1-go1.22.5.linux-amd64/src/…`.
fn go_version(file: &str) -> Option<String> {
    let root = file.get(..file.find("/src/")?)?;
    root.rsplit(['/', '\\']).take(4).find_map(|element| {
        let digits = match element.rfind("go1.").map(|at| at + 2).or_else(|| element.rfind("go-1.").map(|at| at + 3)) {
            Some(at) => element.get(at..)?,
            None => element.strip_prefix('v').unwrap_or(element),
        };
        version(digits)
    })
}

/// `1.24.3`, perhaps followed by something else.
fn version(text: &str) -> Option<String> {
    let minor = text.strip_prefix("1.")?;
    let end = |s: &str| s.find(|c: char| !c.is_ascii_digit()).unwrap_or(s.len());
    let (minor, rest) = minor.split_at(end(minor));
    if minor.is_empty() || minor.len() > 3 {
        return None;
    }
    let patch = rest.strip_prefix('.').map(|p| p.split_at(end(p)).0).filter(|p| !p.is_empty());
    let suffix = match rest.get(..2) {
        Some("rc") => format!("rc{}", rest.get(2..2 + end(&rest[2..]))?),
        _ => patch.map(|p| format!(".{p}")).unwrap_or_default(),
    };
    Some(format!("go1.{minor}{suffix}"))
}

/// The architecture in the name of a file that is built for one only: `asm_amd64.s`, `zsyscall_linux_arm64.go`.
fn architecture(file: &str) -> Option<&'static str> {
    const KNOWN: [&str; 10] =
        ["amd64", "arm64", "386", "arm", "ppc64le", "ppc64", "s390x", "riscv64", "loong64", "mips64le"];
    let stem = file.rsplit(['/', '\\']).next()?.strip_suffix(".s").or_else(|| file.strip_suffix(".go"))?;
    let last = stem.rsplit('_').next()?;
    KNOWN.into_iter().find(|arch| *arch == last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_in_paths() {
        let cases = [
            ("/usr/lib/go-1.19/src/runtime/proc.go", Some("go1.19")),
            ("/Users/user/.bin/go1.24.3/src/runtime/time.go", Some("go1.24.3")),
            ("/usr/local/Cellar/go/1.15.6/libexec/src/runtime/netpoll.go", Some("go1.15.6")),
            ("/opt/gotc/1.27.3/go/src/runtime/proc.go", Some("go1.27.3")),
            ("/go/pkg/mod/golang.org/toolchain@v0.0.1-go1.22.5.linux-amd64/src/runtime/proc.go", Some("go1.22.5")),
            ("c:/go1.21rc2/src/runtime/proc.go", Some("go1.21rc2")),
            ("/usr/local/go/src/runtime/proc.go", None),
            ("runtime/proc.go", None),
        ];
        for (file, version) in cases {
            assert_eq!(go_version(file).as_deref(), version, "{file}");
        }
    }

    #[test]
    fn architectures_in_names() {
        assert_eq!(architecture("/go/src/runtime/asm_amd64.s"), Some("amd64"));
        assert_eq!(architecture("/go/src/syscall/zsyscall_linux_arm64.go"), Some("arm64"));
        assert_eq!(architecture("/go/src/runtime/proc.go"), None);
    }
}
