//! Servers that answer wrongly: the client has to notice, say what is wrong, and end with 1. Run by `ci/vm`.

mod common;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{Ended, PATIENCE, lab_addresses, port, start_ping, url};
use spinwire_core::id::ConnId;
use spinwire_core::turn::{Answer, Cx, Handler};
use spinwire_linux::runtime::{Options, Role, Setup};

/// What happens to message number `at`; the others are echoed.
struct Faulty {
    at: u64,
    seen: u64,
    fault: fn(&mut Cx<'_, '_>, ConnId, &mut [u8]) -> Answer,
}

impl Handler for Faulty {
    fn on_message(&mut self, cx: &mut Cx<'_, '_>, conn: ConnId, message: &mut [u8]) -> Answer {
        self.seen += 1;
        match self.seen - 1 == self.at {
            true => (self.fault)(cx, conn, message),
            false => Answer::InPlace(message.len() as u32),
        }
    }
}

/// Runs a client against a server that does `fault` to message 50, and expects it to fail.
#[track_caller]
fn ping_faulty(fault: fn(&mut Cx<'_, '_>, ConnId, &mut [u8]) -> Answer, extra: &str) -> Ended {
    let (ip, port) = (lab_addresses().0, port());
    let (ready, over) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|threads| {
        let server = threads.spawn(|| {
            let mut setup = Setup::new(&Options::on_core(0), Role::Listen(SocketAddr::new(ip, port))).unwrap();
            let mut reactor = setup.start().unwrap();
            ready.store(true, Ordering::Release);
            let mut faulty = Faulty { at: 50, seen: 0, fault };
            reactor.run(&mut faulty, |_| over.load(Ordering::Acquire)).unwrap();
            reactor.close(&mut faulty).unwrap();
        });
        let begun = Instant::now();
        while !ready.load(Ordering::Acquire) && !server.is_finished() && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
        let client = start_ping(&url(ip, port), extra);
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| client.finish(PATIENCE)));
        // Also when the client hangs: the server must not wait for it.
        over.store(true, Ordering::Release);
        server.join().unwrap();
        ended.unwrap()
    })
    .expect_code(1)
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn a_changed_byte_is_named() {
    let fault = |_: &mut Cx<'_, '_>, _: ConnId, message: &mut [u8]| {
        message[40] ^= 1;
        Answer::InPlace(message.len() as u32)
    };
    ping_faulty(fault, "--count 1000 --warmup 0 --verify").expect("message 50: byte 40 is ").expect("50 of 64 bytes");
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn a_lost_reply_shows_at_the_next_one() {
    let fault = |_: &mut Cx<'_, '_>, _: ConnId, _: &mut [u8]| Answer::None;
    ping_faulty(fault, "--count 1000 --depth 8").expect("expected the reply with sequence 50, got sequence 51");
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn a_doubled_reply_is_noticed() {
    let fault = |cx: &mut Cx<'_, '_>, conn: ConnId, message: &mut [u8]| {
        cx.send(conn, message).unwrap();
        Answer::InPlace(message.len() as u32)
    };
    ping_faulty(fault, "--count 1000 --depth 1 --timeout 3s").expect("connection 1");
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn a_short_reply_is_noticed() {
    let fault = |_: &mut Cx<'_, '_>, _: ConnId, message: &mut [u8]| Answer::InPlace(message.len() as u32 - 1);
    ping_faulty(fault, "--count 1000").expect("the reply has 63 bytes, 64 were sent");
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn a_server_that_goes_silent_is_given_up_after_the_timeout() {
    let fault = |_: &mut Cx<'_, '_>, _: ConnId, _: &mut [u8]| Answer::None;
    let begun = Instant::now();
    ping_faulty(fault, "--count 1000 --timeout 2s").expect("no progress for ").expect("1 message without a reply");
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}
