//! Prints what is left of files when their envelopes are off: `cargo run -p holdup-parsers --example peel FILE…`.

use holdup_parsers::envelope;
use holdup_parsers::evidence::Text;
use std::io::Write;

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for path in std::env::args().skip(1) {
        for stream in envelope::peel(Text::from_vec(std::fs::read(&path)?), 0) {
            let envelopes = stream.envelopes.join(" > ");
            writeln!(out, "=== {path}: {envelopes}; {:?} {:?}", stream.process, stream.written_at)?;
            for problem in &stream.problems {
                writeln!(out, "--- {:?} {:?}: {}", problem.severity, problem.line, problem.message)?;
            }
            out.write_all(stream.text.bytes())?;
        }
    }
    Ok(())
}
