//! Whom a process without a dump is known to call: data of `rules/peers.toml`.

use serde::Deserialize;

/// A known pair of client and server.
#[derive(Debug, Clone, Deserialize)]
pub struct Peer {
    /// Program or role of the caller.
    pub client: String,
    /// Text that its command line must hold.
    #[serde(default)]
    pub argument: Option<String>,
    /// Program or role of who answers.
    pub server: String,
    /// `dbus`, `unix`, `http` …
    pub over: String,
    /// One sentence.
    pub why: String,
}

/// All of them.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Peers {
    #[serde(default, rename = "peer")]
    peers: Vec<Peer>,
}

impl Peers {
    /// The pairs that come with the program.
    pub fn builtin() -> Self {
        toml::from_str(include_str!("../rules/peers.toml")).unwrap_or_default()
    }

    /// The pairs whose caller is a process of that program, role and command line.
    pub fn of<'p>(&'p self, name: &'p str, role: &'p str, command: &'p str) -> impl Iterator<Item = &'p Peer> {
        self.peers.iter().filter(move |peer| {
            (peer.client == name || peer.client == role)
                && peer.argument.as_deref().is_none_or(|argument| command.contains(argument))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_builtin_pairs_parse() {
        let peers = Peers::builtin();
        assert!(peers.of("runc", "runc", "runc --systemd-cgroup create x").any(|p| p.server == "systemd"));
        assert!(!peers.of("runc", "runc", "runc create x").any(|p| p.server == "systemd"));
    }
}
