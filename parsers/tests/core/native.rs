//! Stacks and locks of C programs, against what gdb says of the same core. Where there is no compiler or no gdb the
//! core in the corpus stands in.

use holdup_parsers::ReadOptions;
use holdup_parsers::core::{self, CoreEvidence};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/cores-native")
}

/// Function names by thread id, as gdb's `thread apply all bt` lists them; `??` where it knows none.
fn gdb_stacks(text: &str) -> BTreeMap<u32, Vec<String>> {
    let mut stacks: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    let mut tid = None;
    for line in text.lines() {
        if line.starts_with("Thread ") {
            tid = line.split("(LWP ").nth(1).and_then(|rest| rest.split(')').next()).and_then(|n| n.parse().ok());
        } else if let (Some(tid), true) = (tid, line.starts_with('#')) {
            let rest = line.split_once(' ').map_or("", |(_, rest)| rest.trim());
            let rest = rest.split_once(" in ").filter(|(address, _)| address.starts_with("0x")).map_or(rest, |p| p.1);
            let name =
                if rest.starts_with('<') { "<signal handler called>" } else { rest.split(" (").next().unwrap_or("") };
            stacks.entry(tid).or_default().push(name.to_owned());
        }
    }
    stacks
}

fn own_stacks(evidence: &CoreEvidence) -> BTreeMap<u32, Vec<String>> {
    let stack = |t: &holdup_parsers::evidence::ThreadStack| t.frames.iter().map(|f| f.function.clone()).collect();
    evidence.threads.iter().filter_map(|t| Some((t.tid?, stack(t)))).collect()
}

/// gdb stops at `main`, below which only the C library's start is; and it has no name where we write an offset.
fn assert_as_gdb(own: &BTreeMap<u32, Vec<String>>, gdb: &BTreeMap<u32, Vec<String>>) {
    assert!(gdb.len() >= 5, "{gdb:?}");
    assert_eq!(own.keys().collect::<Vec<_>>(), gdb.keys().collect::<Vec<_>>());
    for (tid, theirs) in gdb {
        let ours: Vec<&str> = own[tid].iter().map(|name| if name.contains("+0x") { "??" } else { name }).collect();
        let end = if theirs.last().is_some_and(|name| name == "main") { theirs.len() } else { ours.len() };
        assert_eq!(&ours[..end], theirs, "thread {tid}");
    }
}

/// Who waits for what, by the functions that the threads were started for.
fn assert_locks(evidence: &CoreEvidence) {
    let stacks = own_stacks(evidence);
    let runs = |tid: u32, function: &str| stacks[&tid].iter().any(|name| name == function);
    let of = |kind: &str| evidence.locks.iter().filter(|lock| lock.kind == kind).collect::<Vec<_>>();
    let (mutex, rwlock, join) = (of("pthread-mutex"), of("pthread-rwlock"), of("pthread-join"));
    assert_eq!((mutex.len(), rwlock.len(), join.len(), evidence.locks.len()), (2, 1, 1, 4), "{:#?}", evidence.locks);
    assert_eq!(mutex[0].address, mutex[1].address);
    assert!(mutex.iter().all(|lock| runs(lock.waiter, "post_thread")));
    assert!(rwlock[0].reads && runs(rwlock[0].waiter, "look_up_thread"));
    assert!(runs(join[0].waiter, "main"));
    for lock in &evidence.locks {
        let owner = lock.owner.expect("an owner");
        assert!(runs(owner, "settle_thread") && runs(owner, "read_request"), "{lock:?}");
        assert!(!lock.owner_gone);
    }
}

#[test]
fn a_core_of_the_corpus() {
    let folder = corpus().join("held-static");
    let options = ReadOptions { exe: vec![folder.join("exe.zst")], ..ReadOptions::default() };
    let core = core::open(&folder.join("core.zst"), &options).expect("a core");
    let evidence = core.evidence(0);
    let gdb = std::fs::read_to_string(folder.join("gdb-threads.txt")).expect("gdb's words");
    assert_as_gdb(&own_stacks(&evidence), &gdb_stacks(&gdb));
    assert_locks(&evidence);
    assert!(evidence.problems.is_empty(), "{:?}", evidence.problems);
    assert!(evidence.threads.iter().all(|t| t.native && t.memory.is_some()));
}

#[test]
fn without_its_files_a_core_names_what_is_missing_and_claims_no_mutex() {
    let core = core::open(&corpus().join("held-static/core.zst"), &ReadOptions::default()).expect("a core");
    let evidence = core.evidence(0);
    assert!(evidence.locks.iter().all(|lock| lock.kind == "pthread-join"), "{:?}", evidence.locks);
    assert!(evidence.threads.iter().all(|t| t.frames.len() == 1 && t.frames[0].function.contains("held-static+0x")));
    let problem = evidence.problems.iter().find(|p| p.message.contains("stacks end in")).expect("a problem");
    assert!(problem.message.contains("--exe") && problem.message.contains("held-static"), "{}", problem.message);
}

