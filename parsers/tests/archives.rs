//! Folders, archives and compressed files: what is in them is read, what is not to be trusted is refused and said.

use holdup_parsers::evidence::{Evidence, Input, Severity};
use holdup_parsers::{ReadOptions, read};
use std::io::Write;
use std::path::Path;

const DUMP: &str = "goroutine 7 [running]:\nmain.dump(0x1)\n\t/x/main.go:8 +0x5c\ncreated by main.main\n\t/x/main.go:4 +0x1f\n\n\
                    goroutine 9 [select, 3 minutes]:\nmain.wait(0xc000)\n\t/x/main.go:9 +0x5c\ncreated by main.main\n\t/x/main.go:5 +0x1f\n";

fn evidence(path: &Path) -> Evidence {
    let (evidence, unreadable) = read(&[path.to_path_buf()], &ReadOptions::default());
    assert_eq!(unreadable, [], "{}", path.display());
    evidence
}

fn of_bytes(name: &str, bytes: &[u8]) -> Evidence {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("written");
    evidence(&path)
}

fn goroutines(evidence: &Evidence) -> u64 {
    evidence.snapshots.iter().map(|s| s.goroutine_count()).sum()
}

fn input<'e>(evidence: &'e Evidence, end: &str) -> &'e Input {
    let found = evidence.inputs.iter().find(|input| input.path.ends_with(end));
    found.unwrap_or_else(|| panic!("{end} in {:?}", evidence.inputs.iter().map(|i| &i.path).collect::<Vec<_>>()))
}

fn says(input: &Input, severity: Severity, part: &str) -> bool {
    input.problems.iter().any(|p| p.severity == severity && p.message.contains(part))
}

fn said(evidence: &Evidence, severity: Severity, part: &str) -> bool {
    evidence.inputs.iter().any(|input| says(input, severity, part))
}

/// A tar of regular members, names written as they are (a tool would refuse some of them).
fn tar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in members {
        let mut header = tar::Header::new_gnu();
        if let Some(slot) = header.as_gnu_mut() {
            slot.name[..name.len()].copy_from_slice(name.as_bytes());
        }
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        builder.append(&header, *bytes).expect("a member");
    }
    builder.into_inner().expect("a tar")
}

fn zip(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in members {
        writer.start_file(*name, zip::write::SimpleFileOptions::default()).expect("a member");
        writer.write_all(bytes).expect("written");
    }
    writer.finish().expect("a zip").into_inner()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("written");
    encoder.finish().expect("gzip")
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = xz2::write::XzEncoder::new(Vec::new(), 1);
    encoder.write_all(bytes).expect("written");
    encoder.finish().expect("xz")
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(bytes).expect("written");
    encoder.finish().expect("bzip2")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).expect("zstd")
}

#[test]
fn every_archive_and_compression_is_opened_by_content() {
    let plain = tar(&[("run/containerd.stacks.log", DUMP.as_bytes()), ("run/notes.txt", b"nothing here\n")]);
    let zipped = zip(&[("run/containerd.stacks.log", DUMP.as_bytes())]);
    let cases: [(&str, Vec<u8>, &[&str]); 8] = [
        ("tar", plain.clone(), &["tar"]),
        ("tar.gz", gzip(&plain), &["gzip", "tar"]),
        ("tar.zst", zstd(&plain), &["zstd", "tar"]),
        ("tar.xz", xz(&plain), &["xz", "tar"]),
        ("tar.bz2", bzip2(&plain), &["bzip2", "tar"]),
        ("zip", zipped.clone(), &["zip"]),
        ("zip in tar.gz", gzip(&tar(&[("inner.zip", &zipped)])), &["gzip", "tar", "zip"]),
        ("tar.xz in zip", zip(&[("inner.bin", &xz(&plain))]), &["zip", "xz", "tar"]),
    ];
    for (what, bytes, envelopes) in cases {
        // The name says nothing.
        let found = of_bytes("upload.bin", &bytes);
        assert_eq!(goroutines(&found), 2, "{what}");
        let member = input(&found, "containerd.stacks.log");
        assert_eq!(member.envelopes, envelopes, "{what}");
        assert!(member.path.contains("upload.bin!/"), "{what}: {}", member.path);
        // Lines are those of the member.
        let snapshot = &found.snapshots[0];
        assert_eq!(snapshot.place(snapshot.goroutines[1].line).map(|p| p.line), Some(7), "{what}");
        assert!(found.inputs.iter().all(|i| i.problems.iter().all(|p| p.severity == Severity::Note)), "{what}");
    }
    for (what, bytes) in [("gz", gzip(DUMP.as_bytes())), ("zst", zstd(DUMP.as_bytes())), ("xz", xz(DUMP.as_bytes()))] {
        assert_eq!(goroutines(&of_bytes("core.bin", &bytes)), 2, "{what}");
    }
}

