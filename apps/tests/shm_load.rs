//! Shared memory with many clients, with short ones, with long use: nothing is lost, and nothing is left.

mod common;
mod load;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::fabric::{Fabric, alone, cpu, serve_at, shm_name};
use common::{PATIENCE, scratch, size};
use load::{Visitor, options};
use spinwire_core::cm::hello::Refusal;
use spinwire_core::cm::reason::{CloseReason, CloseReport};
use spinwire_core::id::ConnId;
use spinwire_core::turn::{Answer, Cx, Handler};
use spinwire_linux::runtime::{Idle, Options, ShmRole, ShmSetup};
use spinwire_linux::shm::Users;

#[test]
fn of_128_clients_at_once_each_is_served_or_refused_with_the_size_of_the_table() {
    const CLIENTS: usize = 128;
    for places in [128, 127, 16] {
        let server = Fabric::Shm.server(&format!("--connections-max {places} --depth 1 --message-max 64 --pages 4k"));
        let barrier = Barrier::new(CLIENTS);
        let (served, refused) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|threads| {
            for _ in 0..CLIENTS {
                threads.spawn(|| {
                    barrier.wait();
                    let visitor = Visitor::new(1, 1, true).run(&server.url, cpu(1), 1, options(0, 1).idle);
                    match visitor.ends[0] {
                        CloseReason::Local if visitor.replies == 1 => served.fetch_add(1, Ordering::Relaxed),
                        CloseReason::Refused(Refusal::TableFull { live, capacity }) => {
                            assert_eq!((live, capacity), (places, places));
                            refused.fetch_add(1, Ordering::Relaxed)
                        }
                        other => panic!("{other}, {} replies", visitor.replies),
                    };
                });
            }
        });
        let (served, refused) = (served.into_inner(), refused.into_inner());
        assert_eq!(served + refused, CLIENTS as u64);
        assert!(served >= u64::from(places.min(CLIENTS as u32)) || refused > 0, "{served} of {places} places");
        server.stop().expect(&format!("{served} served, {refused} refused"));
    }
}

/// Counts the messages of each connection, which must come in order.
#[derive(Default)]
struct Counter {
    /// By slot of the connection table.
    next: [u32; 4],
    visits: Vec<(u32, CloseReason)>,
}

impl Handler for Counter {
    fn on_message(&mut self, _: &mut Cx<'_, '_>, conn: ConnId, message: &mut [u8]) -> Answer {
        assert_eq!(message, self.next[conn.slot()].to_le_bytes(), "each once, in order");
        self.next[conn.slot()] += 1;
        Answer::None
    }

    fn on_close(&mut self, _: &mut Cx<'_, '_>, conn: ConnId, report: &CloseReport) {
        self.visits.push((std::mem::take(&mut self.next[conn.slot()]), report.reason));
    }
}

#[test]
fn a_peer_that_sends_a_thousand_messages_and_closes_at_once_loses_none() {
    let rounds = size("SPINWIRE_SOAK_BURSTS", 100) as u32;
    let _turn = alone();
    let url = shm_name();
    let listening = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let counting = threads.spawn(|| {
            let role = ShmRole::Listen(url.parse().unwrap(), Users::default());
            // The next visit may begin before the last one is quite over here.
            let options = Options { idle: Idle::Spin, connections: 4, ..options(cpu(0), 16) };
            let mut setup = ShmSetup::new(&options, role).unwrap();
            let mut reactor = setup.start().unwrap();
            listening.store(true, Ordering::Release);
            let (mut counter, begun) = (Counter::default(), Instant::now());
            let limit = PATIENCE * (1 + rounds / 100);
            let done = |counter: &Counter| counter.visits.len() == rounds as usize || begun.elapsed() > limit;
            reactor.run(&mut counter, done).unwrap();
            counter.visits
        });
        while !listening.load(Ordering::Acquire) && !counting.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let visitor = Visitor::new(rounds, 1_000, false);
        let visitor = threads.spawn(|| visitor.run(&url, cpu(1), 16, Idle::Spin)).join().unwrap();
        assert_eq!(visitor.ends, [CloseReason::Local]);
        let visits = counting.join().unwrap();
        assert_eq!(visits.len(), rounds as usize);
        assert!(visits.iter().all(|visit| *visit == (1_000, CloseReason::Peer)), "{visits:?}");
        println!("soak: {rounds} times a thousand messages and a close at once: all arrived");
    });
}

