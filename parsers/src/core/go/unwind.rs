//! Walking a goroutine's stack as `runtime/traceback.go` does: by frame sizes, never by guessing.

use super::Go;
use super::goroutines::{Goroutine, status};
use super::pclntab::Function;
use super::symbols::Site;
use super::threads::Machine;
use crate::core::elf::Arch;
use crate::core::notes::Thread;
use std::rc::Rc;

/// `funcFlag` bits.
const TOP_FRAME: u8 = 1;
const SP_WRITE: u8 = 2;

/// Nested signal handlers that are followed.
const SIGNALS: usize = 6;

/// Functions that end a stack in releases without flags (1.16 and before).
const TOP_FRAMES: [&str; 9] = [
    "runtime.goexit",
    "runtime.mstart",
    "runtime.mstart1",
    "runtime.mcall",
    "runtime.morestack",
    "runtime.rt0_go",
    "runtime.asmcgocall",
    "runtime.sigtramp",
    "runtime.systemstack",
];

/// Where a stack starts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Start {
    /// Address of the `g` whose stack it is.
    pub g: u64,
    pub pc: u64,
    pub sp: u64,
    pub lr: u64,
    /// Saved on entry to a system call.
    pub syscall: bool,
    /// Interrupted at exactly this instruction, rather than calling.
    pub trap: bool,
    /// Follow switches from the thread's own stack back to the goroutine's.
    pub jump: bool,
}

/// A physical frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Frame {
    pub function: Function,
    pub pc: u64,
    pub sp: u64,
    /// Stack pointer of the caller.
    pub fp: u64,
    /// Behind the local variables.
    pub varp: u64,
    /// Start of the arguments.
    pub argp: u64,
    /// Where to look the frame up: within the call instruction, unless it was interrupted.
    pub lookup_pc: u64,
    /// `funcID` of the frame that it called; 0 for the innermost.
    pub callee: u8,
}

/// A walk over a stack, innermost frame first. Cheap to clone, so that a printer can look ahead.
#[derive(Clone)]
pub(super) struct Unwinder<'a, 'm> {
    go: &'a Go<'m>,
    state: Option<State>,
    jump: bool,
    /// Address of the `g`, which changes when the walk jumps to another stack.
    g: u64,
    left: u32,
    pub error: Option<Broken>,
}

/// Why a walk ended before the bottom of the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    /// The return address is not in the core.
    Absent,
    /// The return address lies in no Go function.
    Unknown(u64),
    /// It does not get anywhere, or is longer than is believed.
    Endless,
}

#[derive(Clone, Copy)]
struct State {
    function: Function,
    pc: u64,
    sp: u64,
    lr: u64,
    trap: bool,
    syscall: bool,
    innermost: bool,
    callee: u8,
}

impl<'a, 'm> Unwinder<'a, 'm> {
    pub(super) fn new(go: &'a Go<'m>, start: Start) -> Self {
        let (mut pc, mut sp, mut lr) = (start.pc, start.sp, start.lr);
        if pc == 0 {
            // Most likely a call of a nil function: start in the caller.
            pc = go.memory.u64(sp).unwrap_or(0);
            match go.arch {
                Arch::Amd64 => sp = sp.wrapping_add(8),
                Arch::Arm64 => lr = 0,
            }
        }
        let state = go.function_at(pc).map(|function| State {
            function,
            pc,
            sp,
            lr,
            trap: start.trap,
            syscall: start.syscall,
            innermost: true,
            callee: 0,
        });
        let error = if state.is_none() { Some(Broken::Unknown(pc)) } else { None };
        Unwinder { go, state, jump: start.jump, g: start.g, left: 20_000_000, error }
    }

    fn top_frame(&self, function: &Function) -> bool {
        match self.go.minor {
            17.. => function.flag & TOP_FRAME != 0,
            _ => TOP_FRAMES.contains(&self.go.table.name(function)),
        }
    }

    /// On the thread's own stack, below a switch from the goroutine's: the goroutine to continue with.
    fn jump_target(&self) -> Option<Goroutine> {
        let go = self.go;
        let word = |base: u64, offset: u16| go.memory.u64(base.wrapping_add(u64::from(offset))).ok();
        let m = word(self.g, go.layout.g.m).filter(|&m| m != 0)?;
        if word(m, go.layout.m.g0)? != self.g {
            return None;
        }
        let curg = word(m, go.layout.m.curg).filter(|&g| g != 0)?;
        go.goroutine(curg).ok().filter(|g| g.m == m)
    }

