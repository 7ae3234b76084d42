//! Real dumps of one program under many versions of Go (corpus/go-versions), held against what stands in their text,
//! counted here by other means, and against what the program said of itself.

use holdup_parsers::envelope::peel;
use holdup_parsers::evidence::{Flags, Form, SiteKind, Snapshot, Text};
use holdup_parsers::goroutines;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The samples of the repository, or those of another folder of the same shape.
fn samples() -> Vec<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/go-versions");
    let top = std::env::var_os("HOLDUP_GO_VERSIONS").map_or(own, PathBuf::from);
    let mut found = Vec::new();
    for version in std::fs::read_dir(&top).expect("the corpus").flatten() {
        for file in std::fs::read_dir(version.path()).into_iter().flatten().flatten() {
            if file.path().extension().is_some_and(|e| e == "txt") {
                found.push(file.path());
            }
        }
    }
    found.sort();
    assert!(found.len() > 40, "{} samples in {}", found.len(), top.display());
    found
}

fn parse(bytes: &[u8]) -> Vec<Snapshot> {
    peel(Text::from_vec(bytes.to_vec()), 0).iter().flat_map(goroutines::parse).collect()
}

fn is_profile(path: &Path) -> bool {
    path.to_string_lossy().contains("debug1") || path.to_string_lossy().contains("leak1")
}

/// A goroutine as a reader with no grammar sees it: lines between a header and the next empty line.
#[derive(Default)]
struct Seen {
    functions: usize,
    created: bool,
    elided: bool,
}

/// The goroutines that stand in a dump's text, goroutine 0 left out, of two with one id the longer.
fn seen(text: &str) -> BTreeMap<u64, Seen> {
    let mut all: BTreeMap<u64, Seen> = BTreeMap::new();
    let mut current: Option<(u64, Seen)> = None;
    let mut ancestor = false;
    for line in text.lines().chain([""]) {
        if line.starts_with("goroutine ") && line.contains(" [") && line.ends_with(':') || line.is_empty() {
            if let Some((id, seen)) = current.take()
                && all.get(&id).is_none_or(|before| before.functions < seen.functions)
            {
                all.insert(id, seen);
            }
            ancestor = false;
            let id = line.split(' ').nth(1).and_then(|id| id.parse().ok());
            current = id.filter(|&id| id != 0).map(|id| (id, Seen::default()));
            continue;
        }
        let Some((_, seen)) = &mut current else {
            continue;
        };
        ancestor |= line.starts_with("[originating");
        if ancestor {
            continue;
        }
        seen.created |= line.starts_with("created by ");
        seen.elided |= line.ends_with("frames elided...");
        seen.functions += usize::from(!line.starts_with('\t') && line.ends_with(')'));
    }
    all
}

/// Of a text with a panic or a race report, the part that is a goroutine dump.
fn dump_of(snapshots: Vec<Snapshot>, name: &Path) -> Snapshot {
    let mut dumps: Vec<_> = snapshots.into_iter().filter(|s| s.form != Form::Race).collect();
    assert_eq!(dumps.len(), 1, "one dump in {}", name.display());
    dumps.remove(0)
}

#[test]
fn every_goroutine_and_every_frame_is_read() {
    let mut accused = Vec::new();
    for path in samples().iter().filter(|p| !is_profile(p)) {
        let bytes = std::fs::read(path).expect("a sample");
        let text = String::from_utf8_lossy(&bytes);
        let name = path.display();
        let want = seen(&text);
        let snapshot = dump_of(parse(&bytes), path);
        let ids: BTreeSet<u64> = snapshot.goroutines.iter().filter_map(|g| g.id).collect();
        assert_eq!(ids, want.keys().copied().collect(), "{name}: ids");
        assert_eq!(ids.len(), snapshot.goroutines.len(), "{name}: each id once");
        for goroutine in &snapshot.goroutines {
            let id = goroutine.id.expect("an id");
            let want = &want[&id];
            assert_eq!(goroutine.frame_count as usize, want.functions, "{name}: frames of goroutine {id}");
            assert_eq!(goroutine.created_by.is_some(), want.created, "{name}: creator of goroutine {id}");
            assert_eq!(goroutine.flags.has(Flags::ELIDED), want.elided, "{name}: elided frames of goroutine {id}");
        }
        if !snapshot.problems.is_empty() || snapshot.complete == want.is_empty() {
            accused.push(format!("{name}: complete {}, {:?}", snapshot.complete, snapshot.problems));
        }
    }
    assert!(accused.is_empty(), "whole dumps that are called damaged:\n{}", accused.join("\n"));
}

