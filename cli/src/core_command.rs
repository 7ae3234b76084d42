//! `holdup core CORE`: what a core holds, listed, or printed as the Go runtime itself would have printed it.

use crate::args::{CoreArgs, CoreView, DumpForm};
use crate::exit::{Exit, say};
use crate::output;
use holdup_parsers::ReadOptions;
use holdup_parsers::core::{self, CoreEvidence, CoreFile, go::Level};
use holdup_parsers::evidence::{DeferredRelease, Goroutine, LockWord, MemoryFacts, Snapshot};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Runs the command and says how the program ends.
pub fn run(args: &CoreArgs) -> Exit {
    let options = ReadOptions { exe: args.exe.clone(), sysroot: args.sysroot.clone() };
    let core = match core::open(&args.core, &options) {
        Ok(core) => core,
        Err(error) => {
            say(format_args!("{}: {error}", args.core.display()));
            return Exit::Trouble;
        }
    };
    match args.as_dump {
        Some(form) => dump(&core, form),
        None => {
            let evidence = core.evidence(0);
            for problem in &evidence.problems {
                say(&problem.message);
            }
            let facts = evidence.snapshot.as_ref().and_then(|snapshot| snapshot.memory.as_ref());
            let text = match (args.view, facts) {
                (CoreView::Goroutines, _) => listing(&core, &evidence),
                (CoreView::Threads, _) => registers(&core),
                (view, Some(facts)) if args.json => json(view, facts),
                (CoreView::Defers, Some(facts)) => releases(facts),
                (CoreView::Locks, Some(facts)) => locks(facts, |kind| kind != "channel"),
                (CoreView::Channels, Some(facts)) => locks(facts, |kind| kind == "channel"),
                (_, None) => return Exit::NothingRecognised,
            };
            output::to_stdout(text.as_bytes())
        }
    }
}

fn dump(core: &CoreFile, form: DumpForm) -> Exit {
    let level = match form {
        DumpForm::Crash => Level::Crash,
        DumpForm::Stack => Level::Stack,
    };
    for problem in &core.problems {
        say(&problem.message);
    }
    let mut text = Vec::new();
    if let Err(error) = core.dump(level, &mut text) {
        say(error);
        return Exit::NothingRecognised;
    }
    output::to_stdout(&text)
}

/// Process, threads, goroutines: equal stacks once, most of them first.
fn listing(core: &CoreFile, evidence: &CoreEvidence) -> String {
    let mut out = String::new();
    let mut process = core.process();
    if let Some(snapshot) = &evidence.snapshot {
        process = snapshot.process.clone();
    }
    let mut field = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            let _ = writeln!(out, "{name:<11} {value}");
        }
    };
    field("process", process.name);
    field("pid", process.pid.map(|pid| pid.to_string()));
    field("command", process.command);
    field("built with", process.go_version.zip(process.arch.clone()).map(|(go, arch)| format!("{go} {arch}")));
    field("build id", process.build_id);
    field("executable", core.executable.as_ref().map(|exe| exe.path.display().to_string()));
    field("signal", core.notes.signal.filter(|(number, _)| *number != 0).map(|(number, _)| number.to_string()));
    field("threads", Some(evidence.threads.len().to_string()));
    let owners = owners(evidence.snapshot.as_ref());
    for (row, thread) in evidence.threads.iter().zip(&core.notes.threads) {
        let _ = write!(out, "  {:<9} ", thread.tid);
        if let Some(owner) = owners.get(&thread.tid) {
            let _ = write!(out, "goroutine {owner}: ");
        }
        match row.frames.first() {
            Some(frame) => out.push_str(&frame.function),
            None => {
                let _ = write!(out, "pc {:#x} sp {:#x}", thread.pc, thread.sp);
            }
        }
        out.push('\n');
    }
    if let Some(snapshot) = &evidence.snapshot {
        let _ = writeln!(out, "goroutines  {}", snapshot.goroutine_count());
        goroutines(snapshot, &mut out);
    }
    out
}

fn owners(snapshot: Option<&Snapshot>) -> BTreeMap<u32, u64> {
    let all = snapshot.map_or(&[][..], |snapshot| &snapshot.goroutines);
    all.iter().filter_map(|goroutine| Some((goroutine.tid?, goroutine.id?))).collect()
}

fn goroutines(snapshot: &Snapshot, out: &mut String) {
    let mut groups: BTreeMap<(&str, Vec<u32>), Vec<&Goroutine>> = BTreeMap::new();
    for goroutine in &snapshot.goroutines {
        let sites = snapshot.frames_of(goroutine).iter().map(|frame| frame.site.0).collect();
        groups.entry((snapshot.names.get(goroutine.state), sites)).or_default().push(goroutine);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, members)| std::cmp::Reverse(members.len()));
    for ((state, _), members) in groups {
        let Some(&first) = members.first() else { continue };
        let minutes = members.iter().filter_map(|member| member.minutes).max();
        let age = minutes.map_or(String::new(), |minutes| format!(", {minutes} minutes or more"));
        let _ = writeln!(out, "\n{} × [{state}{age}]  {}", members.len(), ids(&members));
        for frame in snapshot.frames_of(first) {
            let site = snapshot.site(frame.site);
            let name = snapshot.function(frame.site);
            if name == "runtime.goexit" {
                continue;
            }
            let _ = writeln!(out, "    {name}  {}:{}", snapshot.names.get(site.file), site.line);
        }
    }
}

