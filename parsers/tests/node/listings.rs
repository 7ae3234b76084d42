//! Buses, containers, conditions, units.

use crate::common::{line, parse, sample};

#[test]
fn bus_names() {
    let text = sample("tools/busctl.txt");
    let (_, node) = parse(&text);
    assert_eq!(node.bus_names.len(), text.lines().count() - 1);
    let caller = node.bus_names.iter().find(|n| n.name == ":1.0").expect("busctl itself");
    assert_eq!((caller.pid, caller.process.as_deref()), (Some(25591), Some("busctl")));
    assert!(node.bus_names.iter().all(|n| line(&text, n.place).starts_with(&n.name)));
}

#[test]
fn containers_of_docker_and_crictl() {
    let text = sample("incidents/docker-ps.txt");
    let (_, node) = parse(&text);
    let names: Vec<_> = node.containers.iter().map(|c| (c.name.as_str(), c.status.as_str())).collect();
    assert_eq!(names, [("worker", "Up 15 minutes"), ("api", "Up 15 minutes"), ("web", "Up 15 minutes")]);
    assert!(node.containers.iter().all(|c| c.id.len() == 64 && line(&text, c.place).starts_with(&c.id)));
    let (_, node) = parse(&sample("by-hand/crictl-ps.txt"));
    assert_eq!((node.containers[1].id.as_str(), node.containers[1].status.as_str()), ("5723d61f7680f", "Exited"));
    assert_eq!(
        (node.containers[1].name.as_str(), node.containers[1].pod.as_deref()),
        ("sidecar", Some("web-a-node-1"))
    );
}

#[test]
fn conditions_of_a_node() {
    let text = sample("by-hand/kubectl-describe-node.txt");
    let (_, node) = parse(&text);
    let seen: Vec<_> = node.conditions.iter().map(|c| (c.kind.as_str(), c.status.as_str())).collect();
    assert_eq!(seen, [("MemoryPressure", "False"), ("DiskPressure", "Unknown"), ("Ready", "False")]);
    let ready = &node.conditions[2];
    assert!(ready.text.starts_with("KubeletNotReady: PLEG is not healthy"));
    assert_eq!(ready.since.expect("a time").to_string(), "2026-11-29T12:38:46Z");
    assert!(line(&text, ready.place).contains("KubeletNotReady"));
}

#[test]
fn units_and_jobs() {
    let text = sample("by-hand/systemctl-status.txt");
    let (_, node) = parse(&text);
    let unit = &node.units[0];
    assert_eq!(
        (unit.name.as_str(), unit.main_pid, unit.main_process.as_deref()),
        ("docker.service", Some(22623), Some("dockerd"))
    );
    assert!(unit.active.starts_with("deactivating (stop-sigterm)"));
    assert!(line(&text, unit.place).contains("docker.service"));
    assert_eq!(node.log_lines[0].kind, "unit-timeout");
    let (_, node) = parse(&sample("by-hand/systemctl-list-jobs.txt"));
    assert_eq!((node.units.len(), node.units[0].active.as_str()), (2, "job stop running"));
}
