//! The memory of the dead process: what the core holds, laid over what its executable holds.

use crate::evidence::Text;
use std::borrow::Cow;
use std::ops::Range;

/// An address whose byte is neither in the core nor in the executable. A finding, not a failure: cores leave out
/// pages by design (`core(5)`, `/proc/PID/coredump_filter`) and by truncation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Absent(pub u64);

/// A value of the process's memory, or the news that it is not there.
pub type Read<T> = Result<T, Absent>;

/// Bytes that a search looks at.
const SEARCHED: u64 = 8 << 30;

#[derive(Debug, Clone, Copy)]
struct Piece {
    start: u64,
    end: u64,
    /// Index into [`Memory::images`].
    image: u32,
    /// Where `start` lies in the image.
    offset: u64,
}

/// Memory as non-overlapping pieces of files, sorted by address. All reads are bounds-checked.
#[derive(Debug, Default)]
pub struct Memory {
    images: Vec<Text>,
    pieces: Vec<Piece>,
}

impl Memory {
    /// Adds `(address, file offset, length)` pieces of `image` where nothing is known yet: what was added first wins.
    ///
    /// Lengths beyond the end of the image are cut.
    pub fn add(&mut self, image: &Text, pieces: impl IntoIterator<Item = (u64, u64, u64)>) {
        let size = image.bytes().len() as u64;
        let index = self.images.len() as u32;
        self.images.push(image.clone());
        let mut fresh: Vec<Piece> = Vec::new();
        for (start, offset, length) in pieces {
            let length = length.min(size.saturating_sub(offset)).min(u64::MAX - start);
            if length > 0 {
                fresh.push(Piece { start, end: start + length, image: index, offset });
            }
        }
        fresh.sort_by_key(|piece| piece.start);
        let known = std::mem::take(&mut self.pieces);
        self.pieces = overlay(known, fresh);
    }

    fn piece(&self, address: u64) -> Option<&Piece> {
        let next = self.pieces.partition_point(|piece| piece.start <= address);
        self.pieces.get(next.checked_sub(1)?).filter(|piece| address < piece.end)
    }

    fn bytes_of(&self, piece: &Piece) -> &[u8] {
        let bytes = self.images.get(piece.image as usize).map_or(&[][..], |image| image.bytes());
        super::elf::clip(bytes, piece.offset, piece.end - piece.start)
    }

    /// Everything that follows `address` in one piece; empty if it is absent.
    pub fn tail(&self, address: u64) -> &[u8] {
        let Some(piece) = self.piece(address) else {
            return &[];
        };
        self.bytes_of(piece).get((address - piece.start) as usize..).unwrap_or(&[])
    }

    /// Whether the byte at `address` is there.
    pub fn has(&self, address: u64) -> bool {
        self.piece(address).is_some()
    }

    /// `length` bytes at `address`, copied only if they straddle pieces.
    ///
    /// # Errors
    /// The first address that is absent.
    pub fn bytes(&self, address: u64, length: u64) -> Read<Cow<'_, [u8]>> {
        let tail = self.tail(address);
        if let Some(bytes) = usize::try_from(length).ok().and_then(|length| tail.get(..length)) {
            return Ok(Cow::Borrowed(bytes));
        }
        // Grows with what is really there: an absurd length ends at the first gap.
        let (mut copy, mut at) = (Vec::new(), address);
        loop {
            let missing = length - copy.len() as u64;
            let tail = self.tail(at);
            if tail.is_empty() && missing > 0 {
                return Err(Absent(at));
            }
            let take = (tail.len() as u64).min(missing) as usize;
            copy.extend_from_slice(tail.get(..take).unwrap_or(&[]));
            if copy.len() as u64 == length {
                return Ok(Cow::Owned(copy));
            }
            at = at.checked_add(take as u64).ok_or(Absent(at))?;
        }
    }

    /// As many bytes as are contiguous at `address`, at most `limit`.
    pub fn up_to(&self, address: u64, limit: u64) -> Cow<'_, [u8]> {
        let tail = self.tail(address);
        if tail.len() as u64 >= limit {
            return Cow::Borrowed(tail.get(..limit as usize).unwrap_or(tail));
        }
        let mut copy: Option<Vec<u8>> = None;
        let mut at = address.saturating_add(tail.len() as u64);
        loop {
            let have = copy.as_ref().map_or(tail.len(), Vec::len) as u64;
            let more = self.tail(at);
            if more.is_empty() || have >= limit {
                return copy.map_or(Cow::Borrowed(tail), Cow::Owned);
            }
            let take = (more.len() as u64).min(limit - have) as usize;
            copy.get_or_insert_with(|| tail.to_vec()).extend_from_slice(more.get(..take).unwrap_or(&[]));
            at = at.saturating_add(take as u64);
        }
    }

    fn array<const N: usize>(&self, address: u64) -> Read<[u8; N]> {
        if let Some(bytes) = self.tail(address).first_chunk::<N>() {
            return Ok(*bytes);
        }
        let bytes = self.bytes(address, N as u64)?;
        bytes.first_chunk::<N>().copied().ok_or(Absent(address))
    }

    /// The byte at `address`.
    pub fn u8(&self, address: u64) -> Read<u8> {
        self.array::<1>(address).map(|[byte]| byte)
    }

    /// The two bytes at `address`.
    pub fn u16(&self, address: u64) -> Read<u16> {
        self.array(address).map(u16::from_le_bytes)
    }

    /// The four bytes at `address`.
    pub fn u32(&self, address: u64) -> Read<u32> {
        self.array(address).map(u32::from_le_bytes)
    }

    /// The word at `address`.
    pub fn u64(&self, address: u64) -> Read<u64> {
        self.array(address).map(u64::from_le_bytes)
    }

    /// A Go string whose header (pointer, length) stands at `address`; at most `limit` bytes of it.
    pub fn go_string(&self, address: u64, limit: u64) -> Read<String> {
        let (pointer, length) = (self.u64(address)?, self.u64(address.wrapping_add(8))?);
        let bytes = self.bytes(pointer, length.min(limit))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Addresses in `ranges` (8-aligned) whose word is `value`.
    pub fn find_words<'m>(&'m self, ranges: &'m [Range<u64>], value: u64) -> impl Iterator<Item = u64> + 'm {
        let pattern = value.to_le_bytes();
        self.searched(ranges).flat_map(move |(start, bytes)| {
            let hits: Vec<usize> = memchr::memmem::find_iter(bytes, &pattern).collect();
            hits.into_iter().map(move |at| start + at as u64).filter(|address| address % 8 == 0)
        })
    }

    /// What is there of `ranges`, for a search: no more than is searched in a few seconds, however large a core is.
    pub fn searched<'m>(&'m self, ranges: &'m [Range<u64>]) -> impl Iterator<Item = (u64, &'m [u8])> {
        let mut left = SEARCHED;
        ranges.iter().flat_map(|range| self.parts(range.clone())).map_while(move |(start, bytes)| {
            let bytes = super::elf::clip(bytes, 0, left);
            left -= bytes.len() as u64;
            (!bytes.is_empty()).then_some((start, bytes))
        })
    }

    /// What is there of `range`, as `(address, bytes)` in order.
    pub fn parts(&self, range: Range<u64>) -> impl Iterator<Item = (u64, &[u8])> {
        let first = self.pieces.partition_point(|piece| piece.end <= range.start);
        self.pieces.iter().skip(first).take_while(move |piece| piece.start < range.end).map(move |piece| {
            let (start, end) = (piece.start.max(range.start), piece.end.min(range.end));
            let bytes = self.bytes_of(piece);
            let bytes = super::elf::clip(bytes, start - piece.start, end - start);
            (start, bytes)
        })
    }

    /// Bytes of memory that are there at all.
    pub fn size(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.end - piece.start).sum()
    }
}

