//! Mounts: `mount`, `/proc/mounts`, mountinfo, `findmnt`.

use super::lines::{Line, Lines, Stop};
use crate::evidence::{Mount, NodeEvidence};

/// `filer:/vol on /mnt type nfs4 (rw,…)`.
fn of_mount(text: &str) -> Option<Mount> {
    let open = text.rfind(" (").filter(|_| text.ends_with(')') || text.ends_with(']'))?;
    let (head, options) = (text.get(..open)?, text.get(open + 2..)?);
    // A label may follow in brackets (`mount -l`).
    let options = options.split(')').next()?;
    let (names, fstype) = head.rsplit_once(" type ")?;
    let (device, point) = names
        .split_once(" on /")
        .map(|(d, p)| (d, p.len() + 1))
        .and_then(|(device, len)| Some((device, names.get(names.len().checked_sub(len)?..)?)))?;
    is_fstype(fstype).then(|| mount(device, point, fstype, options))
}

/// `dev /point type options 0 0`, octal escapes for blanks.
fn of_proc_mounts(text: &str) -> Option<Mount> {
    let fields: Vec<&str> = text.split_whitespace().collect();
    let [device, point, fstype, options, freq, pass] = fields[..] else {
        return None;
    };
    let ok = point.starts_with('/')
        && is_fstype(fstype)
        && is_options(options)
        && freq.len() == 1
        && pass.len() == 1
        && freq.bytes().chain(pass.bytes()).all(|b| b.is_ascii_digit());
    ok.then(|| mount(&unescape(device), &unescape(point), fstype, options))
}

/// `36 35 98:0 /root /point rw,noatime master:1 - ext3 /dev/root rw` (Documentation/filesystems/proc.rst, 3.5).
fn of_mountinfo(text: &str) -> Option<Mount> {
    let (left, right) = text.split_once(" - ")?;
    let left: Vec<&str> = left.split(' ').collect();
    let right: Vec<&str> = right.split(' ').collect();
    let [id, parent, number, _root, point, options, ..] = left[..] else {
        return None;
    };
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    let (major, minor) = number.split_once(':')?;
    if ![id, parent, major, minor].into_iter().all(digits) || !point.starts_with('/') || !is_options(options) {
        return None;
    }
    let (fstype, device) = (right.first()?, right.get(1)?);
    if !is_fstype(fstype) {
        return None;
    }
    let all = right.get(2).map_or_else(|| options.to_string(), |more| format!("{options},{more}"));
    let mut mount = mount(&unescape(device), &unescape(point), fstype, &all);
    mount.device_number = Some(number.to_string());
    Some(mount)
}

fn mount(device: &str, point: &str, fstype: &str, options: &str) -> Mount {
    Mount {
        device: device.to_string(),
        point: point.to_string(),
        fstype: fstype.to_string(),
        options: options.to_string(),
        ..Mount::default()
    }
}

fn is_fstype(text: &str) -> bool {
    !text.is_empty()
        && text.len() < 60
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b'+'))
}

fn is_options(text: &str) -> bool {
    text.split(',').any(|o| matches!(o, "rw" | "ro"))
}

/// `\040` and its like (fs/proc_namespace.c, `mangle`), `\x20` of findmnt.
fn unescape(text: &str) -> String {
    if !text.contains('\\') {
        return text.to_string();
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail.get(..3).and_then(|d| std::str::from_utf8(d).ok()).and_then(|d| u8::from_str_radix(d, 8).ok());
        let hex = tail
            .strip_prefix(b"x")
            .and_then(|d| std::str::from_utf8(d.get(..2)?).ok())
            .and_then(|d| u8::from_str_radix(d, 16).ok());
        match (first, octal.or(hex)) {
            (b'\\', Some(byte)) => {
                bytes.push(byte);
                rest = tail.get(3..).unwrap_or(&[]);
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads the mounts that begin at `line`.
pub(super) fn read(lines: &Lines<'_>, line: &Line<'_>, out: &mut NodeEvidence) -> Option<Stop> {
    let mut stop = None;
    for row in lines.from(line) {
        let text = row.text.trim_end();
        let Some(mount) = of_mount(text).or_else(|| of_proc_mounts(text)).or_else(|| of_mountinfo(text)) else {
            break;
        };
        out.mounts.push(Mount { place: lines.place(row.number), ..mount });
        stop = Some(Stop::after(&row));
    }
    stop
}

/// Reads `findmnt`, whose header is `line`: columns by their header, the tree's lines taken off.
pub(super) fn read_findmnt(lines: &Lines<'_>, line: &Line<'_>, out: &mut NodeEvidence) -> Option<Stop> {
    let names: Vec<&str> = line.text.split_whitespace().collect();
    let position = |name: &str| names.iter().position(|n| *n == name);
    let (target, source, fstype) = (position("TARGET")?, position("SOURCE")?, position("FSTYPE")?);
    let options = position("OPTIONS");
    let number = position("MAJ:MIN");
    let before = out.mounts.len();
    let mut stop = Stop::after(line);
    for row in lines.from(line).skip(1) {
        let text = row.text.trim_start_matches(['│', '├', '└', '─', '|', '-', '`', ' ', '\u{a0}']);
        let fields: Vec<&str> = text.split_whitespace().collect();
        let (Some(point), Some(device), Some(kind)) = (fields.get(target), fields.get(source), fields.get(fstype))
        else {
            break;
        };
        if !point.starts_with('/') || !is_fstype(kind) {
            break;
        }
        // `overlay[/sub]`: findmnt shows a bind mount's root behind the device.
        let options = options.and_then(|i| fields.get(i)).copied().unwrap_or("");
        let mut mount = mount(&unescape(device), &unescape(point), kind, options);
        mount.device_number = number.and_then(|i| fields.get(i)).map(|n| n.to_string());
        mount.place = lines.place(row.number);
        out.mounts.push(mount);
        stop = Stop::after(&row);
    }
    (out.mounts.len() > before).then_some(stop)
}