#[test]
fn every_frame_points_at_its_line() {
    for path in samples() {
        let bytes = std::fs::read(&path).expect("a sample");
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        for snapshot in parse(&bytes) {
            let line_of = |line: u32| {
                let place = snapshot.place(line).expect("a place");
                lines[place.line as usize - 1]
            };
            for goroutine in &snapshot.goroutines {
                if let Some(id) = goroutine.id.filter(|_| snapshot.form != Form::Race) {
                    assert!(line_of(goroutine.line).starts_with(&format!("goroutine {id} ")), "{}", path.display());
                }
                for frame in snapshot.frames_of(goroutine) {
                    let (site, name) = (snapshot.site(frame.site), snapshot.function(frame.site));
                    let line = line_of(frame.line);
                    assert!(line.contains(name), "{}: {name} is not in '{line}'", path.display());
                    if snapshot.form != Form::ProfileCounts {
                        let args = snapshot.args_text(goroutine, frame);
                        assert!(line.ends_with(&format!("({args})")) || site.kind == SiteKind::NoArguments, "{line}");
                        let at = format!("{}:{}", snapshot.names.get(site.file), site.line);
                        assert!(line_of(frame.line + 1).contains(&at), "{}: {at}", path.display());
                    }
                }
                if let Some(created) = goroutine.created_by.filter(|_| snapshot.form != Form::Race) {
                    let want = format!("created by {}", snapshot.function(created.site));
                    let line = line_of(created.line);
                    assert!(line.starts_with(&want), "{line}");
                    let creator = line.split(" in goroutine ").nth(1).and_then(|id| id.parse().ok());
                    assert_eq!(created.goroutine, creator, "{line}");
                }
            }
        }
    }
}

/// The states in which a goroutine of the truth's `block` may be; `None` where the runtime has several.
fn states(block: &str) -> Option<&'static [&'static str]> {
    Some(match block {
        "mutex" | "once" | "rwmutex-lock-inner" => &["semacquire", "sync.Mutex.Lock"],
        "rwmutex-rlock" => &["semacquire", "sync.RWMutex.RLock"],
        "rwmutex-lock-readers" => &["semacquire", "sync.RWMutex.Lock"],
        "waitgroup" => &["semacquire", "sync.WaitGroup.Wait"],
        "cond" => &["sync.Cond.Wait"],
        "chan-recv" => &["chan receive"],
        "chan-send" => &["chan send"],
        "chan-recv-nil" => &["chan receive (nil chan)"],
        "chan-send-nil" => &["chan send (nil chan)"],
        "select" => &["select"],
        "select-empty" => &["select (no cases)"],
        "sleep" => &["sleep"],
        "io-read" | "io-write" | "io-accept" => &["IO wait"],
        "netlink" | "exec-wait" | "syscall" => &["syscall"],
        "coroutine" => &["coroutine"],
        _ => return None,
    })
}

