//! Lines about a running loop, printed by a thread of their own: a slow terminal must not stall the loop.

use std::fmt::Display;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, channel, sync_channel};
use std::thread::JoinHandle;

use spinwire_linux::shm::threads_hint;

use crate::patience;

/// The loop's end of the queue. For the control path: a send may wake the printing thread, which is a system call.
#[derive(Debug)]
pub struct Log<E> {
    queue: SyncSender<E>,
    dropped: Arc<AtomicU64>,
}

/// The thread that prints. [`Printer::finish`] waits for the last line.
#[derive(Debug)]
pub struct Printer {
    thread: JoinHandle<()>,
    lines: Arc<AtomicU64>,
    /// Hung up by the thread when it ends.
    ended: Receiver<()>,
}

/// Starts a printer of one line per event to `out`. The queue's `capacity` events are allocated here.
///
/// # Errors
/// When the thread cannot be started.
pub fn start<E: Display + Send + 'static>(
    capacity: usize,
    out: impl Write + Send + 'static,
) -> std::io::Result<(Log<E>, Printer)> {
    let (queue, events) = sync_channel(capacity);
    let dropped = Arc::new(AtomicU64::new(0));
    let lines = Arc::new(AtomicU64::new(0));
    let (seen, printed) = (dropped.clone(), lines.clone());
    let (hangs_up, ended) = channel();
    let thread = std::thread::Builder::new().name("printer".into()).spawn(move || {
        print_all(&events, (&seen, &printed), out);
        drop(hangs_up);
    });
    let thread = thread.map_err(|error| {
        std::io::Error::other(format!("cannot start the thread that prints: {error}{}", threads_hint()))
    })?;
    Ok((Log { queue, dropped }, Printer { thread, lines, ended }))
}

impl<E> Log<E> {
    /// Hands over an event; when the queue is full it is counted instead, and the count is printed later. Never waits,
    /// never allocates.
    pub fn note(&self, event: E) {
        match self.queue.try_send(event) {
            // A printer that is gone has nobody to tell.
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
            Err(TrySendError::Full(_)) => {
                // Relaxed: a count on its own, it orders nothing.
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Printer {
    /// Waits until everything noted is printed, unless the output takes no line for 2 s: then the rest is given up. Every
    /// [`Log`] must be gone, or this waits for it as long.
    pub fn finish(self) {
        // Relaxed: a count on its own, it orders nothing.
        let lines = || self.lines.load(Ordering::Relaxed);
        let mut before = lines();
        while self.ended.recv_timeout(patience::OUTPUT) == Err(RecvTimeoutError::Timeout) {
            if std::mem::replace(&mut before, lines()) == before {
                return;
            }
        }
        // A panic of the printing thread was already reported by its own message.
        let _ = self.thread.join();
    }
}

fn print_all<E: Display>(events: &Receiver<E>, (dropped, lines): (&AtomicU64, &AtomicU64), mut out: impl Write) {
    let mut told = 0;
    while let Ok(event) = events.recv() {
        // One write for each line: other threads and processes print to the same terminal. A closed output is no reason
        // to end a server.
        let _ = out.write_all(format!("{event}\n").as_bytes()).and_then(|()| out.flush());
        told = tell_dropped(dropped, told, &mut out);
        // Relaxed: as above.
        lines.fetch_add(1, Ordering::Relaxed);
    }
    tell_dropped(dropped, told, &mut out);
}

/// Prints how many events were dropped since the last time; returns the count told by now.
fn tell_dropped(dropped: &AtomicU64, told: u64, out: &mut impl Write) -> u64 {
    // Relaxed: a count on its own, it orders nothing.
    let now = dropped.load(Ordering::Relaxed);
    if now > told {
        let _ = writeln!(out, "({} events were not printed: they came faster than this output takes them)", now - told);
    }
    now
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_counts_what_it_drops_and_says_so_once() {
        let (queue, events) = sync_channel(2);
        let log = Log { queue, dropped: Arc::default() };
        (0..5).for_each(|n| log.note(n));
        assert_eq!(events.try_iter().collect::<Vec<_>>(), [0, 1]);
        let mut out = Vec::new();
        let told = tell_dropped(&log.dropped, 0, &mut out);
        assert_eq!(tell_dropped(&log.dropped, told, &mut out), 3);
        assert_eq!(String::from_utf8(out).unwrap().matches("(3 events were not printed").count(), 1);
    }

    #[test]
    fn an_output_that_takes_nothing_is_given_up() {
        let (reader, writer) = std::io::pipe().unwrap();
        let (log, printer) = start(4, writer).unwrap();
        log.note("x".repeat(1 << 20));
        drop(log);
        let begun = std::time::Instant::now();
        printer.finish();
        assert!(begun.elapsed() < patience::OUTPUT * 5, "{:?}", begun.elapsed());
        drop(reader);
    }

    #[test]
    fn finishing_waits_for_the_last_line_and_ends() {
        let (log, printer) = start::<u32>(4, std::io::sink()).unwrap();
        log.note(1);
        drop(log);
        printer.finish();
    }
}
