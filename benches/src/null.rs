//! A fabric, a control side and a handler that do as little as they can: what is left is the cost of the engine.
//!
//! The far side asks for one connection and then sends a fixed number of messages in each turn. No byte moves. The last
//! send that asked for a completion shows one on the next poll, and each message brings back the credits that the
//! answers before it spent.

mod alone;

use std::iter::repeat_with;

use spinwire_core::cm::event::{CmEvent, CmEventKind, PrivateData, Target};
use spinwire_core::cm::hello::Hello;
use spinwire_core::config::{Config, Keepalive, Mode, Retry, Timeouts};
use spinwire_core::conn::{Conn, Place, Slot};
use spinwire_core::fabric::{
    Action, ActionError, Batch, BufferMap, Completion, Control, Fabric, Outcome, PostError, RecvWr, SendWr,
};
use spinwire_core::id::{ConnId, ListenerId, RequestId, WorkId};
use spinwire_core::pool::PoolSlot;
use spinwire_core::time::{Instant, Nanos};
use spinwire_core::timer;
use spinwire_core::turn::{Answer, Cx, DirtySlot, Engine, Handler, Memory, Needs, PoolMemory};

pub use alone::echo_without_engine;

/// The queue pair's number.
const QP_NUM: u32 = 1;

/// Length of every message in bytes.
pub const MESSAGE_BYTES: u32 = 64;

const CONFIG: Config = Config {
    mode: Mode::Spinwire,
    depth: 64,
    message_bytes_max: MESSAGE_BYTES,
    inline_bytes_max: MESSAGE_BYTES,
    timeouts: Timeouts {
        resolve: Nanos::from_secs(1),
        connect: Nanos::from_secs(1),
        linger: Nanos::from_secs(1),
        drain: Nanos::from_secs(1),
    },
    retry: Retry::DEFAULT,
    keepalive: Some(Keepalive::DEFAULT),
    seed: 0,
};

/// Places of the ring of posted receives: a power of two, and not fewer than the receives that are ever posted.
const POSTED: usize = 128;
const _: () = assert!(CONFIG.sizing().recv_posted as usize <= POSTED);

/// See the module's description.
#[derive(Debug)]
pub struct NullFabric {
    /// Messages in each turn.
    arriving: usize,
    posted: [WorkId; POSTED],
    taken: usize,
    filled: usize,
    /// Sends since the last message: the credits the next one brings, which fit in 16 bits.
    unthanked: u32,
    signaled: Option<WorkId>,
}

// What brings something is a call, as into a device's library.
impl NullFabric {
    #[inline(never)]
    fn arrive(&mut self, out: &mut Batch) {
        self.arrive_one(out);
        for _ in 1..self.arriving {
            self.arrive_one(out);
        }
    }

    /// A message in the oldest receive. Data's immediate data are the credits it brings.
    #[inline(always)]
    fn arrive_one(&mut self, out: &mut Batch) {
        let wr_id = self.posted[self.taken % POSTED];
        self.taken += 1;
        let outcome = Outcome::Done { bytes: MESSAGE_BYTES, imm: Some(std::mem::take(&mut self.unthanked)) };
        let _ = out.push(Completion { wr_id, qp_num: QP_NUM, outcome });
    }

    #[inline(never)]
    fn complete(&mut self, out: &mut Batch) {
        if let Some(wr_id) = self.signaled.take() {
            let _ = out.push(Completion { wr_id, qp_num: QP_NUM, outcome: Outcome::Done { bytes: 0, imm: None } });
        }
    }
}

impl NullFabric {
    /// To which nothing comes yet.
    const fn new() -> Self {
        let posted = [WorkId::from_bits(0); POSTED];
        Self { arriving: 0, posted, taken: 0, filled: 0, unthanked: 0, signaled: None }
    }
}

impl Fabric for NullFabric {
    fn prepare(&mut self, _: &BufferMap) {}

    #[inline]
    fn poll_recv(&mut self, out: &mut Batch) {
        if self.arriving > 0 {
            self.arrive(out);
        }
    }

    #[inline]
    fn poll_send(&mut self, out: &mut Batch) {
        if self.signaled.is_some() {
            self.complete(out);
        }
    }

    fn qp_num(&self, _: ConnId) -> Option<u32> {
        Some(QP_NUM)
    }

    #[inline]
    fn post_recv(&mut self, _: ConnId, chain: &[RecvWr]) -> Result<(), PostError> {
        let start = self.filled % POSTED;
        self.filled += chain.len();
        // Up to the ring's end, and what is left from its beginning on.
        let (first, second) = chain.split_at(chain.len().min(POSTED - start));
        keep(&mut self.posted[start..], first);
        keep(&mut self.posted, second);
        Ok(())
    }

    #[inline(always)]
    fn post_send(&mut self, _: ConnId, chain: (&[SendWr], &[SendWr])) -> Result<(), PostError> {
        for half in [chain.0, chain.1] {
            if let Some(work) = half.iter().rfind(|work| work.signaled) {
                self.signaled = Some(work.wr_id);
            }
        }
        self.unthanked += (chain.0.len() + chain.1.len()) as u32;
        Ok(())
    }
}

