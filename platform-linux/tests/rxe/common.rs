//! What the tests over real devices share: two engines on two devices, driven by one thread in turns.

use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use spinwire_core::cm::reason::CloseReport;
use spinwire_core::config::{Config, Mode, Retry, Timeouts};
use spinwire_core::conn::{Conn, Place, Slot};
use spinwire_core::fabric::SendWr;
use spinwire_core::id::ConnId;
use spinwire_core::pool::PoolSlot;
use spinwire_core::timer;
use spinwire_core::turn::{Answer, Cx, DirtySlot, Engine, Handler, Memory, Needs, PoolMemory, SendError};
use spinwire_linux::clock::now;
use spinwire_linux::cm::{ControlOptions, VerbsControl};
use spinwire_linux::mem::{Arena, ArenaConfig, Carver, PageKind, PagePolicy, stride};
use spinwire_linux::runtime::Size;
use spinwire_linux::verbs::{Device, QueueOptions, Queues, Region, VerbsFabric};

/// Lets one test run at a time; some count what the whole process has. Tells how long it took.
pub fn alone() -> Alone {
    static ALONE: Mutex<()> = Mutex::new(());
    // After a test that failed, the next may run all the same.
    Alone { _guard: ALONE.lock().unwrap_or_else(PoisonError::into_inner), started: Instant::now() }
}

/// See [`alone`].
pub struct Alone {
    _guard: MutexGuard<'static, ()>,
    started: Instant,
}

impl Drop for Alone {
    fn drop(&mut self) {
        println!("took {:.1?}", self.started.elapsed());
    }
}

/// An address of the lab by the name of its variable.
pub fn lab(name: &str) -> IpAddr {
    let text = std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run this with ci/vm"));
    text.parse().unwrap()
}

/// Memory on pages that every machine has, so that tests do not compete for hugepages.
pub fn small_pages(bytes: usize) -> Arena {
    Arena::allocate(&ArenaConfig {
        bytes,
        pages: PagePolicy::new([PageKind::Small]).unwrap(),
        ..ArenaConfig::default()
    })
    .unwrap()
}

pub type VerbsEngine<'m> = Engine<'m, VerbsControl<'m>>;

/// How one side is set up.
#[derive(Clone, Copy)]
pub struct Setup {
    pub mode: Mode,
    pub depth: u32,
    pub message_bytes: u32,
    pub connections: u32,
    pub inline: Size,
    pub control: ControlOptions,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            mode: Mode::Spinwire,
            depth: 8,
            message_bytes: 4096,
            connections: 4,
            inline: Size::Default(220),
            control: ControlOptions::default(),
        }
    }
}

impl Setup {
    /// Sets up an engine on `device`, hands it to `act`, and takes everything down.
    pub fn run<R>(&self, device: &Device, act: impl FnOnce(&mut VerbsEngine<'_>) -> R) -> R {
        let slots = self.connections as usize;
        let options = QueueOptions {
            connections: self.connections,
            depth: Size::Asked(self.depth),
            inline: self.inline,
            one_sided: 0,
        };
        let queues = Queues::new(device, &options).unwrap();
        let config = Config {
            mode: self.mode,
            depth: queues.depth(),
            message_bytes_max: self.message_bytes,
            inline_bytes_max: queues.inline_bytes(),
            timeouts: Timeouts::default(),
            retry: Retry::DEFAULT,
            keepalive: None,
            seed: 0,
        };
        let needs = Needs::of(&config, slots);
        let stride = stride(self.message_bytes as usize);
        let (recv_bytes, send_bytes) = (needs.recv_buffers * stride, needs.send_buffers * stride);
        let mut region = Region::register(queues.pd(), small_pages(recv_bytes + send_bytes)).unwrap();
        let (key, bytes) = region.split();
        let mut carver = Carver::new(bytes);
        let mut recv_slots = vec![PoolSlot::default(); needs.recv_buffers];
        let mut send_slots = vec![PoolSlot::default(); needs.send_buffers];
        let mut pool = |slots, bytes| {
            let piece = carver.take(bytes, 64).unwrap();
            PoolMemory { slots, bytes: piece.bytes, region_offset: piece.offset as u64, stride: stride as u32 }
        };
        let control = VerbsControl::new(device, slots, self.control).unwrap();
        // SAFETY: the pools are pieces of the same split with the offsets that the carver gives, and the engine below
        // owns them and the fabric.
        let fabric = unsafe { VerbsFabric::new(queues, key, slots) };
        let memory = Memory {
            conns: &mut (0..slots).map(|_| Slot::<Conn>::EMPTY).collect::<Vec<_>>(),
            places: &mut vec![Place::default(); slots],
            dirty: &mut vec![DirtySlot::default(); slots],
            timers: &mut vec![timer::IDLE; slots],
            sends: &mut (0..needs.sends).map(|_| SendWr::EMPTY).collect::<Vec<_>>(),
            recv: pool(&mut recv_slots, recv_bytes),
            send: pool(&mut send_slots, send_bytes),
        };
        act(&mut Engine::new(config, memory, control, fabric).unwrap())
    }
}

/// Echoes in place.
#[derive(Default)]
pub struct EchoServer {
    pub open: Vec<ConnId>,
    pub closed: Vec<CloseReport>,
}

impl Handler for EchoServer {
    fn on_open(&mut self, _: &mut Cx<'_, '_>, conn: ConnId) {
        self.open.push(conn);
    }