#[test]
fn names_and_links_lead_nowhere() {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, kind) in
        [("link", tar::EntryType::Symlink), ("hard", tar::EntryType::Link), ("dev", tar::EntryType::Char)]
    {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(0);
        builder.append_link(&mut header, name, "/etc/passwd").expect("a link");
    }
    let links = of_bytes("links.tar", &builder.into_inner().expect("a tar"));
    assert!(says(input(&links, "!/link"), Severity::Note, "not followed"));
    assert!(says(input(&links, "!/hard"), Severity::Note, "not followed"));
    assert!(links.snapshots.is_empty() && links.inputs.iter().all(|i| i.raw.bytes().is_empty()));

    // Members are read where they are; nothing is written by their names.
    let folder = tempfile::tempdir().expect("a folder");
    let deep = folder.path().join("a/b");
    std::fs::create_dir_all(&deep).expect("folders");
    for (name, bytes) in [
        ("t.tar", tar(&[("../../outside.txt", DUMP.as_bytes()), ("/etc/absolute.txt", DUMP.as_bytes())])),
        ("z.zip", zip(&[("../../outside.txt", DUMP.as_bytes()), ("/etc/absolute.txt", DUMP.as_bytes())])),
    ] {
        let path = deep.join(name);
        std::fs::write(&path, bytes).expect("written");
        let found = evidence(&path);
        assert_eq!(goroutines(&found), 4, "{name}");
        assert!(input(&found, "outside.txt").path.contains("!/"), "{name}");
    }
    assert!(!folder.path().join("outside.txt").exists() && !Path::new("/etc/absolute.txt").exists());
}

#[test]
fn a_bomb_is_stopped_and_said() {
    // 300 MiB of zeros in about 300 KiB, in a few: more than any log is compressed.
    let zeros = vec![0u8; 1 << 20];
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).expect("an encoder");
    for _ in 0..300 {
        encoder.write_all(&zeros).expect("written");
    }
    let bomb = encoder.finish().expect("zstd");
    assert!(bomb.len() < 100_000, "{}", bomb.len());
    let found = of_bytes("bomb.zst", &bomb);
    assert!(said(&found, Severity::Error, "times its size") || said(&found, Severity::Warning, "times its size"));
    assert!(found.snapshots.is_empty());
    // What stands before it in an archive is still read.
    let found = of_bytes("bomb.tar", &tar(&[("a.txt", DUMP.as_bytes()), ("b.zst", &bomb), ("c.txt", DUMP.as_bytes())]));
    assert!(goroutines(&found) >= 2);
}

#[test]
fn archives_too_deep_within_each_other_are_refused() {
    let mut bytes = DUMP.as_bytes().to_vec();
    for _ in 0..12 {
        bytes = gzip(&bytes);
    }
    let found = of_bytes("deep.gz", &bytes);
    assert!(said(&found, Severity::Error, "within each other"));
    assert_eq!(goroutines(&found), 0);
}

#[test]
fn too_many_members_are_cut_off_and_said() {
    let names: Vec<String> = (0..200_010).map(|i| format!("m{i}")).collect();
    let mut bytes = tar(&[("first.txt", DUMP.as_bytes())]);
    bytes.truncate(bytes.len() - 1024);
    let many: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
    bytes.extend(tar(&many));
    let found = of_bytes("many.tar.gz", &gzip(&bytes));
    assert_eq!(goroutines(&found), 2);
    assert!(said(&found, Severity::Error, "members"));
}