/// A core with its executable, the libraries that it maps under a sysroot of their own, and what gdb says.
struct Fresh {
    _folder: tempfile::TempDir,
    core: PathBuf,
    options: ReadOptions,
    gdb: String,
}

fn fresh(flags: &[&str], argument: Option<&str>) -> Result<Fresh, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let program = folder.path().join("held");
    let failed = |error: std::io::Error| error.to_string();
    let mut cc = Command::new("cc");
    cc.args(flags).args(["-O1", "-fno-inline", "-pthread", "-o"]).arg(&program).arg(corpus().join("src/held.c"));
    let built = cc.output().map_err(|error| format!("no cc: {error}"))?;
    if !built.status.success() {
        return Err(String::from_utf8_lossy(&built.stderr).into_owned());
    }
    let mut child = Command::new(&program).args(argument).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).map_err(failed)?;
    let gcore = Command::new("gcore").arg("-o").arg(folder.path().join("core")).arg(child.id().to_string()).output();
    let core = folder.path().join(format!("core.{}", child.id()));
    let ended = child.kill().and_then(|()| child.wait());
    let gcore = gcore.map_err(|error| format!("no gcore: {error}"))?;
    ended.map_err(failed)?;
    if !core.exists() {
        return Err(format!("gcore wrote no core: {}", String::from_utf8_lossy(&gcore.stderr)));
    }
    // Without debug files gdb knows what the programs' own symbol tables say, as we do.
    let gdb = Command::new("gdb")
        .args(["-batch", "-nx", "-q", "-iex", "set debug-file-directory /nonexistent", "-ex", "thread apply all bt"])
        .args([&program, &core])
        .output()
        .map_err(|error| format!("no gdb: {error}"))?;
    let sysroot = folder.path().join("sysroot");
    for file in core::open(&core, &ReadOptions::default()).map_err(|error| error.to_string())?.notes.files {
        let to = sysroot.join(file.path.trim_start_matches('/'));
        if let Some(parent) = to.parent() {
            std::fs::create_dir_all(parent).map_err(failed)?;
            std::fs::copy(&file.path, &to).map_err(failed)?;
        }
    }
    let options = ReadOptions { exe: vec![program], sysroot: Some(sysroot) };
    Ok(Fresh { _folder: folder, core, options, gdb: String::from_utf8_lossy(&gdb.stdout).into_owned() })
}

#[test]
fn fresh_cores_of_all_kinds_of_linking_and_in_a_signal_handler() {
    let kinds: [(&[&str], Option<&str>); 5] = [
        (&[], None),
        (&["-no-pie", "-fomit-frame-pointer"], None),
        (&["-static"], None),
        (&["-g", "-fno-asynchronous-unwind-tables"], None),
        (&[], Some("handler")),
    ];
    for (flags, argument) in kinds {
        match fresh(flags, argument) {
            Ok(fresh) => {
                let core = core::open(&fresh.core, &fresh.options).expect("a core");
                let evidence = core.evidence(0);
                let own = own_stacks(&evidence);
                assert_as_gdb(&own, &gdb_stacks(&fresh.gdb));
                assert_locks(&evidence);
                let in_handler = own.values().any(|s| s.iter().any(|name| name == "<signal handler called>"));
                assert_eq!(in_handler, argument.is_some());
                println!("{flags:?} {argument:?}: {} stacks as gdb has them", own.len());
            }
            Err(why) => println!("skipped {flags:?} {argument:?}: {why}"),
        }
    }
}

/// Whatever is broken in a core, reading it ends, and names no owner who is none of its threads.
#[test]
fn damaged_cores_are_survived() {
    let folder = corpus().join("held-static");
    let unpack = |name: &str| {
        let file = std::fs::File::open(folder.join(name)).expect("a file");
        zstd::stream::decode_all(file).expect("zstd")
    };
    let (whole, exe) = (unpack("core.zst"), folder.join("exe.zst"));
    let options = ReadOptions { exe: vec![exe], ..ReadOptions::default() };
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below as u64) as usize
    };
    let places: Vec<usize> = (0..whole.len()).step_by(8).filter(|&at| whole[at] != 0).collect();
    for round in 0..24 {
        let mut bytes = whole.clone();
        for _ in 0..2_000 {
            let at = places[random(places.len())];
            bytes[at] = random(256) as u8;
        }
        if round % 4 == 0 {
            bytes.truncate(random(whole.len()));
        }
        let Ok(core) = core::from_text(holdup_parsers::evidence::Text::from_vec(bytes), &options) else { continue };
        let evidence = core.evidence(0);
        for lock in evidence.locks {
            assert!(lock.owner.is_none_or(|owner| evidence.threads.iter().any(|t| t.tid == Some(owner))));
        }
    }
}
