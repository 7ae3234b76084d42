//! Cores damaged on purpose: what can be told is told, and nothing hangs, panics or grows without bound.

use crate::oracle::{Sample, blocks, dump, unpack};
use holdup_parsers::ReadOptions;
use holdup_parsers::core::{self, CoreFile, go::Go, go::Level};
use holdup_parsers::evidence::Text;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A core that can be patched, read, and patched again.
struct Patient {
    bytes: Arc<Vec<u8>>,
    exe: PathBuf,
    _folder: tempfile::TempDir,
}

/// An `Elf64_Phdr` of the core: where it stands, and its type, offset, address and file size.
#[derive(Debug, Clone, Copy)]
struct Header {
    at: usize,
    kind: u32,
    offset: u64,
    address: u64,
    size: u64,
}

impl Patient {
    fn of(name: &str) -> Patient {
        let sample = Sample::named(name);
        let folder = tempfile::tempdir().expect("a folder");
        let exe = folder.path().join("exe");
        std::fs::write(&exe, unpack(&sample.exe())).expect("a file");
        Patient { bytes: Arc::new(sample.core_bytes()), exe, _folder: folder }
    }

    fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().expect("eight bytes"))
    }

    fn headers(&self) -> Vec<Header> {
        let count = u16::from_le_bytes([self.bytes[56], self.bytes[57]]);
        let start = self.word(32) as usize;
        let header = |i: usize| {
            let at = start + 56 * i;
            let kind = self.word(at) as u32;
            Header { at, kind, offset: self.word(at + 8), address: self.word(at + 16), size: self.word(at + 32) }
        };
        (0..usize::from(count)).map(header).collect()
    }

    /// Where the byte at an address of the process lies in the core.
    fn place(&self, address: u64) -> Option<usize> {
        let holds = |h: &&Header| h.kind == 1 && (h.address..h.address + h.size).contains(&address);
        self.headers().iter().find(holds).map(|h| (h.offset + address - h.address) as usize)
    }

    fn set(&mut self, at: usize, value: &[u8]) {
        let bytes = Arc::get_mut(&mut self.bytes).expect("nobody else reads it");
        bytes[at..at + value.len()].copy_from_slice(value);
    }

    fn set_word(&mut self, address: u64, value: u64) {
        let at = self.place(address).expect("an address in the core");
        self.set(at, &value.to_le_bytes());
    }

    fn open(&self) -> CoreFile {
        let options = ReadOptions { exe: vec![self.exe.clone()], ..ReadOptions::default() };
        core::from_text(Text::from_shared(self.bytes.clone()), &options).expect("a core")
    }

    /// Reads everything, in bounded time and space; returns how many goroutines were found.
    fn read(&self, what: &str) -> usize {
        let started = Instant::now();
        let options = ReadOptions { exe: vec![self.exe.clone()], ..ReadOptions::default() };
        let Ok(core) = core::from_text(Text::from_shared(self.bytes.clone()), &options) else { return 0 };
        let evidence = core.evidence(0);
        let size = evidence.snapshot.as_ref().map_or(0, |s| s.text.bytes().len());
        assert!(size < 200 << 20, "{what}: {size} bytes of text");
        assert!(started.elapsed() < Duration::from_secs(20), "{what} took {:?}", started.elapsed());
        evidence.snapshot.map_or(0, |s| s.goroutines.len())
    }
}

/// Numbers that look random and are the same every time (xorshift64*).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.roll() % end as u64) as usize
    }
}

#[test]
fn every_segment_cut_short() {
    let mut patient = Patient::of("go1.27.3-stripped");
    let whole = patient.read("whole");
    assert_eq!(whole, 367);
    let mut lost = 0;
    for header in patient.headers() {
        // Nothing is lost where nothing was; a length beyond the file is absurd anywhere.
        let cut = [0, header.size / 2, header.size.saturating_sub(8)].into_iter().filter(|_| header.size > 0);
        for size in cut.chain([u64::MAX]) {
            patient.set(header.at + 32, &size.to_le_bytes());
            lost += usize::from(patient.read(&format!("{header:x?} cut to {size:#x}")) < whole);
        }
        patient.set(header.at + 32, &header.size.to_le_bytes());
    }
    assert_eq!(patient.read("whole again"), whole);
    assert!(lost > 0, "no cut mattered");
}

