//! What envelopes cost against the bare dump: `cargo bench -p holdup-parsers --bench envelopes [-- GOROUTINES]`.
//!
//! Speeds are in bytes of the dump itself, so that they can be compared: what the envelope adds is its own cost.

mod made;

use holdup_parsers::envelope;
use holdup_parsers::evidence::Text;
use holdup_parsers::goroutines;
use std::fmt::Write;
use std::time::Instant;

fn main() {
    let wanted = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(20_000);
    let dump = made::dump(wanted);
    let plain = best(&dump, dump.len(), wanted);
    println!("plain            {:6.0} MB/s", plain);
    let each = |wrap: &dyn Fn(&mut String, &str)| {
        let mut out = String::with_capacity(dump.len() * 3);
        dump.lines().for_each(|line| wrap(&mut out, line));
        out
    };
    let escaped = |text: &str| serde_json::to_string(text).unwrap_or_default();
    let stamp = "2026-11-29T12:26:49.687774381Z";
    let wrapped = [
        (
            "journald-short",
            each(&|out, l| {
                let _ = writeln!(out, "Nov 29 12:26:49 node1 kubelet[4711]: {l}");
            }),
        ),
        (
            "CRI",
            each(&|out, l| {
                let _ = writeln!(out, "{stamp} stderr F {l}");
            }),
        ),
        (
            "docker json-file",
            each(&|out, l| {
                let _ = writeln!(
                    out,
                    "{{\"log\":{},\"stream\":\"stderr\",\"time\":\"{stamp}\"}}",
                    escaped(&format!("{l}\n"))
                );
            }),
        ),
        (
            "journald JSON",
            each(&|out, l| {
                let _ = writeln!(
                    out,
                    "{{\"__CURSOR\":\"s=1;i=2\",\"__REALTIME_TIMESTAMP\":\"1764419209687774\",\"_HOSTNAME\":\"node1\",\"_PID\":\"4711\",\"SYSLOG_IDENTIFIER\":\"kubelet\",\"MESSAGE\":{}}}",
                    escaped(l)
                );
            }),
        ),
        (
            "logrus text",
            format!(
                "time=\"{stamp}\" level=info msg=\"=== BEGIN goroutine stack dump ===\\n{}\\n=== END goroutine stack dump ===\"\n",
                dump.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\t', "\\t")
            ),
        ),
    ];
    for (name, text) in wrapped {
        let speed = best(&text, dump.len(), wanted);
        println!("{name:<16} {speed:6.0} MB/s of dump, {:.2} times the time", plain / speed);
    }
}

/// Speed of the best of five rounds, in megabytes of the dump a second.
fn best(text: &str, dump: usize, wanted: u64) -> f64 {
    let text = Text::from_vec(text.as_bytes().to_vec());
    let round = |_| {
        let start = Instant::now();
        let streams = envelope::peel(text.clone(), 0);
        let found: u64 = streams.iter().flat_map(goroutines::parse).map(|s| s.goroutine_count()).sum();
        let seconds = start.elapsed().as_secs_f64();
        assert!(found >= wanted, "{found} of {wanted}");
        dump as f64 / 1e6 / seconds
    };
    (0..5).map(round).fold(0.0, f64::max)
}
