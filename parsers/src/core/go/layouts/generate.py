#!/usr/bin/env python3
"""Write table.rs: what the core reader needs of the Go runtime's structures and constants, by Go release.

usage: generate.py LAYOUTS.json CONSTANTS.json > table.rs

LAYOUTS.json is written by extract_dwarf.py (from the DWARF of binaries that the real toolchains built), CONSTANTS.json by
extract_constants.py (from the toolchains' sources). A field that differs between amd64 and arm64 stops the script.
"""
import json
import sys

# Rust struct -> (Go struct, [(rust field, [Go field, older names...], size, always there)])
WANT = {
    "G": ("runtime.g", [
        ("stack_lo", ["stack.lo"], 8, True), ("stack_hi", ["stack.hi"], 8, True), ("panic", ["_panic"], 8, True),
        ("defer", ["_defer"], 8, True), ("m", ["m"], 8, True), ("sched_sp", ["sched.sp"], 8, True),
        ("sched_pc", ["sched.pc"], 8, True), ("sched_g", ["sched.g"], 8, True), ("sched_lr", ["sched.lr"], 8, True),
        ("syscall_sp", ["syscallsp"], 8, True), ("syscall_pc", ["syscallpc"], 8, True), ("status", ["atomicstatus"], 4, True),
        ("goid", ["goid"], 8, True), ("wait_since", ["waitsince"], 8, True), ("wait_reason", ["waitreason"], 1, True),
        ("locked_m", ["lockedm"], 8, True), ("go_pc", ["gopc"], 8, True), ("ancestors", ["ancestors"], 8, True),
        ("start_pc", ["startpc"], 8, True), ("parent", ["parentGoid"], 8, False), ("waiting", ["waiting"], 8, True),
        ("labels", ["labels"], 8, True), ("bubble", ["bubble", "syncGroup"], 8, False),
    ]),
    "M": ("runtime.m", [
        ("g0", ["g0"], 8, True), ("procid", ["procid"], 8, True), ("gsignal", ["gsignal"], 8, True), ("curg", ["curg"], 8, True),
        ("p", ["p"], 8, True), ("next_p", ["nextp"], 8, True), ("old_p", ["oldp"], 8, True), ("id", ["id"], 8, True),
        ("all_link", ["alllink"], 8, True), ("vdso_sp", ["vdsoSP"], 8, True), ("vdso_pc", ["vdsoPC"], 8, True),
    ]),
    "P": ("runtime.p", [
        ("sched_when", ["sysmontick.schedwhen"], 8, True), ("syscall_when", ["sysmontick.syscallwhen"], 8, True),
        ("mark_worker_start", ["gcMarkWorkerStartTime"], 8, True),
    ]),
    "Sudog": ("runtime.sudog", [
        ("g", ["g"], 8, True), ("next", ["next"], 8, True), ("prev", ["prev"], 8, True), ("elem", ["elem.vu", "elem"], 8, True),
        ("is_select", ["isSelect"], 1, True), ("parent", ["parent"], 8, True), ("wait_link", ["waitlink"], 8, True),
        ("wait_tail", ["waittail"], 8, True), ("channel", ["c.maybeTraceablePtr.vu", "c"], 8, True),
    ]),
    "Channel": ("runtime.hchan", [
        ("count", ["qcount"], 8, True), ("capacity", ["dataqsiz"], 8, True), ("elem_size", ["elemsize"], 2, True),
        ("closed", ["closed"], 4, True), ("receivers", ["recvq.first"], 8, True), ("senders", ["sendq.first"], 8, True),
        ("timer", ["timer"], 8, False),
    ]),
    "Defer": ("runtime._defer", [
        ("siz", ["siz"], 4, False), ("started", ["started"], 1, False), ("heap", ["heap"], 1, True),
        ("open_coded", ["openDefer"], 1, False), ("range_func", ["rangefunc"], 1, False), ("sp", ["sp"], 8, True),
        ("pc", ["pc"], 8, True), ("fun", ["fn"], 8, True), ("link", ["link"], 8, True), ("head", ["head"], 8, False),
    ]),
    "SemaRoot": ("runtime.semaRoot", [("treap", ["treap"], 8, True), ("waiters", ["nwait"], 4, True)]),
}
SIZES = {"defer_size": "runtime._defer", "sudog_size": "runtime.sudog"}
FUNC_IDS = {
    "wrapper": ["wrapper"], "gopanic": ["gopanic"], "sigpanic": ["sigpanic"], "panicwrap": ["panicwrap"],
    "asyncpreempt": ["asyncpreempt"], "debugcall": ["debugcallv2", "debugcallv1"],
    "cgocallback": ["cgocallback", "cgocallback_gofunc"], "morestack": ["morestack"], "systemstack": ["systemstack"],
    "runtime_main": ["runtime_main"], "handle_async_event": ["handleasyncevent"], "corostart": ["corostart"],
    "run_finalizers": ["runfinalizers", "runfinq"], "run_cleanups": ["runcleanups"],
}


