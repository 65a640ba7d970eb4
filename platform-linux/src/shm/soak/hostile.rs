//! Liars at work while a server serves others: they lose their connections, and nobody else anything.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::child::Child;
use super::kills::{alone, name, number_after};
use super::liar::{Liar, Met};
use super::lying_server;
use super::pattern::LONGEST;
use super::{seed, size};
use crate::shm::socket::Socket;

/// Liars at once.
const LIARS: usize = 2;

/// What is said when nothing is wrong.
fn is_usual(line: &str) -> bool {
    line.is_empty()
        || ["running", "test shm", "ready", "opened", "a thousand", "answers", "hosting"]
            .iter()
            .any(|usual| line.starts_with(usual))
}

#[test]
fn liars_lose_their_connections_and_nobody_else_anything() {
    let (_turn, url, seed) = (alone(), name(), seed());
    let seconds = size("SPINWIRE_SOAK_HOSTILE_SECONDS", 3);
    println!("soak: SPINWIRE_SOAK_SEED={seed}");
    let mut server = Child::play(&format!("host {url} 12000"));
    server.wait_for("ready");
    let mut friend = Child::play(&format!("burst {url} 12000"));
    friend.wait_for("a thousand answers");
    let before = server.at_rest();

    // Each session has the next seed: the one that did harm is among the last of each liar.
    let (next, met) = (AtomicU64::new(0), [const { AtomicU64::new(0) }; 3]);
    let end = Instant::now() + Duration::from_secs(seconds);
    let lie = || {
        let name = url.parse().unwrap();
        while Instant::now() < end {
            let session = seed.wrapping_add(next.fetch_add(1, Ordering::Relaxed));
            let how = Liar::session(&name, session);
            met[how as usize].fetch_add(1, Ordering::Relaxed);
        }
    };
    thread::scope(|threads| {
        let liars: Vec<_> = (0..LIARS).map(|_| threads.spawn(lie)).collect();
        let mut shown = Instant::now();
        while liars.iter().any(|liar| !liar.is_finished()) {
            thread::sleep(Duration::from_millis(100));
            let last = seed.wrapping_add(next.load(Ordering::Relaxed));
            for child in [&mut friend, &mut server] {
                let harmed = child.has_ended() || child.said().iter().any(|line| !is_usual(line));
                let said = || child.seen.join("\n");
                assert!(!harmed, "the last sessions are those before SPINWIRE_SOAK_SEED={last}; said:\n{}", said());
            }
            if seconds > 30 && shown.elapsed() > Duration::from_secs(30) {
                shown = Instant::now();
                let left = end.saturating_duration_since(shown).as_secs();
                eprintln!("soak: {} sessions with liars, {left} s left", next.load(Ordering::Relaxed));
            }
        }
    });

    // The friend goes on, and is the only one that is left.
    let answers = |friend: &mut Child| number_after(&friend.wait_for("answers "), "answers ");
    friend.said();
    let (first, second) = (answers(&mut friend), answers(&mut friend));
    assert!(second > first, "{first} answers became {second}");
    let [nobody, caught, bored] = met.map(AtomicU64::into_inner);
    let line = loop {
        server.said();
        let line = server.wait_for("hosting ");
        if line.starts_with("hosting 1 of") {
            break line;
        }
        assert!(Instant::now() < end + Duration::from_secs(30), "liars are still there: {line}");
    };
    let after = server.settles_at(before);
    println!(
        "soak: {} sessions with liars in {seconds} s: {caught} caught, {bored} not, {nobody} not let in",
        caught + bored + nobody
    );
    println!("soak: the server is {line}; {before:?} became {after:?}; the other client had {second} sound answers");
    assert!(caught > 0 && bored > 0, "both kinds of session come to pass");
    assert!(
        after.resident_kib < before.resident_kib + size("SPINWIRE_SOAK_RESIDENT_KIB", 2_000),
        "{before:?} became {after:?}"
    );
}

#[test]
fn a_lying_server_is_left_in_time_and_does_its_client_no_harm() {
    let (_turn, url, seed) = (alone(), name(), seed());
    let seconds = size("SPINWIRE_SOAK_HOSTILE_SECONDS", 3);
    println!("soak: SPINWIRE_SOAK_SEED={seed}");
    let listener = Socket::new().unwrap();
    listener.bind(&url.parse().unwrap()).unwrap();
    listener.listen().unwrap();
    let mut client = Child::play(&format!("visit {url} 1000"));
    let is_usual = |line: &String| is_usual(line) || line.starts_with("visits") || line.starts_with("ended as");
    let (mut met, end) = ([0_u64; 3], Instant::now() + Duration::from_secs(seconds));
    for session in (0..).map(|n| seed.wrapping_add(n)) {
        met[lying_server::session(&listener, session) as usize] += 1;
        let harmed = client.has_ended() || !client.said().iter().all(is_usual);
        let said = || client.seen.join("\n");
        assert!(!harmed, "the last session is SPINWIRE_SOAK_SEED={session}; said:\n{}", said());
        if Instant::now() > end {
            break;
        }
    }
    drop(listener);
    // It goes on with a sound one, as if nothing had been.
    let mut server = Child::play(&format!("host {url} 12000"));
    server.wait_for("ready");
    client.wait_for("a thousand answers");
    let line = client.wait_for("visits ");
    let [nobody, caught, bored] = met;
    println!(
        "soak: {} lying servers in {seconds} s: {caught} left, {bored} not, {nobody} without a client",
        caught + bored
    );
    println!("soak: the client's {line}");
    for line in client.seen.iter().filter(|line| line.starts_with("ended as")) {
        println!("soak:   {line}");
    }
    assert!(caught > 0 && bored > 0, "both kinds of session come to pass");
    let longest = line.split("longest ").nth(1).map(|rest| number_after(rest, "")).expect("it is told");
    assert!(longest < 10_000, "a connection took {longest} ms to end");
    assert!(!line.contains(" 0 operations"), "{line}");
}

#[test]
fn a_message_longer_than_its_buffer_ends_the_connection_and_both_lengths_are_named() {
    let (_turn, url) = (alone(), name());
    let mut server = Child::play(&format!("serve {url} 12000"));
    server.wait_for("ready");
    for total in [LONGEST as u32 + 1, 1 << 24, u32::MAX] {
        assert_eq!(Liar::claims(&url.parse().unwrap(), total), Met::Caught);
        let wanted = format!("the peer broke the protocol: sent {total} bytes, at most {LONGEST} expected");
        let line = loop {
            let line = server.wait_for("closed ");
            // Those that had no chunks left at once.
            if !line.contains("without a goodbye") {
                break line;
            }
        };
        assert!(line.ends_with(&wanted), "{line}");
    }
    Child::play(&format!("burst {url} 12000")).wait_for("a thousand answers");
}