#[test]
fn a_cut_archive_gives_what_was_left() {
    let noise: Vec<u8> = (0..200_000u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let whole = tar(&[("a.txt", DUMP.as_bytes()), ("b.bin", &noise), ("c.txt", DUMP.as_bytes())]);
    for (what, bytes) in [
        ("tar", whole.clone()),
        ("gz", gzip(&whole)),
        ("zst", zstd(&whole)),
        ("xz", xz(&whole)),
        ("bz2", bzip2(&whole)),
    ] {
        let found = of_bytes("cut.bin", &bytes[..bytes.len() * 2 / 3]);
        assert!(goroutines(&found) == 2 || what == "bz2", "{what}: {}", goroutines(&found));
        let told = found.inputs.iter().flat_map(|i| &i.problems).any(|p| p.severity >= Severity::Warning);
        assert!(told, "{what}");
    }
    let zipped = zip(&[("a.txt", DUMP.as_bytes()), ("b.bin", &noise)]);
    let found = of_bytes("cut.zip", &zipped[..zipped.len() / 2]);
    assert!(found.inputs.iter().flat_map(|i| &i.problems).any(|p| p.severity >= Severity::Warning), "zip");
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_never_opened() {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    let outside = tempfile::tempdir().expect("a folder");
    std::fs::write(outside.path().join("secret.txt"), DUMP).expect("written");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    std::fs::write(path.join("dump.txt"), DUMP).expect("written");
    symlink(outside.path(), path.join("tree")).expect("a link");
    symlink(outside.path().join("secret.txt"), path.join("file")).expect("a link");
    symlink("loop", path.join("loop")).expect("a link");
    let socket = UnixListener::bind(path.join("containerd.sock")).expect("a socket");
    // Opening a pipe that nobody writes to would wait for ever.
    let pipe = std::process::Command::new("mkfifo").arg(path.join("log")).status().is_ok_and(|s| s.success());
    let found = evidence(path);
    drop(socket);
    assert_eq!(goroutines(&found), 2);
    for link in ["tree", "file", "loop"] {
        assert!(says(input(&found, link), Severity::Note, "not followed"), "{link}");
    }
    assert!(says(input(&found, "containerd.sock"), Severity::Note, "socket"));
    if pipe {
        assert!(says(input(&found, "/log"), Severity::Note, "pipe"));
    }
}

#[cfg(unix)]
#[test]
fn an_unreadable_member_does_not_spoil_the_folder() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("dump.txt"), DUMP).expect("written");
    let locked = folder.path().join("locked.txt");
    std::fs::write(&locked, DUMP).expect("written");
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o0)).expect("modes");
    let root_reads_all = std::fs::File::open(&locked).is_ok();
    let found = evidence(folder.path());
    if root_reads_all {
        assert_eq!(goroutines(&found), 4);
    } else {
        assert_eq!(goroutines(&found), 2);
        assert!(says(input(&found, "locked.txt"), Severity::Error, "permission denied"));
    }
}

/// A small tree of files below a new folder.
fn tree(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, bytes) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        std::fs::write(path, bytes).expect("written");
    }
    folder
}

/// The dump as lines of a journal or a container's log.
fn lines(prefix: &str) -> Vec<u8> {
    DUMP.lines().map(|line| format!("{prefix}{line}\n")).collect::<String>().into_bytes()
}

const PS: &[u8] = b"UID          PID    PPID  C STIME TTY          TIME CMD\nroot           1       0  0 12:00 ?        00:00:01 /sbin/init\n\
                    root        4711       1  0 12:00 ?        00:00:01 /usr/bin/containerd\n";

