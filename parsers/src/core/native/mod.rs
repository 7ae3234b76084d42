//! Threads and locks of programs that are not Go: stacks by call-frame information, pthread locks by their owner field.
//!
//! [`Modules`] says which file lies where and finds it, [`unwind`] walks a thread's stack by `.eh_frame` or
//! `.debug_frame`, [`symbols`] names its frames, [`locks`] reads what a thread waits for out of the memory of its C
//! library's locks.
//!
//! Nothing is guessed: where a file is missing a stack ends, and the core's problems say which file would continue it.

mod cfi;
mod expression;
mod locks;
mod modules;
mod symbols;
mod unwind;

pub use locks::{FUTEX_AMD64, FUTEX_ARM64};
pub use modules::{Module, Modules};
pub use unwind::NativeFrame;

use super::CoreFile;
use crate::evidence::{NativeLock, StackFrame};
use rustc_hash::FxHashSet;

/// What a core says of its threads' own stacks.
#[derive(Debug, Default)]
pub struct Native {
    /// The frames of each thread, innermost first, in the order of the core's threads.
    pub stacks: Vec<Vec<NativeFrame>>,
    /// What threads wait for in the C library.
    pub locks: Vec<NativeLock>,
    /// Files without which stacks end early.
    pub missing: Vec<String>,
}

impl CoreFile {
    /// Unwinds every thread and reads the locks that they wait for. `input` is the index of the core's file.
    pub fn native(&self, input: u32) -> Native {
        let mut native = Native::default();
        let mut absent: FxHashSet<usize> = FxHashSet::default();
        for thread in &self.notes.threads {
            let stack = self.unwind(thread);
            absent.extend(stack.missing);
            native.stacks.push(stack.frames);
        }
        native.locks = self.native_locks(&native.stacks, input);
        let mut absent: Vec<usize> = absent.into_iter().collect();
        absent.sort_unstable();
        native.missing = absent.into_iter().map(|module| self.modules.what_to_fetch(module)).collect();
        native
    }
}

impl NativeFrame {
    /// As evidence shows it: a frame without a symbol is named by its module and offset.
    pub fn to_stack_frame(&self, modules: &Modules) -> StackFrame {
        let module = self.module.and_then(|index| modules.all.get(index));
        let function = match (&self.function, module) {
            (Some(name), _) => name.clone(),
            (None, Some(module)) => format!("{}+{:#x}", module.name, module.offset_of(self.pc)),
            (None, None) => format!("{:#x}", self.pc),
        };
        StackFrame { function, module: module.map(|m| m.name.clone()), line: 0 }
    }
}
