//! `lsof` and `ss`: who is at the other end of a unix socket.

use super::lines::{Line, Lines, Stop, words};
use crate::evidence::{NodeEvidence, Socket};
use regex::Regex;
use std::sync::LazyLock;

/// Reads `lsof`, whose header is `line`. Only sockets are kept.
pub(super) fn read_lsof(lines: &Lines<'_>, line: &Line<'_>, out: &mut NodeEvidence) -> Option<Stop> {
    let names: Vec<&str> = line.text.split_whitespace().collect();
    let position = |name: &str| names.iter().position(|n| *n == name);
    let (command, pid, fd, kind) = (position("COMMAND")?, position("PID")?, position("FD")?, position("TYPE")?);
    position("NAME")?;
    // With TID and TASKCMD shown, rows of a process's first thread leave both blank.
    let with_threads = position("TID").is_some();
    let mut rows = 0u32;
    let mut stop = Stop::after(line);
    for row in lines.from(line).skip(1) {
        let mut fields = words(&row.text);
        let has_type = |fields: &[(usize, &str)], shift: usize| {
            fields.get(fd - shift).is_some_and(|(_, w)| is_fd(w)) && fields.get(kind - shift).is_some()
        };
        let shift = match with_threads {
            true if !has_type(&fields, 0) && has_type(&fields, 2) => 2,
            _ if has_type(&fields, 0) => 0,
            _ => {
                // `lsof` complains between its rows.
                if row.text.starts_with("lsof: ") || row.text.trim_start().starts_with("Output information") {
                    continue;
                }
                break;
            }
        };
        let Some(number) = fields.get(pid).and_then(|(_, w)| w.parse::<u32>().ok()) else { break };
        rows += 1;
        stop = Stop::after(&row);
        let program = fields.get(command).map(|(_, w)| w.replace("\\x20", " "));
        let descriptor = fields.get(fd - shift).map_or("", |(_, w)| *w);
        let descriptor = descriptor.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok();
        let family = fields.get(kind - shift).map_or("", |(_, w)| *w).to_string();
        let rest = fields.split_off((kind - shift + 1).min(fields.len()));
        let mut socket =
            Socket { pid: Some(number), program, fd: descriptor, place: lines.place(row.number), ..Socket::default() };
        match family.as_str() {
            "unix" => {
                // DEVICE SIZE/OFF NODE NAME
                socket.family = "unix".to_string();
                socket.inode = rest.get(2).and_then(|(_, w)| w.parse().ok());
                let name = rest.get(3).and_then(|(at, _)| row.text.get(*at..)).unwrap_or("");
                let path = name.split(" type=").next().unwrap_or(name);
                socket.local = if path.starts_with("type=") { String::new() } else { path.trim_end().to_string() };
                if let Some(peer) = name.split("->INO=").nth(1) {
                    socket.peer_inode = peer.split_whitespace().next().and_then(|w| w.parse().ok());
                    socket.peer = peer.split_once(' ').map(|(_, who)| who.to_string());
                }
            }
            "IPv4" | "IPv6" => {
                // DEVICE is the inode, NODE the protocol.
                socket.family = rest.get(2).map_or("inet", |(_, w)| *w).to_ascii_lowercase();
                socket.inode = rest.first().and_then(|(_, w)| w.parse().ok());
                let name = rest.get(3).map_or("", |(_, w)| *w);
                let (local, peer) = name.split_once("->").map_or((name, None), |(l, p)| (l, Some(p.to_string())));
                socket.local = local.to_string();
                socket.peer = peer;
            }
            "netlink" | "sock" => {
                socket.family = family;
                socket.inode = rest.iter().take(3).filter_map(|(_, w)| w.parse().ok()).next_back();
                socket.local = rest.last().map_or("", |(_, w)| *w).to_string();
            }
            _ => continue,
        }
        out.sockets.push(socket);
    }
    (rows > 0).then_some(stop)
}