/// Goroutine ids, runs of neighbours as one.
fn ids(members: &[&Goroutine]) -> String {
    let mut ids: Vec<u64> = members.iter().filter_map(|member| member.id).collect();
    ids.sort_unstable();
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for id in ids {
        match runs.last_mut() {
            Some((_, last)) if id == *last + 1 => *last = id,
            _ => runs.push((id, id)),
        }
    }
    let text = |&(first, last): &(u64, u64)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    runs.iter().map(text).collect::<Vec<_>>().join(" ")
}

fn registers(core: &CoreFile) -> String {
    let mut out = String::new();
    for thread in &core.notes.threads {
        let _ = writeln!(out, "thread {}", thread.tid);
        let registers = thread.registers(core.arch);
        for row in registers.chunks(4) {
            let row: Vec<String> = row.iter().map(|(name, value)| format!("{name:>8} {value:#018x}")).collect();
            let _ = writeln!(out, "{}", row.join(" "));
        }
    }
    out
}

fn locks(facts: &MemoryFacts, wanted: impl Fn(&str) -> bool) -> String {
    let mut out = String::new();
    for lock in facts.locks.iter().filter(|lock| wanted(lock.kind)) {
        let _ = writeln!(out, "{:#x} {}{}  {}", lock.address, lock.kind, held(lock), lock.words);
        for mode in ["lock", "rlock", "wait", "receive", "send"] {
            let queue: Vec<u64> = lock.queue.iter().filter(|w| w.mode == mode).map(|w| w.goroutine).collect();
            if !queue.is_empty() {
                let _ = writeln!(out, "    {mode:<8} {} waiting: {}", queue.len(), some(&queue));
            }
        }
        for release in facts.releases.iter().filter(|release| release.lock == lock.address) {
            let _ = writeln!(out, "    {}", pending(release));
        }
        for hint in facts.hints.iter().filter(|hint| hint.lock == lock.address && hint.after_lock_call) {
            let _ = writeln!(
                out,
                "    goroutine {} has its address at {:#x} in {}, which took it and has not given it back",
                hint.goroutine, hint.at, hint.function
            );
        }
    }
    out
}

fn held(lock: &LockWord) -> String {
    let starving = if lock.starving { ", starving" } else { "" };
    match (lock.locked, lock.readers) {
        (_, Some(readers @ 1..)) => format!(" held by {readers} readers{starving}"),
        (Some(true), _) => format!(" locked{starving}"),
        (Some(false), _) => format!(" free{starving}"),
        (None, _) => String::new(),
    }
}

fn releases(facts: &MemoryFacts) -> String {
    let mut out = String::new();
    for release in &facts.releases {
        let _ = writeln!(out, "{:#x} {}", release.lock, pending(release));
    }
    out
}

fn pending(release: &DeferredRelease) -> String {
    let call = if release.read { "RUnlock" } else { "Unlock" };
    let position = match (release.past_acquisition, release.released_window) {
        (_, true) => "may have given it back for now",
        (true, false) => "it took the lock before",
        (false, false) => "it is not seen to have taken the lock",
    };
    format!("goroutine {} is to {call} it when {} returns; {position}", release.goroutine, release.function)
}

/// The first of many.
fn some(ids: &[u64]) -> String {
    let shown: Vec<String> = ids.iter().take(20).map(u64::to_string).collect();
    let more = if ids.len() > shown.len() { " …" } else { "" };
    format!("{}{more}", shown.join(" "))
}

fn json(view: CoreView, facts: &MemoryFacts) -> String {
    let address = |address: u64| format!("{address:#x}");
    let release = |r: &DeferredRelease| {
        json!({
            "goroutine": r.goroutine, "lock": address(r.lock), "mode": if r.read { "rlock" } else { "lock" },
            "function": r.function, "at": address(r.at), "past_acquisition": r.past_acquisition,
            "released_window": r.released_window,
        })
    };
    let lock = |l: &LockWord| {
        let queue: Vec<Value> = l.queue.iter().map(|w| json!({"goroutine": w.goroutine, "mode": w.mode})).collect();
        let releases: Vec<Value> = facts.releases.iter().filter(|r| r.lock == l.address).map(release).collect();
        let hints = facts.hints.iter().filter(|h| h.lock == l.address && h.after_lock_call);
        let hints: Vec<Value> =
            hints.map(|h| json!({"goroutine": h.goroutine, "function": h.function, "at": address(h.at)})).collect();
        json!({
            "address": address(l.address), "kind": l.kind, "locked": l.locked, "readers": l.readers,
            "starving": l.starving, "counted_waiters": l.counted_waiters, "words": l.words, "queue": queue,
            "releases": releases, "hints": hints,
        })
    };
    let values: Vec<Value> = match view {
        CoreView::Defers => facts.releases.iter().map(release).collect(),
        CoreView::Channels => facts.locks.iter().filter(|l| l.kind == "channel").map(lock).collect(),
        _ => facts.locks.iter().filter(|l| l.kind != "channel").map(lock).collect(),
    };
    format!("{:#}\n", Value::Array(values))
}
