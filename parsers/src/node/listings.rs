//! Small listings: `busctl list`, `docker ps`, `crictl ps`, conditions of `kubectl describe node`, `systemctl status`.

use super::clock;
use super::lines::{Line, Lines, Stop};
use crate::evidence::{BusName, Condition, ContainerRow, NodeEvidence, Unit};

/// Cells of a row whose columns stand two blanks or more apart.
fn cells(text: &str) -> Vec<&str> {
    text.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).flat_map(|c| c.split('\t')).collect()
}

/// Reads `busctl list`, whose header is `line`.
pub(super) fn read_busctl(lines: &Lines<'_>, line: &Line<'_>, out: &mut NodeEvidence) -> Option<Stop> {
    let names: Vec<&str> = line.text.split_whitespace().collect();
    if names.get(..3)? != ["NAME", "PID", "PROCESS"] || !names.contains(&"CONNECTION") {
        return None;
    }
    let before = out.bus_names.len();
    let mut stop = Stop::after(line);
    for row in lines.from(line).skip(1) {
        let fields: Vec<&str> = row.text.split_whitespace().collect();
        let [name, pid, process, ..] = fields[..] else { break };
        if !(name.starts_with(':') || name.contains('.')) || !(pid == "-" || pid.bytes().all(|b| b.is_ascii_digit())) {
            break;
        }
        out.bus_names.push(BusName {
            name: name.to_string(),
            pid: pid.parse().ok(),
            process: (!matches!(process, "-" | "n/a")).then(|| process.to_string()),
            place: lines.place(row.number),
        });
        stop = Stop::after(&row);
    }
    (out.bus_names.len() > before).then_some(stop)
}

/// Reads `docker ps`, `nerdctl ps`, `podman ps`, `crictl ps`, `crictl pods`, whose header is `line`.
pub(super) fn read_containers(lines: &Lines<'_>, line: &Line<'_>, out: &mut NodeEvidence) -> Option<Stop> {
    let names = cells(&line.text);
    let position = |wanted: &[&str]| names.iter().position(|n| wanted.contains(n));
    let id = position(&["CONTAINER ID", "CONTAINER", "POD ID"])?;
    if id != 0 {
        return None;
    }
    let name = position(&["NAMES", "NAME"])?;
    let status = position(&["STATUS", "STATE"])?;
    let pod = position(&["POD", "POD NAME"]).or_else(|| position(&["POD ID"]).filter(|at| *at != 0));
    let ports = position(&["PORTS"]);
    let before = out.containers.len();
    let mut stop = Stop::after(line);
    for row in lines.from(line).skip(1) {
        let mut fields = cells(&row.text);
        // The only column that is often empty.
        if let Some(ports) = ports
            && fields.len() + 1 == names.len()
        {
            fields.insert(ports.min(fields.len()), "");
        }
        let Some(key) = fields.first().filter(|w| w.len() >= 8 && w.bytes().all(|b| b.is_ascii_hexdigit())) else {
            break;
        };
        let cell = |at: usize| fields.get(at).copied().unwrap_or("").to_string();
        out.containers.push(ContainerRow {
            id: key.to_string(),
            name: cell(name),
            pod: pod.map(cell).filter(|p| !p.is_empty()),
            status: cell(status),
            place: lines.place(row.number),
        });
        stop = Stop::after(&row);
    }
    (out.containers.len() > before).then_some(stop)
}

/// Reads the conditions of `kubectl describe node`; `line` is `Conditions:` (kubectl's describe.go, `DescribeNode`).
pub(super) fn read_conditions(lines: &Lines<'_>, line: &Line<'_>, out: &mut NodeEvidence) -> Option<Stop> {
    if line.text.trim_end() != "Conditions:" {
        return None;
    }
    let before = out.conditions.len();
    let mut stop = None;
    for row in lines.from(line).skip(1) {
        let fields = cells(&row.text);
        if fields.first().is_some_and(|w| *w == "Type" || w.starts_with("---")) {
            continue;
        }
        let [kind, status, ..] = fields[..] else { break };
        if !row.text.starts_with(' ') || !matches!(status, "True" | "False" | "Unknown") || fields.len() < 5 {
            break;
        }
        out.conditions.push(Condition {
            kind: kind.to_string(),
            status: status.to_string(),
            text: fields.get(4..).unwrap_or(&[]).join(": "),
            since: fields.get(3).and_then(|at| clock::alone(at)).and_then(|when| when.timestamp()),
            place: lines.place(row.number),
        });
        // The youngest heartbeat: the node was alive then.
        stop = Some(Stop::after(&row));
    }
    if out.conditions.len() == before { None } else { stop }
}

/// Reads one unit of `systemctl status`; `line` holds `Loaded:`.
pub(super) fn read_unit(lines: &Lines<'_>, line: &Line<'_>, out: &mut NodeEvidence) -> Option<Stop> {
    if !line.text.trim_start().starts_with("Loaded: ") {
        return None;
    }
    let title = lines.before(line)?;
    let name =
        title.text.trim_start_matches(['●', '*', '×', '○', '↻', ' ']).split(' ').next().unwrap_or("").to_string();
    if !name.contains('.') {
        return None;
    }
    let mut unit = Unit { name, place: lines.place(title.number), ..Unit::default() };
    let mut stop = Stop::after(line);
    for row in lines.from(line).skip(1).take(30) {
        let text = row.text.trim_start();
        let Some((key, value)) = text.split_once(": ") else {
            if text.is_empty() {
                break;
            }
            continue;
        };
        match key {
            "Active" => unit.active = value.to_string(),
            "Main PID" => {
                let (pid, rest) = value.split_once(' ').unwrap_or((value, ""));
                unit.main_pid = pid.parse().ok();
                unit.main_process = rest.strip_prefix('(').and_then(|r| r.split(')').next()).map(str::to_string);
            }
            _ => {}
        }
        stop = Stop::after(&row);
        // The unit's last log lines follow; they are read as what they are.
        if key == "CGroup" {
            break;
        }
    }
    if unit.active.is_empty() {
        return None;
    }
    out.units.push(unit);
    Some(stop)
}

/// Reads `systemctl list-jobs`, whose header is `line`: what systemd has not finished.
pub(super) fn read_jobs(lines: &Lines<'_>, line: &Line<'_>, out: &mut NodeEvidence) -> Option<Stop> {
    let names: Vec<&str> = line.text.split_whitespace().collect();
    if names != ["JOB", "UNIT", "TYPE", "STATE"] {
        return None;
    }
    let before = out.units.len();
    let mut stop = Stop::after(line);
    for row in lines.from(line).skip(1) {
        let fields: Vec<&str> = row.text.split_whitespace().collect();
        let [job, unit, kind, state] = fields[..] else { break };
        if job.parse::<u32>().is_err() || !unit.contains('.') {
            break;
        }
        let active = format!("job {kind} {state}");
        out.units.push(Unit { name: unit.to_string(), active, place: lines.place(row.number), ..Unit::default() });
        stop = Stop::after(&row);
    }
    (out.units.len() > before).then_some(stop)
}
