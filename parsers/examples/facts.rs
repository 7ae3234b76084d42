//! `facts CORE [EXE]`: what memory says about locks.
use holdup_parsers::{ReadOptions, core};
fn main() {
    let mut args = std::env::args().skip(1);
    let path = args.next().expect("a core");
    let options = ReadOptions { exe: args.map(Into::into).collect(), ..ReadOptions::default() };
    let core = core::open(path.as_ref(), &options).expect("a core");
    let go = core::go::Go::find(&core).expect("Go");
    let facts = go.memory_facts();
    for lock in &facts.locks {
        println!(
            "{:#x} {} locked={:?} readers={:?} counted={:?} {} queue={:?}",
            lock.address,
            lock.kind,
            lock.locked,
            lock.readers,
            lock.counted_waiters,
            lock.words,
            lock.queue.iter().take(5).map(|w| (w.goroutine, w.mode)).collect::<Vec<_>>()
        );
    }
    for release in &facts.releases {
        println!("{release:x?}");
    }
    for hint in &facts.hints {
        println!("{hint:x?}");
    }
}
