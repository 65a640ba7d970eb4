//! Counters of one engine. Plain numbers: they belong to one core and are copied out on request.
//!
//! What they say about a latency that is too high, as differences over the time in question:
//!
//! | what is seen | where the time goes |
//! |---|---|
//! | `turn_longest` is long, and the spike lies after `turn_longest_at` | one turn: the handler, a connection event that made or destroyed a queue pair (`opened`, `closed`, `refused`, `attempts_failed`), or the core was taken away |
//! | the last of `batches` grows | the loop falls behind: full batches leave completions in the queue |
//! | `batches` move to larger sizes, few `turns_empty` | the loop is busy; messages wait for those before them in their batch |
//! | `credit_stalls` | the peer does not give receives back as fast as this side sends |
//! | `buffer_stalls` | answers hold the receive buffers, so that the peer runs out of credits |
//! | none of these, many `turns_empty` | not here: the network, the device or the peer |

use crate::config::BATCH_MAX;
use crate::time::{Instant, Nanos};

/// What an engine has done since it started. Every field only grows; `turn_longest` is a maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Turns of the loop.
    pub turns: u64,
    /// Turns that found nothing to do.
    pub turns_empty: u64,
    /// Longest time from the start of one turn to the start of the next that followed work.
    pub turn_longest: Nanos,
    /// When that turn started.
    pub turn_longest_at: Instant,
    /// Messages handed to the handler.
    pub messages_received: u64,
    /// Messages sent for the application, answers included.
    pub messages_sent: u64,
    /// Payload bytes received.
    pub bytes_received: u64,
    /// Payload bytes sent.
    pub bytes_sent: u64,
    /// Chains of sends handed to the device: one doorbell each.
    pub doorbells: u64,
    /// One-sided operations handed to the device.
    pub operations: u64,
    /// Of these, those that failed or whose connection ended first.
    pub operations_failed: u64,
    /// Receives posted.
    pub receives_posted: u64,
    /// Batches of completions by their size: the first counts those of 1, the last the full ones of [`BATCH_MAX`]. Polls that
    /// brought none are not counted.
    pub batches: [u64; BATCH_MAX],
    /// Sends that asked for a completion.
    pub sends_signaled: u64,
    /// Messages that carried credits and nothing else.
    pub credit_messages: u64,
    /// Turns in which a connection had something to send but no credit of the peer.
    pub credit_stalls: u64,
    /// Turns in which receives could not be re-posted because the pool was empty.
    pub buffer_stalls: u64,
    /// Questions sent to peers that had been silent for the keepalive's interval.
    pub asks: u64,
    /// Attempts to connect that failed and were followed by another.
    pub attempts_failed: u64,
    /// Messages that arrived before the peer's answer to the connect request was seen, and were held back until then.
    pub messages_held: u64,
    /// Connections that came up.
    pub opened: u64,
    /// Connections whose end was reported.
    pub closed: u64,
    /// Queue pairs or ids that could not be destroyed.
    pub releases_failed: u64,
    /// Requests refused.
    pub refused: u64,
    /// Completions that belong to nothing posted by a live connection: of an earlier life of their slot, a second one for
    /// the same work, or from another queue pair than their work id's.
    pub completions_stale: u64,
    /// Of the stale ones, those from another queue pair than that of the live connection their work id names. More than
    /// none is a fault of the device or its driver.
    pub qp_num_mismatches: u64,
    /// Completions flushed while closing.
    pub completions_flushed: u64,
    /// Completions that failed in any other way.
    pub completions_failed: u64,
    /// Connection events that were of no consequence in the state they met.
    pub events_ignored: u64,
    /// Connection events for connections that are gone.
    pub events_stale: u64,
    /// Messages that arrived after the application had closed the connection.
    pub messages_after_close: u64,
}

impl Stats {
    /// The largest batch of completions one poll brought; 0 if none did.
    pub fn batch_largest(&self) -> usize {
        self.batches.iter().rposition(|&count| count > 0).map_or(0, |place| place + 1)
    }

    /// A poll brought `size` completions, at most [`BATCH_MAX`].
    #[inline]
    pub(crate) fn polled(&mut self, size: usize) {
        if let Some(count) = self.batches.get_mut(size.wrapping_sub(1)) {
            *count += 1;
        }
    }

    /// A turn that did something started at `start` and took `span`.
    #[inline]
    pub(crate) fn turned(&mut self, start: Instant, span: Nanos) {
        if span > self.turn_longest {
            (self.turn_longest, self.turn_longest_at) = (span, start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_counted_by_size() {
        let mut stats = Stats::default();
        let mut expected = [0; BATCH_MAX];
        assert_eq!(stats.batch_largest(), 0);
        for size in [0, 1, 1, 3, 0, BATCH_MAX] {
            stats.polled(size);
        }
        (expected[0], expected[2], expected[BATCH_MAX - 1]) = (2, 1, 1);
        assert_eq!((stats.batches, stats.batch_largest()), (expected, BATCH_MAX));
    }

    #[test]
    fn the_longest_turn_keeps_its_time() {
        let mut stats = Stats::default();
        for (start, span) in [(10, 5), (20, 90), (200, 90), (300, 7)] {
            stats.turned(Instant::from_nanos(start), Nanos::new(span));
        }
        assert_eq!((stats.turn_longest, stats.turn_longest_at), (Nanos::new(90), Instant::from_nanos(20)));
    }
}
