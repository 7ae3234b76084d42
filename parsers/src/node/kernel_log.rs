//! The kernel log, however it was saved: hung-task reports and sysrq-w/-t become stacks, other complaints reports.
//!
//! Formats: `kernel/hung_task.c` (`check_hung_task`), `kernel/sched/core.c` (`sched_show_task`; one form before 5.11,
//! another since), `arch/x86/kernel/dumpstack.c`.

use super::Context;
use super::clock::{self, Prefix};
use super::lines::{Line, Lines, Stop};
use super::proc_stack::function_and_module;
use crate::evidence::{KernelReport, NodeEvidence, StackFrame, ThreadStack};
use regex::Regex;
use std::sync::LazyLock;

/// Kernel reports of one kind that are kept a file: the first ones and the last.
const KEPT: usize = 1_000;
/// Lines of others (in a journal of the whole machine) that may stand within one report.
const STRANGERS: u32 = 400;
const FRAMES: usize = 512;
const TEXT: usize = 2_000;

/// What a task's own line says: `task:containerd      state:D stack:0     pid:31208 tgid:31201 ppid:1 …`,
/// or before 5.11 `containerd      D    0 31208      1 0x00080000`.
pub(super) fn task_line(text: &str) -> Option<ThreadStack> {
    if let Some(after) = text.trim_start().strip_prefix("task:") {
        let (comm, rest) = after.split_once(" state:")?;
        let mut stack =
            ThreadStack { comm: Some(comm.trim().to_string()), state: rest.chars().next(), ..ThreadStack::default() };
        let value = |key: &str| {
            let at = rest.find(key)? + key.len();
            let digits = rest.get(at..)?.trim_start();
            digits.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u32>().ok()
        };
        stack.tid = Some(value(" pid:")?);
        stack.pid = value(" tgid:");
        return Some(stack);
    }
    let found = OLD_TASK.as_ref()?.captures(text)?;
    Some(ThreadStack {
        comm: Some(found.get(1)?.as_str().trim().to_string()),
        state: found.get(2)?.as_str().chars().next(),
        tid: found.get(3)?.as_str().parse().ok(),
        ..ThreadStack::default()
    })
}

// comm (padded to 15 or 16), state letter, [address of the task or PC,] free stack, pid, parent, flags.
static OLD_TASK: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^(\S.{0,15}?)\s+([RSDTtZXIPK])\s+(?:[0-9a-f]{16}\s+)?\d+\s+(\d+)\s+\d+\s+0x[0-9a-f]{8,16}\s*$").ok()
});

static HUNG: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^INFO: task (.+):(\d+) (?:<[^>]*> )?blocked (?:in I/O wait )?for more than (\d+) seconds").ok()
});

/// A frame of a printed trace. `None`: no frame. An unreliable one (`? f`) gives an empty name.
fn frame(text: &str) -> Option<(&str, Option<&str>)> {
    let mut rest = text.trim_start();
    if let Some((address, behind)) = rest.strip_prefix("[<").and_then(|r| r.split_once(">]")) {
        if !address.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        rest = behind.trim_start();
    }
    if let Some(unsure) = rest.strip_prefix("? ") {
        return function_and_module(unsure).map(|_| ("", None));
    }
    function_and_module(rest)
}

/// Lines that belong to a report but are no frames.
fn decoration(text: &str) -> bool {
    let text = text.trim();
    const STARTS: [&str; 24] = [
        "Not tainted",
        "Tainted:",
        "\"echo 0 >",
        "Call Trace:",
        "Call trace:",
        "<TASK>",
        "</TASK>",
        "RIP:",
        "RSP:",
        "RAX:",
        "RDX:",
        "RBP:",
        "R10:",
        "R13:",
        "<IRQ>",
        "</IRQ>",
        "Code:",
        "ORIG_RAX:",
        "CS:",
        "task  ",
        "<NMI>",
        "</NMI>",
        "CPU:",
        "Hardware name:",
    ];
    text.is_empty() || STARTS.iter().any(|s| text.starts_with(s)) || text.contains("blocked on a ")
}

/// User registers at the system call: number and arguments in the order of `/proc/PID/syscall` (x86-64).
#[derive(Default)]
struct Registers {
    orig_rax: Option<u64>,
    values: [Option<u64>; 8],
}

