//! holdup-parsers: bytes in, evidence out.
//!
//! This crate reads what people have of a hung node (goroutine dumps in every envelope, ELF cores, `ps`, kernel
//! stacks, logs) and turns it into [`evidence`]. It infers nothing: what waits for what is the analysis crate's work.
//!
//! The way of a byte: [`open`] finds and unpacks files, [`envelope`] peels what carried a dump (journald, syslog,
//! container logs, quoting) back to the runtime's own text, [`goroutines`], [`node`] and [`core`] read it.

pub mod anonymize;
pub mod core;
pub mod envelope;
pub mod evidence;
pub mod goroutines;
pub mod limits;
pub mod node;
pub mod open;
mod own_report;
mod read;

pub use read::{ReadOptions, Unreadable, read};
