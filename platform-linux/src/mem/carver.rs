//! Handing out an arena piece by piece.

use crate::words::Bytes;

/// Divides an arena into pieces.
#[derive(Debug)]
pub struct Carver<'a> {
    offset: usize,
    rest: &'a mut [u8],
}

/// A part of an arena.
#[derive(Debug)]
pub struct Piece<'a> {
    /// Where it begins, in bytes from the arena's base, and so in the region registered over the arena.
    pub offset: usize,
    /// The memory.
    pub bytes: &'a mut [u8],
}

/// An arena has too little left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} wanted at a multiple of {align}, {} left in the arena", Bytes(*.wanted as u64), Bytes(*.left as u64))]
pub struct OutOfArena {
    /// Bytes wanted.
    pub wanted: usize,
    /// The alignment wanted.
    pub align: usize,
    /// Bytes left.
    pub left: usize,
}

impl<'a> Carver<'a> {
    /// Divides all of `memory`, which is an arena or a registered region over one.
    pub fn new(memory: &'a mut [u8]) -> Self {
        Carver { offset: 0, rest: memory }
    }

    /// The next `len` bytes at a multiple of `align`.
    ///
    /// # Errors
    /// [`OutOfArena`]; nothing was taken.
    ///
    /// # Panics
    /// If `align` is not a power of two.
    pub fn take(&mut self, len: usize, align: usize) -> Result<Piece<'a>, OutOfArena> {
        assert!(align.is_power_of_two(), "alignment {align} is not a power of two");
        let left = self.rest.len();
        let skip = self.rest.as_ptr().addr().wrapping_neg() & (align - 1);
        let end = skip.checked_add(len).filter(|&end| end <= left);
        let end = end.ok_or(OutOfArena { wanted: len, align, left })?;
        let (taken, rest) = std::mem::take(&mut self.rest).split_at_mut(end);
        let piece = Piece { offset: self.offset + skip, bytes: &mut taken[skip..] };
        self.offset += end;
        self.rest = rest;
        Ok(piece)
    }

    /// Bytes not handed out yet.
    pub fn left(&self) -> usize {
        self.rest.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Arena, ArenaConfig, PageKind, PagePolicy};
    use super::*;

    #[test]
    fn pieces_are_aligned_apart_and_know_their_offset() {
        let pages = PagePolicy::new([PageKind::Small]).unwrap();
        let mut arena = Arena::allocate(&ArenaConfig { bytes: 8192, pages, ..ArenaConfig::default() }).unwrap();
        let (base, len) = (arena.base().as_ptr().addr(), arena.len());
        let mut carver = arena.carver();
        let first = carver.take(100, 1).unwrap();
        let second = carver.take(64, 128).unwrap();
        let empty = carver.take(0, 1).unwrap();
        assert_eq!((first.offset, second.offset, empty.offset), (0, 128, 192));
        for piece in [&first, &second, &empty] {
            assert_eq!(piece.bytes.as_ptr().addr(), base + piece.offset);
        }
        first.bytes.fill(1);
        assert!(second.bytes.iter().all(|&byte| byte == 0));
        let left = len - 192;
        assert_eq!(carver.left(), left);
        let error = carver.take(left + 1, 1).unwrap_err();
        assert_eq!(error, OutOfArena { wanted: left + 1, align: 1, left });
        assert_eq!(carver.take(usize::MAX, 4096).unwrap_err().left, left);
        assert_eq!(carver.take(left, 1).unwrap().bytes.len(), left);
        assert_eq!(carver.left(), 0);
    }
}
