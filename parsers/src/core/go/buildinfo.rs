//! Which Go release built the program: `runtime/debug.BuildInfo`'s header (`cmd/go`, `debug/buildinfo`).

use crate::core::memory::Memory;
use std::ops::Range;

const MAGIC: &[u8] = b"\xff Go buildinf:";
/// Longest version that is believed; `go1.21.3 X:regabi,…` stays far below.
const LONGEST: u64 = 256;

/// A Go version as written by the linker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// `go1.24.11`, `go1.22.3-fips`, `devel go1.28-abcdef …`.
    pub text: String,
    /// `N` of `go1.N`; `None` for a development version that does not say.
    pub minor: Option<u32>,
}

impl Version {
    fn new(text: String) -> Option<Version> {
        if !text.starts_with("go1") && !text.starts_with("devel") {
            return None;
        }
        let minor = text.find("go1.").and_then(|at| {
            let digits = text.get(at + 4..)?;
            let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            digits.get(..end)?.parse().ok().filter(|&minor| minor < 1000)
        });
        Some(Version { text, minor })
    }

    /// Looks for the build info header in `ranges` of the memory. It is 16-aligned and stands in written data, so that
    /// a core has it even without its executable.
    pub fn find(memory: &Memory, ranges: &[Range<u64>]) -> Option<Version> {
        for (start, bytes) in memory.searched(ranges) {
            for at in memchr::memmem::find_iter(bytes, MAGIC) {
                if let Some(version) = at_header(memory, start + at as u64) {
                    return Some(version);
                }
            }
        }
        None
    }
}

fn at_header(memory: &Memory, address: u64) -> Option<Version> {
    let flags = memory.u8(address + 15).ok()?;
    if flags & 2 == 0 {
        // Up to 1.17: a pointer to the header of a Go string.
        let string = memory.u64(address + 16).ok()?;
        return Version::new(memory.go_string(string, LONGEST).ok()?);
    }
    // Since 1.18: the strings follow, each after its length as a varint.
    let (mut length, mut at) = (0u64, address + 32);
    for shift in (0..21).step_by(7) {
        let byte = memory.u8(at).ok()?;
        at += 1;
        length |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    let text = memory.bytes(at, length.min(LONGEST)).ok()?;
    Version::new(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_all_kinds() {
        let minor = |text: &str| Version::new(text.to_owned()).and_then(|v| v.minor);
        assert_eq!(minor("go1.24.11"), Some(24));
        assert_eq!(minor("go1.21"), Some(21));
        assert_eq!(minor("go1.27rc1"), Some(27));
        assert_eq!(minor("go1.22.3-fips X:boringcrypto"), Some(22));
        assert_eq!(minor("devel go1.28-0123abcd Mon Jan 1"), Some(28));
        assert_eq!(minor("devel +0123abcd"), None);
        assert_eq!(Version::new("rust".into()), None);
    }
}
