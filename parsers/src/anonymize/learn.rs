//! Where names stand: the places of logs, listings and messages at which a word is somebody's choice.

use super::pseudonym::{Kind, Pseudonyms};
use crate::evidence::{Evidence, Mount};
use rayon::prelude::*;
use regex::bytes::Regex;
use std::sync::OnceLock;

/// Names that everybody has: programs, system users, namespaces, words of log formats.
const COMMON: &[&str] = &[
    "localhost",
    "localdomain",
    "root",
    "daemon",
    "nobody",
    "nogroup",
    "systemd",
    "messagebus",
    "dbus",
    "dbus-daemon",
    "www-data",
    "syslog",
    "sshd",
    "bin",
    "sys",
    "sync",
    "mail",
    "man",
    "ntp",
    "chrony",
    "polkitd",
    "tss",
    "backup",
    "users",
    "user",
    "default",
    "kube-system",
    "kube-public",
    "kube-node-lease",
    "moby",
    "k8s.io",
    "plugins.moby",
    "pod",
    "pods",
    "container",
    "containers",
    "containerd",
    "docker",
    "dockerd",
    "kubelet",
    "kubernetes",
    "kube-proxy",
    "runc",
    "crio",
    "cri-o",
    "conmon",
    "podman",
    "buildkit",
    "terway",
    "terwayd",
    "calico",
    "cilium",
    "flannel",
    "cni",
    "shim",
    "containerd-shim",
    "containerd-shim-runc-v2",
    "sandbox",
    "pause",
    "none",
    "null",
    "nil",
    "true",
    "false",
    "unknown",
    "info",
    "warn",
    "warning",
    "error",
    "debug",
    "fatal",
    "notice",
    "trace",
    "stdout",
    "stderr",
    "stdin",
    "kernel",
    "kernel:",
    "node",
    "host",
    "name",
    "id",
    "tmpfs",
    "overlay",
    "proc",
    "sysfs",
    "shm",
    "all",
    "any",
    "self",
    "and",
    "or",
    "is",
    "not",
    "the",
    "to",
    "of",
    "in",
    "on",
    "for",
    "with",
    "from",
    "test",
    "goroutine",
    "main",
    "runtime",
    "service",
    "unit",
    "cgroup",
    "cgroupfs",
    "volume",
    "volumes",
    "image",
    "images",
    "latest",
    "library",
    "com",
    "net",
    "org",
    "io",
    "local",
    "internal",
    "svc",
    "cluster",
    "d",
    "api.moby.localhost",
    "plugin",
];

/// Folders that every system has, or that daemons make.
const SYSTEM_FOLDERS: &[&str] = &[
    "bin",
    "boot",
    "dev",
    "etc",
    "home",
    "lib",
    "lib64",
    "media",
    "mnt",
    "opt",
    "proc",
    "root",
    "run",
    "sbin",
    "srv",
    "sys",
    "tmp",
    "usr",
    "var",
    "local",
    "share",
    "log",
    "cache",
    "spool",
    "lock",
    "kubelet",
    "docker",
    "containerd",
    "pods",
    "volumes",
    "plugins",
    "overlay",
    "overlay2",
    "overlayfs",
    "merged",
    "diff",
    "work",
    "rootfs",
    "containers",
    "shm",
    "netns",
    "cgroup",
    "fs",
    "kernel",
    "debug",
    "mapper",
    "disk",
    "hugepages",
    "mqueue",
    "pts",
    "systemd",
    "user",
    "export",
    "exports",
    "snap",
    "efi",
    "nfs",
];

/// Whether a word is no name of somebody's.
pub fn is_common(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    COMMON.contains(&lower.as_str()) || lower.starts_with("systemd-") || lower.starts_with("docker-containerd")
}

/// Whether a folder's name tells nothing.
pub fn is_system_folder(part: &str) -> bool {
    SYSTEM_FOLDERS.contains(&part)
        || part.starts_with("io.containerd.")
        || part.starts_with("kubernetes.io~")
        || part.len() < 2
}

/// A place where names stand.
struct Site {
    regex: Regex,
    /// Kind of each group.
    groups: &'static [Kind],
    /// The first group holds several, as arguments of a command.
    words: bool,
}

/// Between a key and its value, in any quoting: `=`, `":"`, `\":\"`.
const IS: &str = r#"(?:\\*["'])?\s?[=:]\s?(?:\\*["'])?"#;

/// Commands all of whose arguments are containers.
const COMMANDS: &str = r"(?-u)\b(?:docker|podman|nerdctl) (?:container )?(?:start|stop|kill|restart|inspect|logs|rm|wait|stats|pause|unpause)((?: +(?:-[a-z-]+(?:=[^\s]+)?|[A-Za-z0-9][A-Za-z0-9_.-]*))+)";

