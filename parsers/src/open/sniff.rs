//! What a file is, by its first bytes.

/// Bytes that [`sort`] wants to see.
pub(crate) const HEAD: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    Gzip,
    Zstd,
    Xz,
    Bzip2,
    /// Known, but there is no reader for it.
    Unsupported(&'static str),
    Tar,
    Zip,
    Elf {
        core: bool,
    },
    Other,
}

impl Sort {
    /// The compression's name, if it is one.
    pub fn compression(self) -> Option<&'static str> {
        match self {
            Sort::Gzip => Some("gzip"),
            Sort::Zstd => Some("zstd"),
            Sort::Xz => Some("xz"),
            Sort::Bzip2 => Some("bzip2"),
            _ => None,
        }
    }
}

/// Tells archives, compressed files and ELF files apart from everything else.
pub(crate) fn sort(head: &[u8]) -> Sort {
    match head {
        [0x1f, 0x8b, 8, ..] => Sort::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Sort::Zstd,
        // A skippable frame before a zstd frame (RFC 8878, 3.1.2), as pzstd writes it.
        [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Sort::Zstd,
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Sort::Xz,
        [b'B', b'Z', b'h', b'1'..=b'9', b'1' | 0x17, ..] => Sort::Bzip2,
        [0x04, 0x22, 0x4d, 0x18, ..] => Sort::Unsupported("LZ4"),
        [b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c, ..] => Sort::Unsupported("7-Zip"),
        [b'R', b'a', b'r', b'!', 0x1a, 0x07, ..] => Sort::Unsupported("RAR"),
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Sort::Zip,
        [0x7f, b'E', b'L', b'F', ..] => {
            let big_endian = head.get(5) == Some(&2);
            let kind = match (head.get(16), head.get(17)) {
                (Some(&a), Some(&b)) if big_endian => u16::from_be_bytes([a, b]),
                (Some(&a), Some(&b)) => u16::from_le_bytes([a, b]),
                _ => 0,
            };
            Sort::Elf { core: kind == 4 }
        }
        _ if is_tar(head) => Sort::Tar,
        _ => Sort::Other,
    }
}

/// A tar header has no magic in its oldest form, but a checksum in all of them.
fn is_tar(head: &[u8]) -> bool {
    let Some(header) = head.get(..512).filter(|h| h[0] != 0) else { return false };
    let field = header.get(148..156).unwrap_or(&[]);
    let digits: Vec<u8> = field.iter().copied().filter(|b| (b'0'..=b'7').contains(b)).collect();
    if digits.is_empty() || !field.iter().all(|b| matches!(b, b'0'..=b'7' | b' ' | 0)) {
        return false;
    }
    let told = digits.iter().fold(0u32, |n, d| n.wrapping_mul(8).wrapping_add(u32::from(d - b'0')));
    let sum = header.iter().enumerate().map(|(at, &b)| u32::from(if (148..156).contains(&at) { b' ' } else { b }));
    told == sum.sum::<u32>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_never_taken_for_an_archive() {
        for text in [&b"goroutine 1 [running]:\n"[..], b"BZh is a word", b"PK", b"", b"\0\0\0\0"] {
            assert_eq!(sort(text), Sort::Other);
        }
        assert_eq!(sort(&[b'1'; 1024]), Sort::Other);
        assert_eq!(sort(&[0; 1024]), Sort::Other);
    }
}
