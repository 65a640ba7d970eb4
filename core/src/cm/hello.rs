//! The private data two Spinwires exchange: who speaks, what each can take, and why one refuses.
//!
//! ```text
//!  0        4         5      6        7        8                  12                  16                  20
//!  | "SPNW" | version | kind | length | 0      | hello:   credits | message_bytes_max | features          |
//!                                              | refusal: code    | first number      | second number     |
//! ```
//!
//! Numbers are little-endian. Private data arrives zero-padded and longer than it was sent (rdma_cm over RC: 56 bytes
//! on a request, 196 on an answer, 148 on a refusal), so it carries its own length. The first eight bytes keep their
//! meaning in every version, so that a version mismatch can be told.
//!
//! What a version adds later without breaking the earlier is a bit in `features`: bit 0 says that the sender answers a
//! message that asks for a sign of life. A hello that ends before that word has none of them, and bits without a meaning
//! are ignored: a side only uses what the other has named.

use crate::config::{CONNECT_PRIVATE_DATA_MAX, WINDOW_MIN};

/// The version of the protocol this crate speaks.
pub const VERSION: u8 = 1;

/// Encoded private data.
pub type Encoded = heapless::Vec<u8, CONNECT_PRIVATE_DATA_MAX>;

/// What each side tells the other when connecting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Receives the sender of this keeps posted.
    pub credits: u32,
    /// Largest message the sender of this can take, in bytes.
    pub message_bytes_max: u32,
    /// The sender of this answers a message that asks for a sign of life.
    pub answers_asks: bool,
}

/// Why a Spinwire refuses a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// No slot is free.
    #[error("table full, {live} of {capacity}")]
    TableFull {
        /// Connections it has.
        live: u32,
        /// Connections it can have.
        capacity: u32,
    },
    /// It speaks another version.
    #[error("version mismatch: the listener speaks {listener}, the caller {caller}")]
    Version {
        /// The version of the side that refuses.
        listener: u8,
        /// The version of the side that asked.
        caller: u8,
    },
    /// The request did not carry a Spinwire hello (a raw peer at a Spinwire port).
    #[error("the request carries no spinwire hello; a plain rdma_cm peer needs a listener in raw mode")]
    NotSpinwire,
    /// The request made no sense.
    #[error("the request's hello is malformed")]
    Malformed,
    /// It is about to end.
    #[error("shutting down")]
    ShuttingDown,
    /// It does not let this user in.
    #[error("user {uid} is not allowed there")]
    User {
        /// The caller's user, as the listener's kernel sees it.
        uid: u32,
    },
    /// The application said no, with a number of its own.
    #[error("the application refused with code {0}")]
    Application(u32),
    /// A code this version does not know.
    #[error("unknown refusal code {0}")]
    Unknown(u32),
}

/// Private data that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HelloError {
    /// No magic: not a Spinwire.
    #[error("no spinwire hello; a plain rdma_cm peer needs raw mode")]
    NotSpinwire,
    /// Another version.
    #[error("the peer speaks version {theirs}, this side version {VERSION}")]
    Version {
        /// The peer's version.
        theirs: u8,
    },
    /// The right magic and version, but nonsense.
    #[error("malformed hello")]
    Malformed,
}

impl Hello {
    /// The bytes for a connect request or an accept.
    pub fn encode(&self) -> Encoded {
        let features = if self.answers_asks { FEATURE_ANSWERS_ASKS } else { 0 };
        encode(KIND_HELLO, &[self.credits, self.message_bytes_max, features])
    }

    /// Reads what a peer sent.
    ///
    /// # Errors
    /// See [`HelloError`]; a hello without credits or with an empty message size is malformed.
    pub fn decode(data: &[u8]) -> Result<Self, HelloError> {
        let [credits, message_bytes_max, features] = decode(KIND_HELLO, data, 2)?;
        let answers_asks = features & FEATURE_ANSWERS_ASKS != 0;
        // Credits below three could not carry data and keep the two for control messages.
        match credits {
            WINDOW_MIN..=0xffff if message_bytes_max > 0 => Ok(Self { credits, message_bytes_max, answers_asks }),
            _ => Err(HelloError::Malformed),
        }
    }
}

impl Refusal {
    /// The bytes for a reject.
    pub fn encode(&self) -> Encoded {
        let words = match *self {
            Refusal::TableFull { live, capacity } => [1, live, capacity],
            Refusal::Version { listener, caller } => [2, listener.into(), caller.into()],
            Refusal::NotSpinwire => [3, 0, 0],
            Refusal::Malformed => [4, 0, 0],
            Refusal::ShuttingDown => [5, 0, 0],
            Refusal::Application(code) => [6, code, 0],
            Refusal::User { uid } => [7, uid, 0],
            Refusal::Unknown(code) => [code, 0, 0],
        };
        encode(KIND_REFUSAL, &words)
    }

    /// Reads the private data of a REJECTED event; `None` when it carries no refusal of ours. A refusal by another
    /// version is read as a version mismatch: the first eight bytes never change.
    pub fn decode(data: &[u8]) -> Option<Self> {
        match decode(KIND_REFUSAL, data, 3) {
            Ok([1, live, capacity]) => Some(Refusal::TableFull { live, capacity }),
            Ok([2, listener, caller]) => Some(Refusal::Version { listener: listener as u8, caller: caller as u8 }),
            Ok([3, ..]) => Some(Refusal::NotSpinwire),
            Ok([4, ..]) => Some(Refusal::Malformed),
            Ok([5, ..]) => Some(Refusal::ShuttingDown),
            Ok([6, code, _]) => Some(Refusal::Application(code)),
            Ok([7, uid, _]) => Some(Refusal::User { uid }),
            Ok([code, ..]) => Some(Refusal::Unknown(code)),
            Err(HelloError::Version { theirs }) => Some(Refusal::Version { listener: theirs, caller: VERSION }),
            Err(_) => None,
        }
    }
}

