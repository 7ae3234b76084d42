//! What must not be taken for node evidence.

use crate::common::{parse_as, sample};

#[test]
fn other_texts_are_left_alone() {
    let prose =
        "The node is NotReady. PID 12 is in D state.\nProcess 12 waits for NFS - see /proc/12/stack for more.\n";
    let json =
        "{\"PID\": 12, \"COMMAND\": \"x\", \"blocked\": \"blocked for more than\"}\n{\"pid\": 1, \"wchan\": \"x\"}\n";
    let log = "2026-11-29 12:00:00 INFO http.server - GET /a 200\n2026-11-29 12:00:01 WARN pool - slow query 120 ms\n";
    let code = "if pid == 0 { println!(\"PID {}\", pid) } // - type int on /dev 0 0\n";
    let quoted = "| kubelet | `PLEG is not healthy: pleg was last seen active` | see above |\n* systemd: Failed to propagate agent release message\n";
    assert!(parse_as("issues.md", quoted).is_none());
    let csv = "PID,NAME,STATE\n1,init,S\n2,kthreadd,S\n";
    let yaml = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nspec:\n  containers:\n  - name: b\n";
    let dump = sample("incidents/negative-goroutine-dump.txt");
    let versions = sample("incidents/negative-versions.txt");
    for text in [prose, json, log, code, csv, yaml, &dump, &versions, "", "\n", "PID", "PID COMMAND\n", "[<0>]"] {
        assert!(parse_as("paste.txt", text).is_none(), "{text}\n{:?}", parse_as("paste.txt", text));
    }
}
