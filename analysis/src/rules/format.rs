//! How a rule file looks: the serde side of `analysis/rules/README.md`. Spans are kept, so that a fault has a place.

use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use std::fmt;
use toml::Spanned;

/// A rule file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawFile {
    /// What the file is about; for people.
    #[serde(default, rename = "about")]
    pub(crate) _about: Option<String>,
    /// Ids of rules of earlier files that are switched off.
    #[serde(default)]
    pub(crate) off: Vec<Spanned<String>>,
    #[serde(default)]
    pub(crate) role: Vec<Spanned<RawRole>>,
    #[serde(default)]
    pub(crate) benign: Vec<Spanned<RawBenign>>,
    #[serde(default)]
    pub(crate) symptom: Vec<Spanned<RawSymptom>>,
    #[serde(default)]
    pub(crate) rpc: Vec<Spanned<RawRpc>>,
    #[serde(default)]
    pub(crate) holds: Vec<Spanned<RawHolds>>,
    #[serde(default)]
    pub(crate) external: Vec<Spanned<RawExternal>>,
    #[serde(default)]
    pub(crate) known_issue: Vec<Spanned<RawKnown>>,
}

/// A pattern, or several of which one must match.
#[derive(Debug, Clone, Default)]
pub(crate) struct OneOf(pub(crate) Vec<String>);

impl<'de> Deserialize<'de> for OneOf {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = OneOf;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a pattern, or an array of patterns of which one must match")
            }
            fn visit_str<E>(self, v: &str) -> Result<OneOf, E> {
                Ok(OneOf(vec![v.to_string()]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<OneOf, A::Error> {
                let mut all = Vec::new();
                while let Some(pattern) = seq.next_element::<String>()? {
                    all.push(pattern);
                }
                Ok(OneOf(all))
            }
        }
        deserializer.deserialize_any(V)
    }
}

/// What a stack must look like.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawStack {
    /// Frames in this order, innermost first. A known issue may leave it empty where the state says enough.
    #[serde(default)]
    pub(crate) stack: Vec<Spanned<OneOf>>,
    /// Frames that may stand between the matched ones and the park, beside plumbing.
    #[serde(default)]
    pub(crate) inner: Vec<Spanned<String>>,
    /// No frame may match any of these.
    #[serde(default)]
    pub(crate) without: Vec<Spanned<String>>,
    /// States; see `Wait::WORDS`.
    #[serde(default)]
    pub(crate) states: Vec<Spanned<String>>,
    /// The function that started the goroutine.
    pub(crate) created_by: Option<Spanned<OneOf>>,
    /// It waits at least so long.
    pub(crate) min_minutes: Option<u32>,
    /// It waits at most so long.
    pub(crate) max_minutes: Option<u32>,
}