impl Registers {
    fn read(&mut self, text: &str) {
        const NAMES: [&str; 8] = ["RDI: ", "RSI: ", "RDX: ", "R10: ", "R08: ", "R09: ", "RSP: ", "RIP: "];
        let word = |key: &str| {
            let at = text.find(key)? + key.len();
            let word = text.get(at..)?.split_whitespace().next()?;
            let word = word.rsplit(':').next()?;
            u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok()
        };
        if let Some(number) = word("ORIG_RAX: ") {
            self.orig_rax = Some(number);
        }
        for (slot, name) in self.values.iter_mut().zip(NAMES) {
            if let Some(value) = word(name) {
                *slot = Some(value);
            }
        }
    }

    fn store(self, stack: &mut ThreadStack) {
        // ORIG_RAX of an interrupt or exception is negative.
        let Some(number) = self.orig_rax.filter(|n| *n < 1 << 16) else {
            return;
        };
        stack.syscall = Some(number);
        let args: Option<Vec<u64>> = self.values.into_iter().collect();
        stack.syscall_args = args.unwrap_or_default();
    }
}

/// Whether a line with this prefix may come from the kernel.
fn from_kernel(prefix: &Prefix) -> bool {
    prefix.kernel || (!prefix.any) || (prefix.program.is_none() && !prefix.logger)
}

/// Reads a report that begins at `line`: a hung task's, or a task of sysrq.
pub(super) fn read(lines: &Lines<'_>, line: &Line<'_>, context: &Context, out: &mut NodeEvidence) -> Option<Stop> {
    let (prefix, message) = clock::strip(&line.text, context.reference);
    if !from_kernel(&prefix) {
        return None;
    }
    let mut stack = ThreadStack { place: lines.place(line.number), ..ThreadStack::default() };
    let mut announced = false;
    if let Some(found) = HUNG.as_ref().and_then(|re| re.captures(&message)) {
        stack.comm = found.get(1).map(|m| m.as_str().to_string());
        stack.tid = found.get(2).and_then(|m| m.as_str().parse().ok());
        stack.blocked_seconds = found.get(3).and_then(|m| m.as_str().parse().ok());
        stack.state = Some('D');
        announced = true;
        report(lines, line, context, out);
    } else if let Some(task) = task_line(&message) {
        stack = ThreadStack { place: stack.place, ..task };
    } else {
        return None;
    }
    if let Some(when) = prefix.when {
        (stack.at, stack.wall) = (when.timestamp(), when.wall());
    }
    stack.uptime_seconds = prefix.uptime;
    stack.last_line = lines.source_line(line.number);
    let mut stop = Stop::after(line);
    let mut registers = Registers::default();
    let (mut strangers, mut named) = (0u32, !announced);
    for row in lines.from(line).skip(1) {
        let (row_prefix, message) = clock::strip(&row.text, context.reference);
        // In a journal of the whole machine others speak in between; in a kernel log all lines are prefixed alike.
        let stranger = prefix.any != row_prefix.any || (prefix.kernel && !row_prefix.kernel);
        if stranger {
            strangers += 1;
            if strangers > STRANGERS || !row_prefix.any {
                break;
            }
            continue;
        }
        if let Some((name, module)) = frame(&message) {
            if !name.is_empty() && stack.frames.len() < FRAMES {
                stack.frames.push(StackFrame {
                    function: name.to_string(),
                    module: module.map(str::to_string),
                    line: lines.source_line(row.number),
                });
            }
        } else if let Some(task) = task_line(&message) {
            // The second task line is another task's.
            if named || task.tid != stack.tid {
                break;
            }
            named = true;
            stack.comm = task.comm.or(stack.comm);
            stack.state = task.state.or(stack.state);
            stack.pid = task.pid;
        } else if decoration(&message) {
            registers.read(&message);
        } else {
            break;
        }
        stack.last_line = lines.source_line(row.number);
        stop = Stop::after(&row);
    }
    registers.store(&mut stack);
    if stack.frames.is_empty() && !announced && stack.state.is_none() {
        return None;
    }
    out.threads.push(stack);
    Some(stop)
}

