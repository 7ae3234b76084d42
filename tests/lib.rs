//! What the tests over the corpus share: cases and how they are analyzed, what must be true of an answer, and goldens.
//!
//! What is true of a case stands in files that were there before the program (`truth.json`, `expect.json`, the
//! `NAME.json` of a version sample). A golden only says how the answer looked when somebody last read it.

pub mod case;
pub mod expect;
pub mod figures;
pub mod golden;
pub mod versions;