impl From<HelloError> for Refusal {
    /// What a listener answers to a hello it cannot read.
    fn from(error: HelloError) -> Self {
        match error {
            HelloError::NotSpinwire => Refusal::NotSpinwire,
            HelloError::Version { theirs } => Refusal::Version { listener: VERSION, caller: theirs },
            HelloError::Malformed => Refusal::Malformed,
        }
    }
}

const MAGIC: [u8; 4] = *b"SPNW";
const HEADER_BYTES: usize = 8;
const KIND_HELLO: u8 = 1;
const KIND_REFUSAL: u8 = 2;
const FEATURE_ANSWERS_ASKS: u32 = 1;

fn encode(kind: u8, words: &[u32]) -> Encoded {
    let length = HEADER_BYTES + 4 * words.len();
    let mut out = Encoded::new();
    let header = MAGIC.into_iter().chain([VERSION, kind, length as u8, 0]);
    // At most 8 + 3 x 4 bytes, and 56 are there: extending cannot overflow.
    out.extend(header.chain(words.iter().flat_map(|word| word.to_le_bytes())));
    out
}

/// `N` words of which at least the first `needed` have to be there; the others are then 0.
fn decode<const N: usize>(kind: u8, data: &[u8], needed: usize) -> Result<[u32; N], HelloError> {
    let header = data.get(..HEADER_BYTES).filter(|header| header[..4] == MAGIC).ok_or(HelloError::NotSpinwire)?;
    if header[4] != VERSION {
        return Err(HelloError::Version { theirs: header[4] });
    }
    let body = data.get(HEADER_BYTES..header[6] as usize).ok_or(HelloError::Malformed)?;
    if header[5] != kind || body.len() < 4 * needed {
        return Err(HelloError::Malformed);
    }
    let (words, _) = body.as_chunks();
    Ok(core::array::from_fn(|n| words.get(n).copied().map_or(0, u32::from_le_bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Hello = Hello { credits: 34, message_bytes_max: 4_096, answers_asks: true };

    fn padded(bytes: &[u8], len: usize) -> heapless::Vec<u8, 256> {
        let mut out = heapless::Vec::from_slice(bytes).unwrap();
        out.resize(len, 0).unwrap();
        out
    }

    #[test]
    fn a_hello_survives_the_zero_padding_of_the_cm() {
        let hello = GOOD;
        for len in [20, 56, 196] {
            assert_eq!(Hello::decode(&padded(&hello.encode(), len)), Ok(hello));
        }
    }

    #[test]
    fn a_hello_cut_at_any_byte_is_refused() {
        let bytes = GOOD.encode();
        for len in 0..bytes.len() {
            assert!(Hello::decode(&bytes[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn lengths_and_numbers_from_the_peer_are_not_trusted() {
        let good = GOOD.encode();
        for length in (0..16).chain([21, 255]) {
            let mut bytes = good.clone();
            bytes[6] = length;
            assert_eq!(Hello::decode(&bytes), Err(HelloError::Malformed), "length {length}");
        }
        for (credits, message_bytes_max) in [(0, 64), (1, 64), (2, 64), (65_536, 64), (u32::MAX, 64), (3, 0)] {
            let bytes = Hello { credits, message_bytes_max, ..GOOD }.encode();
            assert_eq!(Hello::decode(&bytes), Err(HelloError::Malformed));
        }
        assert_eq!(Hello::decode(&[0; 56]), Err(HelloError::NotSpinwire));
    }

    #[test]
    fn a_hello_without_features_has_none_and_unknown_ones_are_ignored() {
        let mut bytes = GOOD.encode();
        bytes[6] = 16;
        for len in [16, 56] {
            assert_eq!(Hello::decode(&padded(&bytes[..16], len)), Ok(Hello { answers_asks: false, ..GOOD }));
        }
        let mut bytes = GOOD.encode();
        bytes[16..].fill(0xff);
        assert_eq!(Hello::decode(&bytes), Ok(GOOD));
    }

    #[test]
    fn another_version_is_told_apart_from_nonsense() {
        let mut bytes = GOOD.encode();
        bytes[4] = 9;
        assert_eq!(Hello::decode(&bytes), Err(HelloError::Version { theirs: 9 }));
        assert_eq!(Refusal::from(HelloError::Version { theirs: 9 }), Refusal::Version { listener: VERSION, caller: 9 });
        let mut refusal = Refusal::NotSpinwire.encode();
        refusal[4] = 9;
        assert_eq!(Refusal::decode(&refusal), Some(Refusal::Version { listener: 9, caller: VERSION }));
    }

    #[test]
    fn every_refusal_arrives_as_it_was_sent() {
        for refusal in [
            Refusal::TableFull { live: 16, capacity: 16 },
            Refusal::Version { listener: 1, caller: 2 },
            Refusal::NotSpinwire,
            Refusal::Malformed,
            Refusal::ShuttingDown,
            Refusal::Application(42),
            Refusal::User { uid: 1_001 },
            Refusal::Unknown(77),
        ] {
            assert_eq!(Refusal::decode(&padded(&refusal.encode(), 148)), Some(refusal));
        }
        assert_eq!(Refusal::decode(&[0; 148]), None);
    }
}
