//! Numbers as people type them: `4k`, `1m`, `500us`, `2.5s`.

use std::time::Duration;

/// Parses a size in bytes. `k`, `m` and `g` (also `KiB`, `MiB`, `GiB`) count in steps of 1,024.
///
/// # Errors
/// A sentence that shows what is accepted.
pub fn bytes(text: &str) -> Result<u32, String> {
    let hint = || format!("'{text}' is not a size; write bytes like 64, 4k, 1m (k = 1,024), less than 4g");
    let (number, unit) = split(text);
    let scale: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        _ => return Err(hint()),
    };
    let number: u64 = number.parse().map_err(|_| hint())?;
    number.checked_mul(scale).and_then(|bytes| u32::try_from(bytes).ok()).ok_or_else(hint)
}

/// Parses a count. `k`, `m` and `g` count in steps of 1,000; underscores and commas may group digits.
///
/// # Errors
/// A sentence that shows what is accepted.
pub fn count(text: &str) -> Result<u64, String> {
    let hint = || format!("'{text}' is not a count from 1; write a number like 100000, 100k, 1m (k = 1,000)");
    let plain: String = text.chars().filter(|c| !matches!(c, '_' | ',')).collect();
    let (number, unit) = split(&plain);
    let scale: u64 = match unit.to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => 1_000,
        "m" => 1_000_000,
        "g" => 1_000_000_000,
        _ => return Err(hint()),
    };
    let number: u64 = number.parse().map_err(|_| hint())?;
    number.checked_mul(scale).filter(|&count| count > 0).ok_or_else(hint)
}

/// Parses a span of time with its unit: `ns`, `us`, `ms`, `s` or `min`. Fractions are allowed; zero is not.
///
/// # Errors
/// A sentence that shows what is accepted.
pub fn span(text: &str) -> Result<Duration, String> {
    let hint = || format!("'{text}' is not a span of time above zero; write it like 640us, 67ms, 2s, 1min");
    let (number, unit) = split(text);
    let nanos: f64 = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" => 60e9,
        _ => return Err(hint()),
    };
    let number: f64 = number.parse().map_err(|_| hint())?;
    // Anything beyond 2^63 ns is 292 years and not meant; the cast is exact enough below that.
    let total = (number * nanos).round();
    if (1.0..9.2e18).contains(&total) { Ok(Duration::from_nanos(total as u64)) } else { Err(hint()) }
}

/// Parses a run time: seconds without a unit, or a span as in [`span`].
///
/// # Errors
/// A sentence that shows what is accepted.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let plain = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let with_unit = if plain { format!("{text}s") } else { text.to_owned() };
    span(&with_unit).map_err(|hint| hint.replace(&format!("'{with_unit}'"), &format!("'{text}'")))
}

/// A number with its digits in groups of three: `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Nanoseconds as microseconds: `7,766.86 us`.
pub fn micros(nanos: u64) -> String {
    let hundredths = nanos.saturating_add(5) / 10;
    format!("{}.{:02} us", grouped(hundredths / 100), hundredths % 100)
}

/// How many of something: `1 message`, `2,000 messages`. For nouns that take an s.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Splits `4k` into `4` and `k`.
fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_count_in_steps_of_1024() {
        for (text, want) in [("0", 0), ("64", 64), ("4k", 4_096), ("4K", 4_096), ("1m", 1 << 20), ("8 MiB", 8 << 20)] {
            assert_eq!(bytes(text), Ok(want), "{text}");
        }
        for text in ["", "k", "4x", "-1", "1.5k", "4g", "99999999999g"] {
            assert!(bytes(text).unwrap_err().contains("4k"), "{text}");
        }
    }

    #[test]
    fn counts_go_in_steps_of_1000() {
        for (text, want) in [("1", 1), ("100k", 100_000), ("1m", 1_000_000), ("1_000_000", 1_000_000), ("1,000", 1_000)]
        {
            assert_eq!(count(text), Ok(want), "{text}");
        }
        for text in ["", "0", "1.5m", "1x", "99999999999999999999"] {
            assert!(count(text).is_err(), "{text}");
        }
    }

    #[test]
    fn spans_need_a_unit() {
        for (text, nanos) in [("640us", 640_000), ("67ms", 67_000_000), ("2s", 2_000_000_000), ("0.5ms", 500_000)] {
            assert_eq!(span(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
        assert_eq!(span("1min"), Ok(Duration::from_secs(60)));
        for text in ["5", "0s", "s", "-1s", "1.2.3s", "5 weeks", "1e400s", "99999999999999s"] {
            assert!(span(text).unwrap_err().contains("640us"), "{text}");
        }
    }

    #[test]
    fn run_times_are_seconds_unless_a_unit_says_otherwise() {
        assert_eq!(seconds("2"), Ok(Duration::from_secs(2)));
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(seconds("300ms"), Ok(Duration::from_millis(300)));
        assert!(seconds("").is_err() && seconds("0").is_err() && seconds("ten").is_err());
    }

    #[test]
    fn digits_are_grouped() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }
}
