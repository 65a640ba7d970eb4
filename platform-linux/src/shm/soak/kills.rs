//! Either side is killed, idle, in bursts and in the middle of a send: the other learns it at once, by name, and nothing is left.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::child::{Child, Holding};
use super::{Random, is_full, seed, size, worst_and_median};
use crate::shm::hook::Point;

/// A peer's end is reported within this.
const REPORT_LIMIT: Duration = Duration::from_millis(100);
/// What may come and go in a process without being a leak: less than a page for each kill of the full size. (A sanitizer
/// holds on to what is freed, and asks for more.)
fn resident_kib_max() -> u64 {
    size("SPINWIRE_SOAK_RESIDENT_KIB", 300)
}

/// Kills of either side. After half of them the survivor is as large as it is from then on: its heap has found its size.
fn rounds() -> u64 {
    size("SPINWIRE_SOAK_KILLS", 6)
}

/// A name no other test uses.
pub(super) fn name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("shm://soak-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Scenes keep two cores busy: they take turns.
pub(super) fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How a process ends: at any moment of a burst, or where a send is half made.
fn how(round: u64, random: &mut Random) -> Option<(Point, u64)> {
    let point = [None, Some(Point::Word), None, Some(Point::Chunk), None, Some(Point::Part)][(round % 6) as usize]?;
    // One message in eleven has several parts.
    Some((point, 1 + random.below(200)))
}

fn scene(role: &str, url: &str, death: Option<(Point, u64)>) -> String {
    let death = death.map_or(String::new(), |(point, nth)| format!(" {point:?} {nth} {}", libc::SIGKILL));
    format!("{role} {url} 12000{death}")
}

/// Lets `victim` die and tells when.
fn die(victim: &mut Child, death: Option<(Point, u64)>, random: &mut Random) -> u64 {
    match death {
        Some(_) => number_after(&victim.wait_for("dies "), "dies "),
        None => {
            thread::sleep(Duration::from_micros(random.below(30_000)));
            victim.signal(libc::SIGKILL)
        }
    }
}

pub(super) fn number_after(line: &str, word: &str) -> u64 {
    line.strip_prefix(word).and_then(|rest| rest.split(' ').next()).and_then(|text| text.parse().ok()).expect(line)
}

/// Waits until `survivor` reports the end of process `pid`, and tells how long after `died` that was.
fn learns(survivor: &mut Child, pid: u32, died: u64) -> Duration {
    let line = survivor.wait_for("closed ");
    assert!(line.contains(&format!(" by {pid} ")), "process {pid} died, but: {line}");
    assert!(
        line.ends_with(
            "the peer disconnected without a goodbye (its process ended, or its program did not close the connection)"
        ),
        "{line}"
    );
    Duration::from_nanos(number_after(&line, "closed ").saturating_sub(died))
}

fn judge(victim: &str, times: Vec<Duration>, survivor: &mut Child, before: Holding) {
    let kills = times.len();
    let after = survivor.settles_at(before);
    let (worst, median) = worst_and_median(times);
    println!(
        "soak: {kills} kills of the {victim}, half of them in the middle of a send: reported after {median:?}, \
        {worst:?} at worst; {before:?} became {after:?}"
    );
    let spoilt: Vec<_> = survivor.said().iter().filter(|line| line.contains("spoilt")).collect();
    assert!(spoilt.is_empty(), "a message was delivered that is not as it was sent: {spoilt:?}");
    assert!(after.resident_kib < before.resident_kib + resident_kib_max(), "{before:?} became {after:?}");
    // On a machine that is busy with other tests, one or the other may be late.
    let judged = if is_full() { worst } else { median };
    assert!(judged < REPORT_LIMIT, "reported after {judged:?}, of {REPORT_LIMIT:?}");
}

#[test]
fn killed_clients_are_named_at_once_and_leave_nothing_and_no_half_message() {
    let (_turn, url, seed) = (alone(), name(), seed());
    println!("soak: SPINWIRE_SOAK_SEED={seed}");
    let mut random = Random::new(seed);
    let mut server = Child::play(&scene("serve", &url, None));
    server.wait_for("ready");
    let mut times = Vec::new();
    let mut before = None;
    for round in 0..rounds() {
        let death = how(round, &mut random);
        let role = if round % 6 == 4 { "idle" } else { "burst" };
        let mut client = Child::play(&scene(role, &url, death));
        server.wait_for(&format!("opened {}", client.pid()));
        let died = die(&mut client, death, &mut random);
        let time = learns(&mut server, client.pid(), died);
        times.push(time);
        match before {
            Some(before) => drop(server.settles_at(before)),
            None if round >= rounds() / 2 => before = Some(server.at_rest()),
            None => {}
        }
    }
    judge("client", times, &mut server, before.expect("there were rounds"));
    Child::play(&scene("burst", &url, None)).wait_for("a thousand answers");
}

#[test]
fn killed_servers_are_named_at_once_and_leave_nothing_and_no_half_message() {
    let (_turn, url, seed) = (alone(), name(), seed());
    println!("soak: SPINWIRE_SOAK_SEED={seed}");
    let mut random = Random::new(seed);
    let mut client = Child::play(&scene("return", &url, None));
    let mut times = Vec::new();
    let mut before = None;
    for round in 0..rounds() {
        let death = how(round, &mut random);
        let mut server = Child::play(&scene("serve", &url, death));
        client.wait_for(&format!("opened {}", server.pid()));
        let died = die(&mut server, death, &mut random);
        let time = learns(&mut client, server.pid(), died);
        times.push(time);
        if round == rounds() / 2 {
            before = Some(client.at_rest());
        }
    }
    judge("server", times, &mut client, before.expect("there were rounds"));
    let _server = Child::play(&scene("serve", &url, None));
    client.wait_for("a thousand answers");
}
