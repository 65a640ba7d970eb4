//! What a run prints: a table for people, JSON with the same facts and units in the key names for programs.

mod facts;
mod ping;
mod plot;
mod scale;
mod serve;
mod table;
mod target;

use std::fmt;
use std::path::Path;

pub use facts::SetupFacts;
pub use ping::PingReport;
use serde::Serialize;
pub use serve::ServeReport;

use crate::exit::{self, Failure};
use crate::histogram::Latencies;
use crate::patience;
use target::Target;

/// Where a run reports to, besides standard output.
#[derive(Debug)]
pub struct Outputs {
    json: Json,
    plot: Option<Target>,
}

#[derive(Debug)]
enum Json {
    No,
    Stdout,
    File(Target),
}

impl Outputs {
    /// What `--json` and `--plot` name, looked at before a long run. A file that is not there is made, and removed again if
    /// nothing comes to be written.
    ///
    /// # Errors
    /// A file cannot be written, or both are the same.
    pub fn new(json: Option<&Path>, plot: Option<&Path>) -> Result<Self, Failure> {
        let json = match json {
            None => Json::No,
            Some(path) if path == Path::new("-") => Json::Stdout,
            Some(path) => Json::File(Target::new("--json", path)?),
        };
        let plot = plot.map(|path| Target::new("--plot", path)).transpose()?;
        if let (Json::File(json), Some(plot)) = (&json, &plot)
            && json.is_same_as(plot)
        {
            return Err(Failure::usage(format!("--json and --plot both name {}", plot.path().display())));
        }
        Ok(Self { json, plot })
    }

    /// Writes a report where the user wants it: the table to standard output unless `quiet`, JSON where `--json` says.
    ///
    /// # Errors
    /// The file, or standard output, cannot be written. A reader that has closed its end of a pipe is no failure of the run.
    pub fn print(&mut self, report: &(impl fmt::Display + Serialize), quiet: bool) -> Result<(), Failure> {
        let table = if quiet || matches!(self.json, Json::Stdout) { Ok(()) } else { to_stdout(format!("{report}\n")) };
        let json = || serde_json::to_string_pretty(report).map(|text| text + "\n").map_err(Failure::setup);
        match &mut self.json {
            Json::No => {}
            Json::Stdout => to_stdout(json()?)?,
            Json::File(target) => {
                let written =
                    json().and_then(|text| target.write(&text).map_err(|error| unwritten("report", target, &error)));
                return exit::first(table, [written]);
            }
        }
        table
    }

    /// Draws a run's latencies, which `what` names, where `--plot` says. Without a message there is no picture, and that is said.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn draw(&mut self, (title, what): (&str, &str), latencies: &Latencies) -> Result<(), Failure> {
        let Some(target) = &mut self.plot else { return Ok(()) };
        let Some(text) = plot::svg(title, what, latencies) else {
            patience::say(format_args!(
                "no message was measured, so there is no picture in {}",
                target.path().display()
            ));
            return Ok(());
        };
        target.write(&text).map_err(|error| unwritten("picture", target, &error))
    }
}

fn unwritten(what: &str, target: &Target, error: &std::io::Error) -> Failure {
    Failure::setup(format!("cannot write the {what} to {}: {error}", target.path().display()))
}

fn to_stdout(text: String) -> Result<(), Failure> {
    unless_closed(patience::write(text, std::io::stdout()))
        .map_err(|error| Failure::setup(format!("cannot write the report to standard output: {error}")))
}

fn unless_closed(written: std::io::Result<()>) -> std::io::Result<()> {
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Error, ErrorKind};

    #[test]
    fn only_a_closed_pipe_excuses_a_report_that_was_not_written() {
        assert!(unless_closed(Ok(())).is_ok());
        assert!(unless_closed(Err(Error::from(ErrorKind::BrokenPipe))).is_ok());
        assert!(unless_closed(Err(Error::from(ErrorKind::StorageFull))).is_err());
    }

    #[test]
    fn a_report_that_cannot_be_written_is_a_failure() {
        let mut outputs = Outputs::new(Some(Path::new("/dev/full")), None).unwrap();
        assert_eq!(outputs.print(&"text", true).unwrap_err().status, crate::exit::SETUP);
    }
}
