//! Logs of kubelet, container runtimes, systemd and D-Bus: of all their lines only those that tell of a hang.
//!
//! A line is kept when it has a logger's or syslog's prefix and one of the words below; without a prefix (an envelope
//! was peeled off) only unmistakable ones count. What is said of a pattern comes from the source named beside it.

use super::Context;
use super::clock::{self, Prefix};
use super::kernel_log::cut;
use super::lines::{Line, Lines, Stop};
use crate::evidence::{InputKind, LogLine, NodeEvidence};
use regex::Regex;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::LazyLock;

/// Lines of one kind that are kept a file: so many of the first, so many of the last.
const FIRST: usize = 300;
const LAST: usize = 300;
const TEXT: usize = 4_000;

/// What a line means.
pub(super) struct Pattern {
    /// The kind, as [`LogLine::kind`] names it.
    pub kind: &'static str,
    /// The word to look for.
    pub word: &'static str,
    /// Further words that the line must hold.
    pub and: &'static [&'static str],
    /// Words that make it harmless.
    pub not: &'static [&'static str],
    /// Believed without any prefix.
    pub alone: bool,
}

const fn pattern(kind: &'static str, word: &'static str) -> Pattern {
    Pattern { kind, word, and: &[], not: &[], alone: false }
}

impl Pattern {
    const fn and(self, and: &'static [&'static str]) -> Self {
        Pattern { and, ..self }
    }
    const fn not(self, not: &'static [&'static str]) -> Self {
        Pattern { not, ..self }
    }
    const fn alone(self) -> Self {
        Pattern { alone: true, ..self }
    }
}