#[test]
fn the_program_itself_agrees() {
    let (mut functions, mut compared) = (0, 0);
    for path in samples() {
        let Ok(truth) = std::fs::read_to_string(path.with_extension("json")) else {
            continue;
        };
        let truth: serde_json::Value = serde_json::from_str(&truth).expect("a truth");
        let bytes = std::fs::read(&path).expect("a sample");
        let snapshots = parse(&bytes);
        let name = path.display();
        for told in truth["goroutines"].as_array().into_iter().flatten() {
            let Some(func) = told["func"].as_str() else {
                continue;
            };
            // The program gives the folder; a build as a module leaves it out of the name.
            let func = func.rsplit("/vendor/").next().unwrap_or(func);
            let in_frames = |s: &Snapshot, g: &holdup_parsers::evidence::Goroutine| {
                s.frames_of(g).iter().any(|f| s.function(f.site).ends_with(func))
            };
            if is_profile(&path) {
                continue;
            }
            let id = told["id"].as_u64();
            let found = snapshots.iter().find_map(|s| Some((s, s.goroutines.iter().find(|g| g.id == id)?)));
            let Some((snapshot, goroutine)) = found else {
                continue;
            };
            let flags = goroutine.flags;
            let deep = flags.has(Flags::ELIDED) || flags.has(Flags::UNAVAILABLE) || goroutine.frame_count > 80;
            assert!(in_frames(snapshot, goroutine) || deep, "{name}: {func} in goroutine {id:?}");
            functions += 1;
            if let Some(allowed) = told["block"].as_str().and_then(states) {
                let state = snapshot.names.get(goroutine.state);
                assert!(allowed.contains(&state), "{name}: goroutine {id:?} is [{state}], not one of {allowed:?}");
                compared += 1;
            }
        }
        if let (Some(version), [snapshot, ..]) = (truth["go_version"].as_str(), snapshots.as_slice()) {
            let told = snapshot.process.go_version.as_deref().unwrap_or(version);
            assert!(version.starts_with(told), "{name}: {told} for {version}");
            let arch = truth["goarch"].as_str();
            assert!(
                arch.is_none() || snapshot.process.arch.is_none() || snapshot.process.arch.as_deref() == arch,
                "{name}: {:?} for {arch:?}",
                snapshot.process.arch
            );
        }
    }
    assert!(functions > 500 && compared > 300, "{functions} functions and {compared} states were compared");
}

#[test]
fn profiles_are_read_whole() {
    let mut profiles = 0;
    for path in samples().iter().filter(|p| is_profile(p)) {
        let text = std::fs::read_to_string(path).expect("a sample");
        let snapshots = parse(text.as_bytes());
        let name = path.display();
        let [snapshot] = snapshots.as_slice() else { panic!("{name}: {} snapshots", snapshots.len()) };
        assert_eq!(snapshot.form, Form::ProfileCounts, "{name}");
        let total: u64 = text.lines().next().and_then(|l| l.rsplit(' ').next()?.parse().ok()).expect("a total");
        assert_eq!(snapshot.goroutine_count(), total, "{name}");
        let frames = text.lines().filter(|l| l.starts_with("#\t")).count();
        assert_eq!(snapshot.frames.len(), frames, "{name}: frames");
        let groups: Vec<u32> =
            text.lines().filter(|l| l.contains(" @ 0x")).filter_map(|l| l.split(' ').next()?.parse().ok()).collect();
        assert_eq!(snapshot.goroutines.iter().map(|g| g.count).collect::<Vec<_>>(), groups, "{name}");
        for (goroutine, line) in snapshot.goroutines.iter().zip(text.lines().filter(|l| l.contains(" @ 0x"))) {
            assert!(snapshot.block(goroutine).starts_with(line.as_bytes()), "{name}: {line}");
        }
        let labels = text.lines().filter(|l| l.starts_with("# labels")).count();
        let labelled = snapshot.goroutines.iter().filter(|g| !snapshot.names.get(g.labels).is_empty()).count();
        assert_eq!(labelled, labels, "{name}: labels");
        assert!(snapshot.complete && snapshot.problems.is_empty(), "{name}: {:?}", snapshot.problems);
        profiles += 1;
    }
    assert!(profiles > 5);
}

#[test]
fn race_reports_are_snapshots_of_their_own() {
    let path = samples().into_iter().find(|p| p.ends_with("1.27.3/race-report-sigquit.txt")).expect("the report");
    let text = std::fs::read_to_string(&path).expect("a sample");
    let snapshots = parse(text.as_bytes());
    let races: Vec<_> = snapshots.iter().filter(|s| s.form == Form::Race).collect();
    assert_eq!(races.len(), text.matches("WARNING: DATA RACE").count());
    for race in races {
        assert!(race.complete && race.problems.is_empty());
        assert_eq!(race.notices.len(), 2);
        let ids: Vec<_> = race.goroutines.iter().map(|g| (g.id, race.names.get(g.state))).collect();
        assert_eq!(ids, [(Some(8), "running"), (Some(7), "finished")]);
        for goroutine in &race.goroutines {
            let outermost = race.frames_of(goroutine).last().expect("frames");
            assert_eq!(race.function(outermost.site), "main.main.gowrap1");
            assert_eq!(goroutine.created_by.map(|c| race.function(c.site)), Some("main.main"));
        }
    }
    assert_eq!(snapshots.last().map(|s| s.form), Some(Form::Signal));
}
