//! Both budgets of both sides together: send queue slots and credits, over ten million random operations, with windows from
//! the smallest on and every counter started near its wrap.
#![cfg(not(loom))]

use std::collections::VecDeque;

use spinwire_core::config::Sizing;
use spinwire_core::conn::{Credits, Imm, MessageKind, Others, SendQueue};
use spinwire_core::fabric::SendWr;
use spinwire_core::id::{ConnId, WorkId, WorkKind};
use spinwire_core::pool::{Direction, Pool, PoolSlot};
use spinwire_core::sim::Random;

const OPERATIONS: u64 = 10_000_000;
/// Rounds in which nothing happens before somebody is taken to wait for ever.
const STILL_MAX: u32 = 5_000;
/// And when both are done: they are to fall silent.
const SILENT_MIN: u32 = 200;

/// A message on its way: what rides in it, and its number among the data.
#[derive(Clone, Copy, Debug)]
struct Message {
    imm: Imm,
    number: u64,
}

/// One side, as the engine drives it.
struct Side<'m> {
    conn: ConnId,
    sizing: Sizing,
    credits: Credits,
    queue: SendQueue,
    ring: Vec<SendWr>,
    pool: Pool<'m>,
    /// What the device has and has not completed, oldest first: work id, and whether it is signalled.
    device: VecDeque<(WorkId, bool)>,
    /// Messages that are here and not read yet.
    inbox: VecDeque<Message>,
    /// Receives that are used and not posted again.
    used: u32,
    to_send: u64,
    queued: u64,
    sent: u64,
    received: u64,
    /// For the books: credits in messages that are on their way from here.
    gifts: u32,
    owed: u32,
}

impl Side<'_> {
    /// The application sends as much as its slots allow.
    fn fill(&mut self, most: u64) -> u64 {
        let mut pushed = 0;
        while pushed < most && self.queued < self.to_send && self.queue.app() < self.sizing.app_slots {
            let buf = self.pool.take().expect("a buffer for each slot");
            let buf = Some(self.pool.lend(buf, WorkId::new(self.conn, WorkKind::Send, 0)));
            let imm = Some(Imm { credits: 0, kind: MessageKind::Data }.to_bits());
            let goes = self.queue.waiting() == 0 && self.credits.spend(MessageKind::Data);
            self.queue.push(&mut self.ring, SendWr { buf, imm, len: 1, ..SendWr::EMPTY });
            if let Some(wr) = self.queue.next_waiting(&mut self.ring).filter(|_| goes) {
                let (seq, signaled) = (self.queue.clear_seq(), self.queue.clear(wr.signaled));
                (wr.wr_id, wr.signaled) = (WorkId::new(self.conn, WorkKind::Send, seq), signaled);
            }
            (self.queued, pushed) = (self.queued + 1, pushed + 1);
        }
        pushed
    }

    /// Everything that both budgets allow goes to the device, and from there over the wire.
    fn flush(&mut self, wire: &mut VecDeque<Message>) -> u64 {
        let room = self.queue.control() < self.sizing.control_slots;
        let data_goes = self.queue.ready() > 0 || (self.queue.waiting() > 0 && self.credits.for_data() > 0);
        let posted = self.sizing.recv_posted - self.used;
        if !data_goes && room && self.credits.update_is_due(posted) && self.credits.for_control() {
            self.credits.note_update(posted);
            let imm = Some(Imm { credits: 0, kind: MessageKind::Credit }.to_bits());
            self.queue.push_front(&mut self.ring, SendWr { imm, ..SendWr::EMPTY });
        }
        while let Some(wr) = self.queue.next_waiting(&mut self.ring) {
            let kind = wr.imm.and_then(Imm::from_bits).unwrap().kind;
            if !self.credits.spend(kind) {
                break;
            }
            let (seq, signaled) = (self.queue.clear_seq(), self.queue.clear(wr.signaled));
            (wr.wr_id, wr.signaled) = (WorkId::new(self.conn, WorkKind::Send, seq), signaled);
        }
        let ready = self.queue.ready();
        let (first, second) = self.queue.chain(&mut self.ring);
        for wr in first.iter().chain(second.iter()) {
            let kind = wr.imm.and_then(Imm::from_bits).unwrap().kind;
            // The first of a chain carries the credits.
            let credits = self.credits.give();
            self.owed -= u32::from(credits);
            self.gifts += u32::from(credits);
            self.sent += u64::from(kind == MessageKind::Data);
            self.device.push_back((wr.wr_id, wr.signaled));
            wire.push_back(Message { imm: Imm { credits, kind }, number: self.sent });
        }
        assert!(self.device.len() <= self.sizing.send_slots as usize, "a post that a card answers with ENOMEM");
        self.queue.advance(ready);
        u64::from(ready)
    }

    /// The device completes some sends, in order; a signalled one retires all before it.
    fn complete(&mut self, most: usize) -> u64 {
        let mut retired = 0;
        for _ in 0..most.min(self.device.len()) {
            let place = self.device.iter().position(|(_, signaled)| *signaled);
            let Some(place) = place else { break };
            // Only 20 bits of the sequence number travel in the work id.
            let count = self.queue.retired_by(self.device[place].0.index()).expect("it is in flight");
            assert_eq!(count as usize, place + 1);
            self.device.drain(..=place);
            let (pool, work) = (&mut self.pool, WorkId::new(self.conn, WorkKind::Send, 0));
            let mut sent = |lease: spinwire_core::pool::Lease| {
                let buf = pool.reclaim(lease.index(), work).expect("it was lent once");
                pool.release(buf);
            };
            self.queue.retire(&mut self.ring, count, |done| {
                let (all, buffers) = (done.len() as u32, done.iter_mut().filter_map(|wr| wr.buf.take()));
                let app = buffers.map(&mut sent).count() as u32;
                Others { app, control: all - app }
            });
            retired += u64::from(count);
        }
        retired
    }

    /// Reads some messages and, unless `lazy`, posts their receives again.
    fn receive(&mut self, most: usize, lazy: bool, far: &mut u32) -> u64 {
        let mut read = 0;
        for Message { imm, number } in self.inbox.drain(..most.min(self.inbox.len())) {
            self.credits.gain(imm.credits).expect("never more than the window");
            *far -= u32::from(imm.credits);
            if imm.kind == MessageKind::Data {
                self.received += 1;
                assert_eq!(number, self.received, "lost, doubled or out of order");
            } else {
                self.credits.used_by_control();
            }
            self.used += 1;
            read += 1;
        }
        if !lazy && self.used >= self.sizing.recv_batch {
            self.owed += self.used;
            self.credits.owe(std::mem::take(&mut self.used));
        }
        read
    }

    fn is_quiet(&self) -> bool {
        self.sent == self.to_send && self.inbox.is_empty() && self.used < self.sizing.recv_batch
    }
}