#[test]
fn a_truncated_core_gives_what_is_left() {
    let sample = Sample::named("go1.25.5-stripped");
    let bytes = sample.core_bytes();
    let wanted = blocks(&sample.text(Level::Crash).expect("a dump"));
    let options = ReadOptions { exe: vec![sample.exe()], ..ReadOptions::default() };
    let mut best = 0;
    for part in (1..=24).map(|i| bytes.len() * i / 24).chain([0, 63, 64, 100, 1000, 5000, 50_000, 500_000]) {
        let Ok(core) = core::from_text(Text::from_vec(bytes[..part].to_vec()), &options) else { continue };
        if part < bytes.len() {
            assert!(core.problems.iter().any(|p| p.message.contains("cut")), "{part}: {:?}", core.problems);
        }
        let evidence = core.evidence(0);
        let Some(snapshot) = evidence.snapshot else { continue };
        assert_eq!(snapshot.complete, part == bytes.len(), "{part}");
        // What is told of a goroutine whose memory is there is true: its block is the runtime's own.
        let got = blocks(&dump(&core, Level::Crash));
        let same = got.iter().filter(|(id, block)| wanted.get(id) == Some(block)).count();
        best = best.max(same);
    }
    assert_eq!(best, wanted.len());
}

#[test]
fn notes_missing_or_absurd() {
    let mut patient = Patient::of("go1.24.11-cgo-stripped");
    let note = patient.headers().into_iter().find(|h| h.kind == 4).expect("notes");
    let whole = patient.read("whole");
    assert!(whole > 10);
    // All of them gone: nothing says where the program starts or what ran, and still nothing breaks.
    patient.set(note.at + 32, &0u64.to_le_bytes());
    patient.read("no notes");
    patient.set(note.at + 32, &note.size.to_le_bytes());
    let original = patient.bytes[note.offset as usize..(note.offset + note.size) as usize].to_vec();
    let mut dice = Dice(7);
    for round in 0..60 {
        for _ in 0..1 + round % 8 {
            let at = note.offset as usize + dice.below(original.len() - 8) / 4 * 4;
            let absurd = [0, 1, u32::MAX, 0x7fff_ffff, dice.roll() as u32][dice.below(5)];
            patient.set(at, &absurd.to_le_bytes());
        }
        patient.read(&format!("notes, round {round}"));
        patient.set(note.offset as usize, &original);
    }
    assert_eq!(patient.read("whole again"), whole);
}

#[test]
fn function_table_bytes_flipped() {
    for name in ["go1.19.8-stripped", "go1.27.3-stripped", "go1.24.11-arm64-stripped"] {
        let patient = Patient::of(name);
        let (table, offset, size) = {
            let core = patient.open();
            let go = Go::find(&core).expect("Go");
            let exe = core.executable.as_ref().expect("an executable");
            let segment =
                exe.elf.loads.iter().find(|s| (s.address..s.address + s.file_size).contains(&go.table.address));
            let segment = segment.expect("its segment");
            let start = segment.offset + go.table.address - segment.address;
            (go.table.address, start as usize, (segment.offset + segment.file_size - start) as usize)
        };
        assert!(table > 0 && size > 100_000);
        let whole = std::fs::read(&patient.exe).expect("the executable");
        let mut dice = Dice(table);
        for round in 0..40 {
            let mut bytes = whole.clone();
            // Few flips hit a table here and there; many make everything nonsense. The header is spared sometimes.
            let spare = if round % 2 == 0 { 128 } else { 0 };
            for _ in 0..[1, 30, 1000, 50_000][round % 4] {
                let at = offset + spare + dice.below(size - spare);
                bytes[at] = dice.roll() as u8;
            }
            std::fs::write(&patient.exe, bytes).expect("a file");
            patient.read(&format!("{name}, round {round}"));
        }
        std::fs::write(&patient.exe, whole).expect("a file");
        assert!(patient.read(name) > 300);
    }
}

