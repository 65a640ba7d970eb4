//! The smallest network an engine runs over: no std, no allocator, no unsafe. Shared by the test that counts
//! allocations and by the freestanding program.
//!
//! The far side answers each message at once with one of the same length. No byte is moved: what is shown is that the
//! engine connects, sends, receives and closes with nothing but the memory it was given.

use spinwire_core::cm::event::{CmEvent, CmEventKind, PrivateData, Target};
use spinwire_core::cm::hello::Hello;
use spinwire_core::cm::reason::{CloseReason, CloseReport};
use spinwire_core::config::{Config, Mode, Retry, Timeouts};
use spinwire_core::conn::{Conn, Imm, MessageKind, Place, Slot};
use spinwire_core::fabric::{
    Action, ActionError, Batch, BufferMap, Completion, Control, Fabric, Outcome, PostError, RecvWr, SendWr, WcStatus,
};
use spinwire_core::id::{ConnId, EndpointId, RequestId, WorkId};
use spinwire_core::pool::PoolSlot;
use spinwire_core::time::{Instant, Nanos};
use spinwire_core::timer;
use spinwire_core::turn::{Answer, Cx, DirtySlot, Engine, Handler, Memory, Needs, PoolMemory};

const CONFIG: Config = Config {
    mode: Mode::Spinwire,
    depth: 4,
    message_bytes_max: 64,
    inline_bytes_max: 16,
    timeouts: Timeouts {
        resolve: Nanos::from_millis(1),
        connect: Nanos::from_millis(1),
        linger: Nanos::from_millis(1),
        drain: Nanos::from_millis(1),
    },
    retry: Retry::DEFAULT,
    keepalive: None,
    seed: 0,
};
const NEEDS: Needs = Needs::of(&CONFIG, 1);
const WINDOW: u32 = CONFIG.sizing().recv_posted;

/// Connects, has `count` messages answered, closes. Whether all went as it should.
pub fn echoes(count: u64) -> bool {
    let (mut conns, mut places) = ([const { Slot::<Conn>::EMPTY }; NEEDS.conns], [Place::default(); NEEDS.conns]);
    let mut dirty = [DirtySlot::default(); NEEDS.conns];
    let mut sends = [const { SendWr::EMPTY }; NEEDS.sends];
    let mut timers = [timer::IDLE; NEEDS.conns];
    let (mut recv_slots, mut send_slots) =
        ([PoolSlot::default(); NEEDS.recv_buffers], [PoolSlot::default(); NEEDS.send_buffers]);
    let (mut recv_bytes, mut send_bytes) = ([0; NEEDS.recv_buffers * 64], [0; NEEDS.send_buffers * 64]);
    let memory = Memory {
        conns: &mut conns,
        places: &mut places,
        dirty: &mut dirty,
        timers: &mut timers,
        sends: &mut sends,
        recv: PoolMemory { slots: &mut recv_slots, bytes: &mut recv_bytes, region_offset: 0, stride: 64 },
        send: PoolMemory { slots: &mut send_slots, bytes: &mut send_bytes, region_offset: 4_096, stride: 64 },
    };
    let (control, fabric) = (TinyControl { events: Fifo::new(), conn: None }, TinyFabric::new());
    let Ok(mut engine) = Engine::new(CONFIG, memory, control, fabric) else { return false };
    if engine.with(|cx| cx.connect(EndpointId(0))).is_err() {
        return false;
    }
    let mut app = Pinger { total: count, left: count, answered: 0, closed: None };
    let mut now = Instant::ZERO;
    // Each turn does something, but for a few at the edges.
    for _ in 0..4 * count + 100 {
        now = now + Nanos::new(100);
        engine.turn(now, &mut app);
    }
    let (recv, send) = engine.pools();
    let all_back = recv.free() == recv.total() && send.free() == send.total() && engine.audit().is_ok();
    app.answered == count && app.closed == Some(CloseReason::Local) && engine.live() == 0 && all_back
}

/// Sends a message, and for each answer the next; some as a copy, some in the buffer the answer came in.
struct Pinger {
    total: u64,
    left: u64,
    answered: u64,
    closed: Option<CloseReason>,
}

impl Handler for Pinger {
    fn on_open(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        for _ in 0..self.left.min(4) {
            self.left -= u64::from(cx.send(conn, &[7; 48]).is_ok());
        }
    }

    fn on_message(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId, message: &mut [u8]) -> Answer {
        self.answered += 1;
        if self.answered == self.total {
            cx.close(conn);
        }
        if self.left == 0 {
            return Answer::None;
        }
        self.left -= 1;
        if self.answered.is_multiple_of(3) {
            return Answer::InPlace(message.len() as u32);
        }
        self.left += u64::from(cx.send(conn, &[1; 8]).is_err());
        Answer::None
    }

    fn on_close(&mut self, _: &mut Cx<'_, '_>, _: ConnId, report: &CloseReport) {
        self.closed = Some(report.reason);
    }
}

/// A queue of fixed size; a push to a full one is a fault of the test and panics.
struct Fifo<T, const N: usize> {
    items: [Option<T>; N],
    head: usize,
    len: usize,
}

