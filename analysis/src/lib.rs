//! holdup-analysis: evidence in, diagnosis out. Pure functions: no files, no clock.

pub mod diagnosis;