/// What a process holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    files: usize,
    /// Mappings of memory files.
    mappings: usize,
    address_space_kib: u64,
    resident_kib: u64,
}

impl Held {
    fn by(pid: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let kib = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            line.trim().trim_end_matches(" kB").parse().unwrap()
        };
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        Self {
            files: fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count(),
            mappings: maps.lines().filter(|line| line.contains("memfd:")).count(),
            address_space_kib: kib("VmSize:"),
            resident_kib: kib("VmRSS:"),
        }
    }
}

/// Names in a directory that could be ours.
fn names_in(directory: &Path) -> BTreeSet<OsString> {
    let names = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.file_name());
    // Other tests make files of their own meanwhile.
    names.filter(|name| name.to_string_lossy().contains("shm") || name.to_string_lossy().contains("memfd")).collect()
}

/// The first rounds touch what is there to be touched: buffers, tables, the heap. Then nothing more is.
#[test]
fn connections_one_after_the_other_leave_nothing_behind() {
    const FIRST: u32 = 100;
    let rounds = size("SPINWIRE_SOAK_ROUNDS", 1_000) as u32;
    let _turn = alone();
    let directory = scratch("rounds");
    fs::create_dir(&directory).unwrap();
    let url = format!("shm://{}/echo", directory.display());
    let server = serve_at(&url, "--connections-max 4 --quiet");
    let pids = [("client", std::process::id()), ("server", server.process.pid())];
    let files = || [Path::new("/dev/shm"), Path::new("/tmp"), &directory].map(names_in);
    let parts: Vec<u32> = (0..=rounds).step_by(1_000).map(|done| FIRST + done).collect();
    let (mut before, mut begun) = (None, Instant::now());
    let look = |done| {
        // The last disconnect may still be on its way, and what it leaves about to be closed by a thread.
        std::thread::sleep(Duration::from_millis(100));
        let look = || (pids.map(|(_, pid)| Held::by(pid)), files());
        let mut now = look();
        if let Some((before, _)) = &before {
            let begun = Instant::now();
            let count = |held: &[Held; 2]| held.each_ref().map(|held| held.files);
            while count(&now.0) != count(before) && begun.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(5));
                now = look();
            }
        }
        let Some((held, named)) = &before else {
            (before, begun) = (Some(now), Instant::now());
            return;
        };
        println!("soak: {} rounds in {:.1?}", done - FIRST, begun.elapsed());
        for (((name, _), before), after) in pids.iter().zip(held).zip(now.0) {
            println!("soak:   {name} {before:?} became {after:?}");
            assert_eq!((after.files, after.mappings), (before.files, before.mappings), "{name}");
            assert!(after.address_space_kib <= before.address_space_kib + HEAP_STEPS_KIB_MAX, "{name}");
            assert!(after.resident_kib <= before.resident_kib + GROWTH_KIB_MAX, "{name}");
        }
        assert_eq!(&now.1, named, "files");
    };
    let visit = || {
        let options = Options { idle: Idle::Spin, ..options(cpu(1), 4) };
        Visitor::new(0, 10, true).run_in_parts(&url, &options, &parts, look)
    };
    let visitor = std::thread::scope(|threads| threads.spawn(visit).join().unwrap());
    assert_eq!(visitor.ends, [CloseReason::Local]);
    // And the same core, set up and let go again and again.
    let open = || Held::by(pids[0].1).files;
    let before = open();
    for _ in 0..10 {
        let visit = || Visitor::new(1, 1, true).run(&url, cpu(1), 4, Idle::Spin);
        std::thread::scope(|threads| threads.spawn(visit).join().unwrap());
    }
    // The last of them may still be about to be closed, which a thread does.
    let begun = Instant::now();
    while open() != before && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(open(), before, "open files");
    server.stop();
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "the socket is gone with its server");
    fs::remove_dir(&directory).unwrap();
}

/// A page here and there that an allocation came to lie on. One that is lost in every round would be 40 times as much after
/// a thousand, 400 times after ten.
const GROWTH_KIB_MAX: u64 = 100;
/// Of address space: the allocator takes it from the kernel in steps of 132 KiB, and may need another one.
const HEAP_STEPS_KIB_MAX: u64 = 400;
