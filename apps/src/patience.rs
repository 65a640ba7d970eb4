//! A deadline for what may never end, output that nobody reads; and a word about what takes long.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// How long an output may take nothing before it is given up.
pub const OUTPUT: Duration = Duration::from_secs(2);

/// Writes `text` to `out`, by a thread of its own: a pipe that is full waits for its reader for ever.
///
/// # Errors
/// What writing gave, or [`ErrorKind::TimedOut`] after [`OUTPUT`]; what was written by then stays written. The thread
/// waits on, and ends with the process.
pub fn write(text: String, mut out: impl Write + Send + 'static) -> io::Result<()> {
    within(move || out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Writes a file, by a thread of its own: a named pipe waits for its reader already when it is opened.
///
/// # Errors
/// As [`write()`].
pub(crate) fn write_file(path: &Path, text: String) -> io::Result<()> {
    let path = path.to_owned();
    within(move || std::fs::write(path, text))
}

/// Says something on standard error, behind the program's name. If that cannot be written, there is nobody to tell.
pub fn say(text: impl Display) {
    let _ = write(format!("spinwire: {text}\n"), io::stderr());
}

fn within(act: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
    let (done, written) = mpsc::channel();
    let act = Arc::new(Mutex::new(Some(act)));
    let take = |act: &Mutex<Option<_>>| act.lock().ok().and_then(|mut act| act.take());
    let taken = act.clone();
    let thread = std::thread::Builder::new().name("output".into()).spawn(move || {
        // Nobody waits any more if it took too long.
        let _ = take(&taken).map(|act| done.send(act()));
    });
    if thread.is_err() {
        // No thread is to be had, of which the text may tell.
        return take(&act).map_or(Ok(()), |act| act());
    }
    written.recv_timeout(OUTPUT).unwrap_or_else(|_| {
        Err(io::Error::new(ErrorKind::TimedOut, format!("its reader took nothing for {} s", OUTPUT.as_secs())))
    })
}

/// Runs `act`, and says `what` on standard error if it takes more than a second: who waits wants to know for what.
pub fn told_if_slow<R>(what: &str, act: impl FnOnce() -> R) -> R {
    let (done, is_done) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        // Without a thread to say it nothing is said: what `act` meets then is what there is to tell.
        let _ = std::thread::Builder::new().name("patience".into()).spawn_scoped(scope, move || {
            if is_done.recv_timeout(Duration::from_secs(1)) == Err(mpsc::RecvTimeoutError::Timeout) {
                say(what);
            }
        });
        let result = act();
        drop(done);
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_that_nobody_reads_is_given_up() {
        let (reader, writer) = io::pipe().unwrap();
        let begun = std::time::Instant::now();
        let error = write("x".repeat(10 << 20), writer).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(begun.elapsed() < OUTPUT * 3, "{:?}", begun.elapsed());
        drop(reader);
    }

    #[test]
    fn what_is_read_is_written_whole() {
        let (reader, writer) = io::pipe().unwrap();
        let read = std::thread::spawn(move || io::read_to_string(reader).unwrap());
        write("x".repeat(1 << 20), writer).unwrap();
        assert_eq!(read.join().unwrap().len(), 1 << 20);
    }
}
