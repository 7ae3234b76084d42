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
