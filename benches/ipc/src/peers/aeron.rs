//! Aeron over its IPC channel: the C client and the C media driver.
//!
//! The driver is in the answering process, and it and both clients' conductors work when they are told to: between
//! windows, and while the receiver waits long for a message. So they take no CPU from either side, as they do not where
//! they have CPUs of their own. A stream's window holds what the driver grants at once.

use std::ffi::{CStr, CString};

use rusteron_client::{Aeron, AeronContext, AeronExclusivePublication, AeronOfferError, AeronSubscription, Handlers};
use rusteron_media_driver::bindings::aeron_threading_mode_t;
use rusteron_media_driver::{AeronDriver, AeronDriverContext};

use crate::peer::{Answer, Ask, Expected, Failure, Job, Numbered, Peer, Trips, patiently};
use crate::sys::Board;

/// Exclusive publications, `offer`, and `poll`.
pub const PEER: Peer = Peer { name: "aeron_ipc", answer, ask };

/// What was left behind by a run that was killed is cleared away by the next.
const FOLDER: &CStr = c"/dev/shm/spinwire-ipc-aeron";
const CHANNEL: &CStr = c"aeron:ipc?term-length=64m";
const THERE: i32 = 1001;
const BACK: i32 = 1002;
/// The longest frame there is, so that long messages are in as few pieces as can be.
const MTU: usize = 65_504;
const FRAME_HEADER: usize = 32;
/// Less than the half of a term, which is what the driver grants.
const GRANTED: usize = 24 << 20;
const TIMEOUT_S: u64 = 120;
/// Fragments of one poll.
const POLL: usize = 64;
/// Empty polls after which the receiver lets the driver work: it waits for somebody who may wait for a grant.
const LONG: u32 = 10_000;

fn answer(job: &Job) -> Result<Box<dyn Answer>, Failure> {
    let context = AeronDriverContext::new()?;
    context.set_dir(FOLDER)?;
    context.set_dir_delete_on_start(true)?;
    context.set_dir_delete_on_shutdown(true)?;
    context.set_threading_mode(aeron_threading_mode_t::AERON_THREADING_MODE_INVOKER)?;
    context.set_term_buffer_sparse_file(false)?;
    context.set_ipc_mtu_length(MTU)?;
    context.set_client_liveness_timeout_ns(TIMEOUT_S * 1_000_000_000)?;
    context.set_publication_unblock_timeout_ns(2 * TIMEOUT_S * 1_000_000_000)?;
    let driver = AeronDriver::new(&context)?;
    driver.start(true)?;
    let ends = Ends::new(BACK, THERE, || Ok(_ = driver.main_do_work()?))?;
    let message = Vec::with_capacity(job.bytes);
    Ok(Box::new(Answering {
        ends,
        _context: context,
        driver,
        board: job.board,
        bytes: job.bytes,
        message,
        expected: Expected::default(),
    }))
}

fn ask(job: &Job) -> Result<Box<dyn Ask>, Failure> {
    let ends = Ends::new(THERE, BACK, || Ok(()))?;
    patiently("the streams", || ends.are_up())?;
    Ok(Box::new(Asking { ends, board: job.board, message: Numbered::new(job.bytes) }))
}

/// A client with a stream each way.
struct Ends {
    // Before the client that they belong to.
    out: AeronExclusivePublication,
    back: AeronSubscription,
    aeron: Aeron,
    _context: AeronContext,
}

impl Ends {
    fn new(out: i32, back: i32, mut driver: impl FnMut() -> Result<(), Failure>) -> Result<Self, Failure> {
        let context = AeronContext::new()?;
        context.set_dir(&CString::from(FOLDER))?;
        context.set_use_conductor_agent_invoker(true)?;
        context.set_pre_touch_mapped_memory(true)?;
        context.set_driver_timeout_ms(TIMEOUT_S * 1_000)?;
        let aeron = Aeron::new(&context)?;
        aeron.start()?;
        let asked = aeron.async_add_exclusive_publication(CHANNEL, out)?;
        let out = patiently("the publication", || {
            driver()?;
            aeron.main_do_work()?;
            Ok(asked.poll()?)
        })?;
        let asked = aeron.async_add_subscription(CHANNEL, back, Handlers::NONE, Handlers::NONE)?;
        let back = patiently("the subscription", || {
            driver()?;
            aeron.main_do_work()?;
            Ok(asked.poll()?)
        })?;
        Ok(Ends { out, back, aeron, _context: context })
    }

