//! One side is stopped in the middle of a send, for longer than its peer waits: both learn it, once each.

use std::thread;
use std::time::Duration;

use super::child::Child;
use super::kills::{alone, name, number_after};
use super::size;

/// How long a peer may stand still here, in ms.
fn silence_ms() -> u64 {
    size("SPINWIRE_SOAK_SILENCE_MS", 1_000)
}

fn closed(child: &mut Child) -> Vec<String> {
    child.said().iter().filter_map(|line| line.find("closed ").map(|at| line[at..].to_owned())).collect()
}

/// `stopped` stops itself in the middle of its 20th message; `survivor` is told, and then `stopped` wakes up.
fn both_learn_once(stopped: &mut Child, survivor: &mut Child) {
    let since = number_after(&stopped.wait_for("dies "), "dies ");
    let line = survivor.wait_for("closed ");
    assert!(line.contains(&format!(" by {} ", stopped.pid())), "{line}");
    assert!(
        line.contains("the peer's program stands still (stopped, or too busy)"),
        "the reason says what the matter is: {line}"
    );
    let waited = number_after(&line, "closed ").saturating_sub(since) / 1_000_000;
    let limit = silence_ms();
    println!("soak: a peer that stopped in the middle of a send was given up after {waited} ms, of {limit}");
    assert!((limit - 300..limit + 3_000).contains(&waited), "given up after {waited} ms, of {limit}");
    stopped.signal(libc::SIGCONT);
    let line = stopped.wait_for("closed ");
    assert!(line.contains(&format!(" by {} ", survivor.pid())), "{line}");
    thread::sleep(Duration::from_millis(500));
    for child in [stopped, survivor] {
        let lines = closed(child);
        assert_eq!(lines.len(), 1, "it ends once: {lines:?}");
        assert!(child.said().len() < 20, "no flood: {:?}", child.said());
        assert!(!child.said().iter().any(|line| line.contains("spoilt")), "{:?}", child.said());
    }
}

#[test]
fn a_client_stopped_for_too_long_ends_once_and_learns_it_once() {
    let (_turn, url, limit) = (alone(), name(), silence_ms());
    let mut server = Child::play(&format!("serve {url} {limit}"));
    server.wait_for("ready");
    let mut client = Child::play(&format!("burst {url} {limit} Word 20 {}", libc::SIGSTOP));
    both_learn_once(&mut client, &mut server);
    Child::play(&format!("burst {url} {limit}")).wait_for("a thousand answers");
}

#[test]
fn a_server_stopped_for_too_long_ends_once_and_learns_it_once() {
    let (_turn, url, limit) = (alone(), name(), silence_ms());
    let mut server = Child::play(&format!("serve {url} {limit} Part 5 {}", libc::SIGSTOP));
    server.wait_for("ready");
    let mut client = Child::play(&format!("burst {url} {limit}"));
    both_learn_once(&mut server, &mut client);
    Child::play(&format!("burst {url} {limit}")).wait_for("a thousand answers");
}