/// A known complaint: its kind, and the pattern of the whole message. The first group is the subject.
///
/// Sources: the `pr_*`/`printk` of the kernel file named beside each.
const COMPLAINTS: &[(&str, &str)] = &[
    // kernel/hung_task.c
    ("hung-task", r"^INFO: task (.+:\d+) (?:<[^>]*> )?blocked (?:in I/O wait )?for more than \d+ seconds"),
    ("hung-task", r"^INFO: task (.+:\d+) (?:<[^>]*> )?(?:is )?blocked on an? "),
    ("hung-task-suppressed", r"^Future hung task reports are suppressed"),
    // net/sunrpc/clnt.c
    ("nfs-not-responding", r"^(?:nfs|nfs4|lockd|rpcbind|\S+): server (\S+) not responding, (?:still trying|timed out)"),
    ("nfs-ok", r"^(?:nfs|nfs4|lockd): server (\S+) OK"),
    // fs/nfs/nfs4state.c
    ("nfs-error", r"^NFS: (?:state manager|__nfs4_reclaim_open_state|nfs4_reclaim)\S*.*?(?:server|NFSv4 server) (\S+)"),
    ("nfs-error", r"^NFS: (?:state manager|__nfs4_reclaim_open_state|nfs4_reclaim|v4 server)"),
    // fs/smb/client/connect.c
    ("smb-not-responding", r"^CIFS:? (?:VFS: )?(?:Server )?(\S+) has not responded in \d+ seconds"),
    // net/ceph, drivers/block/rbd.c
    ("ceph", r"^libceph: ((?:mon|osd|mds)\d+)\b.*(?:down|closed|error|timeout|hunting|wrong peer)"),
    ("ceph", r"^ceph: .*?(mds\d+).*(?:hung|stale|closed|reconnect)"),
    ("ceph", r"^rbd: (\S+): .*(?:error|result -)"),
    // drivers/block/nbd.c
    (
        "block-timeout",
        r"^block (nbd\d+): (?:Connection timed out|Possible stuck request|Receive control failed|shutting down|Dead connection)",
    ),
    // drivers/nvme/host/pci.c
    (
        "block-timeout",
        r"^nvme (nvme\d+): (?:I/O (?:tag )?\d+.*timeout|.*(?:controller is down|Device not ready|Disabling device))",
    ),
    // drivers/scsi
    (
        "block-timeout",
        r"^(?:sd|scsi) \S+: (?:\[(\w+)\] )?(?:.*timing out command|.*rejecting I/O to (?:offline|dead) device|Device offlined)",
    ),
    ("io-error", r"^sd \S+: \[(\w+)\] .*(?:FAILED Result|Sense Key : (?:Medium|Hardware) Error)"),
    (
        "io-error",
        r"^(?:blk_update_request: )?(?:critical (?:medium|target|space allocation) error|I/O error), dev (\w+),",
    ),
    ("io-error", r"^(?:blk_update_request: )?(?:timeout|recoverable transport|critical nexus) error, dev (\w+),"),
    // fs/buffer.c
    ("io-error", r"^Buffer I/O error on dev(?:ice)? ([\w-]+)"),
    ("io-error", r"^(ata\d+(?:\.\d+)?): (?:exception Emask|failed command|hard resetting link|COMRESET failed)"),
    // drivers/scsi/libiscsi.c, scsi_transport_iscsi.c
    ("iscsi", r"^ (connection\d+:\d+): (?:detected conn error|ping timeout)"),
    ("iscsi", r"^(connection\d+:\d+): (?:detected conn error|ping timeout)"),
    ("iscsi", r"^\s*(session\d+): session recovery timed out"),
    // drivers/md
    ("device-mapper", r"^device-mapper: multipath: (?:\S+ )?(?:Failing path|.*[Ff]ailing path) (\S+?)\.?$"),
    (
        "device-mapper",
        r"^device-mapper: (?:thin|multipath|snapshots|raid): (?:(\S+): )?.*(?:out of data space|out-of-data-space|read-only|Invalidating|failed|aborting|unable)",
    ),
    // fs/ext4/super.c, fs/jbd2
    ("ext4-error", r"^EXT4-fs error \(device (\S+?)\)"),
    ("fs-readonly", r"^EXT4-fs \((\S+?)\): (?:Remounting filesystem read-only|.*shut down requested)"),
    ("ext4-error", r"^(?:JBD2: |Aborting journal on device |jbd2_)\D*?(?:device )?([\w-]+?)[.:]?$"),
    ("ext4-error", r"^JBD2: (?:Error|I/O error|Detected IO errors|Detected aborted journal)"),
    // fs/xfs
    (
        "xfs-error",
        r"^XFS \((\S+?)\): .*(?:[Cc]orruption|[Ss]hutting down|shutdown|I/O [Ee]rror|log I/O|metadata I/O error|Failing async write)",
    ),
    ("xfs-error", r"^XFS: (\S+)\(\d+\) possible memory allocation deadlock"),
    // fs/btrfs
    ("btrfs-error", r"^BTRFS(?:: | )(?:error|critical) \(device (\S+?)(?: state \S+)?\)"),
    ("fs-readonly", r"^BTRFS(?:: | )info \(device (\S+?)(?: state \S+)?\): forced readonly"),
    ("overlayfs", r"^overlayfs: (?:failed|upper fs|workdir)"),
    // mm/oom_kill.c
    ("oom", r"^(?:Memory cgroup out of memory|Out of memory)[^:]*: Kill(?:ed)? process (\d+ \([^)]*\))"),
    ("oom", r"^(\S+) invoked oom-killer"),
    ("oom", r"^oom-kill:.*\btask=(\S+?),pid="),
    ("memory", r"^(\S+): page allocation (?:failure|stalls)"),
    // kernel/watchdog.c, kernel/rcu/tree_stall.h
    ("soft-lockup", r"^(?:watchdog: |NMI watchdog: )?BUG: soft lockup - (CPU#\d+)"),
    ("hard-lockup", r"^(?:watchdog: |NMI watchdog: )?Watchdog detected hard LOCKUP on (cpu ?\d+)"),
    ("rcu-stall", r"^(?:rcu: )?INFO: (rcu\S*) (?:self-)?detected(?: expedited)? stalls?"),
    ("workqueue-stall", r"^BUG: workqueue lockup - (pool .*?) stuck for"),
    (
        "kernel-bug",
        r"^(?:BUG: (?:unable to handle|kernel NULL|scheduling while atomic)|kernel BUG at|Oops: |general protection fault|Kernel panic)",
    ),
    ("segfault", r"^(\S+\[\d+\]): segfault at "),
    // net/core/dev.c
    ("netdev-leak", r"^unregister_netdevice: waiting for (\S+) to become free"),
    ("table-full", r"^(nf_conntrack|neighbour): .*(?:table full|table overflow)"),
    // kernel/audit.c
    ("audit-backlog", r"^audit: (?:backlog limit exceeded|audit_backlog=|kauditd hold queue overflow|audit_lost=)"),
    // kernel/cgroup/pids.c
    ("pids-limit", r"^cgroup: fork rejected by pids controller in (\S+)"),
    ("fuse", r"^fuse: (?:trying to steal|.*(?:abort|error|timeout))"),
    ("9p", r"^9pnet\S*: .*(?:error|timeout|-\d+)"),
];

