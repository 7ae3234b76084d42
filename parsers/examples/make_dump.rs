//! Writes a made dump to standard output: `cargo run --release -p holdup-parsers --example make_dump -- 100000 > dump.txt`.

#[path = "../benches/made/mod.rs"]
mod made;

use std::io::Write;

fn main() -> std::io::Result<()> {
    let wanted = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(100_000);
    std::io::stdout().write_all(made::dump(wanted).as_bytes())
}
