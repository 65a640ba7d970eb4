//! What a client passes and what it does not wait for holds up no loop, and lets nobody run out of descriptors.

use core::time::Duration as Wait;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant as Clock};

use spinwire_core::cm::event::{CmEvent, PrivateData, Target};
use spinwire_core::fabric::{Action, Control};
use spinwire_core::id::{ConnId, RequestId};
use spinwire_core::time::Instant;

use super::closer::tests::lingering;
use super::closer::{WAITING_MAX, Whose};
use super::control::ShmControl;
use super::fabric::ShmFabric;
use super::layout::Geometry;
use super::local::LocalMemory;
use super::memory::OwnMemory;
use super::name::Name;
use super::options::ShmControlOptions;
use super::pulse::Pulse;
use super::socket::{FDS_MAX, Socket};
use super::tests::{config, conn};
use super::wire::{Packet, Terms};
use crate::mem::{Arena, ArenaConfig};
use crate::readiness::Wish;

struct Server<'m> {
    control: ShmControl<'m>,
    name: Name,
    begun: Clock,
}

impl Server<'_> {
    fn new(what: &str) -> Self {
        let name: Name = format!("shm://closing-{}-{what}", std::process::id()).parse().unwrap();
        let options = ShmControlOptions { readiness: Wish::Timed(Wait::ZERO), ..ShmControlOptions::default() };
        let mut control = ShmControl::new(1, options).unwrap();
        control.listen(&name).unwrap();
        Server { control, name, begun: Clock::now() }
    }

    fn client(&self) -> Socket {
        let socket = Socket::new().unwrap();
        socket.connect(&self.name).unwrap();
        socket
    }

    /// Looks a few times, and gives the last event.
    fn turn(&mut self) -> Option<CmEvent> {
        (0..8).filter_map(|_| self.control.poll_event(self.now())).last()
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(1 + self.begun.elapsed().as_nanos() as u64)
    }
}

#[test]
fn what_a_client_sent_unasked_is_not_closed_by_the_loop() {
    let mut arena = Arena::allocate(&ArenaConfig { bytes: 1 << 16, ..ArenaConfig::default() }).unwrap();
    let mut server = Server::new("unread");
    let mut fabric = ShmFabric::new(LocalMemory::split(&mut arena).0, &config(200), 1, false);
    let client = server.client();
    let geometry = Geometry::of(&config(200));
    let memory = OwnMemory::new(geometry.bytes(), false).unwrap().take_fd().unwrap();
    let pulse = Pulse::new().unwrap();
    let request = Packet::Request(Terms { geometry, arena_bytes: 0 }, PrivateData::new()).encode();
    client.send_any(&request, &[memory.as_raw_fd(), pulse.fd().as_raw_fd()]).unwrap();
    let event = server.turn().expect("a request");
    let Target::Request(_, RequestId(number)) = event.target else { panic!("{event:?}") };
    // Behind the request, which is all that is read before the answer.
    let (linger, _unread): (OwnedFd, _) = lingering(3);
    client.send_any(b"and this", &[linger.as_raw_fd()]).unwrap();
    drop((linger, client));
    let id: ConnId = conn();
    let begun = Clock::now();
    for action in [Action::Adopt(RequestId(number)), Action::CreateQp, Action::DestroyQp, Action::DestroyId] {
        server.control.perform(&mut fabric, id, action).unwrap();
    }
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    server.control.closer.settle();
    assert!(begun.elapsed() > Duration::from_secs(2), "it did linger: {:?}", begun.elapsed());
}

#[test]
fn all_that_one_packet_can_carry_is_closed_elsewhere() {
    let mut server = Server::new("many");
    let client = server.client();
    let (linger, _unread): (OwnedFd, _) = lingering(3);
    let null = File::open("/dev/null").unwrap();
    let mut fds = vec![null.as_raw_fd(); 252];
    fds.push(linger.as_raw_fd());
    client.send_any(b"a packet with as many descriptors as the kernel takes", &fds).unwrap();
    drop((linger, client));
    let begun = Clock::now();
    server.turn();
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    server.control.closer.settle();
    assert!(begun.elapsed() > Duration::from_secs(2), "it did linger: {:?}", begun.elapsed());
}

