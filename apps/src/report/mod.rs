//! What a run prints: a table for people, JSON with the same facts and units in the key names for programs.

mod facts;
mod ping;
mod plot;
mod scale;
mod serve;
mod table;

use std::fmt;
use std::io::Write;
use std::path::Path;

pub use facts::SetupFacts;
pub use ping::PingReport;
use serde::Serialize;
pub use serve::ServeReport;

use crate::exit::Failure;
use crate::histogram::Latencies;

/// Looks before a long run whether the file that `option` names could be written at its end.
///
/// # Errors
/// The directory of the file does not exist.
pub fn check_path(option: &str, path: Option<&Path>) -> Result<(), Failure> {
    let Some(parent) = path.and_then(Path::parent).filter(|parent| !parent.as_os_str().is_empty()) else {
        return Ok(());
    };
    if parent.is_dir() {
        Ok(())
    } else {
        Err(Failure::usage(format!("{option}: there is no directory {}", parent.display())))
    }
}

/// Writes a report where the user wants it: the table to standard output unless `quiet`, JSON to `json`.
///
/// # Errors
/// The file, or standard output, cannot be written. A reader that has closed its end of a pipe is no failure of the run.
pub fn print(report: &(impl fmt::Display + Serialize), json: Option<&Path>, quiet: bool) -> Result<(), Failure> {
    let to_stdout = json == Some(Path::new("-"));
    let mut stdout = std::io::stdout().lock();
    if !quiet && !to_stdout {
        let written = writeln!(stdout, "{report}").and_then(|()| stdout.flush());
        unless_closed(written)
            .map_err(|error| Failure::setup(format!("cannot write the report to standard output: {error}")))?;
    }
    let Some(path) = json else { return Ok(()) };
    let mut text = serde_json::to_string_pretty(report).map_err(Failure::setup)?;
    text.push('\n');
    let written = if to_stdout {
        unless_closed(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
    } else {
        std::fs::write(path, text)
    };
    written.map_err(|error| Failure::setup(format!("cannot write the report to {}: {error}", path.display())))
}

/// Writes the picture of a run's latencies to `path`. Without a message there is none, and that is said.
///
/// # Errors
/// The file cannot be written.
pub fn draw(title: &str, latencies: &Latencies, path: &Path) -> Result<(), Failure> {
    let Some(text) = plot::svg(title, latencies) else {
        eprintln!("spinwire: no message was measured, so there is no picture in {}", path.display());
        return Ok(());
    };
    std::fs::write(path, text)
        .map_err(|error| Failure::setup(format!("cannot write the picture to {}: {error}", path.display())))
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
        assert!(print(&"text", Some(Path::new("/dev/full")), true).is_err());
    }
}