/// Fields that every rule has.
macro_rules! raw_rule {
    ($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $field:ident : $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $name {
            pub(crate) id: Spanned<String>,
            pub(crate) why: String,
            #[serde(default)]
            pub(crate) reference: OneOf,
            #[serde(default)]
            pub(crate) test: Vec<RawTest>,
            $($(#[$fdoc])* pub(crate) $field: $type,)*
        }
    };
}

raw_rule!(RawRole {
    role: String,
    name: Option<String>,
    /// Functions of which one in any goroutine tells.
    #[serde(default)] functions: Vec<Spanned<String>>,
    /// Path parts of `main`'s file (`/cmd/kubelet/`).
    #[serde(default)] main: Vec<String>,
    /// Program names; `*` at the end for any tail.
    #[serde(default)] process: Vec<String>,
    /// Which rule wins if several match; higher first.
    #[serde(default)] priority: i32,
});

raw_rule!(RawBenign {
    #[serde(default)] stack: Vec<Spanned<OneOf>>,
    #[serde(default)] inner: Vec<Spanned<String>>,
    #[serde(default)] without: Vec<Spanned<String>>,
    #[serde(default)] states: Vec<Spanned<String>>,
    created_by: Option<Spanned<OneOf>>,
});

raw_rule!(RawSymptom {
    text: String,
    #[serde(default)] stack: Vec<Spanned<OneOf>>,
    #[serde(default)] without: Vec<Spanned<String>>,
    #[serde(default)] states: Vec<Spanned<String>>,
});

raw_rule!(RawRpc {
    transport: Spanned<String>,
    service: Option<String>,
    method: Option<String>,
    /// Derives service and method from generated names: `grpc-client`, `ttrpc-server` …
    derive: Option<Spanned<String>>,
    #[serde(default)] client: Vec<Spanned<OneOf>>,
    #[serde(default)] server: Vec<Spanned<OneOf>>,
    client_role: Option<String>,
    server_role: Option<String>,
});

raw_rule!(RawHolds {
    lock: String,
    mode: Option<Spanned<String>>,
    /// The last element is the function that took the lock.
    #[serde(default)] stack: Vec<Spanned<OneOf>>,
    #[serde(default)] without: Vec<Spanned<String>>,
    #[serde(default)] states: Vec<Spanned<String>>,
    /// Functions that call Lock on the same lock.
    #[serde(default)] waiters: Vec<Spanned<String>>,
    certainty: Option<Spanned<String>>,
});

raw_rule!(RawExternal {
    resource: String,
    waits_for: String,
    peer: Option<String>,
    #[serde(default)] stack: Vec<Spanned<OneOf>>,
    #[serde(default)] without: Vec<Spanned<String>>,
    #[serde(default)] states: Vec<Spanned<String>>,
    remedy: Option<String>,
});

raw_rule!(RawKnown {
    title: String,
    #[serde(default)] affected: Option<String>,
    #[serde(default)] fixed_in: Option<String>,
    #[serde(default)] remedy: Option<String>,
    #[serde(default)] dont: Option<String>,
    #[serde(default)] risk: Option<String>,
    confidence: Spanned<String>,
    /// Roles of the process that has the bug.
    #[serde(default)] roles: Vec<String>,
    #[serde(default)] versions: Vec<RawVersions>,
    /// One of these shapes among the waiters.
    #[serde(default)] waiter: Vec<Spanned<RawStack>>,
    /// One of these shapes is the holder or root.
    #[serde(default)] holder: Vec<Spanned<RawStack>>,
    /// Shapes that must be in the chain besides, each somewhere.
    #[serde(default)] also: Vec<Spanned<RawStack>>,
    /// None of the chain may have such a frame.
    #[serde(default)] absent: Vec<Spanned<String>>,
    #[serde(default)] min_waiters: u32,
    /// The lock has no holder.
    #[serde(default)] leaked: Option<bool>,
    /// Goroutines wait in a circle.
    #[serde(default)] cycle: Option<bool>,
    /// Waiter and holder are the same goroutine.
    #[serde(default)] same_goroutine: bool,
    /// The waiters' shape is telling enough where no holder is in the evidence.
    #[serde(default)] waiter_alone: bool,
    /// A trap of any program, or a bug whose cause is elsewhere: it gives way to any rule that knows more.
    #[serde(default)] general: bool,
    /// The waits began together: their ages differ by the collector's slack at most.
    #[serde(default)] same_age: bool,
    /// A log line that one of these regular expressions matches is needed.
    #[serde(default)] log: Vec<Spanned<String>>,
    /// A kernel frame that is one of these is needed.
    #[serde(default)] kernel: Vec<String>,
    /// Log and kernel only add weight where frames match.
    #[serde(default)] log_optional: bool,
    /// What a person sees in the dump.
    #[serde(default)] looks_like: Option<String>,
});

/// Versions of a role that have the bug: from (inclusive) up to before (exclusive).
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawVersions {
    pub(crate) role: String,
    pub(crate) from: Option<String>,
    pub(crate) before: Option<String>,
}

/// A rule's own test case.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTest {
    /// A dump, as the runtime prints it.
    #[serde(default)]
    pub(crate) stack: String,
    /// Whether the rule matches the first goroutine (known issues: the chain).
    pub(crate) fires: bool,
    /// Service and method that a match gives (`Runtime/Version`).
    pub(crate) says: Option<String>,
    /// Known issues: ids of the goroutines that wait.
    #[serde(default)]
    pub(crate) waiters: Vec<u64>,
    /// Known issues: ids of the goroutines that hold.
    #[serde(default)]
    pub(crate) holders: Vec<u64>,
    /// Known issues: the root, if it is not a holder.
    #[serde(default)]
    pub(crate) roots: Vec<u64>,
    #[serde(default)]
    pub(crate) leaked: bool,
    #[serde(default)]
    pub(crate) cycle: bool,
    #[serde(default)]
    pub(crate) log: Vec<String>,
    #[serde(default)]
    pub(crate) kernel: Vec<String>,
    /// `role version` pairs that are known: `containerd 1.7.2`.
    #[serde(default)]
    pub(crate) versions: Vec<String>,
    /// Name of the process, for role rules and known issues.
    pub(crate) process: Option<String>,
}
