//! What the machine allows: for round trips a cache line each way, for streams a memcpy in and a memcpy out.

use spinwire_benches::limits::BARE;

use crate::peer::{Answer, Ask, Failure, Job, Peer, Trips};
use crate::sys::{Board, CHUNK, Receiver, Sender};

/// The limit. No message has less than a line, so for round trips it is the same for all.
pub const PEER: Peer = Peer { name: BARE, answer, ask };

fn answer(job: &Job) -> Result<Box<dyn Answer>, Failure> {
    let receiver = Receiver::take(job.board).ok_or("there is a receiver already")?;
    Ok(Box::new(Answering {
        board: job.board,
        bytes: job.bytes,
        receiver,
        out: vec![0; CHUNK],
        seen: job.board.bare.last(),
    }))
}

fn ask(job: &Job) -> Result<Box<dyn Ask>, Failure> {
    let sender = Sender::take(job.board).ok_or("there is a sender already")?;
    Ok(Box::new(Asking { board: job.board, bytes: job.bytes, sender, message: vec![7; CHUNK] }))
}

struct Asking {
    board: &'static Board,
    bytes: usize,
    sender: Sender,
    message: Vec<u8>,
}

struct Answering {
    board: &'static Board,
    bytes: usize,
    receiver: Receiver,
    out: Vec<u8>,
    /// The number answered last.
    seen: u64,
}

impl Ask for Asking {
    fn trips(&mut self, trips: &mut Trips) {
        let (from, times) = (self.board.bare.last(), trips.left());
        self.board.bare.ping(from, times, || _ = trips.came());
    }

    fn stream(&mut self, times: u64, target: u64) {
        for part in chunks(times, self.bytes) {
            self.sender.send(&self.message[..part]);
        }
        while self.board.taken.get() != target {}
    }
}

impl Answer for Answering {
    fn echo(&mut self, window: u64) {
        while self.board.over.get() != window {
            self.board.bare.serve_what_came(&mut self.seen);
        }
    }

    fn drain(&mut self, times: u64) {
        for part in chunks(times, self.bytes) {
            self.receiver.receive(&mut self.out[..part]);
            std::hint::black_box(&mut self.out);
        }
    }
}

/// So many messages of so many bytes, one behind the other, in chunks.
fn chunks(times: u64, bytes: usize) -> impl Iterator<Item = usize> {
    let all = times as usize * bytes;
    (0..all.div_ceil(CHUNK)).map(move |chunk| (all - chunk * CHUNK).min(CHUNK))
}