static PATTERNS: LazyLock<Vec<(&'static str, Regex)>> = LazyLock::new(|| {
    COMPLAINTS.iter().filter_map(|(kind, pattern)| Some((*kind, Regex::new(pattern).ok()?))).collect()
});

/// Reads one line that says that something is wrong.
pub(super) fn report(lines: &Lines<'_>, line: &Line<'_>, context: &Context, out: &mut NodeEvidence) -> Option<Stop> {
    let (prefix, message) = clock::strip(&line.text, context.reference);
    if !from_kernel(&prefix) {
        return None;
    }
    let text = cut(&message, TEXT);
    let (kind, found) = PATTERNS.iter().find_map(|(kind, pattern)| Some((*kind, pattern.captures(text)?)))?;
    // A bare sentence in any text is believed only where it is unmistakable.
    if !prefix.kernel
        && !matches!(kind, "hung-task" | "nfs-not-responding" | "nfs-ok" | "oom" | "soft-lockup" | "netdev-leak")
    {
        return None;
    }
    let report = KernelReport {
        kind: kind.to_string(),
        subject: found.get(1).map(|m| m.as_str().to_string()),
        text: text.to_string(),
        at: prefix.when.and_then(|w| w.timestamp()),
        wall: prefix.when.and_then(|w| w.wall()),
        uptime_seconds: prefix.uptime,
        place: lines.place(line.number),
    };
    if out.kernel.len() < KEPT * 20 {
        out.kernel.push(report);
    }
    Some(Stop::after(line))
}

/// `text` cut to `len` bytes at a character's end.
pub(super) fn cut(text: &str, len: usize) -> &str {
    if text.len() <= len {
        return text;
    }
    let mut end = len;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or("")
}
