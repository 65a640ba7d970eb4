//! Numbers as people type them: `4k`, `1m`, `500us`, `2.5s`.

use std::ops::RangeInclusive;
use std::time::Duration;

pub use spinwire_linux::words::Grouped;

/// Parses a size in bytes. `k`, `m` and `g` (also `KiB`, `MiB`, `GiB`) count in steps of 1,024. Fractions are allowed where whole
/// bytes come out.
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
    scaled(number, scale).and_then(|bytes| u32::try_from(bytes).ok()).ok_or_else(hint)
}

/// Parses a count. `k`, `m` and `g` count in steps of 1,000; underscores and commas may group digits. Fractions are allowed where
/// a whole number comes out: `7.5k`.
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
    match scaled(number, scale).map(u64::try_from) {
        None | Some(Ok(0)) => Err(hint()),
        Some(Ok(count)) => Ok(count),
        Some(Err(_)) => Err(format!("'{text}' is too large a count; write one up to {}", Grouped(u64::MAX))),
    }
}

/// Parses a whole number in `range`, written as a [`count`] or as 0. `like` is one that makes sense.
///
/// # Errors
/// A sentence with what was asked, the range and the example.
pub fn within(text: &str, range: RangeInclusive<u32>, like: u32) -> Result<u32, String> {
    let number = if text == "0" { Some(0) } else { count(text).ok() };
    let number = number.and_then(|number| u32::try_from(number).ok()).filter(|number| range.contains(number));
    let (least, most) = (Grouped((*range.start()).into()), Grouped((*range.end()).into()));
    number.ok_or_else(|| format!("'{text}' is not a number from {least} to {most}; write one like {like}"))
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

/// Nanoseconds as microseconds: `7,766.86 us`.
pub fn micros(nanos: u64) -> String {
    let hundredths = nanos.saturating_add(5) / 10;
    format!("{}.{:02} us", Grouped(hundredths / 100), hundredths % 100)
}

/// How many of something: `1 message`, `2,000 messages`. For nouns that take an s.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", Grouped(number), if number == 1 { "" } else { "s" })
}

/// `number`, which may have a fraction, times `scale`, exactly; `None` if no whole number comes out, or it is no number. What is
/// too large for any use is [`u128::MAX`].
fn scaled(number: &str, scale: u64) -> Option<u128> {
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction.trim_end_matches('0')),
        Some(_) => return None,
        None => (number, ""),
    };
    let is_number = !whole.is_empty() && whole.bytes().chain(fraction.bytes()).all(|digit| digit.is_ascii_digit());
    // No scale has more than nine digits, nor more than thirty factors of two.
    if !is_number || fraction.len() > 30 {
        return None;
    }
    let Ok(whole) = whole.parse::<u64>() else { return Some(u128::MAX) };
    let tenths = 10_u128.pow(fraction.len() as u32);
    let parts = if fraction.is_empty() { 0 } else { fraction.parse::<u128>().ok()?.checked_mul(scale.into())? };
    let rest = (parts % tenths == 0).then_some(parts / tenths)?;
    Some(u128::from(whole) * u128::from(scale) + rest)
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
        for (text, want) in
            [("0", 0), ("64", 64), ("4k", 4_096), ("4K", 4_096), ("1m", 1 << 20), ("8 MiB", 8 << 20), ("1.5k", 1_536)]
        {
            assert_eq!(bytes(text), Ok(want), "{text}");
        }
        for text in ["", "k", "4x", "-1", "1.5", "0.3k", "4g", "99999999999g"] {
            assert!(bytes(text).unwrap_err().contains("4k"), "{text}");
        }
    }

    #[test]
    fn counts_go_in_steps_of_1000() {
        for (text, want) in [("1", 1), ("100k", 100_000), ("1m", 1_000_000), ("1_000_000", 1_000_000), ("1,000", 1_000)]
        {
            assert_eq!(count(text), Ok(want), "{text}");
        }
        for (text, want) in [("7.5k", 7_500), ("0.25m", 250_000), ("1.000k", 1_000), ("2.0", 2), ("0.000000001g", 1)] {
            assert_eq!(count(text), Ok(want), "{text}");
        }
        for text in ["", "0", "0.0k", "2.5", "1.2345k", "1.k", ".5k", "1.2.3k", "1x", "k", "-1", "0.0000000001g"] {
            assert!(count(text).unwrap_err().contains("is not a count from 1"), "{text}");
        }
        assert_eq!(count("18446744073709551615"), Ok(u64::MAX));
        for text in ["18446744073709551616", "99999999999999999999", "18446744073709552k", "18446744073709551.616k"] {
            let said = count(text).unwrap_err();
            assert_eq!(said, format!("'{text}' is too large a count; write one up to 18,446,744,073,709,551,615"));
        }
    }

    #[test]
    fn numbers_out_of_range_are_answered_with_the_range_and_an_example() {
        for (text, want) in [("1", 1), ("4096", 4_096), ("4k", 4_000), ("4,096", 4_096)] {
            assert_eq!(within(text, 1..=4_096, 32), Ok(want), "{text}");
        }
        assert_eq!(within("0", 0..=6, 6), Ok(0));
        for text in ["", "0", "4097", "1m", "x", "-1", "99999999999"] {
            let said = within(text, 1..=4_096, 32).unwrap_err();
            assert_eq!(said, format!("'{text}' is not a number from 1 to 4,096; write one like 32"));
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
}
