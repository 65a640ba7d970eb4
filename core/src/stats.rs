//! Counters of one engine. Plain numbers: they belong to one core and are copied out on request.

use crate::time::Nanos;

/// What an engine has done since it started. Every field only grows, but for the two maxima.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Turns of the loop.
    pub turns: u64,
    /// Turns that found nothing to do.
    pub turns_empty: u64,
    /// Longest time from the start of one turn to the start of the next that followed work.
    pub turn_longest: Nanos,
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
    /// Receives posted.
    pub receives_posted: u64,
    /// Largest batch of completions one poll brought.
    pub batch_largest: u64,
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
