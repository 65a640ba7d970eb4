//! iceoryx2: publish and subscribe, polled, without its events. Messages are written once, into shared memory, and read there.

use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;

use crate::peer::{Answer, Ask, Expected, Failure, Job, Numbered, Peer, Trips};
use crate::sys::Board;

/// Slices of bytes, a service each way.
pub const PEER: Peer = Peer { name: "iceoryx2", answer, ask };

fn answer(job: &Job) -> Result<Box<dyn Answer>, Failure> {
    let ends = Ends::new(job, "back", "there")?;
    Ok(Box::new(Answering { ends, board: job.board, expected: Expected::default() }))
}

fn ask(job: &Job) -> Result<Box<dyn Ask>, Failure> {
    let ends = Ends::new(job, "there", "back")?;
    Ok(Box::new(Asking { ends, board: job.board, message: Numbered::new(job.bytes) }))
}

struct Ends {
    out: Publisher<ipc::Service, [u8], ()>,
    back: Subscriber<ipc::Service, [u8], ()>,
    _node: Node<ipc::Service>,
}

impl Ends {
    fn new(job: &Job, out: &str, back: &str) -> Result<Self, Failure> {
        set_log_level(LogLevel::Fatal);
        let node = NodeBuilder::new().signal_handling_mode(SignalHandlingMode::Disabled).create::<ipc::Service>()?;
        let service = |way: &str| -> Result<_, Failure> {
            let name = format!("spinwire-ipc/{}/{way}", job.tag);
            Ok(node
                .service_builder(&name.as_str().try_into()?)
                .publish_subscribe::<[u8]>()
                .enable_safe_overflow(false)
                .subscriber_max_buffer_size(job.depth as usize)
                .max_publishers(1)
                .max_subscribers(1)
                .open_or_create()?)
        };
        let out = service(out)?
            .publisher_builder()
            .initial_max_slice_len(job.bytes)
            .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
            .create()?;
        let back = service(back)?.subscriber_builder().create()?;
        Ok(Ends { out, back, _node: node })
    }

    fn send(&self, message: &[u8]) {
        let sample = self.out.loan_slice_uninit(message.len()).expect("samples come back");
        sample.write_from_slice(message).send().expect("the other side is there");
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
        loop {
            ends.send(message.next());
            let reply = loop {
                if let Some(reply) = ends.back.receive().expect("the other side is there") {
                    break reply;
                }
            };
            message.check(&reply);
            if !trips.came() {
                return;
            }
        }
    }

    fn stream(&mut self, times: u64, target: u64) {
        for _ in 0..times {
            self.ends.send(self.message.next());
        }
        while self.board.taken.get() != target {}
    }
}

struct Answering {
    ends: Ends,
    board: &'static Board,
    expected: Expected,
}

impl Answer for Answering {
    fn echo(&mut self, window: u64) {
        while self.board.over.get() != window {
            if let Some(message) = self.ends.back.receive().expect("the other side is there") {
                self.ends.send(&message);
            }
        }
    }

    fn drain(&mut self, times: u64) {
        let mut left = times;
        while left > 0 {
            if let Some(message) = self.ends.back.receive().expect("the other side is there") {
                self.expected.look(&message);
                left -= 1;
            }
        }
    }
}