    fn on_message(&mut self, _: &mut Cx<'_, '_>, _: ConnId, message: &mut [u8]) -> Answer {
        Answer::InPlace(message.len() as u32)
    }

    fn on_close(&mut self, _: &mut Cx<'_, '_>, conn: ConnId, report: &CloseReport) {
        self.open.retain(|open| *open != conn);
        self.closed.push(*report);
    }
}

/// Sends `count` messages per connection, `depth` in flight, and checks every byte of every reply.
pub struct EchoClient {
    pub count: u64,
    pub size: usize,
    pub depth: u64,
    pub close_when_done: bool,
    pub open: Vec<ConnId>,
    pub closed: Vec<CloseReport>,
    pub replies: u64,
    progress: Vec<(ConnId, u64, u64)>,
}

impl EchoClient {
    pub fn new(count: u64, size: usize, depth: u64) -> EchoClient {
        EchoClient {
            count,
            size,
            depth,
            close_when_done: true,
            open: Vec::new(),
            closed: Vec::new(),
            replies: 0,
            progress: Vec::new(),
        }
    }

    fn pattern(conn: ConnId, number: u64, bytes: &mut [u8]) {
        let seed = number.wrapping_mul(31).wrapping_add(conn.to_bits());
        bytes.iter_mut().zip(seed..).for_each(|(byte, value)| *byte = value as u8);
    }

    fn send(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        let (count, size, depth) = (self.count, self.size, self.depth);
        let (_, sent, received) = self.progress.iter_mut().find(|(c, ..)| *c == conn).unwrap();
        while *sent < count && *sent - *received < depth {
            let number = *sent;
            match cx.send_with(conn, size as u32, |bytes| Self::pattern(conn, number, bytes)) {
                Ok(()) => *sent += 1,
                // A reply can come before the completion of what it answers. `on_writable` follows.
                Err(SendError::WouldBlock) => return,
                Err(error) => panic!("message {number} of {conn}: {error}"),
            }
        }
    }
}

impl Handler for EchoClient {
    fn on_open(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        self.open.push(conn);
        self.progress.push((conn, 0, 0));
        self.send(cx, conn);
    }

    fn on_message(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId, message: &mut [u8]) -> Answer {
        let (_, _, received) = self.progress.iter_mut().find(|(c, ..)| *c == conn).unwrap();
        let mut expected = vec![0; self.size];
        Self::pattern(conn, *received, &mut expected);
        assert!(message == expected, "reply {received} of {conn} is not what was sent");
        *received += 1;
        self.replies += 1;
        if *received == self.count && self.close_when_done {
            cx.close(conn);
        }
        self.send(cx, conn);
        Answer::None
    }

    fn on_writable(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId) {
        self.send(cx, conn);
    }

    fn on_close(&mut self, _: &mut Cx<'_, '_>, conn: ConnId, report: &CloseReport) {
        self.open.retain(|open| *open != conn);
        self.closed.push(*report);
    }
}

/// Turns both engines until `done`, or fails after `limit`.
pub fn drive(
    (server, echo): (&mut VerbsEngine<'_>, &mut EchoServer),
    (client, caller): (&mut VerbsEngine<'_>, &mut EchoClient),
    limit: Duration,
    done: impl Fn(&EchoServer, &EchoClient) -> bool,
) {
    let started = Instant::now();
    while !done(echo, caller) {
        server.turn(now(), echo);
        client.turn(now(), caller);
        assert!(
            started.elapsed() < limit,
            "not done after {limit:?}: {} replies; server {:?} {:?}; client {:?} {:?}",
            caller.replies,
            server.stats(),
            echo.closed,
            client.stats(),
            caller.closed
        );
    }
}

/// The kernel's counts of queue pairs, ids, regions and so on for each device, of all processes: in the lab, this one.
/// Starting a program takes a while in an emulated processor.
pub fn kernel_objects() -> String {
    let output = Command::new("rdma").args(["resource", "show"]).output().expect("rdma(8) is there");
    assert!(output.status.success(), "rdma resource show: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Descriptors that this process has open.
pub fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// `address` with `port`.
pub fn at(address: IpAddr, port: u16) -> SocketAddr {
    SocketAddr::new(address, port)
}
