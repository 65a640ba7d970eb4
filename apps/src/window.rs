//! The messages of one connection that wait for their reply.

use std::collections::VecDeque;

use crate::load::Sent;

/// In flight on one connection, oldest first: replies come in the order of the requests.
#[derive(Debug)]
pub struct Window {
    flights: VecDeque<Sent>,
    depth: usize,
    next: u64,
}

impl Window {
    /// Room for `depth` messages, allocated here and never again.
    pub fn new(depth: u32) -> Self {
        let depth = depth as usize;
        Self { flights: VecDeque::with_capacity(depth), depth, next: 0 }
    }

    /// Whether another message may be sent.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.flights.len() < self.depth
    }

    /// The sequence of the next message on this connection.
    #[inline]
    pub fn next_sequence(&self) -> u64 {
        self.next
    }

    /// Notes a sent message.
    ///
    /// # Panics
    /// Without room: the caller asked [`Window::has_room`].
    #[inline]
    pub fn push(&mut self, sent: Sent) {
        assert!(self.has_room(), "a message was sent beyond the window");
        self.flights.push_back(sent);
        self.next += 1;
    }

    /// Takes out the oldest message, whose reply has come, with its sequence. `None` when none was waiting.
    #[inline]
    pub fn pop(&mut self) -> Option<(u64, Sent)> {
        let sequence = self.next - self.flights.len() as u64;
        Some((sequence, self.flights.pop_front()?))
    }

    /// Messages without a reply.
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spinwire_core::time::Instant;

    fn sent(at: u64) -> Sent {
        Sent { planned: Instant::from_nanos(at), at: Instant::from_nanos(at), measured: true }
    }

    #[test]
    fn each_message_is_matched_once_and_in_order() {
        let mut window = Window::new(2);
        for round in 0..100 {
            assert_eq!(window.next_sequence(), 2 * round);
            window.push(sent(2 * round));
            window.push(sent(2 * round + 1));
            assert!(!window.has_room());
            assert_eq!(window.pop(), Some((2 * round, sent(2 * round))));
            assert_eq!(window.pop(), Some((2 * round + 1, sent(2 * round + 1))));
            assert_eq!(window.pop(), None, "a reply nobody asked for");
        }
    }

    #[test]
    fn it_never_grows() {
        let mut window = Window::new(3);
        let before = window.flights.capacity();
        for n in 0..1_000 {
            window.push(sent(n));
            window.pop();
        }
        assert_eq!(window.flights.capacity(), before);
    }
}
