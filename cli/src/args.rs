//! The command line, turned once into values that the rest of the program uses.

use crate::locale::Lang;
use crate::report::Format;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use holdup_analysis::rules::RuleKind;
use std::ffi::OsString;
use std::path::PathBuf;

/// Version and, where it was built from a git checkout, commit.
pub const VERSION: &str = env!("HOLDUP_VERSION");

/// Names the goroutine, process or kernel wait that hangs a node, from what was saved of it.
#[derive(Debug, Parser)]
#[command(
    name = "holdup",
    version = VERSION,
    propagate_version = true,
    max_term_width = 100,
    after_help = "Exit status: 0 an analysis was made, whatever it found; 1 --fail-on matched; 2 wrong usage, a path \
                  that could not be read or a report that could not be written; 3 nothing was recognised."
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Reads everything under the paths as one incident and says what is stuck, why, and what to do
    Analyze(AnalyzeArgs),
    /// Prints the JSON Schema of `--format json`
    Schema {
        /// Whose output
        #[arg(value_enum, default_value_t = Described::Analyze)]
        of: Described,
    },
    /// Prints a completion script for a shell
    Completions {
        /// Whose script
        shell: Shell,
    },
    /// Prints the manual page (roff)
    Man,
    /// The same process, or the same node, at several moments: what is stuck, what moves, what grows
    ///
    /// Each PATH is one moment: a dump, or the folder or archive of all that was saved of a node then. They are put in
    /// order of time where clocks tell, else taken in the order given. A goroutine that stands at the same place with an
    /// older wait has not moved; a lock whose waiter went on was given to it, so it is slow, not stuck; stacks that come
    /// and do not go are a leak. A single PATH that holds several dumps of a process (a journal) is compared within
    /// itself.
    #[command(mut_arg("paths", |paths| paths.help(
        "One moment each: a dump, or a folder or archive of what was saved then; oldest first where no clock tells"
    )))]
    Compare {
        #[allow(missing_docs)]
        #[command(flatten)]
        args: AnalyzeArgs,
    },
    /// A core's goroutines and threads, or the dump that the Go runtime itself would have printed
    Core(CoreArgs),
    /// The same evidence without names, addresses of machines and secrets, to be given to others
    ///
    /// Hosts, users, IP and MAC addresses, pods, containers, images, volumes, ids, UUIDs, mounts, mail addresses, tokens
    /// and passwords are replaced by the same pseudonym in all files; Go function names, source paths, memory addresses,
    /// times and pids are kept, so that the result analyzes to the same verdict. Which name became what is written to
    /// OUT.replaced.json beside OUT, never into it. Cores, executables and other files that are no text are left out.
    /// Look the result over before you give it away: a name that stands only in free text cannot be told from a word.
    Anonymize(AnonymizeArgs),
    /// The upload page
    #[command(hide = true, disable_help_flag = true)]
    Serve(Unparsed),
    /// Takes the evidence on a live node
    #[command(hide = true, disable_help_flag = true)]
    Collect(Unparsed),
    /// The knowledge base: what is known of daemons, libraries and their bugs, and why
    Rules {
        /// What to do with it.
        #[command(subcommand)]
        command: RulesCommand,
    },
}

/// Commands whose JSON has a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Described {
    /// The diagnosis
    Analyze,
    /// The comparison
    Compare,
}

/// Arguments of a command that is not there yet; it is refused whatever they are.
#[derive(Debug, Args)]
pub struct Unparsed {
    #[allow(missing_docs)]
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

/// Options of `analyze`.
#[derive(Debug, Clone, Args)]
pub struct AnalyzeArgs {
    /// Files, folders, archives or compressed files; `-` is standard input. What each is, is told by its content
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,

    /// Also write a report; its kind is told by the extension: .html .json .md .dot .mmd .svg .txt (repeatable)
    #[arg(short, long, value_name = "FILE", value_parser = report_file)]
    pub output: Vec<ReportFile>,

    /// What to print on standard output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,

    /// An executable or debug file of a core, matched by build id; compressed ones too (repeatable)
    #[arg(long, value_name = "PATH")]
    pub exe: Vec<PathBuf>,

    /// Where executables and libraries lie under their own paths
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,

    /// A folder of rules (*.toml) on top of the built-in ones (repeatable)
    #[arg(long, value_name = "DIR")]
    pub rules: Vec<PathBuf>,

    /// Reason without the built-in rules
    #[arg(long)]
    pub no_rules: bool,

    /// Language of the report; by default the locale's for terminal text and HTML, English for the rest
    #[arg(long, value_enum)]
    pub lang: Option<Lang>,

    /// Exit with 1 if the verdict is this; any: every verdict but healthy and inconclusive
    #[arg(long, value_enum, value_name = "VERDICT")]
    pub fail_on: Option<FailOn>,

    /// Colour on standard output
    #[arg(long, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub color: Color,

    /// No progress on standard error
    #[arg(long)]
    pub no_progress: bool,

    /// Say nothing on standard error but errors
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,

    /// Say more on standard error: what each file was taken for, what was repaired, how long it took
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

/// Options of `anonymize`.
#[derive(Debug, Clone, Args)]
pub struct AnonymizeArgs {
    /// Files, folders, archives or compressed files; `-` is standard input
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,

