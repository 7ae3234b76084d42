//! Words for what goroutines do and where evidence stands.

use crate::diagnosis::{Evidence, Node, NodeId, Source};
use crate::snap::Snap;
use crate::waits::Primitive;

/// What a goroutine is stuck in.
#[derive(Debug, Clone, Default)]
pub struct Doing {
    /// The frame that says most: the innermost one outside the standard library, or the one that a rule names.
    pub function: String,
    /// `recvfrom on a netlink socket`, `chan send`, `answer to RuntimeService/StopPodSandbox`.
    pub blocked_in: String,
    /// Line of that frame in the snapshot's text.
    pub line: u32,
}

/// Says what goroutine `i` is doing.
pub fn doing(snap: &Snap<'_>, i: usize) -> Doing {
    let g = snap.goroutine(i);
    let frames = snap.s.frames_of(g);
    let telling = snap.telling_frame(i);
    let mut frame = telling;
    let state = snap.s.names.get(g.state);
    let call = syscall_name(snap, i);
    let mut blocked_in = match snap.waits[i].primitive {
        Primitive::Syscall => call.clone().map_or("a system call".to_string(), |c| format!("system call {c}")),
        Primitive::PollRead => "reading from a socket or pipe".into(),
        Primitive::PollWrite => "writing to a socket or pipe".into(),
        Primitive::Cgo => "C code".into(),
        Primitive::Unknown if state.is_empty() => "an unknown state".into(),
        _ => state.to_string(),
    };
    if let Some(external) = snap.bound.external(snap.s, g) {
        frame = external.frame;
        let call = call.filter(|c| !external.rule.waits_for.contains(c.as_str()));
        blocked_in = match call {
            Some(call) => format!("{call}: {}", external.rule.waits_for),
            None => external.rule.waits_for.clone(),
        };
    } else if let Some(rpc) = snap.bound.rpc_client(snap.s, g) {
        frame = rpc.frame;
        blocked_in = format!("waiting for the answer to {} ({})", rpc.name(), rpc.rule.transport);
    }
    let function = frames.get(frame).map_or("", |_| snap.frame_name(i, frame)).to_string();
    let line = frames.get(frame).map_or(g.line, |f| f.line);
    Doing { function, blocked_in, line }
}

/// The name of the system call that a goroutine is in, from the innermost named wrapper: `recvfrom`.
pub fn syscall_name(snap: &Snap<'_>, i: usize) -> Option<String> {
    use crate::functions::Class;
    if snap.waits[i].primitive != Primitive::Syscall {
        return None;
    }
    let frames = snap.s.frames_of(snap.goroutine(i));
    let named = frames.iter().take(6).find(|f| snap.function(f.site).class == Class::NamedSyscall)?;
    let function = snap.function(named.site);
    Some(function.outer.to_ascii_lowercase())
}

/// Where lines `first..=last` of a snapshot's text stand in the user's files.
pub fn source(snap: &Snap<'_>, first: u32, last: u32) -> Option<Source> {
    if first == 0 {
        return None;
    }
    let from = snap.s.place(first)?;
    let to = snap.s.place(last.max(first)).filter(|p| p.input == from.input).unwrap_or(from);
    Some(Source {
        input: from.input as usize,
        line_start: Some(from.line),
        line_end: Some(to.line.max(from.line)),
        address: None,
    })
}

/// Evidence that rests on a frame (two lines) of a snapshot, or on an address where it is a core's.
pub fn frame_evidence(snap: &Snap<'_>, kind: &str, text: String, line: u32) -> Evidence {
    Evidence { kind: kind.into(), text, source: source(snap, line, line + 1), against: false }
}

/// The node of goroutine `i`.
pub fn goroutine_node(snap: &Snap<'_>, i: usize) -> Node {
    let g = snap.goroutine(i);
    let id = match g.id {
        Some(id) => NodeId::Number(id),
        None => NodeId::Name(format!("group {}", snap.group_of[i] + 1)),
    };
    Node { kind: "goroutine".into(), snapshot: Some(snap.id.clone()), id, label: snap.goroutine_label(i) }
}

/// `1 goroutine`, `1,048 goroutines`.
pub fn count(n: u64, singular: &str, plural: &str) -> String {
    format!("{} {}", grouped(n), if n == 1 { singular } else { plural })
}

/// 1048 as `1,048`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}