fn is_fd(word: &str) -> bool {
    matches!(
        word,
        "cwd" | "rtd" | "txt" | "mem" | "DEL" | "err" | "NOFD" | "mmap" | "jld" | "ltx" | "pd" | "tr" | "v86" | "m86"
    ) || word.starts_with(|c: char| c.is_ascii_digit())
        && word.trim_start_matches(|c: char| c.is_ascii_digit()).chars().all(|c| c.is_ascii_alphabetic() || c == '-')
}

static USERS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"\("((?:[^"\\]|\\.)*)",pid=(\d+),fd=(\d+)\)"#).ok());

/// Reads `ss`: from its header, or from rows that `grep` left (`u_str ESTAB 0 0 …`).
pub(super) fn read_ss(lines: &Lines<'_>, line: &Line<'_>, out: &mut NodeEvidence) -> Option<Stop> {
    let names: Vec<&str> = line.text.split_whitespace().collect();
    let is_header = names.contains(&"Recv-Q") && names.contains(&"Send-Q") && names.contains(&"Local");
    let with_family = !is_header || names.first() == Some(&"Netid");
    let before = out.sockets.len();
    let mut stop = None;
    for row in lines.from(line).skip(usize::from(is_header)) {
        let fields: Vec<&str> = row.text.split_whitespace().collect();
        let shift = usize::from(with_family);
        let number = |i: usize| fields.get(i).is_some_and(|w| w.bytes().all(|b| b.is_ascii_digit()));
        let family = if with_family { fields.first().copied().unwrap_or("") } else { "tcp" };
        if !number(shift + 1) || !number(shift + 2) || (with_family && !is_family(family)) {
            break;
        }
        let rest = fields.get(shift + 3..).unwrap_or(&[]);
        let users = rest.iter().position(|w| w.starts_with("users:(")).unwrap_or(rest.len());
        let ends = rest.get(..users).unwrap_or(&[]);
        let mut socket = Socket { place: lines.place(row.number), ..Socket::default() };
        if family.starts_with("u_") {
            // path inode  * peer-inode
            socket.family = "unix".to_string();
            let star = ends.iter().rposition(|w| *w == "*").filter(|at| *at >= 2).or(ends.len().checked_sub(2));
            let local = star.and_then(|at| ends.get(..at)).unwrap_or(&[]);
            socket.inode = local.last().and_then(|w| w.parse().ok());
            let path = local.get(..local.len().saturating_sub(1)).unwrap_or(&[]).join(" ");
            socket.local = if path == "*" { String::new() } else { path };
            let peer = star.and_then(|at| ends.get(at..)).unwrap_or(&[]);
            socket.peer_inode = peer.get(1).and_then(|w| w.parse().ok()).filter(|inode| *inode != 0);
            socket.peer = peer.first().filter(|w| **w != "*").map(|w| w.to_string());
        } else {
            socket.family = if family == "nl" { "netlink".to_string() } else { family.to_string() };
            socket.local = ends.first().copied().unwrap_or("").to_string();
            socket.peer = ends.get(1).filter(|w| **w != "*").map(|w| w.to_string());
        }
        let mut named = false;
        for user in USERS.iter().flat_map(|re| re.captures_iter(&row.text)) {
            named = true;
            out.sockets.push(Socket {
                program: user.get(1).map(|m| m.as_str().to_string()),
                pid: user.get(2).and_then(|m| m.as_str().parse().ok()),
                fd: user.get(3).and_then(|m| m.as_str().parse().ok()),
                ..socket.clone()
            });
        }
        if !named {
            out.sockets.push(socket);
        }
        stop = Some(Stop::after(&row));
    }
    if out.sockets.len() == before { None } else { stop }
}

fn is_family(word: &str) -> bool {
    matches!(
        word,
        "u_str"
            | "u_dgr"
            | "u_seq"
            | "nl"
            | "tcp"
            | "udp"
            | "raw"
            | "p_raw"
            | "p_dgr"
            | "icmp6"
            | "v_str"
            | "mptcp"
            | "sctp"
            | "tipc"
            | "xdp"
            | "???"
    )
}
