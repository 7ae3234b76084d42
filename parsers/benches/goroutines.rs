//! How fast dumps are read: `cargo bench -p holdup-parsers --bench goroutines [-- GOROUTINES]`.

mod made;

use holdup_parsers::envelope::Stream;
use holdup_parsers::evidence::{LineMap, Text};
use holdup_parsers::goroutines;
use std::time::Instant;

fn main() {
    let wanted = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(100_000);
    let text = made::dump(wanted);
    let megabytes = text.len() as f64 / 1e6;
    let stream = Stream { text: Text::from_vec(text.into_bytes()), lines: LineMap::identity(0), ..Stream::default() };
    for round in 0..5 {
        let start = Instant::now();
        let snapshots = goroutines::parse(&stream);
        let seconds = start.elapsed().as_secs_f64();
        let goroutines: usize = snapshots.iter().map(|s| s.goroutines.len()).sum();
        let frames: usize = snapshots.iter().map(|s| s.frames.len()).sum();
        println!(
            "round {round}: {megabytes:.0} MB, {goroutines} goroutines, {frames} frames in {:.0} ms: {:.0} MB/s",
            seconds * 1e3,
            megabytes / seconds
        );
    }
}
