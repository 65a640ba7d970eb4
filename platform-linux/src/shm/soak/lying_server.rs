//! A server that lies, from the first packet on or once the connection is up, to a client that means well.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use spinwire_core::cm::event::PrivateData;
use spinwire_core::remote::Rights;

use super::super::exposed::{self, OwnRegion};
use super::super::layout::Geometry;
use super::super::memory::PeerMemory;
use super::super::socket::{Received, Socket};
use super::super::wire::{PACKET_MAX, Packet};
use super::Random;
use super::liar::{Draft, Met};
use crate::mem::ExposedRegion;
use crate::signals::Stop;

/// A client that means well is there again at once.
const CLIENT_LIMIT: Duration = Duration::from_secs(5);
/// Longer than the client waits for an answer.
const SILENCE_MS_MAX: u64 = 700;

/// Takes one client and plays the session of one seed with it.
pub(super) fn session(listener: &Socket, seed: u64) -> Met {
    let mut random = Random::new(seed);
    let Some(socket) = next_client(listener) else { return Met::Nobody };
    let Some((peer, geometry)) = request(&socket) else { return Met::Nobody };
    match random.below(12) {
        0 => {
            thread::sleep(Duration::from_millis(random.below(SILENCE_MS_MAX)));
            return Met::Bored;
        }
        1 => say(&socket, &random_bytes(&mut random), &[]),
        2 => {
            let data: PrivateData = random_bytes(&mut random).into_iter().take(56).collect();
            say(&socket, &Packet::Reject(random.next() as i32, data).encode(), &[]);
        }
        how => {
            let Some(mut draft) = Draft::new(random) else { return Met::Nobody };
            let exposed = expose(&mut draft.random, &socket);
            let data: PrivateData = match draft.random.once_in(8) {
                true => random_bytes(&mut draft.random).into_iter().take(56).collect(),
                false => draft.hello.encode().iter().copied().collect(),
            };
            let null = File::open("/dev/null").unwrap();
            let mut fds = draft.fds();
            match how {
                3 => fds.truncate(1),
                4 => fds[0] = null.as_fd(),
                5 => fds.swap(0, 1),
                _ => {}
            }
            say(&socket, &Packet::Accept(draft.terms(), data).encode(), &fds);
            if how > 5 {
                return draft.onto(socket, peer, geometry, exposed).play();
            }
        }
    }
    let deadline = Instant::now() + CLIENT_LIMIT;
    while Instant::now() < deadline {
        if matches!(socket.recv(&mut [0; PACKET_MAX]), Ok(Received::End) | Err(_)) {
            return Met::Caught;
        }
        thread::sleep(Duration::from_micros(100));
    }
    panic!("the client of session {seed} does not leave");
}

fn next_client(listener: &Socket) -> Option<Socket> {
    let deadline = Instant::now() + CLIENT_LIMIT;
    while Instant::now() < deadline {
        if let Some(socket) = listener.accept().unwrap() {
            return Some(socket);
        }
        thread::sleep(Duration::from_micros(50));
    }
    None
}

/// The client's segment; none from one that has given up meanwhile.
fn request(socket: &Socket) -> Option<(PeerMemory, Geometry)> {
    let deadline = Instant::now() + CLIENT_LIMIT;
    let mut packet = [0; PACKET_MAX];
    while Instant::now() < deadline {
        match socket.recv(&mut packet).ok()? {
            Received::Packet(len, fds) => {
                if let Ok(Packet::Request(terms, _)) = Packet::decode(packet.get(..len)?) {
                    let memory = PeerMemory::map(fds.into_iter().next()?, terms.geometry.bytes()).ok()?;
                    return Some((memory, terms.geometry));
                }
            }
            Received::End | Received::Cut(_) => return None,
            Received::Nothing => thread::sleep(Duration::from_micros(50)),
        }
    }
    None
}

/// Exposes some regions, as they are or otherwise.
fn expose(random: &mut Random, socket: &Socket) -> Vec<(Rc<OwnRegion>, ExposedRegion)> {
    let make = |number| {
        let rights = Rights::from_bits(random.below(8) as u8).expect("three bits");
        exposed::expose(number, 1 + random.below(20_000) as usize, rights, false, &Stop::default()).unwrap()
    };
    let regions: Vec<_> = (0..3).map(make).collect();
    if random.once_in(4) {
        return Vec::new();
    }
    let mut table = exposed::table(regions.iter().map(|(own, _)| &**own));
    let mut fds: Vec<BorrowedFd<'_>> = regions.iter().map(|(own, _)| own.fd().as_fd()).collect();
    match random.below(8) {
        0 => table[random.below(27) as usize] = random.next() as u8,
        1 => fds.truncate(2),
        2 => fds.reverse(),
        _ => {}
    }
    say(socket, &Packet::Exposed(table).encode(), &fds);
    regions
}

fn random_bytes(random: &mut Random) -> Vec<u8> {
    (0..1 + random.below(100)).map(|_| random.next() as u8).collect()
}

fn say(socket: &Socket, packet: &[u8], fds: &[BorrowedFd<'_>]) {
    // The client may have left.
    let _ = socket.send(packet, fds);
}
