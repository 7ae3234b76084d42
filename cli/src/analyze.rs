//! `holdup analyze`: from paths to a verdict and its reports.

use crate::args::{AnalyzeArgs, Color, FailOn};
use crate::exit::{Exit, say};
use crate::locale::Lang;
use crate::output;
use crate::progress::Progress;
use crate::report::{self, Format, Incident, Style};
use anyhow::{Context, Result, bail};
use holdup_analysis::diagnosis::VerdictKind;
use holdup_analysis::rules::Rules;
use holdup_parsers::evidence::{Evidence, InputKind};
use holdup_parsers::{ReadOptions, Unreadable};
use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
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
    let started = Instant::now();
    let progress = Progress::new(!args.no_progress && !args.quiet);

    progress.stage("reading");
    let options = ReadOptions { exe: args.exe.clone(), sysroot: args.sysroot.clone() };
    let (evidence, unreadable) = holdup_parsers::read(&args.paths, &options);
    let read_in = started.elapsed();

    if !recognised(&evidence) {
        drop(progress);
        complain(&unreadable);
        return nothing_recognised(&evidence, &unreadable);
    }

    progress.stage("analyzing");
    let options = holdup_analysis::Options { version: env!("CARGO_PKG_VERSION").into() };
    let diagnosis = holdup_analysis::analyze(&evidence, &rules, &options);
    let analyzed_in = started.elapsed() - read_in;

    progress.stage("writing the report");
    let incident = Incident { diagnosis: &diagnosis, evidence: &evidence };
    let reports: Vec<(String, std::io::Result<()>)> = args
        .output
        .iter()
        .map(|file| {
            let text = report::render(file.format, &incident, &Style::for_file(language(args, file.format)));
            (file.path.display().to_string(), output::to_file(&file.path, text.as_bytes()))
        })
        .collect();
    let mut style = stdout_style(args);
    style.report =
        args.output.iter().find(|file| file.format == Format::Html).map(|file| file.path.display().to_string());
    let text = report::render(args.format, &incident, &style);
    drop(progress);

    complain(&unreadable);
    if args.verbose > 0 {
        describe_inputs(&evidence);
        let total = started.elapsed();
        say(format_args!("read in {read_in:.1?}, analyzed in {analyzed_in:.1?}, all in {total:.1?}"));
    }
    let exit = finish(&text, reports, judged(args.fail_on, diagnosis.verdict.kind));
    if unreadable.is_empty() { exit } else { Exit::Trouble }
}

/// Prints the answer and says what became of the reports: `judged`, unless something could not be written.
pub(crate) fn finish(text: &str, reports: Vec<(String, std::io::Result<()>)>, judged: Exit) -> Exit {
    let printed = output::to_stdout(text.as_bytes());
    let mut exit = if printed == Exit::Done { judged } else { printed };
    for (path, written) in reports {
        if let Err(error) = written {
            exit = output::failed(&path, &error);
        }
    }
    exit
}

/// The exit code that `--fail-on` asks for.
pub(crate) fn judged(fail_on: Option<FailOn>, verdict: VerdictKind) -> Exit {
    let matched = match fail_on {
        None => false,
        Some(FailOn::Deadlock) => verdict == VerdictKind::Deadlock,
        Some(FailOn::Hang) => matches!(verdict, VerdictKind::Deadlock | VerdictKind::Hang),
        Some(FailOn::Any) => !matches!(verdict, VerdictKind::Healthy | VerdictKind::Inconclusive),
    };
    if matched { Exit::Matched } else { Exit::Done }
}

/// An explicit `--lang` counts everywhere, the locale for text and HTML only.
pub(crate) fn language(args: &AnalyzeArgs, format: Format) -> Lang {
    match (args.lang, format) {
        (Some(lang), _) => lang,
        (None, Format::Text | Format::Html) => Lang::of_locale(),
        (None, _) => Lang::En,
    }
}