fn sites() -> &'static [Site] {
    static SITES: OnceLock<Vec<Site>> = OnceLock::new();
    SITES.get_or_init(|| {
        use Kind::{Container, Host, Image, Namespace, Pod, User, Volume};
        let word = r"([A-Za-z0-9][A-Za-z0-9_.-]*)";
        let sources: Vec<(String, &'static [Kind])> = vec![
            // Prefixes of journald and syslog: time, host, program[pid].
            (r"(?m-u)^(?:<[0-9]+>)?[A-Z][a-z]{2} [ 0-9][0-9] [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)? ([A-Za-z0-9][A-Za-z0-9_.-]*) [^\s:\[]+(?:\[[0-9]+\])?: ".into(), &[Host]),
            (r"(?m-u)^(?:<[0-9]+>1? ?)?[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.,]+(?:Z|[+-][0-9:]+)? ([A-Za-z0-9][A-Za-z0-9_.-]*) [^\s:\[]+\[[0-9]+\]: ".into(), &[Host]),
            (r"(?m-u)^<[0-9]+>1 [0-9]{4}-\S+ ([A-Za-z0-9][A-Za-z0-9_.-]*) ".into(), &[Host]),
            (format!(r"(?i-u)(?:_HOSTNAME|hostname(?:[-_]override)?|node[-_]?name|host[-_]name|nodeRef|advertise-address|_HOST){IS}{word}"), &[Host]),
            (format!(r#"(?-u)\bnode=\\*"{word}"#), &[Host]),
            (r"(?-u)nfs: server ([A-Za-z0-9][A-Za-z0-9_.-]*)[ ,]".into(), &[Host]),
            (r"(?-u)(?:Hostname|Name): +([A-Za-z0-9][A-Za-z0-9.-]*)\nRoles:".into(), &[Host]),
            (r#"(?-u)\bpods?=\\*\[?\\*"([a-z0-9.-]+)/([a-z0-9.-]+)"#.into(), &[Namespace, Pod]),
            (r"(?-u)PodSandboxMetadata\{Name:([^,}\s]+),(?:Uid:[^,}]*,Namespace:([^,}\s]+),)?".into(), &[Pod, Namespace]),
            (r"(?-u)ContainerMetadata\{Name:([^,}\s]+),".into(), &[Container]),
            (format!(r"(?i-u)(?:pod[_-]?name|kubernetes\.pod\.name|statefulset|daemonset|deployment|replicaset){IS}{word}"), &[Pod]),
            (format!(r"(?i-u)(?:container[_-]?name|kubernetes\.container\.name){IS}/?{word}"), &[Container]),
            (format!(r"(?i-u)(?:(?:outer)?volume(?:spec)?name|persistentvolumeclaim|claimName|pvc|pv[_-]name|volume[_-]name){IS}{word}"), &[Volume]),
            (format!(r"(?i-u)(?:pod[_-]?namespace|kubernetes\.pod\.namespace|namespace){IS}{word}"), &[Namespace]),
            (r"(?-u)k8s_([A-Za-z0-9.-]+)_([a-z0-9.-]+)_([a-z0-9.-]+)_[0-9a-f-]{36}_[0-9]+".into(), &[Container, Pod, Namespace]),
            (r"(?-u)/var/log/pods/([a-z0-9.-]+)_([a-z0-9.-]+)_[0-9a-f-]{32,36}/(?:([a-z0-9.-]+)/)?".into(), &[Namespace, Pod, Container]),
            (r"(?-u)/var/log/containers/([a-z0-9.-]+)_([a-z0-9.-]+)_([a-z0-9.-]+)-[0-9a-f]{64}".into(), &[Pod, Namespace, Container]),
            (r"(?-u)volumes?/kubernetes\.io~[a-z0-9-]+/([A-Za-z0-9][A-Za-z0-9_.-]*)".into(), &[Volume]),
            (format!(r"(?-u)(?:Image|image|imageName|image_name){IS}([a-z0-9][A-Za-z0-9_./:@-]+)"), &[Image]),
            (r#"(?m-u)^[0-9a-f]{12,64} {2,}([a-z0-9][^\s]*) {2,}\\?""#.into(), &[Image]),
            (r#"(?m-u)^[0-9a-f]{12,64} {2,}[a-z0-9][^\s]* {2,}".*? {2,}([A-Za-z0-9][A-Za-z0-9_.-]+)[ \r]*$"#.into(), &[Container]),
            (r"(?-u)Image(?:Create|Update|Delete)\{Name:([^,}\s]+)".into(), &[Image]),
            (r"(?-u)(?:fromImage|repo)=([a-z0-9][A-Za-z0-9._/-]*)".into(), &[Image]),
            (r#"(?-u)[\s"'=,(]((?:[a-z0-9-]+\.)+[a-z]{2,}(?::[0-9]+)?/[a-z0-9._/-]*[a-z0-9]:[A-Za-z0-9][A-Za-z0-9._-]*)"#.into(), &[Image]),
            (r"(?-u)runtime\.v2\.task/([A-Za-z0-9_.-]+)/([A-Za-z0-9][A-Za-z0-9_.-]*)".into(), &[Namespace, Container]),
            (r"(?-u)/containers/([A-Za-z0-9][A-Za-z0-9_.-]+)/(?:json|start|stop|exec|kill|wait|logs|attach|resize|archive|top|stats|restart|pause|unpause|update|rename)".into(), &[Container]),
            (r"(?-u)\b(?:docker|podman|nerdctl)[^\n;|&]{0,200}? --name[= ]([A-Za-z0-9][A-Za-z0-9_.-]+)".into(), &[Container]),
            (r"(?-u)\b(?:docker|podman|nerdctl) (?:container )?exec(?: -[a-z-]+)* ([A-Za-z0-9][A-Za-z0-9_.-]+)".into(), &[Container]),
            (r"(?-u)\bkubectl(?: -n [a-z0-9-]+)? (?:exec|logs|attach|cp)(?: -[a-z-]+)* ([a-z0-9][a-z0-9.-]+)".into(), &[Pod]),
            (r"(?-u)\bkubectl(?: -n [a-z0-9-]+)? (?:get|describe|delete|edit) (?:pods?|po)[ /]([a-z0-9][a-z0-9.-]+)".into(), &[Pod]),
            (COMMANDS.into(), &[Container]),
            (format!(r"(?i-u)\b(?:user(?:name)?|_?logname|sudo_user|ruser){IS}([a-z_][a-z0-9_.-]*)"), &[User]),
            (r"(?-u)\bfor (?:invalid )?user ([A-Za-z_][A-Za-z0-9_.-]*)".into(), &[User]),
            (r"(?-u)/(?:home|Users)/([A-Za-z0-9_][A-Za-z0-9._-]*)".into(), &[User]),
        ];
        sources
            .into_iter()
            .filter_map(|(source, groups)| {
                Some(Site { regex: Regex::new(&source).ok()?, groups, words: source == COMMANDS })
            })
            .collect()
    })
}

/// Learns the names that stand in `text`.
pub fn from_text(text: &[u8], names: &mut Pseudonyms) {
    let found: Vec<Vec<(Kind, &str)>> = sites().par_iter().map(|site| words_at(site, text)).collect();
    for (kind, word) in found.into_iter().flatten() {
        learn(kind, word, names);
    }
    users_of_ps(text, names);
    for pattern in super::patterns::all().iter().filter(|p| matches!(p.kind, Kind::Id | Kind::Uuid)) {
        let hex = |at: Option<usize>| at.and_then(|at| text.get(at)).is_some_and(u8::is_ascii_hexdigit);
        let whole = |m: &regex::bytes::Match<'_>| !hex(m.start().checked_sub(1)) && !hex(Some(m.end()));
        for found in pattern.regex.find_iter(text).filter(whole) {
            let digits: String = found
                .as_bytes()
                .iter()
                .filter(|b| b.is_ascii_hexdigit())
                .map(|&b| b.to_ascii_lowercase() as char)
                .collect();
            // A part of a longer run of digits, or a build id (40), is none.
            if matches!(digits.len(), 32 | 64) {
                names.id(&digits);
            }
        }
    }
}

fn words_at<'t>(site: &Site, text: &'t [u8]) -> Vec<(Kind, &'t str)> {
    let mut words = Vec::new();
    for found in site.regex.captures_iter(text) {
        for (n, &kind) in site.groups.iter().enumerate() {
            let Some(word) = found.get(n + 1).and_then(|m| std::str::from_utf8(m.as_bytes()).ok()) else { continue };
            if site.words {
                let names = word.split_whitespace().filter(|word| !word.starts_with('-') && !word.contains('/'));
                words.extend(names.map(|word| (kind, word)));
            } else {
                words.push((kind, word));
            }
        }
    }
    words
}

/// The first column of `ps aux`, `ps -ef`.
fn users_of_ps(text: &[u8], names: &mut Pseudonyms) {
    let head = text.get(..text.len().min(4096)).unwrap_or(text);
    let is_ps = |line: &[u8]| {
        let line = String::from_utf8_lossy(line);
        let mut words = line.split_whitespace();
        matches!(words.next(), Some("UID" | "USER" | "RUSER")) && words.any(|word| word == "PID")
    };
    let Some(at) = head.split(|&b| b == b'\n').position(is_ps) else { return };
    for line in text.split(|&b| b == b'\n').skip(at + 1) {
        let first = line.split(|b| b.is_ascii_whitespace()).next().unwrap_or(&[]);
        let Ok(user) = std::str::from_utf8(first) else { continue };
        // Long names are cut with a plus sign; numbers are uids.
        if !user.is_empty() && !user.ends_with('+') && user.bytes().any(|b| b.is_ascii_alphabetic()) {
            learn(Kind::User, user, names);
        }
    }
}

/// Learns what structured evidence says.
pub fn from_evidence(evidence: &Evidence, names: &mut Pseudonyms) {
    let hosts = evidence.snapshots.iter().filter_map(|s| s.process.host.as_deref());
    let hosts = hosts.chain(evidence.node.log_lines.iter().filter_map(|line| line.host.as_deref()));
    for host in hosts {
        learn(Kind::Host, host, names);
    }
    for report in evidence.node.kernel.iter().filter(|r| r.kind.starts_with("nfs") || r.kind.starts_with("cifs")) {
        if let Some(server) = &report.subject {
            learn(Kind::Host, server, names);
        }
    }
    for mount in &evidence.node.mounts {
        from_mount(mount, names);
    }
    for container in &evidence.node.containers {
        learn(Kind::Container, &container.name, names);
        if let Some(pod) = &container.pod {
            learn(Kind::Pod, pod, names);
        }
    }
}

fn from_mount(mount: &Mount, names: &mut Pseudonyms) {
    let own = |point: &str| {
        const MADE: [&str; 8] =
            ["/proc", "/sys", "/dev", "/run", "/var/run", "/var/lib/docker", "/var/lib/containerd", "/var/lib/kubelet"];
        !MADE
            .iter()
            .any(|folder| point == *folder || point.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')))
    };
    if mount.point.starts_with('/') && own(&mount.point) {
        learn_path(&mount.point, names);
    }
    let device = mount.device.as_str();
    if let Some(share) = device.strip_prefix("//") {
        let (host, path) = share.split_once('/').unwrap_or((share, ""));
        learn(Kind::Host, host, names);
        learn_path(&format!("/{path}"), names);
    } else if let Some((host, path)) = device.split_once(":/") {
        let host = host.rsplit_once('@').map_or(host, |(user, host)| {
            learn(Kind::User, user, names);
            host
        });
        learn(Kind::Host, host.trim_matches(['[', ']']), names);
        learn_path(&format!("/{path}"), names);
    } else if device.starts_with('/') && own(device) {
        learn_path(device, names);
    }
}

/// Learns a path and those above it, as far as they have a folder of somebody's naming.
fn learn_path(path: &str, names: &mut Pseudonyms) {
    let parts: Vec<&str> = path.split('/').skip(1).filter(|part| !part.is_empty()).collect();
    for end in 1..=parts.len() {
        let Some(&last) = parts.get(end - 1) else { continue };
        if !is_system_folder(last) {
            names.path(&format!("/{}", parts.get(..end).unwrap_or(&[]).join("/")));
        }
    }
}

/// Learns a word, if it is a name.
fn learn(kind: Kind, word: &str, names: &mut Pseudonyms) {
    let word = word.trim_matches(['.', ':', '-', '_', '/']);
    match kind {
        Kind::Image if word.contains(".go:") || word.contains(".s:") => {}
        Kind::Image => {
            // `registry.local:5000/team/app:1.2@sha256:…`: the tag is a version.
            let path = word.split('@').next().unwrap_or(word);
            let path = match path.rsplit_once(':') {
                Some((before, tag)) if !tag.contains('/') => before,
                _ => path,
            };
            let mut parts = path.split('/').peekable();
            while let Some(part) = parts.next() {
                let part = part.split(':').next().unwrap_or(part);
                if part.contains('.') && parts.peek().is_some() {
                    learn(Kind::Host, part, names);
                } else if is_name(part) {
                    names.name(Kind::Image, part);
                }
            }
        }
        Kind::Host => {
            if super::patterns::is_public_host(word) || !is_name(word) || word.parse::<std::net::IpAddr>().is_ok() {
                return;
            }
            names.name(Kind::Host, word);
            if let Some((short, _)) = word.split_once('.').filter(|(short, _)| is_name(short)) {
                names.name(Kind::Host, short);
            }
        }
        _ if is_name(word) => names.name(kind, word),
        _ => {}
    }
}

/// Ids have patterns of their own, numbers are no names, and some words everybody has.
fn is_name(word: &str) -> bool {
    let id = word.len() >= 12 && word.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    word.len() >= 2
        && word.len() <= 253
        && !id
        && !is_common(word)
        && word.bytes().any(|b| b.is_ascii_alphabetic())
        && !word.starts_with("0x")
}
