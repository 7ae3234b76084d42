//! `asdump core CORE [--as-dump[=crash|stack]] [--exe PATH]… [--sysroot DIR]`: what the Go runtime would have printed.

use holdup_parsers::ReadOptions;
use holdup_parsers::core::{self, go::Level};
use std::io::Write;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = ReadOptions::default();
    let (mut path, mut level) = (None, Level::Crash);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "core" => {}
            "--as-dump" | "--as-dump=crash" => level = Level::Crash,
            "--as-dump=stack" => level = Level::Stack,
            "--exe" => options.exe.extend(args.next().map(Into::into)),
            "--sysroot" => options.sysroot = args.next().map(Into::into),
            _ => path = Some(arg),
        }
    }
    let core = core::open(path.ok_or("which core?")?.as_ref(), &options)?;
    let go = core::go::Go::find(&core)?;
    for problem in core.problems.iter().chain(&go.problems) {
        eprintln!("{}", problem.message);
    }
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    go.dump(level, &mut out)?;
    out.flush()?;
    Ok(())
}
