//! Which evidence would settle what is open, and how to get it without hanging.

use crate::case::Case;
use crate::diagnosis::{HolderStatus, Missing, Trust};
use crate::graph::Key;
use crate::holders::is_whole;
use crate::rootcause::Ranked;

/// What to fetch next.
pub fn missing(case: &Case<'_>, findings: &[Ranked]) -> Vec<Missing> {
    let mut wanted: Vec<Missing> = Vec::new();
    for (n, snap) in case.snaps.iter().enumerate() {
        if !snap.s.complete && case.processes.all[case.processes.of_snap[n]].primary == Some(n) {
            let process = case.processes.all[case.processes.of_snap[n]].label();
            add(
                &mut wanted,
                Missing {
                    what: format!("the whole dump of {process}"),
                    why: "a part of it is cut off: who holds the locks may be in the part that is missing".into(),
                    command: dump_command(&snap.role),
                },
            );
        }
    }
    for ranked in findings.iter().take(3) {
        let Some(&end) = ranked.path.last() else { continue };
        match end {
            Key::Lock(s, l) if case.holdings[s][l].status != HolderStatus::Leaked => {
                let process = &case.processes.all[case.processes.of_snap[s]];
                let whole = is_whole(&case.snaps[s]);
                let command =
                    process.pid.map_or("gcore PID".into(), |pid| format!("timeout 60 gcore -o /tmp/core {pid}"));
                add(
                    &mut wanted,
                    Missing {
                        what: if whole {
                            format!("a core of {}", process.label())
                        } else {
                            format!("a complete dump of {}", process.label())
                        },
                        why: format!("it proves who holds {}", case.locks[s][l].label()),
                        command: Some(command),
                    },
                );
            }
            Key::Process(p) => {
                let process = &case.processes.all[p];
                add(&mut wanted, Missing {
                    what: format!("a stack dump of {}", process.label()),
                    why: "the chain goes on in it".into(),
                    command: dump_command(&process.role).or_else(|| {
                        process.pid.map(|pid| format!("timeout 5 sh -c 'cat /proc/{pid}/stack /proc/{pid}/wchan; cat /proc/{pid}/task/*/stack'"))
                    }),
                });
            }
            Key::Goroutine(s, i) => {
                let snap = &case.snaps[s];
                if let Some(call) = snap.bound.rpc_client(snap.s, snap.goroutine(i)) {
                    let role = call.rule.server_role.clone().unwrap_or_else(|| "the server".into());
                    add(
                        &mut wanted,
                        Missing {
                            what: format!("a stack dump of {role}"),
                            why: format!("it should answer {}", call.name()),
                            command: dump_command(&role),
                        },
                    );
                }
            }
            _ => {}
        }
        let holder = ranked.path.iter().find_map(|k| if let Key::Lock(s, l) = k { Some((*s, *l)) } else { None });
        if let Some((s, l)) = holder
            && let Some(candidate) = &case.holdings[s][l].holder
            && candidate.trust < Trust::Strong
            && case.snaps[s].s.memory.is_none()
        {
            let process = &case.processes.all[case.processes.of_snap[s]];
            let command = process.pid.map(|pid| format!("timeout 60 gcore -o /tmp/core {pid}"));
            add(
                &mut wanted,
                Missing {
                    what: format!("a core of {}", process.label()),
                    why: format!("it proves the holder of {} by its pending Unlock", case.locks[s][l].label()),
                    command,
                },
            );
        }
    }
    wanted
}

fn add(wanted: &mut Vec<Missing>, missing: Missing) {
    if !wanted.iter().any(|m| m.what == missing.what) {
        wanted.push(missing);
    }
}

/// The command that makes a daemon print its stacks without ending it.
fn dump_command(role: &str) -> Option<String> {
    Some(match role {
        "dockerd" => "kill -USR1 $(pidof dockerd)   # writes goroutine-stacks-*.log under /var/run/docker".into(),
        "containerd" => "kill -USR1 $(pidof containerd)   # writes to its log and to containerd.PID.stacks.log".into(),
        "containerd-shim" => "kill -USR1 SHIM_PID   # its dump goes to containerd's log".into(),
        "crio" => "kill -USR1 $(pidof crio)   # writes /tmp/crio-goroutine-stacks-*.log".into(),
        "kubelet" => "timeout 10 kubectl get --raw \"/api/v1/nodes/NODE/proxy/debug/pprof/goroutine?debug=2\"".into(),
        _ => return None,
    })
}
