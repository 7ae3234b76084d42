//! The `holdup` binary.

use holdup_cli::{
    analyze, anonymize_command, args, compare_command, core_command, documents, exit::Exit, rules_command,
};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = args::parse();
    let exit = match arguments.command {
        args::Command::Analyze(options) => analyze::run(&options),
        args::Command::Schema { of } => documents::schema(of),
        args::Command::Completions { shell } => documents::completions(shell),
        args::Command::Man => documents::man(),
        args::Command::Compare { args } => compare_command::run(&args),
        args::Command::Core(options) => core_command::run(&options),
        args::Command::Anonymize(options) => anonymize_command::run(&options),
        args::Command::Serve(_) => Exit::refused("serve"),
        args::Command::Collect(_) => Exit::refused("collect"),
        args::Command::Rules { command } => rules_command::run(&command),
    };
    exit.into()
}