impl<T, const N: usize> Fifo<T, N> {
    fn new() -> Self {
        Self { items: [const { None }; N], head: 0, len: 0 }
    }

    fn push(&mut self, item: T) {
        assert!(self.len < N);
        self.items[(self.head + self.len) % N] = Some(item);
        self.len += 1;
    }

    fn pop(&mut self) -> Option<T> {
        let item = self.items[self.head].take()?;
        (self.head, self.len) = ((self.head + 1) % N, self.len - 1);
        Some(item)
    }
}

struct TinyControl {
    events: Fifo<CmEventKind, 4>,
    conn: Option<ConnId>,
}

impl Control for TinyControl {
    type Fabric = TinyFabric;

    fn poll_event(&mut self, _: Instant) -> Option<CmEvent> {
        let kind = self.events.pop()?;
        let hello = Hello { credits: WINDOW, message_bytes_max: 64, answers_asks: true }.encode();
        let private_data = match kind {
            CmEventKind::Established => PrivateData::from_slice(&hello).ok()?,
            _ => PrivateData::new(),
        };
        Some(CmEvent { target: Target::Conn(self.conn?), kind, status: 0, private_data, peer: None })
    }

    fn endpoints(&self) -> u32 {
        1
    }

    fn perform(&mut self, fabric: &mut TinyFabric, conn: ConnId, action: Action<'_>) -> Result<(), ActionError> {
        match action {
            Action::ResolveAddr(_) => {
                self.conn = Some(conn);
                self.events.push(CmEventKind::AddrResolved);
            }
            Action::ResolveRoute => self.events.push(CmEventKind::RouteResolved),
            Action::Connect(_) => self.events.push(CmEventKind::Established),
            Action::Disconnect => fabric.flush(),
            _ => {}
        }
        Ok(())
    }

    fn reject(&mut self, _: RequestId, _: &[u8]) {}
}

struct TinyFabric {
    recvs: Fifo<WorkId, 32>,
    recv_cq: Fifo<Completion, 64>,
    send_cq: Fifo<Completion, 64>,
    /// Receives the far side has posted again since it last said so.
    owed: u16,
    /// Receives of the engine's that it may send to.
    credits: u32,
    /// Lengths of the answers that wait for one.
    answers: Fifo<u32, 64>,
}

impl TinyFabric {
    fn new() -> Self {
        Self {
            recvs: Fifo::new(),
            recv_cq: Fifo::new(),
            send_cq: Fifo::new(),
            owed: 0,
            credits: WINDOW,
            answers: Fifo::new(),
        }
    }

    fn flush(&mut self) {
        while let Some(wr_id) = self.recvs.pop() {
            let outcome = Outcome::Failed { status: WcStatus::WR_FLUSH_ERR, vendor: 0 };
            self.recv_cq.push(Completion { wr_id, qp_num: 1, outcome });
        }
    }

    fn send(&mut self, wr: &SendWr) {
        self.owed += 1;
        if wr.signaled {
            let outcome = Outcome::Done { bytes: 0, imm: None };
            self.send_cq.push(Completion { wr_id: wr.wr_id, qp_num: 1, outcome });
        }
        let Some(imm) = wr.imm.and_then(Imm::from_bits) else { return };
        self.credits += u32::from(imm.credits);
        if imm.kind == MessageKind::Data {
            self.answers.push(wr.len);
        }
    }

    /// The far side sends what it has credits for.
    fn answer(&mut self) {
        while self.credits > 1 && self.answers.len > 0 {
            let Some((bytes, wr_id)) = self.answers.pop().zip(self.recvs.pop()) else { return };
            self.credits -= 1;
            let imm = Imm { credits: core::mem::take(&mut self.owed), kind: MessageKind::Data };
            let outcome = Outcome::Done { bytes, imm: Some(imm.to_bits()) };
            self.recv_cq.push(Completion { wr_id, qp_num: 1, outcome });
        }
    }
}

impl Fabric for TinyFabric {
    fn prepare(&mut self, _: &BufferMap) {}

    fn poll_recv(&mut self, out: &mut Batch) {
        self.answer();
        while let Some(completion) = if out.is_full() { None } else { self.recv_cq.pop() } {
            // There is room: it was asked.
            let _ = out.push(completion);
        }
    }

    fn poll_send(&mut self, out: &mut Batch) {
        while let Some(completion) = if out.is_full() { None } else { self.send_cq.pop() } {
            // As above.
            let _ = out.push(completion);
        }
    }

    fn post_recv(&mut self, _: ConnId, chain: &[RecvWr]) -> Result<(), PostError> {
        chain.iter().for_each(|wr| self.recvs.push(wr.wr_id()));
        Ok(())
    }

    fn post_send(&mut self, _: ConnId, (first, second): (&[SendWr], &[SendWr])) -> Result<(), PostError> {
        first.iter().chain(second).for_each(|wr| self.send(wr));
        Ok(())
    }

    fn qp_num(&self, _: ConnId) -> Option<u32> {
        Some(1)
    }
}
