//! Made incidents for the tests of the report writers: the diagnosis that a good analysis would give, and the files
//! behind it. Terms and proportions follow the incidents that the design describes.

use holdup_analysis::diagnosis::*;
use holdup_parsers::evidence::{self, Evidence as Found};
use std::fmt::Write;

/// A diagnosis and the evidence that it points into.
pub struct Sample {
    pub diagnosis: Diagnosis,
    pub evidence: Found,
}

/// A dump as `runtime.Stack` prints it, with the lines at which its goroutines start.
#[derive(Default)]
pub struct Dump {
    pub text: String,
    line: u32,
}

impl Dump {
    /// Adds a goroutine; gives back the line of its header.
    pub fn goroutine(&mut self, id: u64, state: &str, frames: &[(&str, &str)], created: (&str, &str)) -> u32 {
        let start = self.line + 1;
        let mut text = format!("goroutine {id} [{state}]:\n");
        for (function, file) in frames {
            let _ = writeln!(text, "{function}\n\t{file}");
        }
        if !created.0.is_empty() {
            let _ = writeln!(text, "created by {}\n\t{}", created.0, created.1);
        }
        text.push('\n');
        self.line += text.matches('\n').count() as u32;
        self.text.push_str(&text);
        start
    }
}

/// Evidence that only has texts; the goroutines are read by the real parser.
pub fn read(files: &[(&str, &str)]) -> Found {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("samples-{}", std::process::id()));
    let folder = folder.join(format!("{:?}", std::thread::current().id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let paths: Vec<_> = files
        .iter()
        .map(|(name, text)| {
            let path = folder.join(name);
            std::fs::write(&path, text).expect("written");
            path
        })
        .collect();
    let (mut found, unreadable) = holdup_parsers::read(&paths, &Default::default());
    assert!(unreadable.is_empty(), "{unreadable:?}");
    for (input, (name, text)) in found.inputs.iter_mut().zip(files) {
        input.path = (*name).to_owned();
        input.raw = evidence::Text::from_vec(text.as_bytes().to_vec());
    }
    let _ = std::fs::remove_dir_all(&folder);
    found
}

pub fn node(kind: &str, snapshot: Option<&str>, id: impl Into<Id>, label: &str) -> Node {
    Node { kind: kind.into(), snapshot: snapshot.map(Into::into), id: id.into().0, label: label.into() }
}

pub struct Id(NodeId);
impl From<u64> for Id {
    fn from(id: u64) -> Id {
        Id(NodeId::Number(id))
    }
}
impl From<&str> for Id {
    fn from(id: &str) -> Id {
        Id(NodeId::Name(id.into()))
    }
}

fn reason(kind: &str, text: &str, input: usize, lines: (u32, u32), against: bool) -> Evidence {
    let source = Source { input, line_start: Some(lines.0), line_end: Some(lines.1), address: None };
    Evidence { kind: kind.into(), text: text.into(), source: Some(source), against }
}

fn edge(from: &Node, to: &Node, why: &str, trust: Trust, evidence: Vec<Evidence>) -> Edge {
    Edge { from: from.clone(), to: to.clone(), why: why.into(), trust, evidence }
}

fn snapshot(
    id: &str,
    input: usize,
    name: &str,
    role: &str,
    pid: u32,
    goroutines: u64,
    states: &[(&str, u64)],
) -> Snapshot {
    Snapshot {
        id: id.into(),
        input,
        process: Process {
            name: Some(name.into()),
            role: role.into(),
            pid: Some(pid),
            go_version: Some("go1.19.8".into()),
            build_id: None,
        },
        taken_at: Some("2023-04-18T03:12:45Z".into()),
        complete: true,
        goroutines,
        threads: None,
        states: states.iter().map(|(s, n)| ((*s).to_owned(), *n)).collect(),
        notices: Vec::new(),
    }
}

fn input(path: &str, kind: &str, bytes: usize, snapshots: &[&str]) -> Input {
    Input {
        path: path.into(),
        kind: kind.into(),
        envelopes: Vec::new(),
        bytes: bytes as u64,
        snapshots: snapshots.iter().map(|s| (*s).to_owned()).collect(),
        problems: Vec::new(),
    }
}

fn frame(function: &str, file: &str, line: u32, standard: bool, interesting: bool) -> GroupFrame {
    GroupFrame { function: function.into(), file: file.into(), line, standard, interesting }
}

fn remedy(kind: &str, text: &str) -> Remedy {
    Remedy { kind: kind.into(), text: text.into(), risk: None }
}

fn base(kind: VerdictKind, trust: Trust, summary: &str, since: Option<u32>) -> Diagnosis {
    Diagnosis {
        schema_version: "1".into(),
        tool: Tool { name: "holdup".into(), version: "0.1.0".into() },
        verdict: Verdict { kind, summary: summary.into(), trust, since_minutes: since },
        ..Diagnosis::default()
    }
}

const ENI: &str = "terway/daemon/eni.go";
const DAEMON: &str = "terway/daemon/daemon.go";

/// The node of the design's terway example, with `waiters` goroutines behind the lock.
pub fn terway(waiters: u64) -> Sample {
    let mut terwayd = Dump::default();
    let grpc =
        ("google.golang.org/grpc.(*Server).serveStreams.func1.1", "vendor/google.golang.org/grpc/server.go:913 +0x99");
    let mut waiter_list = Vec::new();
    let holder_line = terwayd.goroutine(
        34,
        "syscall, 8 minutes",
        &[
            ("syscall.Syscall6(0x2d, 0x9, 0xc000d2a000, 0x1000, 0x0, 0xc000a3e1a8, 0xc000a3e19c)", "/usr/local/go/src/syscall/asm_linux_amd64.s:41 +0x5"),
            ("syscall.recvfrom(0x9, {0xc000d2a000?, 0x1000, 0x1000}, 0x0, 0xc000a3e1a8, 0xc000a3e19c)", "/usr/local/go/src/syscall/zsyscall_linux_amd64.go:1412 +0x7a"),
            ("github.com/vishvananda/netlink/nl.(*NetlinkSocket).Receive(0xc0004a8d20)", "vendor/github.com/vishvananda/netlink/nl/nl_linux.go:645 +0xa5"),
            ("github.com/vishvananda/netlink/nl.(*NetlinkRequest).Execute(0xc000eb2340, 0x0, 0x10)", "vendor/github.com/vishvananda/netlink/nl/nl_linux.go:476 +0x2f8"),
            ("github.com/vishvananda/netlink.(*Handle).LinkByName(0xc00011a0f0?, {0xc000b1c2d0, 0x4})", "vendor/github.com/vishvananda/netlink/link_linux.go:1540 +0x2b5"),
            ("github.com/AliyunContainerService/terway/daemon.(*eniManager).setup(0xc0000ccec0?, 0xc0009e8210)", "terway/daemon/eni.go:118 +0x91"),
            ("github.com/AliyunContainerService/terway/daemon.(*networkService).ReleaseIP(0xc00020e000?, {0x1bd1d80, 0xc000bf4e70}, 0xc000d54500)", "terway/daemon/daemon.go:212 +0x41d"),
            ("github.com/AliyunContainerService/terway/rpc._TerwayBackend_ReleaseIP_Handler({0x17f5ba0?, 0xc00020e000}, {0x1bd1d80, 0xc000bf4e70}, 0xc000a2a120, 0x0)", "terway/rpc/rpc.pb.go:1207 +0x170"),
        ],
        grpc,
    );
    for i in 0..waiters {
        let id = 1200 + 3 * i;
        let minutes = 7 - 6 * i / waiters.max(1);
        let state = if minutes > 1 { format!("semacquire, {minutes} minutes") } else { "semacquire".to_owned() };
        let request = format!("0xc000{:06x}", 0x900000 + i * 0x140);
        let context = format!("0xc0{:08x}", 0x10ab_0000u64 + i * 0x1e0);
        terwayd.goroutine(
            id,
            &state,
            &[
                ("sync.runtime_SemacquireMutex(0xc0000ccec4, 0x0, 0x1)", "/usr/local/go/src/runtime/sema.go:77 +0x26"),
                ("sync.(*Mutex).lockSlow(0xc0000ccec0)", "/usr/local/go/src/sync/mutex.go:171 +0x165"),
                ("sync.(*Mutex).Lock(...)", "/usr/local/go/src/sync/mutex.go:90"),
                (&format!("github.com/AliyunContainerService/terway/daemon.(*networkService).ReleaseIP(0xc00020e000?, {{0x1bd1d80, {context}}}, {request})"), "terway/daemon/daemon.go:198 +0x1c5"),
                (&format!("github.com/AliyunContainerService/terway/rpc._TerwayBackend_ReleaseIP_Handler({{0x17f5ba0?, 0xc00020e000}}, {{0x1bd1d80, {context}}}, 0xc000a2a120, 0x0)"), "terway/rpc/rpc.pb.go:1207 +0x170"),
            ],
            grpc,
        );
        waiter_list.push(Waiter {
            goroutine: Some(id),
            thread: None,
            mode: "lock".into(),
            minutes: (minutes > 1).then_some(minutes as u32),
        });
    }
    let idle_line = terwayd.goroutine(
        1,
        "chan receive, 9 minutes",
        &[("main.main()", "terway/cmd/terwayd/main.go:61 +0x2d1")],
        ("", ""),
    );
    let mut kubelet = Dump::default();
    let pleg_line = kubelet.goroutine(
        512,
        "select, 7 minutes",
        &[
            ("google.golang.org/grpc/internal/transport.(*Stream).waitOnHeader(0xc001eafe60)", "vendor/google.golang.org/grpc/internal/transport/transport.go:324 +0x7c"),
            ("google.golang.org/grpc.(*ClientConn).Invoke(0xc000c1a000, {0x4d55a18, 0xc0024b60c0}, {0x4540b2c, 0x2f}, {0x40d8020, 0xc0015ba060})", "vendor/google.golang.org/grpc/call.go:37 +0x265"),
            ("k8s.io/cri-api/pkg/apis/runtime/v1.(*runtimeServiceClient).StopPodSandbox(0xc0007961e8, {0x4d55a18, 0xc0024b60c0}, 0xc0015ba040)", "vendor/k8s.io/cri-api/pkg/apis/runtime/v1/api.pb.go:8901 +0xc9"),
            ("k8s.io/kubernetes/pkg/kubelet.(*podWorkers).managePodLoop(0xc000aa6000, 0xc0014e2000)", "pkg/kubelet/pod_workers.go:917 +0x2a5"),
        ],
        ("k8s.io/kubernetes/pkg/kubelet.(*podWorkers).UpdatePod", "pkg/kubelet/pod_workers.go:744 +0x87d"),
    );
    let mut containerd = Dump::default();
    let exec_line = containerd.goroutine(
        606,
        "semacquire, 7 minutes",
        &[
            ("os.(*Process).blockUntilWaitable(0xc001a42000)", "/usr/local/go/src/os/wait_waitid.go:32 +0x87"),
            ("os/exec.(*Cmd).Wait(0xc0010f22c0)", "/usr/local/go/src/os/exec/exec.go:599 +0x4d"),
            ("github.com/containernetworking/cni/pkg/invoke.(*RawExec).ExecPlugin(0xc0009f5bc0, {0x55ebc8, 0xc00147e4b0}, {0xc001b30018, 0x13}, {0xc0018b4000, 0x2a1, 0x300}, {0xc001bc6000, 0x33, 0x40})", "vendor/github.com/containernetworking/cni/pkg/invoke/raw_exec.go:51 +0x2c5"),
        ],
        ("github.com/containerd/containerd/pkg/cri/server.(*criService).StopPodSandbox", "pkg/cri/server/sandbox_stop.go:34 +0x1f0"),
    );
    let stack = "PID 14117 TID 14130 terwayd S\n[<0>] __skb_wait_for_more_packets+0x119/0x150\n[<0>] __skb_recv_udp+0x0/0x1\n[<0>] netlink_recvmsg+0x5c/0x430\n[<0>] sock_recvmsg+0x65/0x70\n[<0>] __sys_recvfrom+0xf6/0x160\n";
    let files = [
        ("terwayd-pprof.txt", terwayd.text.as_str()),
        ("kubelet-stack.txt", kubelet.text.as_str()),
        ("containerd-stack.txt", containerd.text.as_str()),
        ("proc-14117-stack.txt", stack),
    ];
    let evidence = read(&files);

    let g = |snapshot: &'static str, id: u64, label: &str| node("goroutine", Some(snapshot), id, label);
    let worker = g("s2", 512, "StopPodSandbox → containerd");
    let exec = g("s3", 606, "waits for the process terway DEL, pid 17661");
    let plugin = node("process", None, 17661, "terway 17661 ReleaseIP → terwayd (unix socket)");
    let waiter = g("s1", 1200, "ReleaseIP");
    let lock = node("lock", Some("s1"), "s1/l1", "ENI.lock 0xc0000ccec0");
    let holder = g("s1", 34, "nl.(*NetlinkSocket).Receive");
    let kernel = node("thread", None, 14130, "netlink_recvmsg ← __skb_wait_for_more_packets");
    let last = files[0].1.lines().count() as u32;
    let mut d =
        base(VerdictKind::Hang, Trust::Strong, "terwayd holds ENI.lock while a netlink request never returns", Some(8));
    d.inputs = files
        .iter()
        .zip([&["s1"][..], &["s2"], &["s3"], &[]])
        .zip(["goroutine-dump", "goroutine-dump", "goroutine-dump", "kernel-stack"])
        .map(|(((path, text), s), kind)| input(path, kind, text.len(), s))
        .collect();
    d.inputs[1].envelopes = vec!["gzip".into(), "journald-short".into()];
    d.inputs[1].problems = vec![
        Problem {
            severity: "warning".into(),
            line: Some(11),
            message: "cut in the middle of a goroutine: the journal's rate limit dropped what follows".into(),
        },
        Problem {
            severity: "note".into(),
            line: None,
            message: "two messages of another process between the lines were left out".into(),
        },
    ];
    d.snapshots = vec![
        snapshot(
            "s1",
            0,
            "terwayd",
            "terwayd",
            14117,
            waiters + 2,
            &[("semacquire", waiters), ("syscall", 1), ("chan receive", 1)],
        ),
        snapshot("s2", 1, "kubelet", "kubelet", 14371, 1, &[("select", 1)]),
        snapshot("s3", 2, "containerd", "containerd", 14118, 1, &[("semacquire", 1)]),
    ];
    d.snapshots[1].complete = false;
    let holder_evidence = vec![
        reason(
            "later-line",
            &format!("stands behind the Lock of its function (daemon.go:212; {} others stop at :198)", waiters - 1),
            0,
            (holder_line + 13, holder_line + 14),
            false,
        ),
        reason(
            "oldest-waiter",
            "blocked longest in this process: 8 min, the next 7",
            0,
            (holder_line, holder_line),
            false,
        ),
        reason("exclusion", "thread 14130 sits in the same system call", 3, (1, 6), false),
        reason(
            "pointer",
            "its receiver is printed with '?', so the pointer says nothing",
            0,
            (holder_line + 13, holder_line + 13),
            true,
        ),
    ];
    d.locks = vec![
        Lock {
            id: "s1/l1".into(),
            snapshot: "s1".into(),
            address: Some("0xc0000ccec0".into()),
            address_of: "lock".into(),
            kind: "mutex".into(),
            type_: Some("terway/daemon.ENI.lock".into()),
            waiter_count: waiters,
            oldest_wait_minutes: Some(7),
            waiters: waiter_list.clone(),
            holder: Some(Holder {
                goroutine: Some(34),
                thread: None,
                mode: "lock".into(),
                trust: Trust::Strong,
                evidence: holder_evidence.clone(),
            }),
            holder_status: HolderStatus::Named,
            candidates: vec![Holder {
                goroutine: Some(1),
                thread: None,
                mode: "lock".into(),
                trust: Trust::Guess,
                evidence: vec![reason(
                    "time",
                    "blocked for 9 min, but idle by design",
                    0,
                    (idle_line, idle_line),
                    true,
                )],
            }],
            ..Lock::default()
        },
        Lock {
            id: "s1/l2".into(),
            snapshot: "s1".into(),
            kind: "channel".into(),
            address: Some("0xc00007e0c0".into()),
            address_of: "lock".into(),
            waiter_count: 1,
            oldest_wait_minutes: Some(9),
            waiters: vec![Waiter { goroutine: Some(1), thread: None, mode: "receive".into(), minutes: Some(9) }],
            holder_status: HolderStatus::NotApplicable,
            ..Lock::default()
        },
    ];
    d.edges = vec![
        edge(
            &worker,
            &exec,
            "rpc",
            Trust::Strong,
            vec![reason(
                "rpc",
                "the client of StopPodSandbox; containerd has as many handlers as kubelet has calls",
                1,
                (pleg_line, pleg_line + 6),
                false,
            )],
        ),
        edge(
            &exec,
            &plugin,
            "exec",
            Trust::Strong,
            vec![reason("frame", "os/exec.(*Cmd).Wait under ExecPlugin", 2, (exec_line, exec_line + 6), false)],
        ),
        edge(&plugin, &lock, "rpc", Trust::Likely, vec![]),
        edge(&lock, &holder, "lock", Trust::Strong, holder_evidence.clone()),
        edge(
            &holder,
            &kernel,
            "syscall",
            Trust::Strong,
            vec![reason("frame", "the only thread of terwayd in recvfrom", 3, (1, 6), false)],
        ),
    ];
    for waiter in &waiter_list {
        d.edges.push(edge(&g("s1", waiter.goroutine.unwrap_or(0), "ReleaseIP"), &lock, "lock", Trust::Proven, vec![]));
    }
    d.findings = vec![
        Finding {
            rank: 1,
            kind: "held-in-syscall".into(),
            title: "terwayd holds ENI.lock while a netlink request never returns".into(),
            explanation: "Goroutine 34 of terwayd took ENI.lock in ReleaseIP and asks the kernel for a link by name. The answer never comes, and netlink sockets of this version have no receive timeout, so every later ReleaseIP queues up behind the lock, and with it every CNI DEL, every StopPodSandbox and kubelet's pod workers.".into(),
            root: Root { node: holder.clone(), function: Some("syscall.recvfrom".into()), blocked_in: Some("recvfrom on a netlink socket".into()), minutes: Some(8) },
            chain: vec![worker.clone(), exec.clone(), plugin, waiter, lock.clone(), holder.clone(), kernel],
            blocked: Blocked { goroutines: waiters + 2, processes: 4 },
            trust: Trust::Strong,
            evidence: holder_evidence,
            known_issue: Some(KnownIssue {
                id: "NET-01".into(),
                title: "netlink receive without a timeout".into(),
                references: vec!["https://github.com/vishvananda/netlink/issues/254".into()],
                fixed_in: Some("netlink 1.1.0 (#170)".into()),
            }),
            remedies: vec![
                remedy("do", "take a core of terwayd (gcore 14117), then restart terwayd alone: pods keep running."),
                remedy("dont", "restart kubelet or containerd: they only wait."),
                remedy("prevent", "set a socket timeout on netlink handles."),
            ],
        },
        Finding {
            rank: 2,
            kind: "leak".into(),
            title: "containerd starts a CNI plugin for every retry of kubelet".into(),
            explanation: "131 plugin processes exist for 12 sandboxes.".into(),
            root: Root { node: exec, function: Some("os/exec.(*Cmd).Wait".into()), blocked_in: None, minutes: Some(7) },
            blocked: Blocked { goroutines: 131, processes: 2 },
            trust: Trust::Likely,
            ..Finding::default()
        },
    ];
    d.timeline = vec![
        Moment {
            minutes_before_dump: Some(8),
            at: Some("2023-04-18T03:04:45Z".into()),
            text: "goroutine 34 of terwayd stops in recvfrom".into(),
            node: Some(holder),
        },
        Moment {
            minutes_before_dump: Some(7),
            at: None,
            text: "the first waiter queues up for ENI.lock".into(),
            node: Some(lock),
        },
        Moment {
            minutes_before_dump: Some(7),
            at: None,
            text: "kubelet's pod worker waits for StopPodSandbox".into(),
            node: Some(worker),
        },
    ];
    let pprof = "google.golang.org/grpc.(*Server).serveStreams.func1.1";
    let group = |id: &str,
                 signature: &str,
                 state: &str,
                 minutes: (Option<u32>, Option<u32>),
                 ids: Vec<u64>,
                 frames: Vec<GroupFrame>| Group {
        snapshot: id.into(),
        signature: signature.into(),
        count: ids.len() as u64,
        state: state.into(),
        minutes: MinuteRange { min: minutes.0, max: minutes.1 },
        goroutines: ids,
        frames,
        created_by: Some(pprof.into()),
        idle: None,
    };
    let service = "github.com/AliyunContainerService/terway/daemon.(*networkService).ReleaseIP";
    d.groups = vec![
        group(
            "s1",
            "5f1c",
            "syscall",
            (Some(8), Some(8)),
            vec![34],
            vec![
                frame("syscall.Syscall6", "/usr/local/go/src/syscall/asm_linux_amd64.s", 41, true, false),
                frame("syscall.recvfrom", "/usr/local/go/src/syscall/zsyscall_linux_amd64.go", 1412, true, false),
                frame(
                    "github.com/vishvananda/netlink/nl.(*NetlinkSocket).Receive",
                    "vendor/github.com/vishvananda/netlink/nl/nl_linux.go",
                    645,
                    false,
                    true,
                ),
                frame(
                    "github.com/vishvananda/netlink/nl.(*NetlinkRequest).Execute",
                    "vendor/github.com/vishvananda/netlink/nl/nl_linux.go",
                    476,
                    false,
                    false,
                ),
                frame(
                    "github.com/vishvananda/netlink.(*Handle).LinkByName",
                    "vendor/github.com/vishvananda/netlink/link_linux.go",
                    1540,
                    false,
                    false,
                ),
                frame("github.com/AliyunContainerService/terway/daemon.(*eniManager).setup", ENI, 118, false, false),
                frame(service, DAEMON, 212, false, false),
                frame(
                    "github.com/AliyunContainerService/terway/rpc._TerwayBackend_ReleaseIP_Handler",
                    "terway/rpc/rpc.pb.go",
                    1207,
                    false,
                    false,
                ),
            ],
        ),
        group(
            "s1",
            "9a02",
            "semacquire",
            (None, Some(7)),
            waiter_list.iter().filter_map(|w| w.goroutine).collect(),
            vec![
                frame("sync.runtime_SemacquireMutex", "/usr/local/go/src/runtime/sema.go", 77, true, false),
                frame("sync.(*Mutex).lockSlow", "/usr/local/go/src/sync/mutex.go", 171, true, false),
                frame("sync.(*Mutex).Lock", "/usr/local/go/src/sync/mutex.go", 90, true, false),
                frame(service, DAEMON, 198, false, true),
                frame(
                    "github.com/AliyunContainerService/terway/rpc._TerwayBackend_ReleaseIP_Handler",
                    "terway/rpc/rpc.pb.go",
                    1207,
                    false,
                    false,
                ),
            ],
        ),
        Group {
            idle: Some("main waits for the end".into()),
            created_by: None,
            ..group(
                "s1",
                "11aa",
                "chan receive",
                (Some(9), Some(9)),
                vec![1],
                vec![frame("main.main", "terway/cmd/terwayd/main.go", 61, false, true)],
            )
        },
        group(
            "s2",
            "77bc",
            "select",
            (Some(7), Some(7)),
            vec![512],
            vec![
                frame(
                    "google.golang.org/grpc/internal/transport.(*Stream).waitOnHeader",
                    "vendor/google.golang.org/grpc/internal/transport/transport.go",
                    324,
                    false,
                    false,
                ),
                frame(
                    "google.golang.org/grpc.(*ClientConn).Invoke",
                    "vendor/google.golang.org/grpc/call.go",
                    37,
                    false,
                    false,
                ),
                frame(
                    "k8s.io/cri-api/pkg/apis/runtime/v1.(*runtimeServiceClient).StopPodSandbox",
                    "vendor/k8s.io/cri-api/pkg/apis/runtime/v1/api.pb.go",
                    8901,
                    false,
                    true,
                ),
                frame(
                    "k8s.io/kubernetes/pkg/kubelet.(*podWorkers).managePodLoop",
                    "pkg/kubelet/pod_workers.go",
                    917,
                    false,
                    false,
                ),
            ],
        ),
        group(
            "s3",
            "c3d1",
            "semacquire",
            (Some(7), Some(7)),
            vec![606],
            vec![
                frame("os.(*Process).blockUntilWaitable", "/usr/local/go/src/os/wait_waitid.go", 32, true, false),
                frame("os/exec.(*Cmd).Wait", "/usr/local/go/src/os/exec/exec.go", 599, true, false),
                frame(
                    "github.com/containernetworking/cni/pkg/invoke.(*RawExec).ExecPlugin",
                    "vendor/github.com/containernetworking/cni/pkg/invoke/raw_exec.go",
                    51,
                    false,
                    true,
                ),
            ],
        ),
    ];
    d.subjects = vec![Subject {
        kind: "pod".into(),
        name: Some("kube-system/coredns-7d8f".into()),
        id: Some("5c1f0b2e".into()),
        why: "its sandbox is the first that could not be stopped".into(),
    }];
    d.missing = vec![Missing {
        what: "a core of terwayd".into(),
        why: "proves the holder by its pending Unlock".into(),
        command: Some("holdup collect --core terwayd".into()),
    }];
    d.idle = vec![Idle { snapshot: "s1".into(), reason: "main waits for the end".into(), goroutines: 1 }];
    assert!(last > 10);
    Sample { diagnosis: d, evidence }
}

/// Two goroutines that took two locks in opposite order.
pub fn cycle() -> Sample {
    let mut dump = Dump::default();
    for (id, lock, line) in [(18, "0xc0000140a0", 31), (19, "0xc0000140a8", 44)] {
        dump.goroutine(
            id,
            "sync.Mutex.Lock, 12 minutes",
            &[
                (
                    &format!("sync.runtime_SemacquireMutex({}, 0x0, 0x1)", lock),
                    "/usr/local/go/src/runtime/sema.go:95 +0x25",
                ),
                (&format!("sync.(*Mutex).lockSlow({lock})"), "/usr/local/go/src/sync/mutex.go:173 +0x15d"),
                ("sync.(*Mutex).Lock(...)", "/usr/local/go/src/sync/mutex.go:92"),
                ("main.(*Store).Move(0xc000014090, 0x1)", &format!("/src/store.go:{line} +0x6c")),
            ],
            ("main.main in goroutine 1", "/src/main.go:20 +0x9c"),
        );
    }
    let evidence = read(&[("store.txt", &dump.text)]);
    let mut d = base(
        VerdictKind::Deadlock,
        Trust::Proven,
        "goroutines 18 and 19 of store hold Store.a and Store.b and wait for each other's",
        Some(12),
    );
    d.inputs = vec![input("store.txt", "goroutine-dump", dump.text.len(), &["s1"])];
    d.snapshots = vec![snapshot("s1", 0, "store", "unknown", 4711, 2, &[("sync.Mutex.Lock", 2)])];
    let g = |id: u64| node("goroutine", Some("s1"), id, &format!("goroutine {id}"));
    let a = node("lock", Some("s1"), "s1/l1", "Store.a 0xc0000140a0");
    let b = node("lock", Some("s1"), "s1/l2", "Store.b 0xc0000140a8");
    let held = |id: u64, line: u32| Holder {
        goroutine: Some(id),
        thread: None,
        mode: "lock".into(),
        trust: Trust::Proven,
        evidence: vec![reason(
            "later-line",
            "took its lock in an earlier frame and waits further on",
            0,
            (line, line + 8),
            false,
        )],
    };
    let lock = |id: &str, address: &str, type_: &str, waiter: u64, holder: Holder| Lock {
        id: id.into(),
        snapshot: "s1".into(),
        address: Some(address.into()),
        address_of: "lock".into(),
        kind: "mutex".into(),
        type_: Some(type_.into()),
        waiter_count: 1,
        oldest_wait_minutes: Some(12),
        waiters: vec![Waiter { goroutine: Some(waiter), thread: None, mode: "lock".into(), minutes: Some(12) }],
        holder: Some(holder),
        holder_status: HolderStatus::Named,
        candidates: vec![],
        ..Lock::default()
    };
    d.locks = vec![
        lock("s1/l1", "0xc0000140a0", "main.Store.a", 18, held(19, 12)),
        lock("s1/l2", "0xc0000140a8", "main.Store.b", 19, held(18, 1)),
    ];
    d.edges = vec![
        edge(&g(18), &a, "lock", Trust::Proven, vec![]),
        edge(
            &a,
            &g(19),
            "lock",
            Trust::Proven,
            vec![reason("later-line", "took it at store.go:29 and is past that line", 0, (12, 20), false)],
        ),
        edge(&g(19), &b, "lock", Trust::Proven, vec![]),
        edge(
            &b,
            &g(18),
            "lock",
            Trust::Proven,
            vec![reason("later-line", "took it at store.go:42 and is past that line", 0, (1, 9), false)],
        ),
    ];
    d.findings = vec![Finding {
        rank: 1,
        kind: "deadlock-lock-order".into(),
        title: "goroutines 18 and 19 took Store.a and Store.b in opposite order".into(),
        explanation: "Neither can go on until the other does.".into(),
        root: Root { node: g(18), function: Some("main.(*Store).Move".into()), blocked_in: None, minutes: Some(12) },
        chain: vec![g(18), a, g(19), b, g(18)],
        blocked: Blocked { goroutines: 2, processes: 1 },
        trust: Trust::Proven,
        evidence: vec![],
        known_issue: None,
        remedies: vec![remedy("do", "restart store."), remedy("prevent", "take Store.a before Store.b everywhere.")],
    }];
    d.groups = [(18u64, 31u32), (19, 44)]
        .iter()
        .map(|(id, line)| Group {
            snapshot: "s1".into(),
            signature: format!("m{line}"),
            count: 1,
            state: "sync.Mutex.Lock".into(),
            minutes: MinuteRange { min: Some(12), max: Some(12) },
            goroutines: vec![*id],
            frames: vec![
                frame("sync.runtime_SemacquireMutex", "/usr/local/go/src/runtime/sema.go", 95, true, false),
                frame("sync.(*Mutex).lockSlow", "/usr/local/go/src/sync/mutex.go", 173, true, false),
                frame("sync.(*Mutex).Lock", "/usr/local/go/src/sync/mutex.go", 92, true, false),
                frame("main.(*Store).Move", "/src/store.go", *line, false, true),
            ],
            created_by: Some("main.main".into()),
            idle: None,
        })
        .collect();
    Sample { diagnosis: d, evidence }
}

/// A daemon in which nothing is stuck.
pub fn healthy() -> Sample {
    let mut dump = Dump::default();
    dump.goroutine(
        1,
        "IO wait, 31 minutes",
        &[
            ("internal/poll.runtime_pollWait(0x7f1c2c0a8f18, 0x72)", "/usr/local/go/src/runtime/netpoll.go:351 +0x85"),
            (
                "net/http.(*Server).Serve(0xc0001a6000, {0x8f1c40, 0xc000190040})",
                "/usr/local/go/src/net/http/server.go:3330 +0x30c",
            ),
            ("main.main()", "/src/main.go:12 +0x1d"),
        ],
        ("", ""),
    );
    let evidence = read(&[("api.txt", &dump.text)]);
    let mut d = base(
        VerdictKind::Healthy,
        Trust::Strong,
        "No hang: all 212 goroutines of api are idle by design or moving",
        None,
    );
    d.inputs = vec![input("api.txt", "goroutine-dump", dump.text.len(), &["s1"])];
    d.snapshots = vec![snapshot(
        "s1",
        0,
        "api",
        "unknown",
        900,
        212,
        &[("IO wait", 180), ("select", 20), ("chan receive", 11), ("running", 1)],
    )];
    d.groups = vec![Group {
        snapshot: "s1".into(),
        signature: "aa".into(),
        count: 1,
        state: "IO wait".into(),
        minutes: MinuteRange { min: Some(31), max: Some(31) },
        goroutines: vec![1],
        frames: vec![
            frame("internal/poll.runtime_pollWait", "/usr/local/go/src/runtime/netpoll.go", 351, true, false),
            frame("net/http.(*Server).Serve", "/usr/local/go/src/net/http/server.go", 3330, true, true),
            frame("main.main", "/src/main.go", 12, false, false),
        ],
        created_by: None,
        idle: Some("accept loop".into()),
    }];
    d.idle = vec![
        Idle { snapshot: "s1".into(), reason: "accept loop".into(), goroutines: 1 },
        Idle { snapshot: "s1".into(), reason: "connections without a request".into(), goroutines: 200 },
    ];
    Sample { diagnosis: d, evidence }
}

/// A process that the runtime ended.
pub fn crash() -> Sample {
    let text = "fatal error: concurrent map writes\n\ngoroutine 44 [running]:\nmain.(*Cache).Put(0xc000010030, {0xc0000a2010, 0x5}, 0x7)\n\t/src/cache.go:57 +0x8c\ncreated by main.main in goroutine 1\n\t/src/main.go:31 +0x1c5\n";
    let evidence = read(&[("cache.log", text)]);
    let mut d = base(
        VerdictKind::Crash,
        Trust::Proven,
        "cache was ended by the runtime: concurrent map writes in main.(*Cache).Put",
        None,
    );
    d.inputs = vec![input("cache.log", "goroutine-dump", text.len(), &["s1"])];
    d.snapshots = vec![snapshot("s1", 0, "cache", "unknown", 77, 1, &[("running", 1)])];
    d.snapshots[0].notices = vec!["fatal error: concurrent map writes".into()];
    let g = node("goroutine", Some("s1"), 44, "main.(*Cache).Put");
    d.findings = vec![Finding {
        rank: 1,
        kind: "crash-fatal".into(),
        title: "concurrent map writes in main.(*Cache).Put".into(),
        explanation: "Two goroutines wrote to one map without a lock; the runtime ends the process on purpose.".into(),
        root: Root { node: g.clone(), function: Some("main.(*Cache).Put".into()), blocked_in: None, minutes: None },
        chain: vec![g],
        trust: Trust::Proven,
        evidence: vec![
            reason("notice", "the runtime says: concurrent map writes", 0, (1, 1), false),
            reason("frame", "the goroutine that was caught", 0, (3, 5), false),
        ],
        remedies: vec![remedy("do", "protect the map with a mutex; go build -race finds the other writer.")],
        ..Finding::default()
    }];
    d.groups = vec![Group {
        snapshot: "s1".into(),
        signature: "cc".into(),
        count: 1,
        state: "running".into(),
        minutes: MinuteRange::default(),
        goroutines: vec![44],
        frames: vec![frame("main.(*Cache).Put", "/src/cache.go", 57, false, true)],
        created_by: Some("main.main".into()),
        idle: None,
    }];
    Sample { diagnosis: d, evidence }
}

/// Waiters whose lock nobody alive holds.
pub fn leaked() -> Sample {
    let mut sample = cycle();
    let d = &mut sample.diagnosis;
    d.verdict = Verdict {
        kind: VerdictKind::Hang,
        summary: "Nobody can hold it: Store.a was left locked; 1 goroutine waits for ever".into(),
        trust: Trust::Likely,
        since_minutes: Some(12),
    };
    d.locks.truncate(1);
    d.locks[0].holder = None;
    d.locks[0].holder_status = HolderStatus::Leaked;
    d.edges.truncate(1);
    let finding = &mut d.findings[0];
    finding.kind = "leaked-lock".into();
    finding.title = "Store.a was left locked".into();
    finding.chain.truncate(2);
    finding.root = Root { node: finding.chain[1].clone(), function: None, blocked_in: None, minutes: Some(12) };
    finding.trust = Trust::Likely;
    finding.evidence =
        vec![reason("exclusion", "no goroutine of this dump stands behind a Lock of it", 0, (1, 9), false)];
    sample
}

/// Waiters whose holder is not in what was given.
pub fn inconclusive() -> Sample {
    let mut sample = leaked();
    let d = &mut sample.diagnosis;
    d.verdict = Verdict {
        kind: VerdictKind::Inconclusive,
        summary: "Only waiters: the holder of 0xc0000140a0 is not in this evidence; take a whole dump".into(),
        trust: Trust::Likely,
        since_minutes: Some(12),
    };
    d.locks[0].holder_status = HolderStatus::NotInEvidence;
    d.findings.clear();
    d.snapshots[0].complete = false;
    d.missing = vec![Missing {
        what: "the whole dump of store".into(),
        why: "this one ends after 2 goroutines".into(),
        command: Some("curl -sS localhost:6060/debug/pprof/goroutine?debug=2 > store.txt".into()),
    }];
    sample
}

/// Names that would act, were they not escaped.
pub fn hostile() -> Sample {
    let evil = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'`]]>--><!--\u{1b}[31m\u{202e}|</pre></style>";
    let mut sample = cycle();
    let text = format!("goroutine 18 [{evil}]:\n{evil}(0x1)\n\t/src/{evil}.go:1 +0x1\n");
    sample.evidence = read(&[("store.txt", &text)]);
    let json = serde_json::to_string(&sample.diagnosis).expect("JSON");
    // Every text that is not one of the contract's own words becomes hostile.
    let mut value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    poison(&mut value, evil);
    sample.diagnosis = serde_json::from_value(value).expect("a diagnosis");
    sample
}

fn poison(value: &mut serde_json::Value, evil: &str) {
    const KEEP: &[&str] =
        &["kind", "trust", "holder_status", "snapshot", "id", "severity", "schema_version", "snapshots"];
    match value {
        serde_json::Value::Object(fields) => {
            for (name, field) in fields {
                let ids = name == "snapshots" && field.as_array().is_some_and(|a| a.iter().all(|v| v.is_string()));
                let word = KEEP.contains(&name.as_str()) && !field.is_object() && !field.is_array();
                if !ids && !word {
                    poison(field, evil);
                }
            }
        }
        serde_json::Value::Array(values) => values.iter_mut().for_each(|v| poison(v, evil)),
        serde_json::Value::String(text) => text.push_str(evil),
        _ => {}
    }
}
