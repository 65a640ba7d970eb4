//! Sizes that a device caps, and what to do when a wish is above the cap.

use std::sync::Mutex;

use crate::runtime::Size;

/// A size that was asked for and that the device does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{option} {asked}: {device} takes at most {max} ({limit})")]
pub struct LimitError {
    /// The field of [`Options`](crate::runtime::Options).
    pub option: &'static str,
    /// What was asked.
    pub asked: u32,
    /// The largest accepted value.
    pub max: u32,
    /// The name of the limit in the device's attributes.
    pub limit: &'static str,
    /// The device's name.
    pub device: String,
}

/// A default that was lowered to what the device takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lowered {
    /// The field of [`Options`](crate::runtime::Options).
    pub option: &'static str,
    /// The default.
    pub from: u32,
    /// What is used instead.
    pub to: u32,
    /// The device's name.
    pub device: String,
}

/// One limit of one device, with the names to report it by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit<'a> {
    pub option: &'static str,
    pub max: u32,
    pub limit: &'static str,
    pub device: &'a str,
}

impl Limit<'_> {
    /// Fits `size` under the limit: a default is lowered (and noted), a value that was asked for is refused.
    pub(crate) fn fit(self, size: Size) -> Result<u32, LimitError> {
        let Limit { option, max, limit, device } = self;
        match size {
            Size::Default(value) | Size::Asked(value) if value <= max => Ok(value),
            Size::Asked(asked) => Err(LimitError { option, asked, max, limit, device: device.to_owned() }),
            Size::Default(from) => {
                note(Lowered { option, from, to: max, device: device.to_owned() });
                Ok(max)
            }
        }
    }
}

static LOWERED: Mutex<Vec<Lowered>> = Mutex::new(Vec::new());

fn note(lowered: Lowered) {
    let mut all = LOWERED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if !all.contains(&lowered) {
        let Lowered { option, from, to, device } = &lowered;
        eprintln!("spinwire: {option}: using {to} instead of {from}, the most that {device} takes");
        all.push(lowered);
    }
}

/// Every default that was lowered in this process, each once.
pub fn lowered_defaults() -> Vec<Lowered> {
    LOWERED.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPTH: Limit<'static> = Limit { option: "depth", max: 128, limit: "max_qp_wr", device: "fake0" };

    #[test]
    fn an_asked_value_above_the_limit_names_option_value_and_maximum() {
        assert_eq!(DEPTH.fit(Size::Asked(128)), Ok(128));
        let error = DEPTH.fit(Size::Asked(129)).unwrap_err();
        assert_eq!(error.to_string(), "depth 129: fake0 takes at most 128 (max_qp_wr)");
    }

    #[test]
    fn a_default_above_the_limit_is_lowered_and_noted_once() {
        let limit = Limit { device: "fake-once", ..DEPTH };
        assert_eq!(limit.fit(Size::Default(4096)), Ok(128));
        assert_eq!(limit.fit(Size::Default(4096)), Ok(128));
        let noted = lowered_defaults();
        assert_eq!(noted.iter().filter(|l| l.device == "fake-once").count(), 1);
    }
}
