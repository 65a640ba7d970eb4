//! Times as people say them, turned into the codes that InfiniBand uses for them.

use core::time::Duration;

/// Receiver-not-ready delays in microseconds by code. From table 45 of the InfiniBand specification, volume 1.
const RNR_MICROS: [u32; 32] = [
    655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1_280, 1_920, 2_560, 3_840, 5_120, 7_680,
    10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920, 122_880, 163_840, 245_760, 327_680, 491_520,
];

/// The code of the shortest receiver-not-ready delay that is at least `delay`.
///
/// Note that code 0 is the longest delay, 655.36 ms, and what a queue pair has that nobody set.
pub(crate) fn rnr_code(delay: Duration) -> u8 {
    let fits = |code: &usize| Duration::from_micros(u64::from(RNR_MICROS[*code])) >= delay;
    (1..RNR_MICROS.len()).find(fits).unwrap_or(0) as u8
}

/// The delay that an RNR code stands for. Codes above 31 do not exist and count as 31.
pub(crate) fn rnr_delay(code: u8) -> Duration {
    Duration::from_micros(u64::from(RNR_MICROS[usize::from(code.min(31))]))
}

/// The code of the shortest ACK timeout that is at least `timeout`: 4.096 us times two to the power of the code.
///
/// Codes 1 to 31, so never 0, which means to wait for ever.
pub(crate) fn ack_timeout_code(timeout: Duration) -> u8 {
    (1..31).find(|code| ack_timeout(*code) >= timeout).unwrap_or(31)
}

/// The timeout that an ACK timeout code stands for.
pub(crate) fn ack_timeout(code: u8) -> Duration {
    Duration::from_nanos(4_096 << code.min(31))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnr_delays_round_up_to_a_code() {
        let code = |micros| rnr_code(Duration::from_micros(micros));
        assert_eq!(code(0), 1);
        assert_eq!(code(10), 1);
        assert_eq!(code(11), 2);
        assert_eq!(code(640), 12);
        assert_eq!(code(641), 13);
        assert_eq!(code(1_000), 14);
        assert_eq!(code(491_520), 31);
        assert_eq!(code(491_521), 0, "only code 0 is longer");
        assert_eq!(rnr_delay(12), Duration::from_micros(640));
    }

    #[test]
    fn ack_timeouts_round_up_to_a_code() {
        assert_eq!(ack_timeout_code(Duration::ZERO), 1, "0 would mean for ever");
        assert_eq!(ack_timeout_code(Duration::from_millis(67)), 14);
        assert_eq!(ack_timeout(14), Duration::from_nanos(67_108_864));
        assert_eq!(ack_timeout(19), Duration::from_nanos(2_147_483_648));
        assert_eq!(ack_timeout_code(Duration::MAX), 31);
    }
}
