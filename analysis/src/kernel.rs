//! What a kernel function says about what its thread waits for: data of `rules/kernel.toml`.

use holdup_parsers::evidence::StackFrame;
use serde::Deserialize;

/// A kind of kernel wait.
#[derive(Debug, Clone, Deserialize)]
pub struct KernelRule {
    /// Kernel functions; one that ends in `*` is a prefix.
    pub functions: Vec<String>,
    /// What the thread waits for: `a FUSE server's answer`.
    pub waits_for: String,
    /// `fuse`, `nfs`, `disk`, `netlink`, `freezer` …
    pub resource: String,
    /// `mount`, `device`, `socket`, `process`, `lock`, `idle` …
    #[serde(default)]
    pub kind: String,
    /// Higher wins over lower in the same stack.
    #[serde(default)]
    pub priority: i32,
    /// Sleeping there is normal for a daemon.
    #[serde(default)]
    pub idle: bool,
    /// What to do.
    #[serde(default)]
    pub remedy: Option<String>,
}

/// All of them.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct KernelRules {
    #[serde(default, rename = "kernel")]
    rules: Vec<KernelRule>,
}

impl KernelRules {
    /// The rules that come with the program.
    pub fn builtin() -> Self {
        toml::from_str(include_str!("../rules/kernel.toml")).unwrap_or_default()
    }

    /// The rule that says most about a kernel stack: highest priority, then innermost frame.
    pub fn of_stack(&self, frames: &[StackFrame]) -> Option<(&KernelRule, usize)> {
        let mut best: Option<(&KernelRule, usize)> = None;
        for (n, frame) in frames.iter().enumerate() {
            for rule in &self.rules {
                if rule.matches(&frame.function) && best.is_none_or(|(known, _)| known.priority < rule.priority) {
                    best = Some((rule, n));
                }
            }
        }
        best
    }

    /// The rule of a single function, such as `ps` shows as WCHAN (cut to some length there).
    pub fn of_function(&self, function: &str) -> Option<&KernelRule> {
        self.rules.iter().filter(|r| r.matches(function)).max_by_key(|r| r.priority)
    }
}

impl KernelRule {
    fn matches(&self, function: &str) -> bool {
        self.functions.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(prefix) => function.starts_with(prefix),
            None => {
                pattern == function || function.strip_prefix(pattern.as_str()).is_some_and(|rest| rest.starts_with('.'))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(functions: &[&str]) -> Option<String> {
        let frames: Vec<StackFrame> =
            functions.iter().map(|f| StackFrame { function: f.to_string(), ..StackFrame::default() }).collect();
        KernelRules::builtin().of_stack(&frames).map(|(rule, _)| rule.resource.clone())
    }

    #[test]
    fn every_rule_can_be_read_and_is_sourced() {
        let text = include_str!("../rules/kernel.toml");
        let rules: KernelRules = toml::from_str(text).expect("the file's own form");
        assert!(rules.rules.len() > 50);
        assert_eq!(text.matches("\nsource = \"").count(), rules.rules.len());
        for rule in &rules.rules {
            assert!(!rule.functions.is_empty() && !rule.waits_for.is_empty() && rule.priority > 0, "{rule:?}");
            assert_eq!(rule.idle, rule.kind == "idle", "{rule:?}");
        }
    }

    /// Stacks as real kernels print them; what each means is known from how it was made, or from the kernel's source.
    #[test]
    fn the_most_specific_frame_tells() {
        let stacks: &[(&[&str], &str)] = &[
            (&["request_wait_answer", "fuse_simple_request", "fuse_do_getattr", "vfs_statx", "do_syscall_64"], "fuse"),
            (
                &["__schedule", "schedule", "percpu_rwsem_wait", "__percpu_down_read", "mnt_want_write", "path_openat"],
                "disk",
            ),
            (&["percpu_rwsem_wait", "vfs_write", "__x64_sys_pwrite64"], "disk"),
            (&["percpu_rwsem_wait", "cgroup_attach_lock", "cgroup1_procs_write"], "cgroup"),
            (&["__skb_wait_for_more_packets", "__skb_recv_datagram", "netlink_recvmsg", "sock_recvmsg"], "netlink"),
            (&["schedule", "rpc_wait_bit_killable", "__wait_on_bit", "__rpc_execute", "nfs4_proc_getattr"], "nfs"),
            (&["io_schedule", "folio_wait_bit_common", "filemap_read", "ext4_file_read_iter"], "disk"),
            (&["schedule", "wait_transaction_locked", "start_this_handle", "ext4_create", "path_openat"], "ext4"),
            (&["do_signal_stop", "get_signal", "arch_do_signal_or_restart"], "stopped-process"),
            (&["__mutex_lock.constprop.0", "rtnetlink_rcv_msg", "netlink_rcv_skb"], "rtnl"),
            (&["futex_do_wait", "__futex_wait", "futex_wait", "do_futex"], "futex"),
            (&["wait_woken", "inotify_read", "vfs_read"], "event"),
            (&["wait_woken", "sk_wait_data", "tcp_recvmsg_locked"], "tcp"),
            (&["locks_lock_inode_wait", "__x64_sys_flock"], "file-lock"),
        ];
        for (stack, resource) in stacks {
            assert_eq!(of(stack).as_deref(), Some(*resource), "{stack:?}");
        }
        assert_eq!(of(&["do_syscall_64", "entry_SYSCALL_64_after_hwframe"]), None);
        assert!(KernelRules::builtin().of_function("do_epoll_wait").expect("a rule").idle);
    }
}