/// Most telling first: a line gets the first kind that fits.
pub(super) const PATTERNS: &[Pattern] = &[
    // kubelet: pkg/kubelet/pleg/generic.go (Healthy), pkg/kubelet/kubelet.go (syncLoop). "has yet to be successful"
    // is every start.
    pattern("pleg-unhealthy", "PLEG is not healthy: pleg was last seen").alone(),
    pattern("pleg-unhealthy", "pleg was last seen active").alone(),
    pattern("pleg-error", "GenericPLEG: Unable to retrieve pods"),
    // systemd: src/core/dbus.c, src/core/cgroup.c, src/libsystemd/sd-bus. EOPNOTSUPP from sd-bus: the 32-bit cookie
    // has run out (systemd issue 24838 and its like).
    pattern("bus-send-failed", "Failed to propagate agent release message").alone(),
    pattern("bus-send-failed", "Failed to send unit change signal").alone(),
    pattern("bus-send-failed", "Failed to send job remove signal").alone(),
    pattern("bus-send-failed", "Failed to send queued message").alone(),
    pattern("bus-send-failed", "Failed to send unit remove signal").alone(),
    pattern("operation-not-supported", "peration not supported"),
    // dbus-daemon: bus/activation.c; libdbus, go-systemd, runc.
    pattern("bus-timeout", "Failed to activate service").and(&["timed out"]),
    pattern("bus-timeout", "Did not receive a reply. Possible causes"),
    pattern("bus-timeout", "Timeout waiting for systemd to"),
    pattern("bus-error", "Message recipient disconnected from message bus"),
    pattern("bus-error", "dbus: connection closed by user"),
    pattern("bus-error", "Failed to connect to bus"),
    pattern("bus-error", "The maximum number of active connections"),
    pattern("bus-error", "org.freedesktop.DBus.Error."),
    // systemd: src/core/service.c, src/core/job.c, src/core/unit.c.
    pattern("unit-timeout", "timed out. Killing"),
    pattern("unit-timeout", "timed out. Aborting"),
    pattern("unit-timeout", "timed out. Terminating"),
    pattern("unit-timeout", "still around after "),
    pattern("unit-timeout", "start operation timed out"),
    pattern("unit-timeout", "Job ").and(&["timed out."]),
    pattern("unit-watchdog", "Watchdog timeout (limit"),
    pattern("unit-failed", "Main process exited"),
    pattern("unit-failed", "Failed with result"),
    // Dumps: moby daemon (DumpStackTrace), containerd cmd/containerd (dumpStacks).
    pattern("dump-written", "goroutine stacks written to "),
    pattern("dump-written", "goroutine stack dump written to "),
    pattern("dump-written", "=== BEGIN goroutine stack dump ==="),
    // Names kept by a creation that never ended: containerd pkg/cri/server, cri-o internal/oci.
    pattern("name-reserved", "failed to reserve container name"),
    pattern("name-reserved", "failed to reserve sandbox name"),
    pattern("name-reserved", "name is reserved"),
    // CNI: libcni and its callers.
    pattern("cni-error", "failed to setup network for sandbox"),
    pattern("cni-error", "failed to set up sandbox container").and(&["network"]),
    pattern("cni-error", "failed to destroy network for sandbox"),
    pattern("cni-error", "NetworkPlugin cni failed"),
    pattern("network-not-ready", "cni plugin not initialized"),
    pattern("network-not-ready", "cni config uninitialized"),
    pattern("network-not-ready", "NetworkReady=false"),
    pattern("netlink-error", "no buffer space available"),
    pattern("netlink-error", "netlink receive"),
    // kubelet's own view of node and runtime.
    pattern("runtime-down", "ontainer runtime is down"),
    pattern("runtime-down", "Container runtime sanity check failed"),
    pattern("runtime-down", "Container runtime not ready"),
    pattern("runtime-down", "RuntimeReady=false"),
    pattern("node-not-ready", "Node became not ready"),
    pattern("node-not-ready", "Recording NodeNotReady event"),
    pattern("node-not-ready", "KubeletNotReady"),
    pattern("node-status-error", "Error updating node status, will retry"),
    pattern("node-status-error", "Failed to update node lease"),
    pattern("node-status-error", "ailed to ensure lease exists"),
    // Volumes.
    pattern("volume-error", "MountVolume.").and(&["failed"]),
    pattern("volume-error", "UnmountVolume.").and(&["failed"]),
    pattern("volume-error", "UnmountDevice failed"),
    pattern("volume-error", "nmounted volumes=["),
    pattern("volume-error", "timed out waiting for the condition"),
    pattern("volume-error", "device or resource busy"),
    pattern("volume-error", "target is busy"),
    pattern("orphaned-pod", "rphaned pod").and(&["volume"]),
    pattern("stale-handle", "tale file handle"),
    pattern("stale-handle", "tale NFS file handle"),
    pattern("not-connected", "ransport endpoint is not connected"),
    // NFS in user space (rpc.statd, mount.nfs), and anything else that says so.
    pattern("not-responding", "not responding"),
    pattern("io-error", "nput/output error"),
    pattern("no-space", "o space left on device"),
    pattern("fd-exhausted", "oo many open files"),
    pattern("resource-exhausted", "failed to create new OS thread").alone(),
    pattern("resource-exhausted", "esource temporarily unavailable"),
    pattern("resource-exhausted", "annot allocate memory"),
    pattern("oom", "System OOM encountered"),
    pattern("oom", "TaskOOM event"),
    pattern("eviction", "attempting to reclaim"),
    pattern("freezer", "unable to freeze"),
    pattern("freezer", "failed to freeze"),
    pattern("freezer", "freezer not"),
    pattern("syscall-blocked", "blocked for more than"),
    pattern("syscall-blocked", "yscall blocked"),
    // Stop: moby container/stop and kill; containerd CRI container_stop; kubelet kuberuntime.
    pattern("stop-failed", "failed to exit within "),
    pattern("stop-failed", "ontainer failed to stop"),
    pattern("stop-failed", "an error occurs during waiting for container"),
    pattern("stop-failed", "StopContainer for ").and(&["failed"]),
    pattern("stop-failed", "StopPodSandbox for ").and(&["failed"]),
    pattern("stop-failed", "failed to kill container"),
    pattern("stop-failed", "failed to stop container"),
    pattern("stop-failed", "ailed to stop sandbox"),
    pattern("stop-failed", "KillContainerError"),
    pattern("stop-failed", "KillPodSandboxError"),
    pattern("stop-failed", "StopPodSandbox from runtime service failed"),
    pattern("stop-failed", "StopContainer from runtime service failed"),
    pattern("task-exit-failed", "failed to handle container TaskExit event"),
    pattern("task-exit-failed", "failed to handle sandbox TaskExit event"),
    pattern("task-exit-failed", "failed to process event").and(&["error"]),
    pattern("shim-error", "failed to delete shim"),
    // Every container's end says so; here for the timeline.
    pattern("shim-exited", "cleaning up dead shim"),
    pattern("shim-exited", "shim disconnected"),
    pattern("shim-error", "ttrpc: closed"),
    // Start.
    pattern("start-failed", "RunPodSandbox for ").and(&["failed"]),
    pattern("start-failed", "RunPodSandbox from runtime service failed"),
    pattern("start-failed", "CreateContainer for ").and(&["failed"]),
    pattern("start-failed", "CreateContainer within sandbox").and(&["failed"]),
    pattern("start-failed", "StartContainer for ").and(&["failed"]),
    pattern("start-failed", "CreatePodSandboxError"),
    pattern("start-failed", "CreatePodSandbox for pod").and(&["failed"]),
    pattern("start-failed", "FailedCreatePodSandBox"),
    pattern("start-failed", "failed to start shim"),
    pattern("start-failed", "failed to start container"),
    pattern("start-failed", "ailed to create containerd task"),
    pattern("start-failed", "OCI runtime create failed"),
    // Probes and exec.
    pattern("exec-failed", "ExecSync").and(&["failed"]),
    pattern("exec-failed", "Error running exec").not(&["executable file not found"]),
    pattern("probe-failed", "iveness probe").and(&["ailed"]),
    pattern("probe-failed", "eadiness probe").and(&["ailed"]),
    // What any client says that gave up waiting.
    pattern("operation-timeout", "operation timeout: context deadline exceeded"),
    pattern("deadline-exceeded", "DeadlineExceeded"),
    pattern("deadline-exceeded", "context deadline exceeded"),
    pattern("operation-timeout", "i/o timeout"),
    pattern("operation-timeout", "Timeout exceeded while awaiting headers"),
    pattern("operation-timeout", "timed out waiting for"),
    pattern("connection-refused", "connection refused"),
    pattern("rpc-error", "rpc error: code = ").not(&["code = NotFound", "code = AlreadyExists", "No such container"]),
    pattern("sync-failed", "Error syncing pod"),
    pattern("sync-skipped", "skipping pod synchronization").not(&["may not have completed yet"]),
];

