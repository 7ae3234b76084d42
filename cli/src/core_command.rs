//! `holdup core CORE`: what a core holds, listed, or printed as the Go runtime itself would have printed it.

use crate::args::{CoreArgs, DumpForm};
use crate::exit::{Exit, say};
use crate::output;
use holdup_parsers::ReadOptions;
use holdup_parsers::core::{self, CoreEvidence, CoreFile, go::Level};
use holdup_parsers::evidence::{Goroutine, Snapshot};
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
            output::to_stdout(listing(&core, &evidence).as_bytes())
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
