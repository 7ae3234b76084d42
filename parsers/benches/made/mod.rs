//! Makes the text of a dump like that of a node agent in trouble: thousands of goroutines in a few dozen stacks, of which
//! most wait for one lock, with addresses that differ from each to the next.

use std::fmt::Write;

/// Function with arguments, file, line.
type Call = (&'static str, &'static str, u32);

/// Stacks by state, the innermost frame first. `{a:x}` and `{b:x}` differ from goroutine to goroutine.
const STACKS: [(&str, &[Call]); 6] = [
    (
        "sync.Mutex.Lock",
        &[
            (
                "internal/sync.runtime_SemacquireMutex(0x{a:x}?, 0x{b:x}?, 0x0?)",
                "/usr/local/go/src/runtime/sema.go",
                95,
            ),
            ("internal/sync.(*Mutex).lockSlow(0xc000f3a1e8)", "/usr/local/go/src/internal/sync/mutex.go", 149),
            ("internal/sync.(*Mutex).Lock(...)", "/usr/local/go/src/internal/sync/mutex.go", 70),
            ("sync.(*Mutex).Lock(...)", "/usr/local/go/src/sync/mutex.go", 46),
            (
                "example.com/agent/pkg/pool.(*Pool).Allocate(0xc000f3a180, {0x{a:x}, 0x{b:x}}, 0xc000{b:x})",
                "/src/agent/pkg/pool/pool.go",
                312,
            ),
            (
                "example.com/agent/pkg/server.(*Service).AllocIP(0xc0004{a:x}, {0x22f5f38, 0xc0{a:x}}, 0xc000{b:x})",
                "/src/agent/pkg/server/service.go",
                188,
            ),
            (
                "example.com/agent/rpc._Backend_AllocIP_Handler.func1({0x22f5f38?, 0xc0{a:x}?}, {0x1cd1f40?, 0xc0{b:x}?})",
                "/src/agent/rpc/rpc.pb.go",
                1288,
            ),
            (
                "google.golang.org/grpc.(*Server).processUnaryRPC(0xc0001e21e0, {0x22f5f38, 0xc0{a:x}}, 0xc0{b:x}, 0xc0004f7a40)",
                "/go/pkg/mod/google.golang.org/grpc@v1.64.0/server.go",
                1379,
            ),
            (
                "google.golang.org/grpc.(*Server).handleStream(0xc0001e21e0, {0x22ffb80, 0xc000520000}, 0xc0{a:x})",
                "/go/pkg/mod/google.golang.org/grpc@v1.64.0/server.go",
                1790,
            ),
            (
                "google.golang.org/grpc.(*Server).serveStreams.func2.1()",
                "/go/pkg/mod/google.golang.org/grpc@v1.64.0/server.go",
                1029,
            ),
        ],
    ),
    (
        "IO wait",
        &[
            ("internal/poll.runtime_pollWait(0x7f8a{a:x}, 0x72)", "/usr/local/go/src/runtime/netpoll.go", 351),
            (
                "internal/poll.(*pollDesc).wait(0xc0{a:x}?, 0xc0{b:x}?, 0x0)",
                "/usr/local/go/src/internal/poll/fd_poll_runtime.go",
                84,
            ),
            ("internal/poll.(*pollDesc).waitRead(...)", "/usr/local/go/src/internal/poll/fd_poll_runtime.go", 89),
            (
                "internal/poll.(*FD).Read(0xc0{a:x}, {0xc0{b:x}, 0x8000, 0x8000})",
                "/usr/local/go/src/internal/poll/fd_unix.go",
                165,
            ),
            (
                "net.(*netFD).Read(0xc0{a:x}, {0xc0{b:x}?, 0x1060100000000?, 0x8?})",
                "/usr/local/go/src/net/fd_posix.go",
                55,
            ),
            (
                "net.(*conn).Read(0xc0{a:x}, {0xc0{b:x}?, 0x800010601?, 0xc000000000?})",
                "/usr/local/go/src/net/net.go",
                194,
            ),
            ("bufio.(*Reader).Read(0xc0{a:x}, {0xc0{b:x}, 0x9, 0xc0{a:x}?})", "/usr/local/go/src/bufio/bufio.go", 245),
            (
                "golang.org/x/net/http2.(*Framer).ReadFrame(0xc0{a:x})",
                "/go/pkg/mod/golang.org/x/net@v0.26.0/http2/frame.go",
                501,
            ),
        ],
    ),
    (
        "select",
        &[
            (
                "google.golang.org/grpc/internal/transport.(*controlBuffer).get(0xc0{a:x}, 0x1)",
                "/go/pkg/mod/google.golang.org/grpc@v1.64.0/internal/transport/controlbuf.go",
                418,
            ),
            (
                "google.golang.org/grpc/internal/transport.(*loopyWriter).run(0xc0{b:x})",
                "/go/pkg/mod/google.golang.org/grpc@v1.64.0/internal/transport/controlbuf.go",
                552,
            ),
            (
                "google.golang.org/grpc/internal/transport.NewServerTransport.func2()",
                "/go/pkg/mod/google.golang.org/grpc@v1.64.0/internal/transport/http2_server.go",
                335,
            ),
        ],
    ),
    (
        "chan receive",
        &[(
            "k8s.io/apimachinery/pkg/util/wait.(*Group).Wait(...)",
            "/go/pkg/mod/k8s.io/apimachinery@v0.30.0/pkg/util/wait/wait.go",
            35,
        )],
    ),
    (
        "sleep",
        &[
            ("time.Sleep(0x{b:x})", "/usr/local/go/src/runtime/time.go", 195),
            ("example.com/agent/pkg/gc.run(0xc0{a:x})", "/src/agent/pkg/gc/gc.go", 77),
        ],
    ),
    (
        "syscall",
        &[
            (
                "syscall.Syscall6(0x2d, 0x{b:x}, 0xc0{a:x}, 0x10000, 0x0, 0xc0{b:x}, 0xc0{a:x})",
                "/usr/local/go/src/syscall/syscall_linux.go",
                91,
            ),
            (
                "golang.org/x/sys/unix.recvfrom(0x9?, {0xc0{a:x}?, 0x1?, 0xc0{b:x}?}, 0x55?, 0x8?, 0x20?)",
                "/go/pkg/mod/golang.org/x/sys@v0.21.0/unix/zsyscall_linux.go",
                763,
            ),
            (
                "github.com/vishvananda/netlink/nl.(*NetlinkSocket).Receive(0xc0{b:x})",
                "/go/pkg/mod/github.com/vishvananda/netlink@v1.3.0/nl/nl_linux.go",
                805,
            ),
        ],
    ),
];

