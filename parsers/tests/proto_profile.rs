//! pprof's `debug=0`: a protobuf packed with gzip, as `go tool pprof` and continuous profilers store it.

use flate2::{Compression, write::GzEncoder};
use holdup_parsers::ReadOptions;
use holdup_parsers::evidence::{Form, InputKind};
use std::io::Write;

/// A field of bytes: key, length, content (`profile.proto` of github.com/google/pprof).
fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, content.len() as u8], content].concat()
}

fn number(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

/// 7 goroutines in sync.(*Mutex).Lock, called by main.work; of `kind`, which is `goroutine` in a goroutine profile.
fn profile(kind: &str) -> Vec<u8> {
    let line = |function, at| bytes(4, &[number(1, function), number(2, at)].concat());
    let location = |id, function, at| bytes(4, &[number(1, id), number(3, 0x40 + id), line(function, at)].concat());
    let function = |id, name| bytes(5, &[number(1, id), number(2, name), number(4, 5)].concat());
    let mut profile = [
        bytes(1, &[number(1, 1), number(2, 2)].concat()),
        bytes(2, &[bytes(1, &[1, 2]), bytes(2, &[7])].concat()),
        location(1, 1, 12),
        location(2, 2, 34),
        function(1, 3),
        function(2, 4),
    ]
    .concat();
    for string in ["", kind, "count", "sync.(*Mutex).Lock", "main.work", "/src/main.go"] {
        profile.extend(bytes(6, string.as_bytes()));
    }
    profile
}

fn read(name: &str, content: &[u8]) -> holdup_parsers::evidence::Evidence {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    std::fs::write(&path, content).expect("written");
    holdup_parsers::read(&[path], &ReadOptions::default()).0
}

#[test]
fn packed_and_plain_profiles_are_read_from_files() {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&profile("goroutine")).expect("packed");
    for (name, content) in [("goroutine.pb.gz", gzip.finish().expect("packed")), ("profile", profile("goroutine"))] {
        let evidence = read(name, &content);
        let [snapshot] = evidence.snapshots.as_slice() else { panic!("{name}: one snapshot") };
        assert_eq!((snapshot.form, evidence.inputs[0].kind), (Form::ProfileProto, InputKind::Pprof), "{name}");
        assert_eq!(snapshot.goroutine_count(), 7);
        let functions: Vec<&str> =
            snapshot.frames_of(&snapshot.goroutines[0]).iter().map(|f| snapshot.function(f.site)).collect();
        assert_eq!(functions, ["sync.(*Mutex).Lock", "main.work"]);
    }
    assert!(read("heap.pb", &profile("inuse_space")).snapshots.is_empty());
}
