//! What the node itself says: processes, threads in the kernel, mounts, logs.
//!
//! Every record has the [`Place`] that it was read from, so that a claim can point there.

use super::Place;
use jiff::Timestamp;
use jiff::civil::DateTime;

/// Everything that is not a goroutine.
#[derive(Debug, Clone, Default)]
pub struct NodeEvidence {
    /// Rows of `ps`.
    pub processes: Vec<ProcessRow>,
    /// Kernel (and native) stacks of threads: `/proc/PID/task/*/stack`, hung-task reports, sysrq, crash, gdb.
    pub threads: Vec<ThreadStack>,
    /// Locks of a C library that threads wait for, from cores.
    pub native_locks: Vec<NativeLock>,
    /// Mounted filesystems.
    pub mounts: Vec<Mount>,
    /// Reports of the kernel log that are not stacks: NFS not responding, I/O errors, OOM …
    pub kernel: Vec<KernelReport>,
    /// Lines of service logs that matter to a hang (the parser keeps those that a pattern knows, not all).
    pub log_lines: Vec<LogLine>,
    /// Unix and netlink sockets of `lsof`, `ss -xp`.
    pub sockets: Vec<Socket>,
    /// `lslocks`, `/proc/locks`.
    pub file_locks: Vec<FileLock>,
    /// `busctl list`.
    pub bus_names: Vec<BusName>,
    /// `docker ps`, `crictl ps`.
    pub containers: Vec<ContainerRow>,
    /// Node conditions of `kubectl describe node`.
    pub conditions: Vec<Condition>,
    /// When the evidence was taken, as far as a file says so with its zone, latest first.
    pub taken_at: Vec<(Timestamp, Place)>,
    /// The same where the file told no zone (or no year): clock readings to be set against others of that node.
    pub taken_at_local: Vec<(WallTime, Place)>,
    /// Units of `systemctl status`.
    pub units: Vec<Unit>,
}

impl NodeEvidence {
    /// Appends what another file of the same incident says.
    pub fn merge(&mut self, other: NodeEvidence) {
        self.processes.extend(other.processes);
        self.threads.extend(other.threads);
        self.native_locks.extend(other.native_locks);
        self.mounts.extend(other.mounts);
        self.kernel.extend(other.kernel);
        self.log_lines.extend(other.log_lines);
        self.sockets.extend(other.sockets);
        self.file_locks.extend(other.file_locks);
        self.bus_names.extend(other.bus_names);
        self.containers.extend(other.containers);
        self.conditions.extend(other.conditions);
        self.units.extend(other.units);
        self.taken_at.extend(other.taken_at);
        self.taken_at.sort_by_key(|taken| std::cmp::Reverse(taken.0));
        self.taken_at_local.extend(other.taken_at_local);
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
            && self.threads.is_empty()
            && self.native_locks.is_empty()
            && self.mounts.is_empty()
            && self.kernel.is_empty()
            && self.log_lines.is_empty()
            && self.sockets.is_empty()
            && self.file_locks.is_empty()
            && self.bus_names.is_empty()
            && self.containers.is_empty()
            && self.conditions.is_empty()
            && self.units.is_empty()
            && self.taken_at.is_empty()
            && self.taken_at_local.is_empty()
    }

    /// Gives a year to times that were printed without one (klog, syslog): the year that puts them closest before
    /// `reference`, a moment of the incident that is known in full. Call it once everything is merged.
    pub fn settle_years(&mut self, reference: Timestamp) {
        let settle = |wall: &mut Option<WallTime>, at: &mut Option<Timestamp>| {
            if let Some(wall) = wall
                && !wall.year_known
            {
                *wall = wall.with_year_near(reference);
                *at = wall.as_utc();
            }
        };
        for report in &mut self.kernel {
            settle(&mut report.wall, &mut report.at);
        }
        for line in &mut self.log_lines {
            settle(&mut line.wall, &mut line.at);
        }
        for thread in &mut self.threads {
            settle(&mut thread.wall, &mut thread.at);
        }
        for (wall, _) in &mut self.taken_at_local {
            *wall = wall.with_year_near(reference);
        }
    }
}

/// A clock reading as it was printed: without a zone, perhaps without a year.
///
/// Where a record has one beside its `at`, that `at` is the reading taken as UTC: right against readings of the same
/// clock, but perhaps hours off against a time with a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WallTime {
    /// Date and time; the year is meaningless unless `year_known`.
    pub at: DateTime,
    /// Whether the year was printed (or settled since).
    pub year_known: bool,
}

impl WallTime {
    /// The reading taken as UTC; `None` without a year.
    pub fn as_utc(self) -> Option<Timestamp> {
        if !self.year_known {
            return None;
        }
        jiff::tz::Offset::UTC.to_timestamp(self.at).ok()
    }

