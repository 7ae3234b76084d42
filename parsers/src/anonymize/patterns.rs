//! What is a name or a secret by its form alone.

use super::pseudonym::Kind;
use regex::bytes::Regex;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::OnceLock;

/// Something with a form of its own.
pub struct Pattern {
    /// What it is.
    pub kind: Kind,
    /// Where.
    pub regex: Regex,
    /// Letters or digits may not stand on either side.
    pub bounded: bool,
}

/// All patterns, the surest first. What counts of a match is its first group, if it has one.
pub fn all() -> &'static [Pattern] {
    static ALL: OnceLock<Vec<Pattern>> = OnceLock::new();
    const SECRET: &str = concat!(
        r#"(?i-u)(?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key(?:[_-]?id)?|credentials?|private[_-]?key|signature)"#,
        r#"\\*["']?\s{0,3}[=:]\s{0,3}\\*["']?([^\s"'\\,;&)\]}<>]{3,})"#
    );
    const SOURCES: &[(Kind, bool, &str)] = &[
        (Kind::Secret, false, r"(?s-u)-----BEGIN [A-Z ]*PRIVATE KEY-----(.{1,20000}?)-----END"),
        (Kind::Secret, false, r"(?-u)eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
        (Kind::Secret, false, r#"(?i-u)(?:bearer|basic|negotiate)\s+([A-Za-z0-9._~+/=-]{8,})"#),
        (Kind::Secret, true, r"(?-u)(?:AKIA|ASIA|LTAI)[0-9A-Za-z]{12,}"),
        (
            Kind::Secret,
            true,
            r"(?-u)(?:gh[pousr]_[A-Za-z0-9]{30,}|glpat-[A-Za-z0-9_-]{20,}|xox[abprs]-[A-Za-z0-9-]{10,})",
        ),
        (Kind::Secret, false, SECRET),
        (Kind::Secret, false, r#"(?i-u)[a-z][a-z0-9+.-]*://([^/\s"'@:\\]+:[^/\s"'@\\]+)@"#),
        (Kind::Id, true, r"(?-u)[0-9a-fA-F]{64}"),
        (
            Kind::Uuid,
            true,
            r"(?-u)[0-9a-fA-F]{8}[-_][0-9a-fA-F]{4}[-_][0-9a-fA-F]{4}[-_][0-9a-fA-F]{4}[-_][0-9a-fA-F]{12}",
        ),
        (Kind::Id, true, r"(?-u)[0-9a-f]{32}"),
        (Kind::Id, true, r"(?-u)[0-9a-f]{7,63}"),
        (Kind::Id, true, r"(?-u)(?:i|eni|vpc|subnet|sg|vol|snap|ami|vsw|rtb|nat|lb|rg)-([0-9a-z]{8,32})"),
        (Kind::Mac, true, r"(?-u)[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}"),
        (Kind::Email, true, r"(?-u)[A-Za-z0-9][A-Za-z0-9._%+-]*@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}"),
        (Kind::Ip, true, r"(?-u)[0-9]{1,3}(?:\.[0-9]{1,3}){3}"),
        (Kind::Ip, true, r"(?-u)[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}"),
        (Kind::Host, false, r#"(?i-u)[a-z][a-z0-9+.-]*://(?:[^/\s"'@\\]*@)?([a-z0-9][a-z0-9-]*(?:\.[a-z0-9-]+)*)"#),
        (Kind::User, false, r"(?-u)/(?:home|Users)/([A-Za-z0-9_][A-Za-z0-9._-]*)"),
    ];
    ALL.get_or_init(|| {
        let compiled = SOURCES
            .iter()
            .filter_map(|&(kind, bounded, source)| Some(Pattern { kind, regex: Regex::new(source).ok()?, bounded }));
        compiled.collect()
    })
}

/// Hosts that everybody knows: their names tell nothing.
const PUBLIC: &[&str] = &[
    "github.com",
    "githubusercontent.com",
    "golang.org",
    "go.dev",
    "google.golang.org",
    "gopkg.in",
    "go.uber.org",
    "k8s.io",
    "kubernetes.io",
    "docker.io",
    "docker.com",
    "gcr.io",
    "ghcr.io",
    "quay.io",
    "containerd.io",
    "opencontainers.org",
    "kernel.org",
    "debian.org",
    "ubuntu.com",
    "redhat.com",
    "freedesktop.org",
    "w3.org",
    "gitlab.com",
    "gitee.com",
    "bitbucket.org",
    "systemd.io",
    "moby.localhost",
    "amazonaws.com",
    "mail.invalid",
    "opencensus.io",
    "opentelemetry.io",
    "etcd.io",
    "mongodb.org",
    "cloud.google.com",
    "bazil.org",
    "istio.io",
    "rsc.io",
    "gonum.org",
    "dario.cat",
    "oras.land",
    "helm.sh",
    "gomodules.xyz",
    "cloudfoundry.org",
    "launchpad.net",
    "prometheus.io",
    "cncf.io",
    "inet.af",
    "collectd.org",
    "vbom.ml",
    "nhooyr.io",
    "cuelang.org",
    "buf.build",
    "zombiezen.com",
    "mvdan.cc",
    "pault.ag",
    "apache.org",
    "gotest.tools",
    "honnef.co",
    "modernc.org",
    "mellium.im",
    "filippo.io",
    "step.sm",
    "sr.ht",
    "codeberg.org",
    "gvisor.dev",
    "tailscale.com",
    "elastic.co",
    "gopkg.dev",
];

/// Whether a host is a well-known public one, this machine, or a service of the node.
pub fn is_public_host(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let known = |name: &str| host == name || host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'));
    PUBLIC.iter().any(|name| known(name)) || super::learn::is_common(&host)
}

/// Whether what a pattern found is worth replacing.
pub fn counts(kind: Kind, text: &str, before: &[u8], after: &[u8]) -> bool {
    let digit = text.bytes().any(|b| b.is_ascii_digit());
    let letter = text.bytes().any(|b| b.is_ascii_alphabetic());
    match kind {
        // The revision of a module's pseudo-version is public: `v0.0.0-20190717161051-705d9623b7c1`.
        // Build ids and revisions are public; a part of a known id is told by who knows that, see `Pseudonyms::is_part`.
        Kind::Id if !matches!(text.len(), 12 | 32 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit()) => false,
        Kind::Id if text.len() == 12 => {
            let dated = before.len() >= 15
                && before.ends_with(b"-")
                && before[before.len() - 15..before.len() - 1].iter().all(u8::is_ascii_digit);
            digit && letter && !dated
        }
        Kind::Id if text.len() < 32 => digit,
        Kind::Id => text.bytes().any(|b| b != b'0') && (letter || text.len() == 64),
        Kind::Uuid => text.bytes().any(|b| !matches!(b, b'0' | b'-' | b'_')),
        Kind::Mac => !matches!(text.to_ascii_lowercase().as_str(), "00:00:00:00:00:00" | "ff:ff:ff:ff:ff:ff"),
        Kind::Ip if text.contains(':') => {
            // `12:34:56` is a time and `a::b` mostly C++; an address has many groups or a digit beside its `::`.
            let ip = text.parse::<Ipv6Addr>();
            ip.is_ok_and(|ip| !ip.is_loopback() && !ip.is_unspecified()) && (digit || text.matches(':').count() > 3)
        }
        Kind::Ip => {
            let inside =
                before.ends_with(b".") || after.first() == Some(&b'.') && after.get(1).is_some_and(u8::is_ascii_digit);
            let ip = text.parse::<Ipv4Addr>();
            !inside
                && ip.is_ok_and(|ip| {
                    !ip.is_loopback() && !ip.is_unspecified() && !ip.is_broadcast() && ip.octets()[0] != 0
                })
        }
        Kind::Email => !text.ends_with(".service") && !text.ends_with(".mail.invalid") && !text.ends_with(".go"),
        Kind::Host => !is_public_host(text) && text.parse::<Ipv4Addr>().is_err(),
        Kind::User => !super::learn::is_common(text),
        Kind::Secret => {
            let plain = ["true", "false", "null", "nil", "none", "<nil>", "redacted"];
            // "basic authentication" is no secret.
            let word = [&b"r "[..], b"c ", b"e "].iter().any(|end| before.ends_with(end))
                && text.bytes().all(|b| b.is_ascii_lowercase());
            let number = text.bytes().all(|b| b.is_ascii_digit() || b == b'*' || b == b'.');
            let value = plain.contains(&text.to_ascii_lowercase().as_str()) || text.starts_with(['/']);
            !(word || number || value || text.starts_with("0x"))
        }
        _ => true,
    }
}