/// Layouts that people have, made by hand with the names that the tools use.
#[test]
fn layouts_of_common_tools_are_read_as_they_are() {
    let journal = lines("Nov 29 12:26:49 node1 containerd[4711]: ");
    let cri = lines("2026-11-29T12:26:49.687774381Z stderr F ");
    type Files<'a> = &'a [(&'a str, &'a [u8])];
    let layouts: [(&str, Files<'_>, u64); 4] = [
        (
            "sosreport",
            &[
                ("sosreport-node1-2026-11-29-abc/sos_commands/logs/journalctl_--no-pager_--boot", &journal),
                ("sosreport-node1-2026-11-29-abc/sos_commands/process/ps_-elfL", PS),
                (
                    "sosreport-node1-2026-11-29-abc/proc/mounts",
                    b"sysfs /sys sysfs rw,nosuid 0 0\nnfs1:/x /mnt nfs rw 0 0\n",
                ),
                ("sosreport-node1-2026-11-29-abc/version.txt", b"sosreport: 4.5.6\n"),
            ],
            2,
        ),
        (
            "must-gather",
            &[
                ("must-gather.local.1/quay-io-x/namespaces/kube-system/pods/p/c/c/logs/current.log", &cri),
                ("must-gather.local.1/quay-io-x/namespaces/kube-system/pods/p/c/c/logs/previous.log", b""),
                ("must-gather.local.1/quay-io-x/cluster-scoped-resources/core/nodes/node1.yaml", b"kind: Node\n"),
            ],
            2,
        ),
        (
            "support-bundle",
            &[
                ("support-bundle-2026-11-29T12_00_00/cluster-resources/pods/logs/kube-system/p/c.log", &cri),
                ("support-bundle-2026-11-29T12_00_00/host-collectors/run-host/ps.txt", PS),
            ],
            2,
        ),
        (
            "kubectl cp of a run directory",
            &[
                ("run/containerd/containerd.4711.stacks.log", DUMP.as_bytes()),
                ("run/docker/goroutine-stacks-2026-11-29T122007Z.log", DUMP.as_bytes()),
                ("run/containerd/io.containerd.runtime.v2.task/k8s.io/abc/config.json", b"{\"ociVersion\":\"1.0.2\"}"),
                ("run/containerd/io.containerd.runtime.v2.task/k8s.io/abc/init.pid", b"4711"),
            ],
            4,
        ),
    ];
    for (what, files, wanted) in layouts {
        let folder = tree(files);
        let found = evidence(folder.path());
        assert_eq!(goroutines(&found), wanted, "{what}");
        assert_eq!(found.inputs.len(), files.len(), "{what}: each file is listed");
        let has_ps = files.iter().any(|(_, bytes)| *bytes == PS);
        assert_eq!(found.node.processes.iter().any(|p| p.pid == 4711), has_ps, "{what}");
        // The same tree as it is sent.
        let packed = of_bytes("bundle.tar.gz", &gzip(&tar_of(folder.path())));
        assert_eq!(goroutines(&packed), wanted, "{what}, packed");
        for found in [&found, &packed] {
            let snapshot = &found.snapshots[0];
            assert_eq!(snapshot.place(snapshot.goroutines[1].line).map(|p| p.line), Some(7), "{what}");
        }
    }
}

fn tar_of(folder: &Path) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    builder.append_dir_all("", folder).expect("packed");
    builder.into_inner().expect("a tar")
}

/// `core.NAME.UID.BOOT.PID.TIME.zst` beside other files, as systemd-coredump stores them.
#[test]
fn the_folder_of_systemd_coredump_is_read() {
    let cores = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/cores/go1.24.11-stripped-spin");
    let core = std::fs::read(cores.join("core.zst")).expect("the core");
    let name = "coredump/core.spin.0.5b3e9a52b2d3466c9c8d2ac6b7e8a9d1.4711.1764419209000000.zst";
    let folder = tree(&[(name, &core), ("coredump/core.gone.0.5b3e.12.1764419209000000.zst", b"")]);
    // systemd does not store the program: it is asked for.
    let alone = evidence(folder.path());
    assert_eq!(input(&alone, "4711.1764419209000000.zst").kind.as_str(), "core");
    assert!(said(&alone, Severity::Warning, "--exe"));
    let options = ReadOptions { exe: vec![cores.join("exe.zst")], ..ReadOptions::default() };
    let (found, unreadable) = read(&[folder.path().to_path_buf()], &options);
    assert_eq!(unreadable, []);
    assert_eq!(found.snapshots.len(), 1);
    assert!(goroutines(&found) > 1);
}
