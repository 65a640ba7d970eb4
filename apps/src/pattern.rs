//! What a message carries, and whether the reply carries the same.
//!
//! ```text
//!  0                8
//!  | sequence (LE)  | a pattern that follows from connection and sequence ... |
//! ```
//!
//! Messages shorter than 8 bytes carry the pattern only; they are matched by counting.

/// A reply that is not what was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// Another length.
    #[error("the reply has {got} bytes, {expected} were sent")]
    Length {
        /// Bytes sent.
        expected: usize,
        /// Bytes that came back.
        got: usize,
    },
    /// Another message: lost, doubled or out of order.
    #[error("expected the reply with sequence {expected}, got sequence {got}")]
    Sequence {
        /// The oldest one without a reply.
        expected: u64,
        /// What the reply carries.
        got: u64,
    },
    /// Another content.
    #[error("byte {at} is {got:#04x}, expected {expected:#04x}")]
    Byte {
        /// Which byte, from 0.
        at: usize,
        /// What was sent.
        expected: u8,
        /// What came back.
        got: u8,
    },
}

/// Writes message number `sequence` of connection `connection`. Every byte is written. No allocation.
pub fn fill(connection: u32, sequence: u64, message: &mut [u8]) {
    let body = match message.split_first_chunk_mut::<HEADER_BYTES>() {
        Some((header, body)) => {
            *header = sequence.to_le_bytes();
            body
        }
        None => message,
    };
    let mut words = Words::new(connection, sequence);
    for block in body.chunks_mut(8) {
        block.copy_from_slice(&words.next_block()[..block.len()]);
    }
}

/// Writes message number `sequence` with nothing but zeros behind its sequence: for runs that do not verify.
pub fn fill_unverified(sequence: u64, message: &mut [u8]) {
    match message.split_first_chunk_mut::<HEADER_BYTES>() {
        Some((header, body)) => {
            *header = sequence.to_le_bytes();
            body.fill(0);
        }
        None => message.fill(0),
    }
}

/// Checks length and sequence of a reply, as far as it carries one.
///
/// # Errors
/// See [`Mismatch`].
pub fn check_header(sequence: u64, expected_bytes: usize, reply: &[u8]) -> Result<(), Mismatch> {
    if reply.len() != expected_bytes {
        return Err(Mismatch::Length { expected: expected_bytes, got: reply.len() });
    }
    match reply.first_chunk::<HEADER_BYTES>().map(|header| u64::from_le_bytes(*header)) {
        Some(got) if got != sequence => Err(Mismatch::Sequence { expected: sequence, got }),
        _ => Ok(()),
    }
}

/// Checks every byte of a reply against what [`fill`] wrote.
///
/// # Errors
/// See [`Mismatch`]; the first byte that differs.
pub fn check(connection: u32, sequence: u64, expected_bytes: usize, reply: &[u8]) -> Result<(), Mismatch> {
    check_header(sequence, expected_bytes, reply)?;
    let start = if reply.len() < HEADER_BYTES { 0 } else { HEADER_BYTES };
    let mut words = Words::new(connection, sequence);
    for (n, block) in reply[start..].chunks(8).enumerate() {
        let want = words.next_block();
        if let Some(within) = (0..block.len()).find(|&i| block[i] != want[i]) {
            return Err(Mismatch::Byte { at: start + 8 * n + within, expected: want[within], got: block[within] });
        }
    }
    Ok(())
}

/// Pseudo-random words (SplitMix64) that follow from connection and sequence.
struct Words(u64);

impl Words {
    fn new(connection: u32, sequence: u64) -> Self {
        Self(mix(sequence ^ (u64::from(connection) << 40)))
    }

    fn next_block(&mut self) -> [u8; 8] {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0).to_le_bytes()
    }
}

fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

const HEADER_BYTES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_filled_passes_the_check_at_every_length() {
        for len in (0..64).chain([1_024, 4_093]) {
            let mut message = vec![0xff; len];
            fill(3, 77, &mut message);
            assert_eq!(check(3, 77, len, &message), Ok(()), "{len} bytes");
        }
    }

    #[test]
    fn every_changed_bit_is_found_and_named() {
        let mut message = vec![0; 41];
        fill(1, 5, &mut message);
        for at in 8..message.len() {
            for bit in 0..8 {
                message[at] ^= 1 << bit;
                let got = message[at];
                let expected = got ^ (1 << bit);
                assert_eq!(check(1, 5, 41, &message), Err(Mismatch::Byte { at, expected, got }));
                message[at] = expected;
            }
        }
    }

    #[test]
    fn short_messages_are_checked_too() {
        let mut message = [0; 7];
        fill(1, 5, &mut message);
        message[6] ^= 1;
        assert!(matches!(check(1, 5, 7, &message), Err(Mismatch::Byte { at: 6, .. })));
    }

    #[test]
    fn a_reply_of_another_message_connection_or_length_is_told_apart() {
        let mut message = [0; 32];
        fill(1, 5, &mut message);
        assert_eq!(check(1, 6, 32, &message), Err(Mismatch::Sequence { expected: 6, got: 5 }));
        assert!(matches!(check(2, 5, 32, &message), Err(Mismatch::Byte { at: 8, .. })));
        assert_eq!(check(1, 5, 33, &message), Err(Mismatch::Length { expected: 33, got: 32 }));
    }

    #[test]
    fn unverified_messages_carry_their_sequence_and_no_old_bytes() {
        let mut message = [0xee; 16];
        fill_unverified(9, &mut message);
        assert_eq!(check_header(9, 16, &message), Ok(()));
        assert_eq!(message[8..], [0; 8]);
    }
}