    /// Resolves the frame at `state`, and leaves the caller's in its place.
    fn step(&mut self, mut state: State) -> Option<Frame> {
        let go = self.go;
        let lr_machine = go.arch == Arch::Arm64;
        if !go.table.has_frame_sizes(&state.function) {
            return None;
        }
        let ids = &go.layout.ids;
        let is = |id: u8, wanted: Option<u8>| wanted == Some(id);
        let mut flag = state.function.flag;
        if is(state.function.id, ids.cgocallback) || (state.syscall && state.innermost) {
            // Both arrange for the stack to be right in spite of writing the stack pointer.
            flag &= !SP_WRITE;
        }
        if self.jump
            && (is(state.function.id, ids.morestack) || is(state.function.id, ids.systemstack))
            && let Some(g) = self.jump_target()
        {
            if is(state.function.id, ids.morestack) {
                self.g = g.address;
                (state.pc, state.sp, state.lr) = (g.sched_pc, g.sched_sp, g.sched_lr);
                state.function = go.function_at(state.pc)?;
                flag = state.function.flag;
            } else {
                let switched = !lr_machine || go.stack_delta(&state.function, state.pc) != 0;
                if switched {
                    self.g = g.address;
                    state.sp = g.sched_sp;
                }
                flag &= !SP_WRITE;
            }
        }
        let delta = i64::from(go.stack_delta(&state.function, state.pc));
        let mut fp = state.sp.wrapping_add_signed(delta);
        if !lr_machine {
            fp = fp.wrapping_add(8);
        }
        let mut lr = state.lr;
        if self.top_frame(&state.function) || flag & SP_WRITE != 0 {
            lr = 0;
        } else if lr_machine {
            if (state.innermost && state.sp < fp) || lr == 0 {
                lr = self.read(state.sp);
            }
        } else if lr == 0 {
            lr = self.read(fp.wrapping_sub(8));
        }
        let mut varp = if lr_machine { fp } else { fp.wrapping_sub(8) };
        if varp > state.sp {
            // The saved frame pointer.
            varp = varp.wrapping_sub(8);
        }
        let lookup_pc = if state.trap || state.pc <= state.function.entry { state.pc } else { state.pc - 1 };
        let frame = Frame {
            function: state.function,
            pc: state.pc,
            sp: state.sp,
            fp,
            varp,
            argp: if lr_machine { fp.wrapping_add(8) } else { fp },
            lookup_pc,
            callee: state.callee,
        };
        self.state = self.caller(&state, lr, fp);
        Some(frame)
    }

    fn read(&mut self, address: u64) -> u64 {
        self.go.memory.u64(address).unwrap_or_else(|_| {
            self.error = Some(Broken::Absent);
            0
        })
    }

    fn caller(&mut self, state: &State, lr: u64, fp: u64) -> Option<State> {
        let go = self.go;
        if lr == 0 {
            return None;
        }
        let Some(mut function) = go.function_at(lr) else {
            self.error = Some(Broken::Unknown(lr));
            return None;
        };
        if fp < state.sp || (fp == state.sp && (lr == state.pc || !state.innermost)) {
            self.error = Some(Broken::Endless);
            return None;
        }
        let ids = &go.layout.ids;
        let id = Some(state.function.id);
        let injected = id == ids.sigpanic || id == ids.asyncpreempt || id == ids.debugcall;
        let (mut pc, mut sp, mut caller_lr) = (lr, fp, 0);
        if injected && go.arch == Arch::Arm64 {
            // The handler saved the link register before it faked the call.
            let saved = go.memory.u64(sp).unwrap_or(0);
            sp = sp.wrapping_add(16);
            match go.function_at(pc) {
                None => {
                    pc = saved;
                    function = go.function_at(pc)?;
                }
                Some(found) if go.stack_delta(&found, pc) == 0 => caller_lr = saved,
                Some(_) => {}
            }
        }
        Some(State {
            function,
            pc,
            sp,
            lr: caller_lr,
            trap: injected,
            syscall: false,
            innermost: false,
            callee: state.function.id,
        })
    }
}

impl Iterator for Unwinder<'_, '_> {
    type Item = Frame;

    fn next(&mut self) -> Option<Frame> {
        let state = self.state.take()?;
        if self.left == 0 || !self.go.spend() {
            self.error = Some(Broken::Endless);
            return None;
        }
        self.left -= 1;
        self.step(state)
    }
}

