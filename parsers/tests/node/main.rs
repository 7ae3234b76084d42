//! Node evidence, parser by parser: real samples, cut and mangled ones, and what must not be taken for it.

mod common;
mod kernel;
mod listings;
mod logs;
mod native;
mod negatives;
mod processes;
mod robust;
mod tables;