#[test]
fn rubbish_is_told_as_that_and_nobody_is_taken_for_an_rdma_program() {
    let mut server = Server::new("rubbish");
    let client = server.client();
    client.send_any(b"GET / HTTP/1.1", &[]).unwrap();
    assert!(server.turn().is_none());
    let dropped = server.control.last_dropped().expect("it is told").to_string();
    assert!(dropped.ends_with("sent what is no spinwire's request"), "{dropped}");
}

#[test]
fn a_client_with_more_descriptors_than_the_handshake_has_is_told_from_others() {
    let mut server = Server::new("more");
    let geometry = Geometry::of(&config(200));
    let request = Packet::Request(Terms { geometry, arena_bytes: 0 }, PrivateData::new()).encode();
    let memory = OwnMemory::new(geometry.bytes(), false).unwrap().take_fd().unwrap();
    let pulse = Pulse::new().unwrap();
    for (fds, why) in [(3, "malformed"), (FDS_MAX + 1, "more descriptors"), (253, "more descriptors")] {
        let client = server.client();
        let mut sent = vec![pulse.fd().as_raw_fd(); fds];
        sent[0] = memory.as_raw_fd();
        client.send_any(&request, &sent).unwrap();
        assert!(server.turn().is_none(), "{fds} descriptors");
        let dropped = server.control.last_dropped().expect("it is told").to_string();
        assert!(dropped.contains(why), "{fds} descriptors: {dropped}");
    }
}

/// Clients that say nothing keep their places from nobody, and those that have asked keep theirs.
#[test]
fn whoever_asks_is_heard_at_once_however_many_say_nothing() {
    let mut server = Server::new("silent");
    // Fewer places, which take fewer descriptors to fill.
    server.control.incoming.truncate(32);
    let geometry = Geometry::of(&config(200));
    let memory = OwnMemory::new(geometry.bytes(), false).unwrap().take_fd().unwrap();
    let pulse = Pulse::new().unwrap();
    let request = Packet::Request(Terms { geometry, arena_bytes: 0 }, PrivateData::new()).encode();
    let ask = |client: &Socket| client.send_any(&request, &[memory.as_raw_fd(), pulse.fd().as_raw_fd()]).unwrap();
    let heard = |server: &mut Server| {
        let event = (0..256).find_map(|_| server.control.poll_event(server.now()));
        matches!(event, Some(CmEvent { target: Target::Request(..), .. }))
    };
    let first = server.client();
    ask(&first);
    assert!(heard(&mut server));
    let places = server.control.incoming.len();
    let mut silent = Vec::new();
    while server.control.waiting_clients < places {
        silent.push(server.client());
        server.turn();
        assert!(silent.len() <= places, "{} have a place", server.control.waiting_clients);
    }
    let turned_away = server.control.counters().dropped;
    let late = server.client();
    ask(&late);
    assert!(heard(&mut server), "{:?}", server.control.last_dropped());
    let dropped = server.control.last_dropped().expect("one gave way").to_string();
    assert!(dropped.contains("no room for more"), "{dropped}");
    assert_eq!(server.control.counters().dropped, turned_away + 1);
    let has_asked = |server: &Server, place: usize| {
        server.control.incoming[place].as_ref().is_some_and(|incoming| incoming.offer.is_some())
    };
    assert!(has_asked(&server, 0), "who has asked stays");
    // The first of the silent ones has gone, and `late` has its place; the second asks in time.
    ask(&silent[1]);
    assert_eq!(server.control.make_room(), Some(3), "the third gives way");
    assert!(has_asked(&server, 1) && has_asked(&server, 2));
}

#[test]
fn nobody_is_let_in_while_too_much_waits_to_be_closed_and_then_all_are() {
    let mut server = Server::new("full");
    let (linger, _unread) = lingering(1);
    server.control.closer.close(linger, Whose::Strangers);
    for _ in 1..WAITING_MAX {
        server.control.closer.close(File::open("/dev/null").unwrap().into(), Whose::Strangers);
    }
    let begun = Clock::now();
    let _clients = [server.client(), server.client()];
    while begun.elapsed() < Duration::from_millis(300) {
        server.turn();
        assert_eq!(server.control.waiting_clients, 0, "after {:?}", begun.elapsed());
    }
    let failure = server.control.last_failure().expect("it is noted").to_string();
    assert!(failure.contains("take long to close"), "{failure}");
    while server.control.waiting_clients < 2 {
        server.turn();
        assert!(begun.elapsed() < Duration::from_secs(5), "they are still not let in");
    }
}