    fn are_up(&self) -> Result<Option<()>, Failure> {
        self.aeron.main_do_work()?;
        Ok((self.out.is_connected() && self.back.image_count()? > 0).then_some(()))
    }

    fn offer(&self, message: &[u8]) {
        loop {
            match self.out.offer(message) {
                Ok(_) => return,
                Err(AeronOfferError::BackPressured | AeronOfferError::AdminAction) => std::hint::spin_loop(),
                Err(error) => panic!("the stream broke: {error}"),
            }
        }
    }
}

struct Asking {
    ends: Ends,
    board: &'static Board,
    message: Numbered,
}

impl Ask for Asking {
    fn trips(&mut self, trips: &mut Trips) {
        let Asking { ends, message, .. } = self;
        ends.offer(message.next());
        while !trips.done() {
            let come = |bytes: &[u8], _| {
                message.check(bytes);
                if trips.came() {
                    ends.offer(message.next());
                }
            };
            ends.back.poll_fn(come, POLL).expect("the image is there");
        }
    }

    fn stream(&mut self, times: u64, target: u64) {
        for _ in 0..times {
            self.ends.offer(self.message.next());
        }
        while self.board.taken.get() != target {}
    }

    fn stream_max(&self) -> u64 {
        let bytes = self.message.bytes.len();
        let frames = bytes.div_ceil(MTU - FRAME_HEADER);
        (GRANTED / (bytes + frames * FRAME_HEADER).next_multiple_of(FRAME_HEADER)) as u64
    }

    fn tick(&mut self) {
        self.ends.aeron.main_do_work().expect("the driver is there");
    }
}

struct Answering {
    ends: Ends,
    driver: AeronDriver,
    _context: AeronDriverContext,
    board: &'static Board,
    bytes: usize,
    /// A message of several fragments, as far as it has come.
    message: Vec<u8>,
    expected: Expected,
}

impl Answer for Answering {
    fn accept(&mut self) -> Result<(), Failure> {
        patiently("the streams", || {
            self.driver.main_do_work()?;
            self.ends.are_up()
        })
    }

    fn echo(&mut self, window: u64) {
        let ends = &self.ends;
        while self.board.over.get() != window {
            ends.back.poll_fn(|bytes: &[u8], _| ends.offer(bytes), POLL).expect("the image is there");
        }
    }

    fn drain(&mut self, times: u64) {
        let Answering { ends, driver, bytes, message, expected, .. } = self;
        let (mut left, mut empty) = (times, 0);
        while left > 0 {
            let come = |fragment: &[u8], _| {
                if fragment.len() == *bytes {
                    expected.look(fragment);
                } else {
                    message.extend_from_slice(fragment);
                    if message.len() < *bytes {
                        return;
                    }
                    expected.look(message);
                    message.clear();
                }
                left -= 1;
            };
            if ends.back.poll_fn(come, POLL).expect("the image is there") > 0 {
                empty = 0;
                continue;
            }
            empty += 1;
            if empty % LONG == 0 {
                driver.main_do_work().expect("the driver works");
            }
        }
    }

    /// Grants, and what was read is cleared.
    fn tick(&mut self) {
        for _ in 0..DUTIES {
            self.driver.main_do_work().expect("the driver works");
        }
        self.ends.aeron.main_do_work().expect("the driver is there");
    }
}

/// Times the driver works between windows: it clears a piece of a term each time.
const DUTIES: usize = 16;
