//! What the poller tells a socket by.

use spinwire_core::id::ConnId;

/// Whose socket the poller speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Listener(u32),
    /// Its place, and which client there.
    Incoming(u16, u32),
    /// Its slot, and the low bits of its generation.
    Conn(u16, u32),
}

impl Token {
    pub(super) fn of(conn: ConnId) -> Self {
        Token::Conn(conn.slot() as u16, conn.generation() as u32)
    }

    pub(super) fn pack(self) -> u64 {
        let word = |kind: u64, place: u64, which: u32| kind << 62 | u64::from(which) << 16 | place;
        match self {
            Token::Listener(number) => word(0, 0, number),
            Token::Incoming(place, serial) => word(1, place.into(), serial),
            Token::Conn(slot, generation) => word(2, slot.into(), generation),
        }
    }

    pub(super) fn unpack(word: u64) -> Self {
        let (place, which) = (word as u16, (word >> 16) as u32);
        match word >> 62 {
            0 => Token::Listener(which),
            1 => Token::Incoming(place, which),
            _ => Token::Conn(place, which),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_the_kernel() {
        for token in [
            Token::Listener(0),
            Token::Listener(7),
            Token::Incoming(1_023, u32::MAX),
            Token::Conn(u16::MAX, u32::MAX),
            Token::Conn(0, 1),
        ] {
            assert_eq!(Token::unpack(token.pack()), token);
        }
    }
}
