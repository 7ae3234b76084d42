//! How fast files are read, by step: `cargo run --release -p holdup-parsers --example read_speed FILE…`.

use holdup_parsers::evidence::Text;
use holdup_parsers::{ReadOptions, envelope, goroutines, read};
use std::path::PathBuf;
use std::time::Instant;

fn main() -> std::io::Result<()> {
    for path in std::env::args().skip(1) {
        let size = std::fs::metadata(&path)?.len();
        let speed = |started: Instant| size as f64 / 1e6 / started.elapsed().as_secs_f64();
        if size < 1 << 30 {
            let text = Text::from_vec(std::fs::read(&path)?);
            let started = Instant::now();
            let streams = envelope::peel(text, 0);
            let peeled = speed(started);
            let started = Instant::now();
            let snapshots: usize = streams.iter().map(|stream| goroutines::parse(stream).len()).sum();
            println!("{path}: peeled at {peeled:.0} MB/s, parsed at {:.0} MB/s, {snapshots} snapshots", speed(started));
        }
        let started = Instant::now();
        let (evidence, _) = read(&[PathBuf::from(&path)], &ReadOptions::default());
        let goroutines: u64 = evidence.snapshots.iter().map(|s| s.goroutine_count()).sum();
        println!("{path}: read in {:.2?}, {:.0} MB/s, {goroutines} goroutines", started.elapsed(), speed(started));
    }
    Ok(())
}
