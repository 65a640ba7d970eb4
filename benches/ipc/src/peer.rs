//! What a contestant has to bring: one side that asks, and one that answers in the other process.

use std::error::Error;
use std::time::{Duration, Instant};

use spinwire_benches::window::ticks;

use crate::sys::Board;

/// Why something cannot take part, in words.
pub type Failure = Box<dyn Error>;

/// What is exchanged in a contest.
#[derive(Clone, Debug)]
pub struct Job {
    /// Bytes of each message, at least eight: they begin with its number.
    pub bytes: usize,
    /// Messages that may be on their way, where that can be chosen.
    pub depth: u32,
    /// A name that nobody else on this machine uses.
    pub tag: String,
    /// The CPU of the side that gets this.
    pub cpu: u32,
    /// What both sides see.
    pub board: &'static Board,
}

/// A contestant that runs in both of our processes.
pub struct Peer {
    /// As the table shows it.
    pub name: &'static str,
    /// Listens, or makes what the other side opens.
    pub answer: fn(&Job) -> Result<Box<dyn Answer>, Failure>,
    /// Connects, while the other side accepts.
    pub ask: fn(&Job) -> Result<Box<dyn Ask>, Failure>,
}

/// The side that asks, or sends.
pub trait Ask {
    /// Sends numbered messages one at a time, waits for each to come back, and stamps each that came.
    fn trips(&mut self, trips: &mut Trips);

    /// Sends so many messages and goes on until `board.taken` is `target`.
    fn stream(&mut self, times: u64, target: u64);

    /// Messages it can send in a stream without help from outside.
    fn stream_max(&self) -> u64 {
        u64::MAX
    }

    /// Between windows, at least every few seconds.
    fn tick(&mut self) {}
}

/// The side that answers, or receives.
pub trait Answer {
    /// Waits until the asking side is connected.
    ///
    /// # Errors
    /// It did not connect within [`PATIENCE`].
    fn accept(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    /// Sends every message back as it came, until `board.over` is `window`.
    fn echo(&mut self, window: u64);

    /// Takes so many messages, and looks at every line of each.
    fn drain(&mut self, times: u64);

    /// Between windows, at least every few seconds.
    fn tick(&mut self) {}
}

/// How long setting up may take.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Does `step` until it gives something.
///
/// # Errors
/// That of the step, or that nothing came within [`PATIENCE`].
pub fn patiently<T>(what: &str, mut step: impl FnMut() -> Result<Option<T>, Failure>) -> Result<T, Failure> {
    let begun = Instant::now();
    loop {
        if let Some(got) = step()? {
            return Ok(got);
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("{what}: nothing came within {PATIENCE:?}").into());
        }
    }
}

/// The round trips of one window.
pub struct Trips {
    left: u64,
    last: u64,
    /// Ticks of each.
    pub ticks: Vec<u32>,
}

impl Trips {
    /// So many. Memory for them is taken here.
    pub fn new(times: u64) -> Self {
        Trips { left: times, last: ticks(), ticks: Vec::with_capacity(times as usize) }
    }

    /// How many are to come back yet.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Before the first.
    pub fn start(&mut self) {
        self.last = ticks();
    }

    /// A message came back; whether another is to go.
    #[inline]
    pub fn came(&mut self) -> bool {
        let now = ticks();
        self.ticks.push((now - self.last) as u32);
        self.last = now;
        self.left -= 1;
        self.left > 0
    }

    /// Whether all came back.
    #[inline]
    pub fn done(&self) -> bool {
        self.left == 0
    }
}

/// A message with its number in front. The other bytes stay.
pub struct Numbered {
    /// The message.
    pub bytes: Vec<u8>,
    number: u64,
}

impl Numbered {
    /// Of this length.
    pub fn new(bytes: usize) -> Self {
        Numbered { bytes: (0..bytes).map(|at| at as u8).collect(), number: 0 }
    }

    /// The next one.
    #[inline]
    pub fn next(&mut self) -> &[u8] {
        self.number += 1;
        self.bytes[..8].copy_from_slice(&self.number.to_le_bytes());
        &self.bytes
    }

    /// That it is the one sent last.
    #[inline]
    pub fn check(&self, message: &[u8]) {
        assert!(message.len() == self.bytes.len() && number_of(message) == self.number, "another message came back");
    }
}

/// Messages in the order in which they have to come.
#[derive(Default)]
pub struct Expected(u64);

impl Expected {
    /// Looks at the next message: that it is the next, and at every line of it, as whoever uses it would.
    #[inline]
    pub fn look(&mut self, message: &[u8]) {
        self.0 += 1;
        assert_eq!(number_of(message), self.0, "a message was lost, doubled or reordered");
        let seen = message.chunks(64).fold(0, |seen, line| seen ^ line[0]);
        std::hint::black_box(seen);
    }
}

#[inline]
fn number_of(message: &[u8]) -> u64 {
    u64::from_le_bytes(message[..8].try_into().expect("messages have at least eight bytes"))
}