def minor(version):
    return int(version.split(".")[1])


def main():
    layouts, constants = (json.load(open(path)) for path in sys.argv[1:3])
    releases = sorted((k for k in layouts if k.endswith("/amd64")), key=lambda k: minor(k))
    out = [
        "// Written by generate.py from DWARF of real binaries and from the toolchains' sources; do not edit.",
        "",
        "use super::{Channel, Defer, FuncIds, G, Layout, M, P, SemaRoot, Sudog};",
        "",
        "/// One layout a Go minor release, oldest first. Patch releases of a minor that were compared have the same.",
        "pub(super) static LAYOUTS: &[Layout] = &[",
    ]
    for key in releases:
        version = key.split("/")[0]
        structs = layouts[key]["structs"]
        arm = layouts.get(version + "/arm64", {}).get("structs")
        consts = next(v for k, v in constants.items() if minor(k) == minor(version))
        out += ["    Layout {", f'        release: "{version}",', f"        minor: {minor(version)},"]
        for name, (go, fields) in WANT.items():
            out.append(f"        {'semaroot' if name == 'SemaRoot' else name.lower()}: {name} {{")
            for field, names, size, always in fields:
                found = next((structs[go]["fields"][n] for n in names if n in structs[go]["fields"]), None)
                if found is None:
                    assert not always, (key, go, names)
                    out.append(f"            {field}: None,")
                    continue
                assert found["size"] == size, (key, go, names, found)
                if arm:
                    other = next(arm[go]["fields"][n] for n in names if n in arm[go]["fields"])
                    assert other["off"] == found["off"], (key, go, names)
                value = found["off"] if always else f"Some({found['off']})"
                out.append(f"            {field}: {value},")
            out.append("        },")
        for field, go in SIZES.items():
            out.append(f"        {field}: {structs[go]['size']},")
        bubble = structs.get("runtime.synctestBubble", {}).get("fields", {}).get("id")
        out.append(f"        bubble_id: {'Some(%d)' % bubble['off'] if bubble else 'None'},")
        out.append("        ids: FuncIds {")
        for field, names in FUNC_IDS.items():
            value = next((consts["funcID"][n] for n in names if n in consts["funcID"]), None)
            out.append(f"            {field}: {'None' if value is None else 'Some(%d)' % value},")
        out.append("        },")
        status = [s[2:] for s in consts["gstatus"] if not s.startswith("_Gscan")]
        texts = [consts["gStatusStrings"].get("_G" + s, "") for s in status]
        out.append("        statuses: &[" + ", ".join(json.dumps(t) for t in texts) + "],")
        out.append("        wait_reasons: &[")
        out += [f"            {json.dumps(reason)}," for reason in consts["waitReason"]]
        out.append("        ],")
        out.append("    },")
    out.append("];")
    print("\n".join(out))


main()
