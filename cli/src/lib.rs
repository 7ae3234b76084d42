//! What the `holdup` binary is made of: arguments, commands, report writers. It decides nothing about an incident;
//! that is done by `holdup_analysis`.

pub mod analyze;
pub mod anonymize_command;
pub mod args;
pub mod compare_command;
pub mod core_command;
pub mod documents;
pub mod exit;
pub mod locale;
pub mod output;
pub mod progress;
pub mod report;
pub mod rules_command;
