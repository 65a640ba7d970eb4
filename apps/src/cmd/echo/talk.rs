//! What is told while a side runs, and how it is told to stop.

use std::fmt::Display;
use std::io::Write;

use spinwire::exit::Failure;
use spinwire::log::{self, Log, Printer};
use spinwire_linux::signals::Stop;

/// Signals, and lines about events `E` unless nothing is to be told.
pub(super) struct Talk<E> {
    pub(super) stop: Stop,
    pub(super) log: Option<Log<E>>,
    pub(super) printer: Option<Printer>,
}

impl<E: Display + Send + 'static> Talk<E> {
    /// Lines go to `out`, and as many as `lines` may wait to be printed. To be called before the thread is pinned, so that
    /// the printer may run on any core but the loop's.
    ///
    /// # Errors
    /// Signals cannot be watched, or the printer's thread cannot be started.
    pub(super) fn begin(quiet: bool, lines: usize, out: impl Write + Send + 'static) -> Result<Self, Failure> {
        let stop = Stop::on_signals().map_err(Failure::setup)?;
        let (log, printer) = match quiet {
            true => (None, None),
            false => log::start(lines, out).map(|(log, printer)| (Some(log), Some(printer))).map_err(Failure::setup)?,
        };
        Ok(Self { stop, log, printer })
    }
}
