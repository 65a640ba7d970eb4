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
    /// Completions of a destroyed queue pair stay in the queue, as on rxe.
    pub stale_completions: bool,
    /// Events of a destroyed id are still delivered, as by a control thread that had fetched them.
    pub stale_events: bool,
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
            stale_completions: true,
            stale_events: false,
            latency: 5_000,
            ack_latency: 5_000,
        }
    }
}