/// The lines found so far in one file.
#[derive(Default)]
pub(super) struct Found {
    kinds: FxHashMap<&'static str, (Vec<LogLine>, VecDeque<LogLine>)>,
}

impl Found {
    fn add(&mut self, kind: &'static str, line: LogLine) {
        let (first, last) = self.kinds.entry(kind).or_default();
        if first.len() < FIRST {
            first.push(line);
            return;
        }
        if last.len() >= LAST {
            last.pop_front();
        }
        last.push_back(line);
    }

    /// Everything kept, in the order of the file.
    pub(super) fn into_lines(self) -> Vec<LogLine> {
        let mut all: Vec<LogLine> =
            self.kinds.into_values().flat_map(|(first, last)| first.into_iter().chain(last)).collect();
        all.sort_by_key(|line| line.place);
        all
    }
}

static SUBJECTS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        // What a pod is called in structured and in older messages.
        r#"\bpod="([^"]+/[^"]+)""#,
        r#"\bpods?="?\[?([\w.-]+/[\w.-]+)"#,
        r#"\bpod \\?"([\w.-]+(?:_[\w.-]+)?(?:\([0-9a-f-]+\))?)\\?""#,
        r#"Error syncing pod [0-9a-f-]+ \(\\?"([^"\\]+)"#,
        r"PodSandboxMetadata\{Name:([\w.-]+),",
        r"ContainerMetadata\{Name:([\w.-]+),",
        r"\b([0-9a-f]{64})\b",
        r#"\bvolume \\?"([^"\\]+)"#,
        r"\bserver (\S+) not responding",
        r"goroutine stacks? (?:dump )?written to ([^\s\x22]+)",
        r"^(\S+\.(?:service|scope|slice|mount|socket|device|timer|target)): ",
        r"\b([0-9a-f]{12})\b",
    ]
    .iter()
    .filter_map(|re| Regex::new(re).ok())
    .collect()
});

fn subject(text: &str) -> Option<String> {
    let text = cut(text, TEXT);
    SUBJECTS.iter().find_map(|re| Some(re.captures(text)?.get(1)?.as_str().to_string()))
}

