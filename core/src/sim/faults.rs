//! How often what goes wrong, and how long things take.

/// Probabilities in thousandths, spans in nanoseconds of virtual time.
#[derive(Clone, Debug)]
pub struct Faults {
    /// Connection events that come up to 200 ms late.
    pub events_late: u32,
    /// Connection events that never come: DISCONNECTED and TIMEWAIT_EXIT among them.
    pub events_missing: u32,
    /// Connection events that come twice.
    pub events_doubled: u32,
    /// Actions that fail on the spot.
    pub actions_fail: u32,
    /// Chains of which only a part is posted.
    pub posts_fail: u32,
    /// Queue pairs that go to the error state and never flush what was posted.
    pub flushes_missing: u32,
    /// Queue pairs that flush what is still posted when they are destroyed, as on rxe.
    pub flushes_left: u32,
    /// Completions that come a second time with the number of another queue pair, and wrong.
    pub completions_forged: u32,
    /// Completions of sends with garbage in the fields that mean nothing.
    pub completions_garbage: u32,
    /// Completions that can be polled only later than events of what came after them.
    pub completions_late: u32,
    /// Completions that change places with those of other connections.
    pub completions_reordered: u32,
    /// Messages that are lost on the wire and sent again, until the sender gives up.
    pub messages_lost: u32,
    /// Messages that are sent again because the receiver says it is not ready, until the sender gives up.
    pub receivers_not_ready: u32,
    /// Requests, answers and refusals whose private data was changed on the way.
    pub private_data_forged: u32,
    /// Completions of a destroyed queue pair stay in the queue, as on rxe.
    pub stale_completions: bool,
    /// Events of a destroyed id are still delivered, as by a control thread that had fetched them.
    pub stale_events: bool,
    /// Events are fetched by a thread of their own: the library has done its part, and messages can arrive, before the
    /// engine sees them.
    pub fetched_early: bool,
    /// One way over the wire, at most.
    pub latency: u64,
    /// From a message's arrival to the sender's completion, at most.
    pub ack_latency: u64,
}

impl Default for Faults {
    /// Nothing goes wrong, and both directions take up to 5 us.
    fn default() -> Self {
        Self {
            events_late: 0,
            events_missing: 0,
            events_doubled: 0,
            actions_fail: 0,
            posts_fail: 0,
            flushes_missing: 0,
            flushes_left: 0,
            completions_forged: 0,
            completions_garbage: 0,
            completions_late: 0,
            completions_reordered: 0,
            messages_lost: 0,
            receivers_not_ready: 0,
            private_data_forged: 0,
            stale_completions: true,
            stale_events: false,
            fetched_early: false,
            latency: 5_000,
            ack_latency: 5_000,
        }
    }
}
