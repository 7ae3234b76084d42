//! Frames that say how a goroutine waits, not what it is about: the runtime, polled reads, buffering, TLS reads.
//!
//! The idle-by-design rules rest on this: a goroutine is idle in a loop only if nothing but plumbing stands between
//! the loop and the park. Locks, writes, and system calls other than reads are never plumbing, so that nobody who
//! waits for a lock, a full pipe, a file or a child process is ever called idle.

use holdup_parsers::evidence::FunctionName;

/// Whether a function is mere plumbing of an idle wait.
pub fn is_plumbing(name: &str) -> bool {
    let parsed = FunctionName::parse(name);
    let receiver = parsed.receiver.map(|r| r.split('[').next().unwrap_or(r));
    let outer = parsed.outer();
    match parsed.package_without_vendor() {
        "runtime" | "" => true,
        package if package.starts_with("runtime/internal/") || package.starts_with("internal/runtime/") => true,
        "internal/poll" => match receiver {
            Some("FD") => reads(outer) || outer.starts_with("Accept") || outer == "RawRead",
            Some("pollDesc") => !outer.ends_with("Write"),
            _ => outer == "runtime_pollWait" || outer.starts_with("ignoringEINTR"),
        },
        "net" => match receiver {
            Some("conn" | "TCPConn" | "UnixConn" | "UDPConn" | "IPConn" | "Buffers") => reads(outer),
            Some("netFD") => reads(outer) || outer == "accept",
            Some("TCPListener" | "UnixListener") => outer.starts_with("Accept") || outer == "accept",
            Some("pollDesc") => !outer.ends_with("Write"),
            // Before Go 1.9 the poller lived here.
            _ => outer == "runtime_pollWait",
        },
        "os" => receiver == Some("File") && reads(outer),
        "bufio" => matches!(receiver, Some("Reader" | "Scanner" | "ReadWriter")),
        "io" => !outer.contains("rite") || outer == "copyBuffer",
        "crypto/tls" => receiver != Some("Conn") || !(outer.contains("rite") || outer.contains("andshake")),
        "sync" => match receiver {
            Some("Cond" | "WaitGroup") => outer == "Wait",
            _ => {
                outer.starts_with("runtime_notifyList")
                    || outer == "runtime_Semacquire"
                    || outer == "runtime_SemacquireWaitGroup"
                    || outer == "runtime_Syncsemacquire"
            }
        },
        "time" => outer == "Sleep",
        "context" => true,
        "syscall" | "golang.org/x/sys/unix" | "internal/syscall/unix" => {
            let word = outer.trim_start_matches("raw").to_ascii_lowercase();
            word.starts_with("syscall")
                || word.starts_with("rawsyscall")
                || reads(outer)
                || ["recv", "epoll", "poll", "ppoll", "select", "pselect", "accept", "runtime_"]
                    .iter()
                    .any(|p| word.starts_with(p))
        }
        "encoding/json" => matches!(receiver, Some("Decoder")),
        "encoding/binary" => outer == "Read",
        "net/textproto" => true,
        _ => false,
    }
}

fn reads(function: &str) -> bool {
    function.starts_with("Read") || function.starts_with("read")
}

#[cfg(test)]
mod tests {
    use super::is_plumbing;

    #[test]
    fn reads_and_parks_are_plumbing_locks_writes_and_files_are_not() {
        for plain in [
            "runtime.gopark",
            "internal/poll.runtime_pollWait",
            "internal/poll.(*pollDesc).waitRead",
            "internal/poll.(*FD).Read",
            "net.(*conn).Read",
            "bufio.(*Reader).fill",
            "crypto/tls.(*Conn).Read",
            "crypto/tls.(*atLeastReader).Read",
            "sync.(*Cond).Wait",
            "io.ReadFull",
            "syscall.Syscall6",
            "golang.org/x/sys/unix.EpollWait",
            "time.Sleep",
        ] {
            assert!(is_plumbing(plain), "{plain}");
        }
        for telling in [
            "sync.(*Mutex).Lock",
            "sync.(*Mutex).lockSlow",
            "internal/sync.(*Mutex).lockSlow",
            "sync.runtime_SemacquireMutex",
            "sync.runtime_SemacquireRWMutexR",
            "sync.(*RWMutex).RLock",
            "sync.(*Once).doSlow",
            "internal/poll.(*FD).Write",
            "internal/poll.(*pollDesc).waitWrite",
            "internal/poll.(*fdMutex).rwlock",
            "net.(*conn).Write",
            "syscall.openat",
            "syscall.wait4",
            "syscall.fstat",
            "os.(*File).Write",
            "os.Stat",
            "io.WriteString",
            "net/http.(*persistConn).roundTrip",
            "main.main",
        ] {
            assert!(!is_plumbing(telling), "{telling}");
        }
    }
}