/// Notes the work ids of receives.
#[inline]
fn keep(places: &mut [WorkId], chain: &[RecvWr]) {
    for (place, work) in places.iter_mut().zip(chain) {
        *place = work.wr_id();
    }
}

/// A control side whose idle check is a load.
#[derive(Debug)]
pub struct NullControl {
    waiting: Option<(Target, CmEventKind)>,
    /// Messages in each turn, once the connection is up.
    arriving: usize,
}

impl NullControl {
    #[cold]
    fn next_event(&mut self) -> Option<CmEvent> {
        let (target, kind) = self.waiting.take()?;
        let credits = CONFIG.sizing().recv_posted;
        let hello = Hello { credits, message_bytes_max: MESSAGE_BYTES, answers_asks: true }.encode();
        let private_data = PrivateData::from_slice(&hello).expect("a hello is shorter");
        Some(CmEvent { target, kind, status: 0, private_data, peer: None })
    }
}

impl Control for NullControl {
    type Fabric = NullFabric;

    #[inline]
    fn poll_event(&mut self, _: Instant) -> Option<CmEvent> {
        if self.waiting.is_none() { None } else { self.next_event() }
    }

    fn endpoints(&self) -> u32 {
        0
    }

    fn perform(&mut self, fabric: &mut NullFabric, conn: ConnId, action: Action<'_>) -> Result<(), ActionError> {
        match action {
            Action::Accept(_) => self.waiting = Some((Target::Conn(conn), CmEventKind::Established)),
            // The last action before the connection is open.
            Action::Tune => fabric.arriving = self.arriving,
            _ => {}
        }
        Ok(())
    }

    fn reject(&mut self, _: RequestId, _: &[u8]) {}
}

/// Sends every message back in the buffer it came in.
#[derive(Debug, Default)]
struct Echo {
    messages: u64,
}

impl Handler for Echo {
    #[inline]
    fn on_message(&mut self, _: &mut Cx<'_, '_>, _: ConnId, message: &mut [u8]) -> Answer {
        self.messages += 1;
        Answer::InPlace(message.len() as u32)
    }
}

/// An engine with one connection that is up, and what drives it.
#[derive(Debug)]
pub struct Rig<'m> {
    engine: Engine<'m, NullControl>,
    echo: Echo,
    now: Instant,
}

impl Rig<'_> {
    /// One turn; whether there was anything to do.
    #[inline]
    pub fn turn(&mut self) -> bool {
        self.now = Instant::from_nanos(self.now.as_nanos() + 100);
        self.engine.turn(self.now, &mut self.echo)
    }
}

/// Makes an engine to which `arriving` messages come in each turn, at most
/// [`BATCH_MAX`](spinwire_core::config::BATCH_MAX), and hands it to `act`.
///
/// # Panics
/// When the connection does not come up, and at the end when a message was lost or not answered: what an engine that
/// does nothing costs is worth nothing.
pub fn with_rig<R>(arriving: usize, act: impl FnOnce(&mut Rig<'_>) -> R) -> R {
    let needs = Needs::of(&CONFIG, 1);
    let mut conns: Vec<_> = repeat_with(|| Slot::<Conn>::EMPTY).take(needs.conns).collect();
    let mut places = vec![Place::default(); needs.conns];
    let mut dirty = vec![DirtySlot::default(); needs.conns];
    let mut timers = vec![timer::IDLE; needs.conns];
    let mut sends: Vec<_> = repeat_with(|| SendWr::EMPTY).take(needs.sends).collect();
    let (mut recv, mut send) = (Pooled::new(needs.recv_buffers), Pooled::new(needs.send_buffers));
    let memory = Memory {
        conns: &mut conns,
        places: &mut places,
        dirty: &mut dirty,
        timers: &mut timers,
        sends: &mut sends,
        recv: recv.memory(),
        send: send.memory(),
    };
    let waiting = Some((Target::Request(ListenerId(0), RequestId(0)), CmEventKind::ConnectRequest));
    let control = NullControl { waiting, arriving };
    let engine = Engine::new(CONFIG, memory, control, NullFabric::new()).expect("the memory is enough");
    let mut rig = Rig { engine, echo: Echo::default(), now: Instant::ZERO };
    while rig.engine.stats().opened == 0 {
        assert!(rig.turn(), "the connection does not come up");
    }
    let result = act(&mut rig);
    let stats = rig.engine.stats();
    assert_eq!((stats.messages_received, stats.messages_sent), (rig.echo.messages, rig.echo.messages));
    assert_eq!(rig.engine.audit(), Ok(()));
    result
}

/// The memory of one pool.
struct Pooled {
    slots: Vec<PoolSlot>,
    bytes: Vec<u8>,
}

impl Pooled {
    fn new(buffers: usize) -> Self {
        Self { slots: vec![PoolSlot::default(); buffers], bytes: vec![0; buffers * MESSAGE_BYTES as usize] }
    }

    fn memory(&mut self) -> PoolMemory<'_> {
        PoolMemory { slots: &mut self.slots, bytes: &mut self.bytes, region_offset: 0, stride: MESSAGE_BYTES }
    }
}
