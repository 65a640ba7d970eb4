//! Memory of a peer's that one-sided operations reach: the token that names it, and what it allows.

use core::fmt;

/// What the owner of a region lets its peers do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Rights {
    /// Read.
    pub read: bool,
    /// Write, and write with immediate.
    pub write: bool,
    /// Compare-and-swap and fetch-and-add, on aligned words of 8 bytes.
    pub atomic: bool,
}

impl Rights {
    /// Nothing.
    pub const NONE: Rights = Rights { read: false, write: false, atomic: false };
    /// Reading, and nothing else.
    pub const READ: Rights = Rights { read: true, ..Rights::NONE };
    /// Writing, and nothing else.
    pub const WRITE: Rights = Rights { write: true, ..Rights::NONE };
    /// Atomics, and nothing else.
    pub const ATOMIC: Rights = Rights { atomic: true, ..Rights::NONE };
    /// Everything.
    pub const ALL: Rights = Rights { read: true, write: true, atomic: true };

    /// Whether all of `needed` is among them.
    pub const fn allow(self, needed: Rights) -> bool {
        (self.read || !needed.read) && (self.write || !needed.write) && (self.atomic || !needed.atomic)
    }

    /// Whether peers may change something.
    pub const fn change(self) -> bool {
        self.write || self.atomic
    }

    /// As a number: read 1, write 2, atomic 4.
    pub const fn to_bits(self) -> u8 {
        self.read as u8 | (self.write as u8) << 1 | (self.atomic as u8) << 2
    }

    /// The inverse; `None` when other bits are set.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits > 7 {
            return None;
        }
        Some(Self { read: bits & 1 != 0, write: bits & 2 != 0, atomic: bits & 4 != 0 })
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.to_bits() {
            0 => "nothing",
            1 => "read",
            2 => "write",
            3 => "read and write",
            4 => "atomics",
            5 => "read and atomics",
            6 => "write and atomics",
            _ => "read, write and atomics",
        })
    }
}

/// Names a region that a peer has exposed: a small token that its owner sends in a message, and that means something on
/// connections to that owner only.
///
/// It is a name and no permission: the owner's device, or over shared memory the kernel, checks each operation. An
/// operation with a token that the owner does not know, or that claims more than there is, ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteRegion {
    addr: u64,
    len: u64,
    key: u32,
    rights: Rights,
}

/// A place in a region of a peer's: [`RemoteRegion::at`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemotePlace {
    /// The region.
    pub region: RemoteRegion,
    /// Bytes from its beginning.
    pub offset: u64,
}

impl RemoteRegion {
    /// The length of a token in bytes.
    pub const BYTES: usize = 24;

    /// The region of `len` bytes that work requests name by `key` and that begins at `addr`. For platforms, which make
    /// tokens; `None` when it would go round the end of the address space.
    pub const fn new(addr: u64, len: u64, key: u32, rights: Rights) -> Option<Self> {
        match addr.checked_add(len) {
            Some(_) => Some(Self { addr, len, key, rights }),
            None => None,
        }
    }

    /// The token as bytes, to be sent: address and length (8 bytes each), key (4 bytes), rights (1 byte), zeroes. Numbers
    /// are little-endian.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.addr.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.len.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.key.to_le_bytes());
        bytes[20] = self.rights.to_bits();
        bytes
    }

    /// Reads a token that a peer sent; `None` when it is none: another length, or bits that have no meaning.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
        let key = bytes[16..20].try_into().map_or(0, u32::from_le_bytes);
        let rights = Rights::from_bits(bytes[20])?;
        if bytes[21..] != [0; 3] { None } else { Self::new(word(0), word(8), key, rights) }
    }

    /// The place `offset` bytes from its beginning. Whether it is inside is checked by the operation.
    pub const fn at(self, offset: u64) -> RemotePlace {
        RemotePlace { region: self, offset }
    }

    /// Where it begins, in the owner's terms.
    pub const fn addr(&self) -> u64 {
        self.addr
    }

    /// Its length in bytes.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is not a single byte in it.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What work requests name it by.
    pub const fn key(&self) -> u32 {
        self.key
    }

    /// What its owner says it allows.
    pub const fn rights(&self) -> Rights {
        self.rights
    }

    /// The owner's address of `len` bytes from `offset`; `None` when they are not all inside.
    pub const fn place(&self, offset: u64, len: u32) -> Option<u64> {
        match offset.checked_add(len as u64) {
            Some(end) if end <= self.len => Some(self.addr + offset),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_token_arrives_as_it_was_sent() {
        for bits in 0..8 {
            let rights = Rights::from_bits(bits).unwrap();
            for (addr, len) in [(0, 0), (0, u64::MAX), (0x7f00_0000_1000, 4_096), (u64::MAX, 0)] {
                let token = RemoteRegion::new(addr, len, 0xdead_beef, rights).unwrap();
                assert_eq!(RemoteRegion::from_bytes(&token.to_bytes()), Some(token));
            }
        }
    }

    #[test]
    fn what_is_no_token_is_not_read() {
        let good = RemoteRegion::new(4_096, 64, 7, Rights::ALL).unwrap().to_bytes();
        assert_eq!(RemoteRegion::from_bytes(&good[..23]), None);
        for (at, value) in [(20, 8), (21, 1), (23, 0x80)] {
            let mut bytes = good;
            bytes[at] = value;
            assert_eq!(RemoteRegion::from_bytes(&bytes), None, "byte {at}");
        }
        let mut beyond = good;
        beyond[..16].fill(0xff);
        assert_eq!(RemoteRegion::from_bytes(&beyond), None, "it would go round the end of the address space");
    }

    #[test]
    fn every_byte_of_a_region_and_no_other_has_a_place() {
        let token = RemoteRegion::new(1_000, 64, 0, Rights::READ).unwrap();
        assert_eq!(
            (token.place(0, 64), token.place(63, 1), token.place(64, 0)),
            (Some(1_000), Some(1_063), Some(1_064))
        );
        for (offset, len) in [(0, 65), (64, 1), (65, 0), (u64::MAX, 1), (u64::MAX - 3, 8)] {
            assert_eq!(token.place(offset, len), None, "{offset} {len}");
        }
    }

    #[test]
    fn rights_allow_what_they_name() {
        assert!(Rights::ALL.allow(Rights::ATOMIC) && Rights::READ.allow(Rights::NONE));
        assert!(!Rights::READ.allow(Rights::WRITE) && !Rights::WRITE.allow(Rights::ALL));
        assert!(Rights::ATOMIC.change() && !Rights::READ.change());
        assert_eq!(Rights::READ.to_string(), "read");
    }
}