#[test]
fn lists_that_go_round_and_lengths_that_are_absurd() {
    let mut patient = Patient::of("go1.26.6-stripped-wait");
    let whole = patient.read("whole");
    let (machines, goroutines, layout) = {
        let core = patient.open();
        let go = Go::find(&core).expect("Go");
        let machines: Vec<u64> = go.machines.keys().copied().collect();
        (machines, go.goroutines.clone(), go.layout)
    };
    for &m in &machines {
        patient.set_word(m + u64::from(layout.m.all_link), m);
    }
    assert_eq!(patient.read("every m is its own successor"), whole);
    for g in &goroutines {
        // A stack that returns into itself for ever, one that starts nowhere, one that lies about its place.
        let (pc, sp) = (g.address + u64::from(layout.g.sched_pc), g.address + u64::from(layout.g.sched_sp));
        match g.id % 3 {
            0 => patient.set_word(sp, u64::MAX - 4),
            1 => patient.set_word(pc, 0),
            _ => patient.set_word(sp, g.address),
        }
        patient.set_word(g.address + u64::from(layout.g.waiting), g.waiting.wrapping_add(1));
        patient.set_word(g.address + u64::from(layout.g.ancestors), g.address);
        patient.set_word(g.address + u64::from(layout.g.labels), g.address);
    }
    assert_eq!(patient.read("stacks and lists of nonsense"), whole);
    for g in &goroutines {
        patient.set_word(g.address + u64::from(layout.g.goid), u64::MAX);
    }
    patient.read("ids of nonsense");
}

/// A stack whose every word is the same return address unwinds as far as it goes, and no farther.
#[test]
fn an_endless_stack_ends() {
    let mut patient = Patient::of("go1.27.3-stripped");
    let (g, layout) = {
        let core = patient.open();
        let go = Go::find(&core).expect("Go");
        let goroutine = *go.goroutines.iter().find(|g| g.status == 4 && g.id > 40).expect("a goroutine that waits");
        (goroutine, go.layout)
    };
    let back = {
        let core = patient.open();
        let go = Go::find(&core).expect("Go");
        go.frames(&g, 10).get(1).expect("a caller").pc
    };
    let mut at = g.stack_lo;
    while at < g.stack_hi {
        patient.set_word(at, back);
        at += 8;
    }
    patient.set_word(g.address + u64::from(layout.g.sched_sp), g.stack_lo);
    assert_eq!(patient.read("a stack of one return address"), 367);
}

#[test]
fn words_of_the_runtime_overwritten() {
    let mut patient = Patient::of("go1.23.9-stripped");
    let whole = patient.read("whole");
    let written: Vec<Header> = patient.headers().into_iter().filter(|h| h.kind == 1 && h.size > 0).collect();
    let mut dice = Dice(23);
    for round in 0..60 {
        let mut undo = Vec::new();
        for _ in 0..[10, 1000, 20_000][round % 3] {
            let header = written[dice.below(written.len())];
            let at = header.offset as usize + dice.below(header.size as usize / 8) * 8;
            let old = patient.word(at);
            let heap = 0xc0_0000_0000 + dice.roll() % 0x40_0000;
            let value =
                [0, u64::MAX, heap, dice.roll(), old.wrapping_add(8), old ^ 1 << (dice.roll() % 64)][dice.below(6)];
            undo.push((at, old));
            patient.set(at, &value.to_le_bytes());
        }
        patient.read(&format!("round {round}"));
        for (at, old) in undo.into_iter().rev() {
            patient.set(at, &old.to_le_bytes());
        }
    }
    assert_eq!(patient.read("whole again"), whole);
}
