//! Messages that prove themselves: a number, from which the length and every byte follow.

/// Lengths around each border of the data path: first line, slot, chunk, several chunks.
const LENGTHS: [usize; 11] = [8, 56, 57, 120, 121, 200, 4_096, 16_384, 16_385, 40_000, LONGEST];

/// The longest.
pub(super) const LONGEST: usize = 65_536;

/// The length of message `number`.
pub(super) fn length(number: u64) -> usize {
    LENGTHS[(number % LENGTHS.len() as u64) as usize]
}

/// Writes message `number` into a buffer of its length.
pub(super) fn fill(number: u64, to: &mut [u8]) {
    to[..8].copy_from_slice(&number.to_le_bytes());
    for (at, byte) in to.iter_mut().enumerate().skip(8) {
        *byte = byte_at(number, at);
    }
}

/// What is wrong with what should be message `number`.
pub(super) fn check(number: u64, message: &[u8]) -> Result<(), String> {
    if message.len() != length(number) {
        return Err(format!("message {number} has {} bytes, not {}", message.len(), length(number)));
    }
    if message[..8] != number.to_le_bytes() {
        return Err(format!("message {number} begins with {:?}", &message[..8]));
    }
    match message.iter().enumerate().skip(8).find(|&(at, &byte)| byte != byte_at(number, at)) {
        Some((at, byte)) => Err(format!("byte {at} of message {number} is {byte}")),
        None => Ok(()),
    }
}

fn byte_at(number: u64, at: usize) -> u8 {
    (number as u8).wrapping_mul(31).wrapping_add((at as u8).wrapping_mul(7)).wrapping_add((at >> 8) as u8)
}