impl<'m> Go<'m> {
    /// Where the runtime would start to print this goroutine; `None` for one that ran on a thread the core lost.
    pub(super) fn start(&self, g: &Goroutine) -> Option<Start> {
        let mut start = if g.status == status::SYSCALL || g.syscall_sp != 0 {
            Start { g: g.address, pc: g.syscall_pc, sp: g.syscall_sp, syscall: true, ..Start::default() }
        } else if g.status == status::RUNNING {
            return self.running(g);
        } else {
            Start { g: g.address, pc: g.sched_pc, sp: g.sched_sp, lr: g.sched_lr, ..Start::default() }
        };
        if let Some(machine) = self.machines.get(&g.m).filter(|machine| machine.vdso_sp != 0) {
            (start.pc, start.sp, start.syscall) = (machine.vdso_pc, machine.vdso_sp, false);
        }
        Some(start)
    }

    /// A running goroutine's registers: its thread's, or those that its signal handlers interrupted.
    fn running(&self, g: &Goroutine) -> Option<Start> {
        let machine = self.machines.get(&g.m)?;
        let thread = self.threads.get(machine.thread?)?;
        let own = |sp: u64| (g.stack_lo..g.stack_hi).contains(&sp);
        let mut start =
            Start { g: g.address, pc: thread.pc, sp: thread.sp, lr: thread.lr, trap: true, ..Start::default() };
        if own(start.sp) {
            return Some(start);
        }
        if let Some(interrupted) = self.interrupted(machine, start) {
            start = interrupted;
            if own(start.sp) {
                return Some(start);
            }
        }
        Some(Start { g: machine.g0, jump: true, ..start })
    }

    /// Follows a thread's signal stack to the handler's trampoline, and reads what it interrupted. A handler may itself
    /// have been interrupted.
    fn interrupted(&self, machine: &Machine, mut start: Start) -> Option<Start> {
        let mut found = None;
        for _ in 0..SIGNALS {
            start.g = machine.gsignal;
            start.trap = found.is_none();
            let last = Unwinder::new(self, start).last()?;
            let context = match (self.table.name(&last.function), self.arch) {
                ("runtime.sigtramp" | "runtime.cgoSigtramp", Arch::Amd64) => last.fp,
                // Behind the siginfo.
                ("runtime.sigtramp" | "runtime.cgoSigtramp", Arch::Arm64) => last.fp.wrapping_add(128),
                (name, Arch::Amd64) if name.starts_with("runtime.sigreturn") => last.sp,
                _ => return found,
            };
            // Offsets within `struct ucontext` (arch/x86, arch/arm64: include/uapi/asm/sigcontext.h).
            let at = |offset: u64| self.memory.u64(context.wrapping_add(offset)).ok();
            let (pc, sp, lr) = match self.arch {
                Arch::Amd64 => (at(168)?, at(160)?, 0),
                Arch::Arm64 => (at(440)?, at(432)?, at(424)?),
            };
            start = Start { pc, sp, lr, trap: true, ..start };
            found = Some(start);
        }
        found
    }

    /// Frame size at `pc`; 0 where the table has none, as the runtime takes it.
    fn stack_delta(&self, function: &Function, pc: u64) -> i32 {
        if let Some(&delta) = self.deltas.borrow().get(&pc) {
            return delta;
        }
        let delta = self.table.stack_delta(function, pc).unwrap_or(-1);
        self.deltas.borrow_mut().insert(pc, delta);
        delta
    }

    /// The function at `pc`, cached.
    pub(super) fn function_at(&self, pc: u64) -> Option<Function> {
        if let Some(known) = self.functions.borrow().get(&pc) {
            return *known;
        }
        let found = self.table.function_at(pc).filter(|_| pc < self.module.max_pc);
        self.functions.borrow_mut().insert(pc, found);
        found
    }

    /// All physical frames of a goroutine, innermost first, at most `limit`.
    pub fn frames(&self, g: &Goroutine, limit: usize) -> Vec<Frame> {
        self.start(g).map_or_else(Vec::new, |start| Unwinder::new(self, start).take(limit).collect())
    }

    /// Function names on the stack that a thread itself stands on, innermost first; empty in C code.
    pub fn thread_frames(&self, thread: &Thread, limit: usize) -> Vec<String> {
        let start = Start { pc: thread.pc, sp: thread.sp, lr: thread.lr, trap: true, ..Start::default() };
        let mut names = Vec::new();
        for frame in Unwinder::new(self, start) {
            let site = self.site(&frame.function, frame.lookup_pc);
            names.extend(site.calls.iter().map(|call| call.printed.clone()));
            if names.len() >= limit {
                break;
            }
        }
        names
    }

    /// The calls that a frame stands for, innermost first.
    pub fn calls(&self, frame: &Frame) -> Rc<Site> {
        self.site(&frame.function, frame.lookup_pc)
    }
}
