//! What both sides are set up with, and the side that asks and measures.

use std::error::Error;
use std::hint;

use spinwire_core::config::{Config, Mode};
use spinwire_core::id::{ConnId, EndpointId};
use spinwire_core::time::{Instant, Nanos};
use spinwire_core::turn::{Answer, Cx, Handler};
use spinwire_linux::clock;
use spinwire_linux::mem::{Arena, ArenaConfig, stride};
use spinwire_linux::runtime::{Options, Reactor, ShmRole, ShmSetup, Size};
use spinwire_linux::shm::measure::Pair;
use spinwire_linux::shm::{Name, ShmControl, Users};

use super::statistics::Trips;

pub type Fault = Box<dyn Error>;

/// Round trips in a window: about 1 ms of bare ones.
const TRIPS: u64 = 3_000;

/// Who is measured. The number is what the answering process is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contestant {
    Bare = 0,
    Transport = 1,
    Echo = 2,
}

/// What is waited for has to come within this: a line from the other process, or an echo.
const PATIENCE: Nanos = Nanos::from_secs(10);

/// What the answering process is told at the end.
const STOP: u64 = 3;

/// The lines of each side's page.
pub const PHASE: usize = 0;
pub const BALL: usize = 1;
pub const READY: usize = 2;

/// Where a side is, and what it speaks.
pub struct Place {
    cpu: u32,
    pub bytes: u32,
    name: String,
}

impl Place {
    /// From a CPU, a size and a name.
    pub fn read(arguments: &[String]) -> Result<Self, Fault> {
        let [cpu, bytes, name] = arguments else { return Err("usage: shm_latency [CPU CPU [BYTES]]".into()) };
        Ok(Self { cpu: cpu.parse()?, bytes: bytes.parse()?, name: name.clone() })
    }

    pub fn options(&self) -> Options {
        Options { depth: Size::Asked(1), connections: 1, message_bytes_max: self.bytes, ..Options::on_core(self.cpu) }
    }

    pub fn name(&self, part: &str) -> Result<Name, Fault> {
        Ok(format!("{}-{part}", self.name).parse()?)
    }

    pub fn config(&self) -> Config {
        Config {
            mode: Mode::Spinwire,
            depth: 1,
            message_bytes_max: self.bytes,
            inline_bytes_max: 0,
            timeouts: Default::default(),
            retry: Default::default(),
            keepalive: None,
            seed: 0,
        }
    }

    pub fn arena(&self) -> Result<Arena, Fault> {
        let bytes = 2 * stride(self.bytes as usize);
        Ok(Arena::allocate(&ArenaConfig { bytes, ..ArenaConfig::default() })?)
    }
}

/// The asking side.
pub struct Asker<'r, 'm> {
    reactor: &'r mut Reactor<'m, ShmControl<'m>>,
    pair: Pair<'m>,
    client: Client,
    ball: u64,
}

/// The application of the asking engine.
struct Client {
    conn: Option<ConnId>,
    message: Vec<u8>,
    left: u64,
    stamps: Stamps,
}

/// Single round trips, where they are wanted.
struct Stamps {
    clock: Option<fn() -> Instant>,
    last: Instant,
    trips: Box<Trips>,
}

impl Stamps {
    #[inline]
    fn take(&mut self) {
        if let Some(clock) = self.clock {
            let now = clock();
            self.trips.record(now.since(self.last));
            self.last = now;
        }
    }
}

impl Handler for Client {
    fn on_open(&mut self, _: &mut Cx<'_, '_>, conn: ConnId) {
        self.conn = Some(conn);
    }

    fn on_message(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId, _: &mut [u8]) -> Answer {
        self.stamps.take();
        self.left -= 1;
        if self.left > 0 {
            cx.send(conn, &self.message).expect("one message is in flight");
        }
        Answer::None
    }
}

