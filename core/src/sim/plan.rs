//! What an application is to do, and what it and the others have done.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::vec::Vec;

use super::operations::Operations;
use crate::cm::reason::CloseReport;
use crate::id::{ConnId, EndpointId};

/// What every application on the net has sent: by node and connection, in order.
#[derive(Clone, Debug, Default)]
pub struct Book(Rc<RefCell<Pages>>);

#[derive(Debug, Default)]
struct Pages {
    sent: BTreeMap<(usize, u64), Sent>,
    counted: BTreeMap<usize, Counted>,
    areas: usize,
}

/// What all applications have counted up, by the machine whose word it is.
#[derive(Debug, Default)]
struct Counted {
    asked: u64,
    told: BTreeSet<u64>,
}

type Sent = VecDeque<Vec<u8>>;

impl Book {
    /// `node` sends `bytes` on `conn`.
    pub fn note(&self, node: usize, conn: ConnId, bytes: &[u8]) {
        self.0.borrow_mut().sent.entry((node, conn.to_bits())).or_default().push_back(bytes.to_vec());
    }

    /// The oldest message sent from there that has not been asked for; `None` when there is none.
    pub fn next(&self, from: (usize, u64)) -> Option<Vec<u8>> {
        self.0.borrow_mut().sent.get_mut(&from)?.pop_front()
    }

    /// Messages sent from there that have not been asked for.
    pub fn left(&self, from: (usize, u64)) -> usize {
        self.0.borrow().sent.get(&from).map_or(0, VecDeque::len)
    }

    /// The next area that a connection may have for itself.
    pub(super) fn area(&self) -> usize {
        let pages = &mut *self.0.borrow_mut();
        pages.areas += 1;
        pages.areas - 1
    }

    /// Somebody counts the word of `node` up by one.
    pub(super) fn counts(&self, node: usize) {
        self.0.borrow_mut().counted.entry(node).or_default().asked += 1;
    }

    /// Somebody was told what the word of `node` was before that.
    ///
    /// # Panics
    /// Somebody else was told the same.
    pub(super) fn counted(&self, node: usize, number: u64) {
        let is_new = self.0.borrow_mut().counted.entry(node).or_default().told.insert(number);
        assert!(is_new, "two were told that the word of node {node} was {number}");
    }

    /// Whether the word of `node` can be `number` at the end: at least as many as were told have counted, and at most as
    /// many as asked.
    pub(super) fn can_be(&self, node: usize, number: u64) -> bool {
        let pages = self.0.borrow();
        let (least, most) = pages.counted.get(&node).map_or((0, 0), |all| (all.told.len() as u64, all.asked));
        (least..=most).contains(&number)
    }
}

/// How a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// In the buffer it came in.
    InPlace,
    /// As a message of its own.
    Copy,
    /// Either.
    Mixed,
}

/// What an application does on each connection.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Messages to send on each connection.
    pub count: u32,
    /// Of a thousand, how many ask for an answer; the others are one-way.
    pub requests: u32,
    /// Requests that may wait for their answers.
    pub window: u32,
    /// Longest message in bytes; all lengths down to 0 are used unless `fixed`.
    pub bytes_max: u32,
    /// How it answers requests.
    pub style: Style,
    /// Close when this many messages have been sent and every answer is there.
    pub close_when_done: bool,
    /// Close straight after the last send, in the same callback.
    pub close_at_once: bool,
    /// Of a thousand messages that arrive, how many make it close.
    pub closes: u32,
    /// Of a thousand requests, how many it refuses.
    pub refuses: u32,
    /// One-sided operations to ask for on each connection.
    pub operations: u32,
    /// Of a thousand of these, how many reach beyond what is exposed.
    pub trespasses: u32,
}

impl Plan {
    /// Sends nothing of its own; answers in place.
    pub const SILENT: Plan = Plan {
        count: 0,
        requests: 0,
        window: 0,
        bytes_max: 1,
        style: Style::InPlace,
        close_when_done: false,
        close_at_once: false,
        closes: 0,
        refuses: 0,
        operations: 0,
        trespasses: 0,
    };
}

impl Default for Plan {
    /// Twenty requests, one at a time.
    fn default() -> Self {
        Self { count: 20, requests: 1_000, window: 1, bytes_max: 64, ..Self::SILENT }
    }
}

/// One connection, as the application sees it.
#[derive(Debug, Default)]
pub struct View {
    /// Where it connects to; `None` for one that was accepted.
    pub endpoint: Option<EndpointId>,
    /// on_open came.
    pub opened: bool,
    /// on_close came, with this.
    pub closed: Option<CloseReport>,
    /// The application closed it.
    pub close_asked: bool,
    /// Messages sent, answers not counted.
    pub sent: u32,
    /// Of these, how many want an answer.
    pub asked: u32,
    /// Answers that came.
    pub answered: u32,
    /// Messages that came.
    pub received: u64,
    /// WouldBlock was seen and on_writable has not come.
    pub blocked: bool,
    /// Answers (by copy) that found the queue full.
    pub owed: VecDeque<Vec<u8>>,
    /// One-sided operations.
    pub operations: Operations,
}
