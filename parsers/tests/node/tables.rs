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