    /// The same with the latest year that does not put it more than a day behind `reference` in the future.
    #[must_use]
    pub fn with_year_near(self, reference: Timestamp) -> Self {
        if self.year_known {
            return self;
        }
        let now = jiff::tz::Offset::UTC.to_datetime(reference);
        let latest = now.checked_add(jiff::Span::new().days(1)).unwrap_or(now);
        for back in 0..5i16 {
            let year = latest.year().saturating_sub(back);
            // 29 February exists only in some years.
            if let Ok(at) = self.at.with().year(year).build()
                && at <= latest
            {
                return WallTime { at, year_known: true };
            }
        }
        self
    }
}

/// A unit of `systemctl status` or `systemctl list-units`.
#[derive(Debug, Clone, Default)]
pub struct Unit {
    /// `containerd.service`.
    pub name: String,
    /// `active (running)`, `deactivating (stop-sigterm)`.
    pub active: String,
    /// Main process.
    pub main_pid: Option<u32>,
    /// Name of the main process.
    pub main_process: Option<String>,
    /// Where it stands.
    pub place: Option<Place>,
}

/// A row of `ps`, or a `/proc/PID/status`.
#[derive(Debug, Clone, Default)]
pub struct ProcessRow {
    #[allow(missing_docs)]
    pub pid: u32,
    /// Parent.
    pub ppid: Option<u32>,
    /// Thread id, in listings of threads (`ps -L`).
    pub tid: Option<u32>,
    /// First letter of the state: `R S D T Z I X t`.
    pub state: Option<char>,
    /// Kernel function it sleeps in.
    pub wchan: Option<String>,
    /// Seconds since it started, if a column says so (`ELAPSED`, `ETIMES`).
    pub elapsed_seconds: Option<u64>,
    /// When it started, if a column says so in full (`-o lstart`): a reading of the node's own clock.
    pub started: Option<WallTime>,
    /// Number of threads.
    pub threads: Option<u32>,
    /// Short name (`COMMAND` of `-o comm`).
    pub comm: Option<String>,
    /// Command line.
    pub command: String,
    /// Where it stands.
    pub place: Option<Place>,
}

/// One thread's stack as the kernel or a debugger shows it.
#[derive(Debug, Clone, Default)]
pub struct ThreadStack {
    /// Process (thread group) id, if told.
    pub pid: Option<u32>,
    /// Thread id.
    pub tid: Option<u32>,
    /// Thread name.
    pub comm: Option<String>,
    /// State letter.
    pub state: Option<char>,
    /// Kernel function it sleeps in.
    pub wchan: Option<String>,
    /// System call number, if told (`/proc/PID/syscall`).
    pub syscall: Option<u64>,
    /// Its arguments.
    pub syscall_args: Vec<u64>,
    /// Frames, innermost first: kernel frames, or native ones.
    pub frames: Vec<StackFrame>,
    /// Native (user space) stack of a debugger rather than a kernel stack.
    pub native: bool,
    /// Seconds that it has been stuck, if told (`blocked for more than 120 seconds`).
    pub blocked_seconds: Option<u64>,
    /// The system call by name, if told (`strace`).
    pub syscall_name: Option<String>,
    /// When the report was written.
    pub at: Option<Timestamp>,
    /// Set where `at` was printed without a zone or year.
    pub wall: Option<WallTime>,
    /// Seconds since boot, as plain `dmesg` prints them.
    pub uptime_seconds: Option<f64>,
    /// First line of the record.
    pub place: Option<Place>,
    /// Last line of the record.
    pub last_line: u32,
    /// Input and stack pointer, of a thread that was read from a core.
    pub memory: Option<(u32, u64)>,
}

/// A lock of the C library as a waiting thread's core shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NativeLock {
    /// Process.
    pub pid: Option<u32>,
    /// Thread that waits.
    pub waiter: u32,
    /// It waits to read (`pthread_rwlock_rdlock`).
    pub reads: bool,
    /// The lock itself.
    pub address: u64,
    /// `pthread-mutex`, `pthread-rwlock`, or `pthread-join` (a wait for a thread's end).
    pub kind: &'static str,
    /// The thread that the lock's own word names as its owner, as the core numbers its threads.
    pub owner: Option<u32>,
    /// The word names an owner, but the process has no such thread any more.
    pub owner_gone: bool,
    /// The words as they stand in memory: `__lock=0x2 __owner=17`.
    pub words: String,
    /// Index of the core's file.
    pub input: u32,
}