/// Sets the asking side up, and lets `measure` use it.
pub fn with_asker<R>(place: &Place, measure: impl FnOnce(&mut Asker<'_, '_>) -> Result<R, Fault>) -> Result<R, Fault> {
    let mut arena = place.arena()?;
    let pair = Pair::connect(&place.name("pair")?, &place.config(), &mut arena, place.bytes)?;
    let role = ShmRole::Connect(place.name("echo")?, Users::default());
    let mut setup = ShmSetup::new(&place.options(), role)?;
    let mut reactor = setup.start()?;
    let begun = clock::now();
    wait(|| pair.load(READY) != 0)?;
    let stamps = Stamps { clock: None, last: Instant::ZERO, trips: Box::new(Trips::new()) };
    let mut client = Client { conn: None, message: vec![7; place.bytes as usize], left: 0, stamps };
    pair.store(PHASE, Contestant::Echo as u64);
    reactor.engine().with(|cx| cx.connect(EndpointId(0)))?;
    reactor.run(&mut client, |client| client.conn.is_some() || clock::now().since(begun) > PATIENCE)?;
    if client.conn.is_none() {
        return Err(NO_ANSWER.into());
    }
    let mut asker = Asker { reactor: &mut reactor, pair, client, ball: 0 };
    let measured = measure(&mut asker);
    asker.pair.store(PHASE, STOP);
    measured
}

impl Asker<'_, '_> {
    /// Measures `contestant` in a window: nanoseconds per round trip. With a clock each trip is stamped too.
    pub fn window(&mut self, contestant: Contestant, stamp: Option<fn() -> Instant>) -> Result<f64, Fault> {
        self.pair.store(PHASE, contestant as u64);
        self.client.stamps.clock = None;
        // The other side changes over, and the lines are where they will be.
        self.run(contestant, 200)?;
        self.client.stamps.trips.clear();
        self.client.stamps.clock = stamp;
        let begun = clock::now();
        self.client.stamps.last = begun;
        self.run(contestant, TRIPS)?;
        Ok(clock::now().since(begun).get() as f64 / TRIPS as f64)
    }

    /// The single round trips of the last window that had a clock.
    pub fn trips(&self) -> &Trips {
        &self.client.stamps.trips
    }

    fn run(&mut self, contestant: Contestant, trips: u64) -> Result<(), Fault> {
        match contestant {
            Contestant::Bare => {
                for _ in 0..trips {
                    self.ball += 1;
                    self.pair.store(BALL, self.ball);
                    wait(|| self.pair.load(BALL) == self.ball)?;
                    self.client.stamps.take();
                }
            }
            Contestant::Transport => {
                for _ in 0..trips {
                    self.pair.post();
                    wait(|| self.pair.poll())?;
                    self.pair.reap();
                    self.client.stamps.take();
                }
            }
            Contestant::Echo => {
                self.client.left = trips;
                let conn = self.client.conn.ok_or("not connected")?;
                let Client { message, .. } = &self.client;
                self.reactor.engine().with(|cx| cx.send(conn, message))?;
                let (mut turns, begun) = (0_u32, clock::now());
                self.reactor.run(&mut self.client, |client| {
                    turns = turns.wrapping_add(1);
                    client.left == 0 || (turns.is_multiple_of(1 << 16) && clock::now().since(begun) > PATIENCE)
                })?;
                if self.client.left > 0 {
                    return Err(NO_ANSWER.into());
                }
            }
        }
        Ok(())
    }
}

const NO_ANSWER: &str = "the other process does not answer";

/// Spins until `done` says so. The clock is looked at so seldom that no wait for a line meets it.
fn wait(mut done: impl FnMut() -> bool) -> Result<(), Fault> {
    let mut begun = None;
    loop {
        for _ in 0..1 << 16 {
            if done() {
                return Ok(());
            }
            hint::spin_loop();
        }
        if clock::now().since(*begun.get_or_insert_with(clock::now)) > PATIENCE {
            return Err(NO_ANSWER.into());
        }
    }
}
