//! Liars at work while a server serves others: they lose their connections, and nobody else anything.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::child::Child;
use super::kills::{alone, name, number_after};
use super::liar::{Liar, Met};
use super::pattern::LONGEST;
use super::{seed, size};

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
