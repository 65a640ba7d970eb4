//! Values of the command line that have a range, and what is said of one that is out of it.

use std::path::PathBuf;
use std::time::Duration;

use crate::units::{self, Grouped};

pub(super) fn connections(text: &str) -> Result<u32, String> {
    units::within(text, 1..=65_536, 64)
}

pub(super) fn depth(text: &str) -> Result<u32, String> {
    units::within(text, 1..=4_096, 32)
}

pub(super) fn retries(text: &str) -> Result<u8, String> {
    units::within(text, 0..=6, 6).map(|number| number as u8)
}

/// The number of a CPU. Which there are is known when the thread is pinned.
pub(super) fn cpu(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| {
        format!(
            "'{text}' is not the number of a CPU; write one from 0 on, like 2 (lscpu -e lists those of this machine)"
        )
    })
}

pub(super) fn size(text: &str) -> Result<u32, String> {
    const MOST: u32 = spinwire_core::config::MESSAGE_BYTES_MAX;
    match units::bytes(text)? {
        bytes if bytes <= MOST => Ok(bytes),
        bytes => {
            let (bytes, most) = (Grouped(bytes.into()), Grouped(MOST.into()));
            Err(format!("{bytes} bytes are too many: at most {most} (8m)"))
        }
    }
}

/// The name of a picture: it is not for standard output, where the table is.
pub(super) fn picture(text: &str) -> Result<PathBuf, String> {
    match text {
        "-" | "" => Err("a picture needs a file, like latency.svg".to_owned()),
        name => Ok(PathBuf::from(name)),
    }
}

/// A count that may be 0.
pub(super) fn warmup(text: &str) -> Result<u64, String> {
    if text == "0" { Ok(0) } else { units::count(text).map_err(|hint| hint.replace("a count from 1", "0 or a count")) }
}

pub(super) fn message_bytes(text: &str) -> Result<u32, String> {
    match size(text)? {
        0 => Err("the largest message has at least 1 byte".to_owned()),
        bytes => Ok(bytes),
    }
}

pub(super) fn rnr_timer(text: &str) -> Result<Duration, String> {
    let span = units::span(text)?;
    let range = Duration::from_micros(10)..=Duration::from_millis(491);
    if range.contains(&span) { Ok(span) } else { Err(format!("{span:?} is out of range: 10us to 491ms")) }
}