pub(crate) fn stdout_style(args: &AnalyzeArgs) -> Style {
    let terminal = std::io::stdout().is_terminal();
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let color = match args.color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => terminal && !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb"),
    };
    Style { lang: language(args, args.format), color, width: width(terminal), report: None }
}

/// Columns to fill: `COLUMNS` if set, else the terminal's, else 100.
fn width(terminal: bool) -> usize {
    let asked = std::env::var("COLUMNS").ok().and_then(|value| value.parse().ok()).filter(|&columns| columns > 0);
    let measured = || terminal.then(terminal_size::terminal_size).flatten().map(|(width, _)| usize::from(width.0));
    asked.or_else(measured).unwrap_or(Style::WIDTH)
}

/// Whether anything that was read says something about an incident. An executable alone does not.
pub(crate) fn recognised(evidence: &Evidence) -> bool {
    !evidence.snapshots.is_empty()
        || evidence.inputs.iter().any(|input| !matches!(input.kind, InputKind::Other | InputKind::Executable))
}

pub(crate) fn complain(unreadable: &[Unreadable]) {
    for path in unreadable {
        say(format_args!("cannot read {}: {}", path.path, path.message));
    }
}

pub(crate) fn nothing_recognised(evidence: &Evidence, unreadable: &[Unreadable]) -> Exit {
    describe_inputs(evidence);
    if !unreadable.is_empty() {
        return Exit::Trouble;
    }
    let what = match evidence.inputs.as_slice() {
        [] => "there is no file under the given paths".to_owned(),
        [one] => format!("no goroutine dump, core or node evidence was recognised in {}", one.path),
        many => format!("no goroutine dump, core or node evidence was recognised in any of {} files", many.len()),
    };
    say(format_args!(
        "{what}. Give the output of SIGQUIT or SIGUSR1, /debug/pprof/goroutine?debug=2, a core, ps -ef, kernel stacks or \
         the journal around them; whole files, as they are"
    ));
    Exit::NothingRecognised
}

/// What each file was taken for, and what was lost of it; the first few.
pub(crate) fn describe_inputs(evidence: &Evidence) {
    const SHOWN: usize = 50;
    for input in evidence.inputs.iter().take(SHOWN) {
        let envelopes = input.envelopes.join(", ");
        let inside = if envelopes.is_empty() { String::new() } else { format!(" in {envelopes}") };
        say(format_args!("{}: {}{inside}, {} bytes", input.path, input.kind.as_str(), input.bytes));
        for problem in input.problems.iter().take(SHOWN) {
            match problem.line {
                Some(line) => say(format_args!("{}:{line}: {}", input.path, problem.message)),
                None => say(format_args!("{}: {}", input.path, problem.message)),
            }
        }
    }
    if evidence.inputs.len() > SHOWN {
        say(format_args!("… and {} more files", evidence.inputs.len() - SHOWN));
    }
}

/// The built-in rules (unless refused) and those of `--rules`.
pub(crate) fn rules(args: &AnalyzeArgs) -> Result<Rules> {
    if args.rules.is_empty() {
        return Ok(if args.no_rules { Rules::none() } else { Rules::builtin() });
    }
    let mut files = Vec::new();
    for folder in &args.rules {
        for path in rule_files(folder)? {
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read rules {}", path.display()))?;
            files.push((path.display().to_string(), text));
        }
    }
    Rules::parse(&files, !args.no_rules).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        anyhow::Error::msg(lines.join("\n"))
    })
}

/// `*.toml` of a folder in order of their names; a file stands for itself.
pub(crate) fn rule_files(folder: &Path) -> Result<Vec<PathBuf>> {
    if folder.is_file() {
        return Ok(vec![folder.to_owned()]);
    }
    let listing = fs::read_dir(folder).with_context(|| format!("cannot read rules {}", folder.display()))?;
    let mut paths = Vec::new();
    for entry in listing {
        let path = entry.with_context(|| format!("cannot read rules {}", folder.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        bail!("no *.toml in the rules folder {}", folder.display());
    }
    paths.sort();
    Ok(paths)
}
