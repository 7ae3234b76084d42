//! Mounts and other listings.

use crate::common::{line, parse, sample};
use holdup_parsers::evidence::InputKind;

#[test]
fn mounts_in_both_forms() {
    for (name, count) in [("incidents/mount.txt", 25), ("incidents/proc-mounts.txt", 21)] {
        let text = sample(name);
        let (kind, node) = parse(&text);
        assert_eq!((kind, node.mounts.len()), (InputKind::Mounts, count), "{name}");
        for mount in &node.mounts {
            let source = line(&text, mount.place);
            assert!(
                source.starts_with(&mount.device) && source.contains(&mount.point) && source.contains(&mount.options)
            );
        }
    }
    // truth.json: the network filesystem that does not answer.
    let (_, node) = parse(&sample("incidents/mount.txt"));
    let nas = node.mounts.iter().find(|m| m.point == "/mnt/nas/logs").expect("the mount");
    assert_eq!((nas.device.as_str(), nas.fstype.as_str()), ("filer01:/export/logs", "fuse.nasfs"));
}

#[test]
fn mounts_of_findmnt_and_mountinfo() {
    for name in ["findmnt", "findmnt-l", "findmnt-D", "mountinfo"] {
        let text = sample(&format!("tools/{name}.txt"));
        let (kind, node) = parse(&text);
        assert_eq!(kind, InputKind::Mounts, "{name}");
        let rows = text.lines().count() - usize::from(text.starts_with(['T', 'S']));
        assert_eq!(node.mounts.len(), rows, "{name}");
        let root = node.mounts.iter().find(|m| m.point == "/").expect("the root");
        assert_eq!((root.device.as_str(), root.fstype.as_str()), ("/dev/vda", "ext4"), "{name}");
        if name.ends_with("info") || name.ends_with("-l") {
            assert_eq!(root.device_number.as_deref(), Some("254:0"), "{name}");
        }
        assert!(node.mounts.iter().all(|m| line(&text, m.place).contains(&m.point)), "{name}");
    }
    let (_, node) = parse("server:/a\\040b /mnt/a\\040b nfs4 rw,hard,addr=10.0.0.9 0 0\n");
    assert_eq!((node.mounts[0].device.as_str(), node.mounts[0].point.as_str()), ("server:/a b", "/mnt/a b"));
}

#[test]
fn sockets_and_their_peers() {
    for name in ["lsof-p", "lsof-U", "lsof-E", "ss-xp", "ss-anp", "ss-lxp"] {
        let text = sample(&format!("tools/{name}.txt"));
        let (_, node) = parse(&text);
        let listener = node.sockets.iter().find(|s| s.local == "/tmp/w.sock" && s.pid == Some(25027)).expect(name);
        assert_eq!((listener.fd, listener.inode, listener.family.as_str()), (Some(7), Some(37816), "unix"), "{name}");
        assert_eq!(listener.program.as_deref(), Some("waiters"));
        for socket in node.sockets.iter().filter(|s| s.pid.is_some()) {
            let source = line(&text, socket.place);
            assert!(source.contains(&socket.fd.expect("a descriptor").to_string()), "{name}: {source}");
            assert!(source.contains(&socket.inode.expect("an inode").to_string()), "{name}: {source}");
        }
        if !text.contains("37815") || name == "lsof-p" || name == "lsof-U" {
            continue;
        }
        let end = node.sockets.iter().find(|s| s.inode == Some(37814) && s.pid == Some(25027)).expect(name);
        assert_eq!(end.peer_inode, Some(37815), "{name}");
    }
    let (_, node) =
        parse("u_str ESTAB 0 0 /run/containerd/containerd.sock 8123 * 8122 users:((\"containerd\",pid=964,fd=12))\n");
    assert_eq!(node.sockets[0].local, "/run/containerd/containerd.sock");
    assert_eq!((node.sockets[0].inode, node.sockets[0].peer_inode), (Some(8123), Some(8122)));
}

#[test]
fn file_locks_and_who_waits() {
    for name in ["lslocks", "lslocks-b", "proc-locks"] {
        let (_, node) = parse(&sample(&format!("tools/{name}.txt")));
        let waiter = node.file_locks.iter().find(|l| l.waits).expect(name);
        assert_eq!((waiter.pid, waiter.kind.as_str(), waiter.mode.as_str()), (25029, "FLOCK", "WRITE"), "{name}");
        if name != "lslocks" {
            assert_eq!(waiter.blocker, Some(25027), "{name}");
        }
        let holder = node.file_locks.iter().find(|l| l.pid == 25027).expect(name);
        assert!(!holder.waits && holder.path == waiter.path, "{name}");
    }
}
