//! Which executable belongs to a core, and what is told without one.

use crate::oracle::{Sample, blocks, dump, unpack};
use holdup_parsers::ReadOptions;
use holdup_parsers::core::{self, CoreError, go::Level};

#[test]
fn a_wrong_executable_is_refused_with_both_build_ids() {
    let sample = Sample::named("go1.27.3-stripped");
    let right = sample.open();
    let other = Sample::named("go1.25.5-stripped").open();
    let options = ReadOptions { exe: vec![Sample::named("go1.25.5-stripped").exe()], ..ReadOptions::default() };
    let core = core::open(&sample.core(), &options).expect("a core");
    assert!(core.executable.is_none());
    let ids = [&right, &other].map(|core| core.program.build_id.gnu.clone().expect("a build id"));
    assert_ne!(ids[0], ids[1]);
    let refusal = core.problems.iter().find(|p| p.message.contains("is not the program")).expect("a refusal");
    assert!(ids.iter().all(|id| refusal.message.contains(id)), "{}", refusal.message);
}

#[test]
fn the_right_one_is_found_among_many_and_under_a_sysroot() {
    let sample = Sample::named("go1.23.9-stripped");
    let wanted = blocks(&dump(&sample.open(), Level::Crash));
    // A folder with every executable of the samples, and a root that holds it under its own path.
    let folder = tempfile::tempdir().expect("a folder");
    for other in Sample::all() {
        std::fs::copy(other.exe(), folder.path().join(&other.name)).expect("a copy");
    }
    let among = ReadOptions { exe: vec![folder.path().into()], ..ReadOptions::default() };
    let core = core::open(&sample.core(), &among).expect("a core");
    assert_eq!(blocks(&dump(&core, Level::Crash)), wanted);

    let path = core.program.path.clone().expect("a path");
    let root = tempfile::tempdir().expect("a folder");
    let inside = root.path().join(path.trim_start_matches('/'));
    std::fs::create_dir_all(inside.parent().expect("a parent")).expect("folders");
    std::fs::write(&inside, unpack(&sample.exe())).expect("a file");
    let under = ReadOptions { sysroot: Some(root.path().into()), ..ReadOptions::default() };
    let core = core::open(&sample.core(), &under).expect("a core");
    assert_eq!(blocks(&dump(&core, Level::Crash)), wanted);
}

#[test]
fn without_an_executable_the_core_still_tells_what_to_fetch() {
    for sample in Sample::all() {
        let core = core::open(&sample.core(), &ReadOptions::default()).expect("a core");
        let process = core.process();
        assert!(process.pid.is_some() && process.name.is_some(), "{}: {process:?}", sample.name);
        assert!(core.notes.threads.iter().all(|thread| thread.pc != 0 && thread.sp != 0), "{}", sample.name);
        let id = sample.open().program.build_id;
        assert!(core.program.build_id.matches(&id) != Some(false), "{}", sample.name);
        let fetch = core.problems.iter().find(|p| p.message.contains("--exe")).expect("advice");
        if let Some(id) = core.program.build_id.best() {
            assert!(fetch.message.contains(id), "{}", fetch.message);
        }
        let evidence = core.evidence(0);
        assert_eq!(evidence.threads.len(), core.notes.threads.len());
        // A PIE up to 1.25 has its function table in written data: the goroutines are all there.
        if sample.name == "go1.21.13-pie-stripped" {
            let snapshot = evidence.snapshot.expect("goroutines");
            assert_eq!(snapshot.goroutines.len(), 367);
            assert!(!snapshot.complete);
        }
    }
}

#[test]
fn an_executable_is_no_core() {
    let exe = Sample::named("go1.27.3-stripped").exe();
    assert!(matches!(core::open(&exe, &ReadOptions::default()), Err(CoreError::NotACore)));
}