/// Reads the one line that a word marked.
pub(super) fn read(lines: &Lines<'_>, line: &Line<'_>, context: &Context, found: &mut Found) -> Option<Stop> {
    let (prefix, message) = clock::strip(&line.text, context.reference);
    if prefix.kernel {
        return None;
    }
    // A SIGUSR1 dump is one escaped line in the daemon's log; what its frames are called says nothing.
    let marks = super::anchors::patterns_in(cut(&message, TEXT).as_bytes());
    let pattern = marks.iter().filter_map(|i| PATTERNS.get(*i)).find(|p| {
        p.and.iter().all(|word| message.contains(word)) && !p.not.iter().any(|word| message.contains(word))
    })?;
    let speaks = prefix.logger || prefix.program.is_some();
    // Without a prefix only the sentence itself counts, not a text that quotes it.
    let itself = message.starts_with(pattern.word)
        || message.starts_with("runtime: ")
        || message.contains("ago; threshold is") && message.starts_with(['\"', 's', 'S', 'P', 'p', '[']);
    if !(speaks || pattern.alone && itself) {
        return None;
    }
    let text = cut(&message, TEXT);
    let record = LogLine {
        host: prefix.host,
        program: prefix.program.or_else(|| context.program.clone()),
        pid: prefix.pid,
        kind: pattern.kind.to_string(),
        subject: subject(text),
        text: text.to_string(),
        at: prefix.when.and_then(|w| w.timestamp()),
        wall: prefix.when.and_then(|w| w.wall()),
        place: lines.place(line.number),
    };
    found.add(pattern.kind, record);
    Some(Stop::after(line))
}

/// Programs whose logs are evidence even where no line of them tells of a hang.
const DAEMONS: &[&str] = &[
    "kubelet",
    "containerd",
    "dockerd",
    "docker",
    "crio",
    "systemd",
    "dbus-daemon",
    "dbus-broker",
    "terwayd",
    "kernel",
    "podman",
    "runc",
    "csi",
    "cri-dockerd",
    "etcd",
    "kube-proxy",
];

/// The daemon that a file's name speaks of: `journal-kubelet.log`.
pub(super) fn program_in_name(path: &str) -> Option<String> {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    name.split(['-', '_', '.', ' ']).find(|part| DAEMONS.contains(part) && *part != "kernel").map(str::to_string)
}

/// What kind of log this is by its first lines, if it is one.
pub(super) fn kind_of_log(lines: &Lines<'_>, context: &Context) -> Option<InputKind> {
    let first = lines.at(0, 1)?;
    let mut found = None;
    let mut seen = 0;
    for line in lines.from(&first).filter(|l| !l.text.trim().is_empty()).take(8) {
        let (prefix, _) = clock::strip(&line.text, context.reference);
        // Journals begin with a line of their own.
        if line.text.starts_with("-- ") {
            continue;
        }
        let kind = kind_of_prefix(&prefix)?;
        if found.is_some_and(|known| known != kind) {
            return None;
        }
        found = Some(kind);
        seen += 1;
    }
    found.filter(|_| seen >= 2)
}

fn kind_of_prefix(prefix: &Prefix) -> Option<InputKind> {
    if prefix.kernel {
        return Some(InputKind::KernelLog);
    }
    let daemon = prefix.program.as_deref().is_some_and(|p| DAEMONS.iter().any(|d| p.starts_with(d)));
    (prefix.logger || daemon).then_some(InputKind::ServiceLog)
}

/// The time of the last line that has one: when the log was saved, or later.
pub(super) fn taken_at(lines: &Lines<'_>, number_of_lines: u32, context: &Context, out: &mut NodeEvidence) {
    let bytes = lines.bytes();
    let mut end = bytes.len();
    let mut number = number_of_lines;
    for _ in 0..400 {
        if end == 0 {
            return;
        }
        let body_end = if bytes.get(end - 1) == Some(&b'\n') { end - 1 } else { end };
        let start = memchr::memrchr(b'\n', bytes.get(..body_end).unwrap_or(&[])).map_or(0, |at| at + 1);
        let Some(line) = lines.at(start, number) else { return };
        let (prefix, _) = clock::strip(&line.text, context.reference);
        if let Some(when) = prefix.when
            && let Some(place) = lines.place(number)
        {
            match (when.wall(), when.timestamp()) {
                (Some(wall), _) => out.taken_at_local.push((wall, place)),
                (None, Some(at)) => out.taken_at.push((at, place)),
                (None, None) => {}
            }
            return;
        }
        end = start;
        number = number.saturating_sub(1);
    }
}
