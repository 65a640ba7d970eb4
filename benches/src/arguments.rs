//! A bench's arguments.

use std::time::Duration;

use criterion::Criterion;

use crate::contest::Effort;
use crate::window::Place;

/// What is done with a bench's contests.
pub(crate) enum Mode {
    Compare(Compare),
    Criterion(Box<Criterion>),
    Test,
}

/// How they are compared.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Compare {
    pub passes: usize,
    pub rounds: usize,
    pub window: Duration,
    pub json: bool,
    /// Where the CPUs have to be.
    pub place: Option<Place>,
    /// What is in the names of the contests that are wanted.
    pub only: String,
}

impl Mode {
    /// # Errors
    /// Which argument is wrong.
    pub fn parse(arguments: &[String]) -> Result<Self, String> {
        let has = |name: &str| arguments.iter().any(|argument| argument == name);
        if has("--compare") {
            Ok(Mode::Compare(Compare::parse(arguments)?))
        } else if has("--bench") && !has("--test") {
            Ok(Mode::Criterion(Box::new(Criterion::default().configure_from_args())))
        } else {
            Ok(Mode::Test)
        }
    }
}

impl Compare {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        let Effort { passes, rounds, window } = Effort::FULL;
        let mut compare = Compare { passes, rounds, window, json: false, place: None, only: String::new() };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut number = || match arguments.next().map(|number| number.parse()) {
                Some(Ok(number)) if number > 0 => Ok(number),
                _ => Err(format!("{argument} takes a number above zero")),
            };
            match &**argument {
                // The second is cargo's.
                "--compare" | "--bench" => {}
                "--json" => compare.json = true,
                "--apart" => compare.place = Some(Place::Apart),
                "--near" => compare.place = Some(Place::Near),
                "--passes" => compare.passes = number()?,
                "--rounds" => compare.rounds = number()?,
                "--quick" => {
                    let Effort { passes, rounds, window } = Effort::QUICK;
                    compare = Compare { passes, rounds, window, ..compare };
                }
                other if other.starts_with('-') => {
                    return Err(format!(
                        "there is no {other}; with --compare go --quick, --passes N, --rounds N, --apart, --near, --json, \
                         and a part of a contest's name"
                    ));
                }
                only => compare.only = only.to_owned(),
            }
        }
        Ok(compare)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Compare, String> {
        Compare::parse(&arguments.iter().map(|&argument| argument.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_are_taken_in_any_order_and_others_are_refused() {
        let compare = parse(&["round_trip", "--json", "--bench", "--compare", "--quick", "--near", "--passes", "3"])
            .expect("right");
        let wanted = Compare {
            passes: 3,
            rounds: 1,
            window: Effort::QUICK.window,
            json: true,
            place: Some(Place::Near),
            only: "round_trip".to_owned(),
        };
        assert_eq!(compare, wanted);
        for wrong in [&["--passes"][..], &["--rounds", "0"], &["--rounds", "x"], &["--jason"]] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
