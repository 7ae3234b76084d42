//! Exit codes, and how messages reach standard error.

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

/// How the program ends; the numbers are part of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// An analysis was made, whatever it found.
    Done = 0,
    /// `--fail-on` matched.
    Matched = 1,
    /// Usage, a named path that could not be read, or a report that could not be written.
    Trouble = 2,
    /// Inputs were read, but no evidence was recognised in any.
    NothingRecognised = 3,
}

impl Exit {
    /// A command that this version does not have.
    pub fn refused(command: &str) -> Exit {
        say(format_args!("`holdup {command}` is not part of this version yet; `holdup --help` lists what is"));
        Exit::Trouble
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Writes a message to standard error. That nobody reads it any more is no reason to fail.
pub fn say(message: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "holdup: {message}");
}
