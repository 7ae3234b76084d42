//! Whether a function stands in the file that is printed below it.
//!
//! Where lines were lost, a function may meet the file line of another. Such a frame is no evidence for anything, and it
//! can be told: a package's files lie in a folder named after it.

use crate::evidence::FunctionName;

/// Whether `function` may stand in `file`. Says yes wherever there is doubt.
pub(super) fn fits(function: &str, file: &str) -> bool {
    let name = FunctionName::parse(function);
    let package = name.package_without_vendor();
    if file == "_cgo_gotypes.go" {
        return function.contains("._C") || function.starts_with("_cgo") || function.contains("._cgo");
    }
    let Some((folder, _)) = file.rsplit_once(['/', '\\']) else { return true };
    if package.is_empty() || package == "main" || package.contains(['(', '[', '{', '%']) || folder.contains("_cgo") {
        return true;
    }
    // The runtime implements functions of other packages: sync.runtime_Semacquire, time.Sleep.
    let in_runtime = folder == "runtime" || folder.ends_with("/src/runtime") || folder.contains("/src/runtime/");
    if in_runtime {
        return name.is_standard_library() || name.rest.starts_with("runtime_");
    }
    let last = package.rsplit('/').next().unwrap_or(package);
    if !name.is_standard_library() {
        // Module paths end in versions, modules lie in folders with versions, and builds are told to rename both.
        return !is_runtime_or_sync(folder);
    }
    // Linked by name: assembler of strings and bytes, maps of the runtime, testing/synctest in testing.
    let first = package.split('/').next().unwrap_or(package);
    let is_linked = folder.ends_with("internal/bytealg") || folder.contains("internal/runtime/");
    if is_linked || folder == first || folder.ends_with(&format!("/src/{first}")) {
        return true;
    }
    folder == package || folder.ends_with(&format!("/{package}")) || folder.ends_with(&format!("/{last}"))
}

/// Whether a folder is that of a package of which nearly every stack has frames; no other package's function is there.
fn is_runtime_or_sync(folder: &str) -> bool {
    ["/src/sync", "/src/internal/sync", "/src/internal/poll", "/src/syscall", "/src/net/http"]
        .iter()
        .any(|std| folder.ends_with(std) && !folder.contains("/vendor/") && !folder.contains("/pkg/mod/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_and_their_files() {
        for (function, file) in [
            ("sync.runtime_SemacquireMutex", "/usr/local/go/src/runtime/sema.go"),
            ("internal/sync.(*Mutex).lockSlow", "/usr/go/src/internal/sync/mutex.go"),
            ("net/http.(*conn).serve", "net/http/server.go"),
            ("main.main", "/go/src/example.com/zoo/main.go"),
            ("k8s.io/kubernetes/vendor/k8s.io/x/wait.Until", "vendor/k8s.io/x/wait/wait.go"),
            ("github.com/a/b/v2.(*T).M", "/go/pkg/mod/github.com/a/b/v2@v2.1.0/t.go"),
            ("panic", "/usr/local/go/src/runtime/panic.go"),
            ("main.main", "_testmain.go"),
            ("runtime.mapassign_faststr", "/usr/go/src/internal/runtime/maps/runtime_faststr_swiss.go"),
            ("testing/synctest.testingSynctestTest", "/usr/go/src/testing/testing.go"),
            ("gvisor.dev/gvisor/pkg/sync.(*RWMutex).RLock", "pkg/sync/rwmutex_unsafe.go"),
        ] {
            assert!(fits(function, file), "{function} in {file}");
        }
        for (function, file) in [
            ("internal/sync.(*Mutex).lockSlow", "/go/src/example.com/zoo/locks.go"),
            ("github.com/a/b.(*T).M", "/usr/local/go/src/sync/mutex.go"),
            ("github.com/a/b.(*T).M", "/usr/local/go/src/runtime/sema.go"),
            ("os.(*File).Read", "/usr/go/src/internal/poll/fd_unix.go"),
        ] {
            assert!(!fits(function, file), "{function} in {file}");
        }
    }
}
