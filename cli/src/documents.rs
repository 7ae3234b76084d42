//! What the program says about itself: JSON Schema, completions, manual page.

use crate::args::{self, Described};
use crate::exit::Exit;
use crate::output;
use clap_complete::Shell;
use holdup_analysis::compare::model::Comparison;
use holdup_analysis::diagnosis::Diagnosis;

/// `holdup schema`.
pub fn schema(of: Described) -> Exit {
    let schema = match of {
        Described::Analyze => schemars::schema_for!(Diagnosis),
        Described::Compare => schemars::schema_for!(Comparison),
    };
    match serde_json::to_string_pretty(&schema) {
        Ok(text) => output::to_stdout(format!("{text}\n").as_bytes()),
        Err(error) => output::failed("the schema", &error.into()),
    }
}

/// `holdup completions SHELL`.
pub fn completions(shell: Shell) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::command(), "holdup", &mut script);
    output::to_stdout(&script)
}

/// `holdup man`: one page for all commands.
pub fn man() -> Exit {
    let mut page = Vec::new();
    let mut command = args::command();
    command.build();
    let mut rendered = clap_mangen::Man::new(command.clone()).render(&mut page);
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        rendered = rendered.and_then(|()| command_section(sub, &mut page));
    }
    match rendered {
        Ok(()) => output::to_stdout(&page),
        Err(error) => output::failed("the manual page", &error),
    }
}

fn command_section(sub: &clap::Command, page: &mut Vec<u8>) -> std::io::Result<()> {
    use std::io::Write;
    writeln!(page, ".SH \"HOLDUP {}\"", sub.get_name().to_uppercase())?;
    let man = clap_mangen::Man::new(sub.clone());
    man.render_description_section(page)?;
    man.render_options_section(page)
}
