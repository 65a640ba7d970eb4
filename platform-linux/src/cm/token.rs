//! What an id's events carry, to find whom they concern.

use spinwire_core::id::ConnId;

/// The owner of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token {
    /// A connection of the engine.
    Conn(ConnId),
    /// The listener with this number.
    Listener(u32),
    /// The connect request with this number, not answered yet.
    Request(u32),
}

/// Handles of connections start above the low 16 bits, so those are free for the others: a flag and a number.
const REQUEST: u64 = 1 << 15;
const NUMBER: u64 = REQUEST - 1;

impl Token {
    /// # Panics
    /// For the 32,768th listener or request.
    pub(super) fn pack(self) -> u64 {
        let number = |number: u32| {
            assert!(u64::from(number) <= NUMBER, "number {number} of a listener or request is out of range");
            u64::from(number)
        };
        match self {
            Token::Conn(conn) => conn.to_bits(),
            Token::Listener(n) => number(n),
            Token::Request(n) => REQUEST | number(n),
        }
    }

    /// `None` for a word that no token has.
    pub(super) fn unpack(bits: u64) -> Option<Token> {
        match ConnId::from_bits(bits) {
            Some(conn) => Some(Token::Conn(conn)),
            None if bits > NUMBER | REQUEST => None,
            None if bits & REQUEST != 0 => Some(Token::Request((bits & NUMBER) as u32)),
            None => Some(Token::Listener((bits & NUMBER) as u32)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_as_they_went_in() {
        let conn = ConnId::from_bits(3 << 16 | 0xffff).unwrap();
        for token in
            [Token::Conn(conn), Token::Listener(0), Token::Listener(32_767), Token::Request(0), Token::Request(77)]
        {
            assert_eq!(Token::unpack(token.pack()), Some(token));
        }
    }
}
