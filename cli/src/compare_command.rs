//! `holdup compare`: the same process or node at several moments.

use crate::analyze::{
    complain, describe_inputs, finish, judged, language, nothing_recognised, recognised, rules, stdout_style,
};
use crate::args::AnalyzeArgs;
use crate::exit::{Exit, say};
use crate::output;
use crate::progress::Progress;
use crate::report::compare::{Compared, render};
use crate::report::{Format, Style};
use holdup_analysis::compare::model::Comparison;
use holdup_parsers::ReadOptions;
use holdup_parsers::evidence::Evidence;
use std::path::Path;
use std::time::Instant;

/// Runs the command and says how the program ends.
pub fn run(args: &AnalyzeArgs) -> Exit {
    let rules = match rules(args) {
        Ok(rules) => rules,
        Err(error) => {
            say(format_args!("{error:#}"));
            return Exit::Trouble;
        }
    };
    if args.paths.iter().filter(|path| path.as_path() == Path::new("-")).count() > 1 {
        say("standard input can be one of the moments, not several");
        return Exit::Trouble;
    }
    let started = Instant::now();
    let progress = Progress::new(!args.no_progress && !args.quiet);
    progress.stage("reading");
    let options = ReadOptions { exe: args.exe.clone(), sysroot: args.sysroot.clone() };
    let mut moments: Vec<(usize, Evidence)> = Vec::new();
    let mut unreadable = Vec::new();
    let mut unknown: Vec<Evidence> = Vec::new();
    for (at, path) in args.paths.iter().enumerate() {
        let (evidence, failed) = holdup_parsers::read(std::slice::from_ref(path), &options);
        unreadable.extend(failed);
        if recognised(&evidence) {
            moments.push((at, evidence));
        } else if !evidence.inputs.is_empty() {
            unknown.push(evidence);
        }
    }
    let read_in = started.elapsed();
    if moments.is_empty() {
        drop(progress);
        complain(&unreadable);
        let mut all = Evidence::default();
        all.inputs.extend(unknown.into_iter().flat_map(|evidence| evidence.inputs));
        return nothing_recognised(&all, &unreadable);
    }

    progress.stage("comparing");
    let (given, evidences): (Vec<usize>, Vec<Evidence>) = moments.into_iter().unzip();
    let options = holdup_analysis::Options { version: env!("CARGO_PKG_VERSION").into() };
    let mut comparison = holdup_analysis::compare(&evidences, &rules, &options);
    if args.paths.len() == 1 && comparison.processes.is_empty() {
        drop(progress);
        complain(&unreadable);
        say(format_args!(
            "{} holds one moment only: give a second path, taken a minute or more before or after",
            args.paths[0].display()
        ));
        return Exit::Trouble;
    }
    number_as_given(&mut comparison, &given);
    let compared_in = started.elapsed() - read_in;

    progress.stage("writing the report");
    let paths: Vec<String> = args.paths.iter().map(|path| path.display().to_string()).collect();
    let compared = Compared { comparison: &comparison, evidences: &evidences, paths: &paths };
    let reports: Vec<(String, std::io::Result<()>)> = args
        .output
        .iter()
        .map(|file| {
            let text = render(file.format, &compared, &Style::for_file(language(args, file.format)));
            (file.path.display().to_string(), output::to_file(&file.path, text.as_bytes()))
        })
        .collect();
    let mut style = stdout_style(args);
    style.report =
        args.output.iter().find(|file| file.format == Format::Html).map(|file| file.path.display().to_string());
    let text = render(args.format, &compared, &style);
    drop(progress);

    complain(&unreadable);
    for evidence in &unknown {
        let paths: Vec<&str> = evidence.inputs.iter().map(|input| input.path.as_str()).take(3).collect();
        say(format_args!("nothing was recognised in {}: that moment is left out", paths.join(", ")));
    }
    if args.verbose > 0 {
        evidences.iter().for_each(describe_inputs);
        let total = started.elapsed();
        say(format_args!("read in {read_in:.1?}, compared in {compared_in:.1?}, all in {total:.1?}"));
    }
    let exit = finish(&text, reports, judged(args.fail_on, comparison.verdict.kind));
    if unreadable.is_empty() { exit } else { Exit::Trouble }
}

/// Moments are numbered by the paths of the command line, also where some of these said nothing.
fn number_as_given(comparison: &mut Comparison, given: &[usize]) {
    for moment in &mut comparison.moments {
        let at = (moment.given as usize).saturating_sub(1);
        moment.given = given.get(at).map_or(moment.given, |&path| u32::try_from(path + 1).unwrap_or(u32::MAX));
    }
}