/// Merges two sorted lists; of `fresh` only what lies in the gaps of `known` (or of what came before) is taken.
fn overlay(known: Vec<Piece>, fresh: Vec<Piece>) -> Vec<Piece> {
    let mut merged = Vec::with_capacity(known.len() + fresh.len());
    let mut taken = 0u64;
    for piece in fresh {
        let mut rest = Piece { start: piece.start.max(taken), ..piece };
        rest.offset = piece.offset.saturating_add(rest.start - piece.start);
        taken = taken.max(piece.end);
        let mut index = known.partition_point(|k| k.end <= rest.start);
        while rest.start < rest.end {
            let Some(next) = known.get(index).filter(|k| k.start < rest.end) else {
                merged.push(rest);
                break;
            };
            if rest.start < next.start {
                merged.push(Piece { end: next.start, ..rest });
            }
            let skip = next.end.max(rest.start) - rest.start;
            rest.start = rest.start.saturating_add(skip);
            rest.offset = rest.offset.saturating_add(skip);
            index += 1;
        }
    }
    merged.extend(known);
    merged.sort_by_key(|piece| piece.start);
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_layer_wins_and_gaps_are_filled() {
        let core = Text::from_vec((0..64).collect());
        let exe = Text::from_vec((100..200).collect());
        let mut memory = Memory::default();
        memory.add(&core, [(0x1010, 0, 16), (0x1030, 32, 16)]);
        memory.add(&exe, [(0x1000, 0, 0x60)]);
        assert_eq!(memory.u8(0x1000), Ok(100));
        assert_eq!(memory.u8(0x1010), Ok(0));
        assert_eq!(memory.u8(0x1020), Ok(100 + 0x20));
        assert_eq!(memory.u8(0x1030), Ok(32));
        assert_eq!(memory.u8(0x1040), Ok(100 + 0x40));
        assert_eq!(memory.u8(0x1060), Err(Absent(0x1060)));
        // Across a seam, and over the end.
        assert_eq!(memory.u64(0x100c).map(u64::to_le_bytes), Ok([112, 113, 114, 115, 0, 1, 2, 3]));
        assert_eq!(memory.u64(0x105c), Err(Absent(0x1060)));
        assert_eq!(memory.bytes(0x1000, u64::MAX), Err(Absent(0x1060)));
        assert_eq!(memory.up_to(0x1000, u64::MAX).len(), 0x60);
    }

    #[test]
    fn absurd_pieces_are_cut() {
        let image = Text::from_vec(vec![7; 10]);
        let mut memory = Memory::default();
        memory.add(&image, [(u64::MAX - 2, 0, 10), (0x10, 8, u64::MAX), (0x14, u64::MAX, 4), (0x11, 0, 3)]);
        assert_eq!(memory.u8(0x10), Ok(7));
        assert_eq!(memory.up_to(0x10, 100).len(), 4);
        assert_eq!(memory.u64(u64::MAX - 1), Err(Absent(u64::MAX)));
    }
}