/// The text of a dump of `goroutines` goroutines, about 1.1 kB each.
pub fn dump(goroutines: u64) -> String {
    let mut text = String::from(
        "goroutine 7 [running]:\nmain.dumpStacks(0x1)\n\t/src/agent/main.go:88 +0x5c\ncreated by main.main in goroutine 1\n\t/src/agent/main.go:40 +0x1f1\n",
    );
    for id in 0..goroutines {
        // Nine of ten stand in the first two stacks; the rest varies.
        let stack = [0, 0, 0, 0, 0, 1, 1, 0, 2, 3 + (id / 10 % 3) as usize][(id % 10) as usize];
        let (state, frames) = STACKS[stack];
        let minutes = id % 97;
        let _ = match minutes {
            0 => writeln!(text, "\ngoroutine {} [{state}]:", 100 + id * 3),
            _ => writeln!(text, "\ngoroutine {} [{state}, {minutes} minutes]:", 100 + id * 3),
        };
        let (a, b) = (format!("{:x}", 0x1000_0000 + id * 0x1a0), format!("{:x}", 0x20_0000 + id * 0x88));
        for (function, file, line) in frames {
            let _ = writeln!(text, "{}", function.replace("{a:x}", &a).replace("{b:x}", &b));
            let offset = if function.ends_with("(...)") { "" } else { " +0x5e5" };
            let _ = writeln!(text, "\t{file}:{line}{offset}");
        }
        let _ = writeln!(
            text,
            "created by google.golang.org/grpc.(*Server).serveStreams.func{} in goroutine {}",
            2 + id % 4,
            70 + id % 50
        );
        let _ = writeln!(text, "\t/go/pkg/mod/google.golang.org/grpc@v1.64.0/server.go:1040 +0x125");
    }
    text
}
