//! A program counter's function, its inlined calls, files and lines. Cached: thousands of goroutines stand at few places.

use super::Go;
use super::args::ArgumentPlan;
use super::pclntab::{Format, Function};
use std::rc::Rc;

/// Depth of inlining that is believed.
const DEEPEST: usize = 1000;

/// `FUNCDATA_InlTree`.
fn inline_tree_kind(minor: u32) -> u8 {
    if minor >= 16 { 3 } else { 4 }
}

const PCDATA_INLINE: u32 = 2;

/// One call as the source has it; several share a physical frame if some are inlined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Full name, generic shapes included.
    pub name: String,
    /// Name as this release prints it.
    pub printed: String,
    /// `funcID`.
    pub id: u8,
    /// File and line of what it executes.
    pub file: String,
    /// See `file`.
    pub line: i32,
    /// Inlined into the next.
    pub inlined: bool,
    /// Shown in `runtime.Stack`: not the runtime's own, or exported by it.
    pub shown: bool,
}

/// A physical frame's calls, innermost first; the last is the function itself.
#[derive(Debug, Clone)]
pub struct Site {
    /// The function.
    pub function: Function,
    /// Calls, innermost first.
    pub calls: Vec<Call>,
    /// Where each inlined call returns to, relative to the function's entry: names an inlining.
    pub(super) parents: Vec<i32>,
    /// How to print the arguments of the last.
    pub arguments: ArgumentPlan,
}

/// An entry of a function's inline tree (`runtime.inlinedCall`).
struct Inlined {
    id: u8,
    name: u32,
    parent_pc: i32,
}

impl Go<'_> {
    /// What stands at `pc` (already moved back into the call instruction).
    pub(super) fn site(&self, function: &Function, pc: u64) -> Rc<Site> {
        if let Some(site) = self.sites.borrow().get(&pc) {
            return Rc::clone(site);
        }
        let site = Rc::new(self.make_site(function, pc));
        self.sites.borrow_mut().insert(pc, Rc::clone(&site));
        site
    }

    fn make_site(&self, function: &Function, pc: u64) -> Site {
        let (mut calls, mut parents) = (Vec::new(), Vec::new());
        let mut at = pc;
        if let Some(tree) = self.table.funcdata(function, inline_tree_kind(self.minor)) {
            while let Some(index) = self.table.pcdata(function, PCDATA_INLINE, at).filter(|&index| index >= 0) {
                let Some(inlined) = self.inlined(tree, index as u64) else {
                    break;
                };
                calls.push(self.call(function, self.table.name_at(inlined.name), inlined.id, at, true));
                parents.push(inlined.parent_pc);
                at = function.entry.wrapping_add_signed(i64::from(inlined.parent_pc));
                if calls.len() >= DEEPEST {
                    break;
                }
            }
        }
        calls.push(self.call(function, self.table.name(function), function.id, at, false));
        // Up to 1.20 arguments were looked up where the outermost call stands, since then at the physical counter.
        let arguments = ArgumentPlan::read(self, function, if self.minor >= 21 { pc } else { at });
        Site { function: *function, calls, parents, arguments }
    }

    fn call(&self, function: &Function, name: &str, id: u8, pc: u64, inlined: bool) -> Call {
        let (file, line) = self.table.file_line(function, pc);
        Call {
            printed: printed_name(name, self.minor),
            shown: name.contains('.') && (!name.starts_with("runtime.") || is_exported(name, self.minor)),
            name: name.to_owned(),
            id,
            file: file.to_owned(),
            line,
            inlined,
        }
    }

    fn inlined(&self, tree: u64, index: u64) -> Option<Inlined> {
        let memory = self.memory;
        if self.table.format == Format::V1_20 {
            let at = tree.checked_add(16 * index)?;
            let id = memory.u8(at).ok()?;
            return Some(Inlined { id, name: memory.u32(at + 4).ok()?, parent_pc: memory.u32(at + 8).ok()? as i32 });
        }
        let at = tree.checked_add(20 * index)?;
        let id = memory.u8(at + 2).ok()?;
        Some(Inlined { id, name: memory.u32(at + 12).ok()?, parent_pc: memory.u32(at + 16).ok()? as i32 })
    }
}

/// `printFuncName`: type arguments become `[...]` (1.18 to 1.20 store them so), and `gopanic` is the `panic` people wrote.
pub(super) fn printed_name(name: &str, minor: u32) -> String {
    if name == "runtime.gopanic" {
        return "panic".into();
    }
    if minor < 21 {
        return name.to_owned();
    }
    let (Some(open), Some(close)) = (name.find('['), name.rfind(']')) else {
        return name.to_owned();
    };
    if close <= open {
        return name.to_owned();
    }
    let (head, inner, tail) = (&name[..open], &name[open + 1..close], &name[close + 1..]);
    if minor >= 27
        && let Some(between) = between_brackets(inner)
    {
        // A generic method of a generic type.
        return match between {
            Some(between) => format!("{head}[...]{between}[...]{tail}"),
            None => name.to_owned(),
        };
    }
    format!("{head}[...]{tail}")
}

/// `funcNamePiecesForPrint` of 1.27: `None` for one pair of brackets, the text between two pairs, `Some(None)` for
/// a name whose brackets do not pair.
fn between_brackets(inner: &str) -> Option<Option<&str>> {
    if !inner.contains('[') {
        return None;
    }
    let (mut depth, mut closed, mut opened) = (1i32, None, None);
    for (at, c) in inner.char_indices() {
        match c {
            '[' => {
                depth += 1;
                if depth == 1 {
                    opened = Some(at);
                    break;
                }
            }
            ']' => {
                depth -= 1;
                if depth < 0 {
                    break;
                }
                if depth == 0 {
                    closed = Some(at);
                }
            }
            _ => {}
        }
    }
    match (depth, closed, opened) {
        (1, Some(closed), Some(opened)) if opened > closed => Some(inner.get(closed + 1..opened)),
        (1, None, None) => None,
        _ => Some(None),
    }
}

/// `isExportedRuntime`: methods count since 1.23.
fn is_exported(name: &str, minor: u32) -> bool {
    let Some(rest) = name.strip_prefix("runtime.") else {
        return false;
    };
    let upper = |text: &str| text.bytes().next().is_some_and(|b| b.is_ascii_uppercase());
    if minor < 23 {
        return upper(rest);
    }
    let (receiver, method) = rest.rsplit_once('.').unwrap_or(("", rest));
    let receiver = receiver.strip_prefix("(*").and_then(|r| r.strip_suffix(')')).unwrap_or(receiver);
    upper(method) && (receiver.is_empty() || upper(receiver))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_print_as_the_runtime_prints_them() {
        assert_eq!(printed_name("runtime.gopanic", 24), "panic");
        assert_eq!(printed_name("main.Map[go.shape.int,go.shape.string].func1", 24), "main.Map[...].func1");
        assert_eq!(printed_name("main.(*L[go.shape.[]uint8]).push", 27), "main.(*L[...]).push");
        assert_eq!(printed_name("main.T[go.shape.int].M[go.shape.string]", 27), "main.T[...].M[...]");
        assert_eq!(printed_name("main.T[go.shape.int].M[go.shape.string]", 26), "main.T[...]");
        assert_eq!(printed_name("main.F[...]", 19), "main.F[...]");
    }

    #[test]
    fn exported_runtime_functions() {
        assert!(is_exported("runtime.Gosched", 19));
        assert!(is_exported("runtime.(*Frames).Next", 24));
        assert!(!is_exported("runtime.(*mheap).Alloc", 24));
        assert!(!is_exported("runtime.gopark", 24));
    }
}
