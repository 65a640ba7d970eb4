//! The packets of the handshake.
//!
//! ```text
//!  0       4         5      6        7   8       12            16      20     24            32
//!  | "SPSM" | version | kind | length | 0 | slots | chunk bytes | first | code | arena bytes | private data, `length` bytes |
//! ```
//!
//! Numbers are little-endian. A request and an accept carry descriptors: the segment and the pulse of their sender,
//! and its arena if it lends that, which then has more than 0 bytes. Before them goes what their sender exposes, if anything.
//! The first eight bytes keep their meaning in every version.

use spinwire_core::cm::event::PrivateData;
use spinwire_core::config::CONNECT_PRIVATE_DATA_MAX;

use super::layout::Geometry;

/// The version of the handshake and of what lies in shared memory.
pub(super) const VERSION: u8 = 3;

/// The longest packet.
pub(super) const PACKET_MAX: usize = HEADER_BYTES + CONNECT_PRIVATE_DATA_MAX;

/// A packet, written.
pub(super) type Encoded = heapless::Vec<u8, PACKET_MAX>;

/// A packet, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Packet {
    /// A client asks, and says how its segment is laid out.
    Request(Terms, PrivateData),
    /// The server takes it, and says the same of its own.
    Accept(Terms, PrivateData),
    /// The server does not take it; the code is that of an InfiniBand refusal.
    Reject(i32, PrivateData),
    /// The client has mapped the server's segment: the connection is up.
    Ready,
    /// The sender of the next request or accept exposes these regions: see `exposed`. Their descriptors come along.
    Exposed(PrivateData),
}

/// What a side says of the memory that it passes along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    /// How its segment is laid out.
    pub(super) geometry: Geometry,
    /// The length of its arena; 0 if it does not lend it.
    pub(super) arena_bytes: u64,
}

/// A packet that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PacketError {
    /// Not ours.
    NotSpinwire,
    /// Of another version.
    Version(u8),
    /// Ours, and nonsense.
    Malformed,
}

impl Packet {
    /// The bytes. Private data beyond [`CONNECT_PRIVATE_DATA_MAX`] is cut off.
    pub(super) fn encode(&self) -> Encoded {
        let none = PrivateData::new();
        let (kind, terms, code, data) = match self {
            Packet::Request(terms, data) => (1, Some(terms), 0, data),
            Packet::Accept(terms, data) => (2, Some(terms), 0, data),
            Packet::Reject(code, data) => (3, None, *code, data),
            Packet::Ready => (4, None, 0, &none),
            Packet::Exposed(table) => (5, None, 0, table),
        };
        let data = &data[..data.len().min(CONNECT_PRIVATE_DATA_MAX)];
        let numbers = |Terms { geometry, .. }: &Terms| [geometry.slots(), geometry.chunk_bytes(), geometry.first()];
        let [slots, chunk, first] = terms.map_or([0; 3], numbers);
        let mut out = Encoded::new();
        out.extend(MAGIC.into_iter().chain([VERSION, kind, data.len() as u8, 0]));
        out.extend([slots, chunk, first, code as u32].into_iter().flat_map(u32::to_le_bytes));
        out.extend(terms.map_or(0, |terms| terms.arena_bytes).to_le_bytes());
        out.extend(data.iter().copied());
        out
    }

    /// Reads what a peer sent.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, PacketError> {
        let start = bytes.get(..8).filter(|start| start[..4] == MAGIC).ok_or(PacketError::NotSpinwire)?;
        let (version, kind, len) = (start[4], start[5], start[6] as usize);
        if version != VERSION {
            return Err(PacketError::Version(version));
        }
        if bytes.len() != HEADER_BYTES + len || len > CONNECT_PRIVATE_DATA_MAX {
            return Err(PacketError::Malformed);
        }
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let geometry = Geometry::checked(word(8), word(12), word(16)).ok_or(PacketError::Malformed);
        let arena_bytes = u64::from(word(28)) << 32 | u64::from(word(24));
        let terms = geometry.map(|geometry| Terms { geometry, arena_bytes });
        let data = PrivateData::from_slice(&bytes[HEADER_BYTES..]).map_err(|_| PacketError::Malformed)?;
        match kind {
            1 => Ok(Packet::Request(terms?, data)),
            2 => Ok(Packet::Accept(terms?, data)),
            3 => Ok(Packet::Reject(word(20) as i32, data)),
            4 => Ok(Packet::Ready),
            5 => Ok(Packet::Exposed(data)),
            _ => Err(PacketError::Malformed),
        }
    }
}

const MAGIC: [u8; 4] = *b"SPSM";
const HEADER_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> [Packet; 5] {
        let geometry = Geometry::checked(64, 4_096, 5).unwrap();
        let terms = |arena_bytes| Terms { geometry, arena_bytes };
        let data = PrivateData::from_slice(&[7; 56]).unwrap();
        let empty = PrivateData::new();
        [
            Packet::Request(terms(0), data.clone()),
            Packet::Accept(terms(u64::MAX - 1), empty),
            Packet::Reject(-3, data.clone()),
            Packet::Ready,
            Packet::Exposed(data),
        ]
    }

    #[test]
    fn every_packet_arrives_as_it_was_sent() {
        for packet in all() {
            assert_eq!(Packet::decode(&packet.encode()), Ok(packet));
        }
    }

    #[test]
    fn a_packet_cut_or_stretched_at_any_byte_is_refused() {
        for packet in all() {
            let bytes = packet.encode();
            for len in 0..bytes.len() {
                assert!(Packet::decode(&bytes[..len]).is_err(), "{len} bytes of {packet:?}");
            }
            let mut longer = bytes.to_vec();
            longer.push(0);
            assert_eq!(Packet::decode(&longer), Err(PacketError::Malformed));
        }
    }

    #[test]
    fn every_value_of_every_byte_is_read_or_refused() {
        for packet in all() {
            let bytes = packet.encode();
            for at in 0..bytes.len() {
                for value in 0..=u8::MAX {
                    let mut changed = bytes.clone();
                    changed[at] = value;
                    if let Ok(Packet::Request(terms, _) | Packet::Accept(terms, _)) = Packet::decode(&changed) {
                        let geometry = terms.geometry;
                        let (slots, chunk, first) = (geometry.slots(), geometry.chunk_bytes(), geometry.first());
                        assert_eq!(Geometry::checked(slots, chunk, first), Some(geometry));
                    }
                }
            }
        }
        let mut other = Packet::Ready.encode();
        other[4] = 9;
        assert_eq!(Packet::decode(&other), Err(PacketError::Version(9)));
    }
}
