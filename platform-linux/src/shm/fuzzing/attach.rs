//! The attach path: a peer on the other side of a real socket, and what it sends.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use spinwire_core::cm::event::{CmEvent, CmEventKind, PrivateData, Target};
use spinwire_core::fabric::{Action, Batch, Control, Fabric};
use spinwire_core::id::{ConnId, EndpointId, RequestId};
use spinwire_core::time::{Instant, Nanos};

use super::super::control::ShmControl;
use super::super::fabric::ShmFabric;
use super::super::layout::Geometry;
use super::super::name::Name;
use super::super::options::ShmControlOptions;
use super::super::socket::Socket;
use super::super::wire::{Packet, Terms};
use super::fds;
use super::input::Input;
use crate::readiness::Wish;

/// A control with one listener and one endpoint, and a peer for each of the two.
pub struct Attach {
    control: ShmControl<'static>,
    fabric: ShmFabric<'static>,
    /// Where the control listens.
    name: Name,
    /// Where it connects to: the peer listens there.
    peers: Socket,
    endpoint: EndpointId,
    now: Instant,
    generation: u64,
    /// The connection there is.
    live: Option<ConnId>,
    /// The lowest descriptor that is free between two inputs.
    free_fd: i32,
}

impl Default for Attach {
    fn default() -> Self {
        Self::new()
    }
}

impl Attach {
    /// Sets both up.
    ///
    /// # Panics
    /// When the machine has no sockets or no memory for that.
    pub fn new() -> Self {
        let thread = std::thread::current().id();
        let name = |what| -> Name {
            let thread = format!("{thread:?}").replace(['(', ')'], "");
            format!("shm://fuzz-{}-{thread}-{what}", std::process::id()).parse().expect("a plain name")
        };
        let options =
            ShmControlOptions { readiness: Wish::Timed(core::time::Duration::ZERO), ..ShmControlOptions::default() };
        let mut control = ShmControl::new(1, options).expect("an epoll set and a page");
        control.listen(&name("server")).expect("a name of our own");
        let endpoint = control.add_endpoint(name("client"));
        let peers = Socket::new().expect("a socket");
        peers.bind(&name("client")).expect("a name of our own");
        peers.listen().expect("a bound socket");
        let fabric = ShmFabric::new(super::arena(64 << 10).0, &super::config(200), 1, false);
        let (now, name) = (Instant::from_nanos(1), name("server"));
        let mut all = Attach { control, fabric, name, peers, endpoint, now, generation: 0, live: None, free_fd: 0 };
        all.free_fd = free_fd();
        all
    }

    /// Plays one input and takes everything down again.
    ///
    /// # Panics
    /// When a descriptor, a connection or a waiting client is left.
    pub fn run(&mut self, bytes: &[u8]) {
        let mut input = Input::new(bytes);
        let peer = if input.byte().is_multiple_of(2) { self.as_client() } else { self.as_server() };
        let mut socket = peer;
        for _ in 0..12 {
            if input.is_over() {
                break;
            }
            self.step(&mut input, &mut socket);
        }
        drop(socket);
        self.turn(&mut Input::new(&[]));
        if let Some(id) = self.live {
            self.end(id);
        }
        // What nobody answers is given up.
        self.now = self.now + Nanos::from_secs(3);
        self.turn(&mut Input::new(&[]));
        while let Ok(Some(_)) = self.peers.accept() {}
        assert!(self.control.conns.iter().all(Option::is_none), "a connection is left");
        assert_eq!(self.control.waiting_clients, 0, "a client is left");
        self.control.closer.settle();
        assert_eq!(free_fd(), self.free_fd, "a descriptor is left");
    }

    fn step(&mut self, input: &mut Input<'_>, socket: &mut Option<Socket>) {
        match (input.byte() % 8, &socket) {
            (0..=3, Some(socket)) => send(input, socket),
            (4, _) => *socket = None,
            (5, Some(socket)) => drop(socket.shutdown()),
            (6, _) => self.now = self.now + Nanos::from_millis(u64::from(input.byte()) * 10),
            _ => self.turn(input),
        }
    }

    /// The peer is a client.
    fn as_client(&mut self) -> Option<Socket> {
        let socket = Socket::new().ok()?;
        socket.connect(&self.name).ok()?;
        Some(socket)
    }

    /// The peer is a server, which this side asks for a connection.
    fn as_server(&mut self) -> Option<Socket> {
        let id = self.next_id();
        self.live = Some(id);
        for action in
            [Action::ResolveAddr(self.endpoint), Action::ResolveRoute, Action::CreateQp, Action::Connect(b"hello")]
        {
            self.control.perform(&mut self.fabric, id, action).ok()?;
        }
        self.peers.accept().ok()?
    }