/// Each receive of `to` is in one place: known to `from` as a credit, under way to it as a gift, owed, used, or about to be
/// used by a message that is ready or on its way.
fn check_books(from: &Side<'_>, to: &Side<'_>) {
    let in_hand = from.credits.for_data() + u32::from(from.credits.for_goodbye());
    let sum = in_hand + from.queue.ready() + to.gifts + to.owed + to.used + to.inbox.len() as u32;
    assert_eq!(sum, to.sizing.recv_posted, "a credit was lost or counted twice");
    assert!(from.queue.occupied() <= from.sizing.send_slots && from.queue.control() <= from.sizing.control_slots);
    let free = from.pool.free() + from.queue.app();
    assert_eq!(free, from.pool.total(), "each unretired send has its buffer, and no other");
}

#[test]
fn two_budgets_never_overrun_never_deadlock_and_wrap() {
    let (mut done, mut seed, mut wrapped) = (0u64, 0u64, 0u32);
    while done < OPERATIONS {
        let mut random = Random(seed);
        let depths = [0, 1].map(|_| random.pick(&[1, 1, 2, 3, 5, 16, 128]));
        let goals = [0, 1].map(|_| random.pick(&[0, 10, 4_000, 100_000]));
        let starts = [0, 1].map(|_| u32::MAX - random.below(3_000) as u32);
        // Its completions are seen late, or at once.
        let late = random.pick(&[1, 4, 64]);
        let mut memory = depths.map(|depth| {
            let buffers = Sizing::of(depth).send_buffers as usize;
            (vec![0u8; buffers * 8], vec![PoolSlot::default(); buffers])
        });
        let [memory_a, memory_b] = &mut memory;
        let make = |own: usize, pool| Side {
            conn: ConnId::from_bits(((1 << 48) - 1) << 16 | own as u64).unwrap(),
            sizing: Sizing::of(depths[own]),
            credits: Credits::new(Sizing::of(depths[1 - own]).recv_posted, Sizing::of(depths[own]).recv_posted_min),
            queue: SendQueue::new(0, Sizing::of(depths[own]).send_slots, starts[own]),
            ring: (0..Sizing::of(depths[own]).send_slots).map(|_| SendWr::EMPTY).collect(),
            pool,
            device: VecDeque::new(),
            inbox: VecDeque::new(),
            used: 0,
            to_send: goals[own],
            queued: 0,
            sent: 0,
            received: 0,
            gifts: 0,
            owed: 0,
        };
        let pool_a = Pool::new(Direction::Send, &mut memory_a.0, 0, (8, 8), &mut memory_a.1).unwrap();
        let pool_b = Pool::new(Direction::Send, &mut memory_b.0, 0, (8, 8), &mut memory_b.1).unwrap();
        let [mut a, mut b] = [make(0, pool_a), make(1, pool_b)];
        [&mut a, &mut b].into_iter().for_each(|side| side.queue.signal_every(side.sizing.signal_every));
        let mut still = 0;
        while still < if a.is_quiet() && b.is_quiet() { SILENT_MIN } else { STILL_MAX } {
            let (me, far) = if random.below(2) == 0 { (&mut a, &mut b) } else { (&mut b, &mut a) };
            let choice = random.next();
            let burst = 1 + (choice >> 8 & 31);
            let mut happened = me.receive(burst as usize, choice.is_multiple_of(3), &mut far.gifts);
            happened += if (choice >> 16).is_multiple_of(late) { me.complete(burst as usize) } else { 0 };
            happened += me.fill(burst);
            happened += me.flush(&mut far.inbox);
            check_books(me, far);
            check_books(far, me);
            still = if happened == 0 { still + 1 } else { 0 };
            done += happened;
        }
        for side in [&a, &b] {
            assert!(side.is_quiet(), "seed {seed}, depths {depths:?}: somebody waits for ever: {:?}", side.credits);
        }
        assert_eq!([b.received, a.received], goals, "seed {seed}");
        wrapped += u32::from(goals[0] > 3_000) + u32::from(goals[1] > 3_000);
        seed += 1;
    }
    assert!(wrapped > 20, "{wrapped} queues passed the end of their sequence numbers");
}