    /// Where the result goes: a new folder, or a .tar.gz or .zip by its name
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,

    /// No progress on standard error
    #[arg(long)]
    pub no_progress: bool,

    /// Say nothing on standard error but errors
    #[arg(short, long)]
    pub quiet: bool,
}

/// Options of `core`.
#[derive(Debug, Clone, Args)]
pub struct CoreArgs {
    /// The core, compressed or not
    #[arg(value_name = "CORE")]
    pub core: PathBuf,

    /// What to show
    #[arg(value_enum, value_name = "WHAT", default_value_t = CoreView::Goroutines)]
    pub view: CoreView,

    /// The executable, matched by build id; a compressed file or a folder will do (repeatable)
    #[arg(long, value_name = "PATH")]
    pub exe: Vec<PathBuf>,

    /// Where executables and libraries lie under their own paths
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,

    /// Print what the Go runtime would have printed: in a crash (with fp, sp and pc), or as runtime.Stack
    #[arg(long, value_enum, value_name = "FORM", num_args = 0..=1, require_equals = true, default_missing_value = "crash")]
    pub as_dump: Option<DumpForm>,

    /// Locks, channels and defers as JSON
    #[arg(long, conflicts_with = "as_dump")]
    pub json: bool,
}

/// What `core` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CoreView {
    /// Process, threads and goroutines
    Goroutines,
    /// Threads with their registers
    Threads,
    /// Locks that somebody waits for: their words, queues, and who is to release them
    Locks,
    /// Channels that somebody waits for
    Channels,
    /// Pending deferred calls that release a lock
    Defers,
}

/// What to do with the knowledge base.
#[derive(Debug, Clone, Subcommand)]
pub enum RulesCommand {
    /// Every rule in a line, by kind
    List {
        /// Only rules that have all these words in id, title or references
        #[arg(value_name = "WORD")]
        words: Vec<String>,
        /// Only this kind: role, benign, symptom, rpc, holds, external, known_issue
        #[arg(long, value_parser = rule_kind)]
        kind: Option<RuleKind>,
        #[allow(missing_docs)]
        #[command(flatten)]
        source: RulesSource,
    },
    /// One rule: what it knows and why, how it looks, what to do, where to read on
    Show {
        /// Its id
        id: String,
        #[allow(missing_docs)]
        #[command(flatten)]
        source: RulesSource,
    },
    /// Tells what is wrong with rules of your own, with line and column, and runs the test cases that they carry
    Check {
        /// Folders of *.toml, or files
        #[arg(required = true, value_name = "DIR")]
        folders: Vec<PathBuf>,
    },
}

/// Which rules, and how to print them.
#[derive(Debug, Clone, Args)]
pub struct RulesSource {
    /// What to print
    #[arg(long, value_enum, default_value_t = KnowledgeFormat::Text)]
    pub format: KnowledgeFormat,

    /// A folder of rules (*.toml) on top of the built-in ones (repeatable)
    #[arg(long, value_name = "DIR")]
    pub rules: Vec<PathBuf>,

    /// Without the built-in rules
    #[arg(long)]
    pub no_rules: bool,
}

/// Forms in which rules are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KnowledgeFormat {
    /// For a person
    Text,
    /// For programs
    Json,
}

fn rule_kind(word: &str) -> Result<RuleKind, String> {
    let all = [
        RuleKind::Role,
        RuleKind::Benign,
        RuleKind::Symptom,
        RuleKind::Rpc,
        RuleKind::Holds,
        RuleKind::External,
        RuleKind::KnownIssue,
    ];
    let wanted = word.replace('-', "_");
    let names = || all.map(RuleKind::as_str).join(", ");
    all.into_iter().find(|kind| kind.as_str() == wanted).ok_or_else(|| format!("one of {}", names()))
}

/// Which of the runtime's forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DumpForm {
    /// Of a crash: every goroutine and frame, with fp, sp and pc
    Crash,
    /// Of `runtime.Stack`: without the runtime's own
    Stack,
}

/// When to exit with 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// A hang or a deadlock
    Hang,
    /// A deadlock
    Deadlock,
    /// Every verdict but healthy and inconclusive
    Any,
}

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs)]
pub enum Color {
    Auto,
    Always,
    Never,
}

/// A report to write.
#[derive(Debug, Clone)]
pub struct ReportFile {
    /// Where.
    pub path: PathBuf,
    /// Its kind, told by the extension.
    pub format: Format,
}

fn report_file(value: &str) -> Result<ReportFile, String> {
    let path = PathBuf::from(value);
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("").to_ascii_lowercase();
    match Format::from_extension(&extension) {
        Some(format) => Ok(ReportFile { path, format }),
        None => Err("the extension says what to write: .html .json .md .dot .mmd .svg or .txt".into()),
    }
}

/// Reads the command line. Usage errors end the program with 2, `--help` and `--version` with 0.
pub fn parse() -> Arguments {
    Arguments::parse()
}

/// The commands as clap sees them, for completions and the manual page.
pub fn command() -> clap::Command {
    Arguments::command()
}
