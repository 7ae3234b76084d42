//! What 500 rules cost beside the parse of a dump: `cargo bench -p holdup-analysis --bench rules [-- GOROUTINES]`.

#[path = "../../parsers/benches/made/mod.rs"]
mod made;

use holdup_analysis::rules::Rules;
use holdup_parsers::envelope::Stream;
use holdup_parsers::evidence::{LineMap, Snapshot, Text};
use holdup_parsers::goroutines;
use std::collections::HashSet;
use std::fmt::Write;
use std::time::{Duration, Instant};

/// The built-in rules, and as many made ones as are missing of `count`.
fn rules(count: usize) -> Rules {
    let missing = count.saturating_sub(Rules::builtin().iter().count());
    let mut text = String::new();
    for n in 0..missing {
        let _ = writeln!(
            text,
            "[[benign]]\nid = \"made-{n}\"\nwhy = \"made\"\nstack = [\"wait.*\", \"made{n}.(*Worker).run\", \"*.serve{n}\"]"
        );
    }
    Rules::parse(&[("made.toml".into(), text)], true).unwrap_or_default()
}

/// Asks everything that an analysis asks, once for each distinct stack and state.
fn ask(rules: &Rules, s: &Snapshot) -> usize {
    let bound = rules.bind(s);
    let mut seen = HashSet::new();
    let mut answers = 0;
    for g in &s.goroutines {
        let stack: Vec<u32> = s.frames_of(g).iter().map(|frame| frame.site.0).collect();
        if !seen.insert((g.state, stack)) {
            continue;
        }
        answers += usize::from(bound.benign(s, g).is_some()) + usize::from(bound.symptom(s, g).is_some());
        answers += usize::from(bound.rpc(s, g).is_some()) + usize::from(bound.external(s, g).is_some());
        answers += bound.holds(s, g).len();
    }
    answers + usize::from(bound.role(s).is_some())
}

/// The shortest of some runs.
fn best(mut run: impl FnMut()) -> Duration {
    (0..7)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .min()
        .unwrap_or_default()
}

fn main() {
    let wanted = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(50_000);
    let text = made::dump(wanted);
    let megabytes = text.len() as f64 / 1e6;
    let stream = Stream { text: Text::from_vec(text.into_bytes()), lines: LineMap::identity(0), ..Stream::default() };
    let snapshots = goroutines::parse(&stream);
    let parse = best(|| drop(std::hint::black_box(goroutines::parse(&stream))));
    let start = best(|| drop(std::hint::black_box(Rules::builtin())));
    println!("built-in rules: {}, read and compiled in {start:.2?}", Rules::builtin().iter().count());
    for count in [0, 500] {
        let rules = if count == 0 { Rules::none() } else { rules(count) };
        let mut answers = 0;
        let asked = best(|| answers = snapshots.iter().map(|s| ask(&rules, s)).sum());
        let share = 100.0 * asked.as_secs_f64() / parse.as_secs_f64();
        println!(
            "{megabytes:.0} MB parsed in {parse:.1?}; {count} rules asked in {asked:.2?} ({share:.1}%), {answers} answers"
        );
    }
}