/// A frame of a kernel or native stack.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StackFrame {
    /// `request_wait_answer`, without offset.
    pub function: String,
    /// Module, library or source file, if told.
    pub module: Option<String>,
    /// Line of the user's file.
    pub line: u32,
}

/// A mounted filesystem.
#[derive(Debug, Clone, Default)]
pub struct Mount {
    /// `filer01:/vol`, `/dev/loop0`.
    pub device: String,
    /// Mount point.
    pub point: String,
    /// `nfs4`, `fuse.sshfs`, `ext4`, `overlay`.
    pub fstype: String,
    /// Options.
    pub options: String,
    /// `major:minor`, from mountinfo.
    pub device_number: Option<String>,
    /// Where it stands.
    pub place: Option<Place>,
}

/// A line of the kernel log that says that something is wrong.
#[derive(Debug, Clone, Default)]
pub struct KernelReport {
    /// `nfs-not-responding`, `io-error`, `oom`, `hung-task`, `soft-lockup`, `ext4-error`, `fuse` …
    pub kind: String,
    /// What it is about: server, device, process.
    pub subject: Option<String>,
    /// The message without prefix.
    pub text: String,
    /// When.
    pub at: Option<Timestamp>,
    /// Set where `at` was printed without a zone or year.
    pub wall: Option<WallTime>,
    /// Seconds since boot, as plain `dmesg` prints them.
    pub uptime_seconds: Option<f64>,
    /// Where it stands.
    pub place: Option<Place>,
}

/// A line of a service's log that matters.
#[derive(Debug, Clone, Default)]
pub struct LogLine {
    /// Host, from a log prefix.
    pub host: Option<String>,
    /// Program, from a log prefix.
    pub program: Option<String>,
    #[allow(missing_docs)]
    pub pid: Option<u32>,
    /// `pleg-unhealthy`, `deadline-exceeded`, `rpc-error`, `dump-written`, `operation-not-supported` …
    pub kind: String,
    /// What it is about: pod, container, volume.
    pub subject: Option<String>,
    /// The message without prefix.
    pub text: String,
    /// When.
    pub at: Option<Timestamp>,
    /// Set where `at` was printed without a zone or year.
    pub wall: Option<WallTime>,
    /// Where it stands.
    pub place: Option<Place>,
}

/// An open socket.
#[derive(Debug, Clone, Default)]
pub struct Socket {
    #[allow(missing_docs)]
    pub pid: Option<u32>,
    /// Program.
    pub program: Option<String>,
    /// File descriptor.
    pub fd: Option<u32>,
    /// `unix`, `netlink`, `tcp` …
    pub family: String,
    /// Path or address of this end.
    pub local: String,
    /// Path, address or inode of the other end.
    pub peer: Option<String>,
    /// Inode of this end.
    pub inode: Option<u64>,
    /// Inode of the other end (`ss -x`).
    pub peer_inode: Option<u64>,
    /// Where it stands.
    pub place: Option<Place>,
}

/// A file lock.
#[derive(Debug, Clone, Default)]
pub struct FileLock {
    /// Holder's or waiter's pid.
    pub pid: u32,
    /// `FLOCK`, `POSIX`, `OFDLCK`.
    pub kind: String,
    /// `READ` or `WRITE`.
    pub mode: String,
    /// Path, or `major:minor:inode`.
    pub path: String,
    /// It waits for the lock (`->` in `/proc/locks`, `BLOCKER` in `lslocks`).
    pub waits: bool,
    /// Who holds it, if told.
    pub blocker: Option<u32>,
    /// Where it stands.
    pub place: Option<Place>,
}

/// A name on the D-Bus.
#[derive(Debug, Clone, Default)]
pub struct BusName {
    /// `org.freedesktop.systemd1`, `:1.5`.
    pub name: String,
    #[allow(missing_docs)]
    pub pid: Option<u32>,
    /// Process name.
    pub process: Option<String>,
    /// Where it stands.
    pub place: Option<Place>,
}

/// A container as a runtime lists it.
#[derive(Debug, Clone, Default)]
pub struct ContainerRow {
    /// Id, perhaps shortened.
    pub id: String,
    /// Name.
    pub name: String,
    /// Pod, if listed.
    pub pod: Option<String>,
    /// `Running`, `Up 3 minutes` …
    pub status: String,
    /// Where it stands.
    pub place: Option<Place>,
}

/// A node condition.
#[derive(Debug, Clone, Default)]
pub struct Condition {
    /// `Ready`, `DiskPressure` …
    pub kind: String,
    /// `True`, `False`, `Unknown`.
    pub status: String,
    /// Reason and message.
    pub text: String,
    /// Since when.
    pub since: Option<Timestamp>,
    /// Where it stands.
    pub place: Option<Place>,
}
