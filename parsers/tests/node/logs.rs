//! Service logs.

use crate::common::{line, parse, parse_as, sample};
use holdup_parsers::evidence::InputKind;

#[test]
fn lines_that_matter_and_no_others() {
    let text = sample("by-hand/journal-mixed.txt");
    let (kind, node) = parse(&text);
    assert_eq!(kind, InputKind::ServiceLog);
    let seen: Vec<_> = node.log_lines.iter().map(|l| (l.kind.as_str(), l.program.as_deref().unwrap_or(""))).collect();
    assert_eq!(
        seen,
        [
            ("pleg-unhealthy", "kubelet"),
            ("stop-failed", "kubelet"),
            ("name-reserved", "containerd"),
            ("stop-failed", "dockerd"),
            ("bus-send-failed", "systemd"),
            ("unit-timeout", "systemd"),
            ("bus-timeout", "dbus-daemon"),
            ("cni-error", "kubelet"),
        ]
    );
    for found in &node.log_lines {
        assert!(line(&text, found.place).contains(&found.text), "{found:?}");
        assert_eq!(found.host.as_deref(), Some("node-3"));
    }
    let subject = |i: usize| node.log_lines[i].subject.as_deref();
    assert_eq!(subject(1), Some("8ba001dc80d62279348caa7c1969319a49816c8206544a4a2a6ba64f9690d16b"));
    assert_eq!(subject(3), Some("2d00cf37fdc129fd24d757ceaf79303bf9fa54fd5e9880760f5cf77bbfd73dca"));
    assert_eq!(subject(5), Some("docker.service"));
    assert_eq!(subject(7), Some("default/web-a"));
    assert_eq!(node.log_lines[2].at.expect("logrus tells it all").to_string(), "2026-11-29T12:40:13.000000001Z");
    assert!(node.log_lines[2].wall.is_none());
    assert!(node.log_lines[0].at.is_none() && node.log_lines[0].wall.is_some(), "syslog tells no year");
}

#[test]
fn a_year_comes_later() {
    let (_, mut node) = parse(&sample("by-hand/journal-mixed.txt"));
    node.settle_years("2026-11-29T13:00:00Z".parse().expect("a time"));
    assert_eq!(node.log_lines[0].at.expect("settled").to_string(), "2026-11-29T12:40:10.123456Z");
    assert_eq!(node.taken_at_local[0].0.as_utc().expect("settled").to_string(), "2026-11-29T12:40:20Z");
}

#[test]
fn the_last_line_tells_when() {
    let text = "time=\"2026-11-29T12:04:02Z\" level=info msg=\"starting containerd\"\n\
                time=\"2026-11-29T12:05:02.5+01:00\" level=info msg=\"done\"\n";
    let (kind, node) = parse(text);
    assert_eq!((kind, node.log_lines.len()), (InputKind::ServiceLog, 0));
    assert_eq!(node.taken_at[0].0.to_string(), "2026-11-29T11:05:02.5Z");
    assert_eq!(node.taken_at[0].1.line, 2);
}

#[test]
fn starting_up_is_no_complaint() {
    let text = "I1129 13:06:38.329268   14732 kubelet.go:1833] skipping pod synchronization - [container runtime status check may not have completed yet, PLEG is not healthy: pleg has yet to be successful]\n\
                I1129 13:06:39.329268   14732 kubelet.go:1833] SyncLoop (PLEG): \"web\", event: started\n";
    let (_, node) = parse(text);
    assert!(node.log_lines.is_empty(), "{:?}", node.log_lines);
}

#[test]
fn a_dump_in_one_escaped_line_is_no_log_line() {
    let frames = "goroutine 1 [running]:\\nmain.main()\\n\\t/a.go:1 context deadline exceeded\\n".repeat(10_000);
    let text = format!(
        "time=\"2026-11-29T12:04:02Z\" level=info msg=\"=== BEGIN goroutine stack dump ===\\n{frames}\"\ntime=\"2026-11-29T12:04:03Z\" level=error msg=\"x\" error=\"context deadline exceeded\"\n"
    );
    let (_, node) = parse(&text);
    let kinds: Vec<_> = node.log_lines.iter().map(|l| l.kind.as_str()).collect();
    assert_eq!(kinds, ["dump-written", "deadline-exceeded"]);
    assert!(node.log_lines[0].text.len() < 5_000);
}

#[test]
fn a_flood_is_bounded_and_keeps_both_ends() {
    let text: String = (0..20_000)
        .map(|i| {
            format!(
                "time=\"2026-11-29T12:{:02}:{:02}Z\" level=error msg=\"n{i}\" error=\"context deadline exceeded\"\n",
                i / 60 % 60,
                i % 60
            )
        })
        .collect();
    let (_, node) = parse_as("journal-dockerd.log", &text).expect("a log");
    assert!(node.log_lines.len() < 1_000);
    assert!(
        node.log_lines[0].text.contains("n0\"") && node.log_lines.last().expect("a line").text.contains("n19999\"")
    );
    assert_eq!(node.log_lines[0].program.as_deref(), Some("dockerd"), "from the file's name");
    assert!(node.log_lines.is_sorted_by_key(|l| l.place));
}