    /// Lets the control look, and does with its events what an engine would do.
    fn turn(&mut self, input: &mut Input<'_>) {
        // One event at most for each look at a socket, of which there are few.
        for _ in 0..16 {
            self.now = self.now + Nanos::from_micros(100);
            let Some(event) = self.control.poll_event(self.now) else { break };
            self.on_event(&event, input);
        }
        let mut batch = Batch::new();
        self.fabric.poll_recv(&mut batch);
        self.fabric.poll_send(&mut batch);
    }

    fn on_event(&mut self, event: &CmEvent, input: &mut Input<'_>) {
        match (event.target, event.kind) {
            (Target::Request(_, request), _) if self.live.is_some() || input.byte().is_multiple_of(8) => {
                self.control.reject(request, b"no");
            }
            (Target::Request(_, request), _) => self.accept(request),
            // A failure to map is the end of the connection.
            (Target::Conn(id), CmEventKind::Established)
                if self.control.perform(&mut self.fabric, id, Action::Tune).is_ok() => {}
            (Target::Conn(_), CmEventKind::AddrResolved | CmEventKind::RouteResolved) => {}
            (Target::Conn(id), _) => self.end(id),
            _ => {}
        }
    }

    fn accept(&mut self, request: RequestId) {
        let id = self.next_id();
        self.live = Some(id);
        for action in [Action::Adopt(request), Action::CreateQp, Action::Accept(b"welcome")] {
            if self.control.perform(&mut self.fabric, id, action).is_err() {
                return self.end(id);
            }
        }
    }

    fn end(&mut self, id: ConnId) {
        if self.live != Some(id) {
            return;
        }
        for action in [Action::Disconnect, Action::DestroyQp, Action::DestroyId] {
            // A connection that did not get far has nothing to disconnect.
            let _ = self.control.perform(&mut self.fabric, id, action);
        }
        self.live = None;
    }

    fn next_id(&mut self) -> ConnId {
        self.generation += 1;
        ConnId::from_bits(self.generation << 16).expect("a generation that is not 0")
    }
}

/// What a peer lends.
const ARENA_BYTES: usize = 8_192;

/// A packet: of ours, of ours with a byte changed, or any; with any descriptors.
fn send(input: &mut Input<'_>, socket: &Socket) {
    let slots = 4 << (input.byte() % 4);
    let geometry = Geometry::checked(slots, u32::from(input.byte() % 3) * 64, u32::from(input.byte()) % slots.max(32));
    let geometry = geometry.expect("numbers within their ranges");
    let lent = input.byte();
    let arena_bytes = [0, ARENA_BYTES as u64, input.peek(), u64::MAX][usize::from(lent % 4)];
    let terms = Terms { geometry, arena_bytes };
    let data: PrivateData = input.bytes(56).iter().copied().collect();
    let kind = input.byte();
    let mut packet = match kind % 8 {
        0..=2 => Packet::Request(terms, data).encode().to_vec(),
        3 | 4 => Packet::Accept(terms, data).encode().to_vec(),
        5 => Packet::Reject(i32::from(input.byte()), data).encode().to_vec(),
        6 => Packet::Ready.encode().to_vec(),
        _ if (96..128).contains(&kind) => exposed(input, geometry.bytes()),
        _ => input.bytes(255).to_vec(),
    };
    if kind >= 128 && !packet.is_empty() {
        let at = usize::from(input.byte()) % packet.len();
        packet[at] ^= input.byte();
        packet.truncate(packet.len().saturating_sub(usize::from(input.byte() % 4)));
    }
    let shape = input.byte();
    // As many as there should be, or not.
    let right = 2 + usize::from(!lent.is_multiple_of(4));
    let count = [right, right, right, right, right - 1, 0, 4, 9][usize::from(shape % 8)];
    let make = |n| match n {
        1 if shape < 128 => fds::pulse(),
        2 if shape < 128 => fds::make(input, ARENA_BYTES),
        _ => fds::make(input, geometry.bytes()),
    };
    let fds: Vec<OwnedFd> = (0..count).filter_map(make).collect();
    // The other side may be gone, or its buffer full.
    let _ = socket.send_any(&packet, &fds.iter().map(|fd| fd.as_fd().as_raw_fd()).collect::<Vec<_>>());
}

/// What is said of up to three regions, each as long as a sound descriptor is.
fn exposed(input: &mut Input<'_>, bytes: usize) -> Vec<u8> {
    let mut table = PrivateData::new();
    for _ in 0..input.byte() % 4 {
        table.extend((bytes as u64).to_le_bytes().into_iter().chain([input.byte() % 9]));
    }
    Packet::Exposed(table).encode().to_vec()
}

fn free_fd() -> i32 {
    // SAFETY: a duplicate of an open descriptor, closed at once.
    unsafe {
        let fd = libc::fcntl(0, libc::F_DUPFD_CLOEXEC, 0);
        libc::close(fd);
        fd
    }
}
