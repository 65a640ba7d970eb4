//! The loop allocates nothing once it runs: counted by an allocator of our own, per thread.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::fabric::{alone, cpu, echoes, shm_name};
use common::{lab_addresses, port};
use spinwire::echo::EchoServer;
use spinwire::load::{Extent, Pace};
use spinwire::outcome::Outcome;
use spinwire::ping::Pinger;
use spinwire::plan::Plan;
use spinwire::reason::Over;
use spinwire_core::time::Nanos;
use spinwire_linux::cm::Endpoint;
use spinwire_linux::runtime::{Options, Reactor, Role, Setup, ShmRole, ShmSetup, Size, Transport};
use spinwire_linux::shm::{Name, Users};
use spinwire_linux::signals::Stop;

/// Counts, for each thread by itself, what it allocates and frees.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    // Constant and without a destructor: using it inside the allocator allocates nothing.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    CALLS.set(CALLS.get() + 1);
}

/// Runs `work` and says how often it called the allocator.
fn counted<R>(work: impl FnOnce() -> R) -> (R, u64) {
    let before = CALLS.get();
    let result = work();
    (result, CALLS.get() - before)
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches no allocated memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count();
        // SAFETY: `at` came from `alloc` above with this layout, so from the system's allocator.
        unsafe { System.dealloc(at, layout) }
    }
}

#[test]
fn the_counter_counts() {
    let ((), calls) = counted(|| drop(std::hint::black_box(Box::new(7))));
    assert_eq!(calls, 2, "a box is allocated and freed");
}

/// Set by the client's thread, followed by the server's.
#[derive(Default)]
struct Marks {
    listening: AtomicBool,
    warm: AtomicBool,
    enough: AtomicBool,
    done: AtomicBool,
}

#[test]
#[ignore = "needs an RDMA device: ci/vm"]
fn twenty_thousand_messages_allocate_nothing_on_either_side() {
    let (server, client) = lab_addresses();
    let server = SocketAddr::new(server, port());
    both_sides(
        |marks| {
            let mut setup = Setup::new(&Options::on_core(0), Role::Listen(server)).unwrap();
            serve(setup.start().unwrap(), marks, 20_000);
        },
        |marks| {
            let role = Role::Connect(Endpoint { target: server, source: Some(SocketAddr::new(client, 0)) });
            let mut setup = Setup::new(&client_options(1), role).unwrap();
            ping(setup.start().unwrap(), marks, 20_000);
        },
    );
}

/// `SPINWIRE_SHM_ECHOES=10000000` makes it so many.
#[test]
fn twenty_thousand_messages_over_shared_memory_allocate_nothing_on_either_side() {
    let _turn = alone();
    let name: Name = shm_name().parse().unwrap();
    let messages = echoes(20_000);
    both_sides(
        |marks| {
            let role = ShmRole::Listen(name.clone(), Users::default());
            let mut setup = ShmSetup::new(&Options::on_core(cpu(0)), role).unwrap();
            serve(setup.start().unwrap(), marks, messages);
        },
        |marks| {
            let role = ShmRole::Connect(name.clone(), Users::default());
            let mut setup = ShmSetup::new(&client_options(cpu(1)), role).unwrap();
            ping(setup.start().unwrap(), marks, messages);
        },
    );
}

fn both_sides(server: impl FnOnce(&Marks) + Send, client: impl FnOnce(&Marks) + Send) {
    let marks = Marks::default();
    std::thread::scope(|threads| {
        let serving = threads.spawn(|| server(&marks));
        let asking = threads.spawn(|| {
            let begun = Instant::now();
            while !marks.listening.load(Ordering::Acquire) {
                assert!(begun.elapsed() < Duration::from_secs(30), "the server does not listen");
                std::thread::sleep(Duration::from_millis(5));
            }
            client(&marks);
        });
        let asked = asking.join();
        // Also when the client failed: the server must not wait for it.
        for mark in [&marks.warm, &marks.enough, &marks.done] {
            mark.store(true, Ordering::Release);
        }
        serving.join().expect("the server's thread does not panic");
        asked.expect("the client's thread does not panic");
    });
}

fn client_options(cpu: u32) -> Options {
    Options { connections: 8, depth: Size::Asked(8), message_bytes_max: 64, ..Options::on_core(cpu) }
}

/// Answers, and counts while at least three quarters of `messages` come.
fn serve<C: Transport>(mut reactor: Reactor<'_, C>, marks: &Marks, messages: u64) {
    let mut server = EchoServer::new(64, Stop::default(), None);
    marks.listening.store(true, Ordering::Release);
    reactor.run(&mut server, |_| marks.warm.load(Ordering::Acquire)).unwrap();
    let answered = reactor.stats().messages_received;
    let (ran, calls) = counted(|| reactor.run(&mut server, |_| marks.enough.load(Ordering::Acquire)));
    ran.unwrap();
    let watched = reactor.stats().messages_received - answered;
    assert!(watched > messages / 4 * 3, "the server was watched while it worked: {watched} of {messages} messages");
    println!("server: {calls} calls of the allocator in {watched} messages");
    assert_eq!(calls, 0, "calls of the allocator by the server's loop");
    reactor.run(&mut server, |_| marks.done.load(Ordering::Acquire)).unwrap();
    reactor.close(&mut server).unwrap();
}

/// Asks, and counts while `messages` come back.
fn ping<C: Transport>(mut reactor: Reactor<'_, C>, marks: &Marks, messages: u64) {
    let plan = Plan {
        connections: 8,
        depth: 8,
        message_bytes: 64,
        pace: Pace::Closed,
        extent: Extent::Count(messages + 3_000),
        warmup: 100,
        verify: true,
        raw: false,
        core: 1,
        over: Over::Rdma,
        timeout: Nanos::from_secs(20),
    };
    let mut pinger = Pinger::new(plan, Stop::default(), None);
    reactor.run(&mut pinger, |pinger| pinger.replies() >= 1_000 || pinger.is_done()).unwrap();
    marks.warm.store(true, Ordering::Release);
    let (ran, calls) =
        counted(|| reactor.run(&mut pinger, |pinger| pinger.replies() >= messages + 1_000 || pinger.is_done()));
    ran.unwrap();
    println!("client: {calls} calls of the allocator in {messages} messages");
    assert_eq!(calls, 0, "calls of the allocator by the client's loop");
    marks.enough.store(true, Ordering::Release);
    reactor.run(&mut pinger, Pinger::is_done).unwrap();
    let (outcome, measure) = pinger.into_results();
    assert_eq!(outcome, Outcome::Complete);
    assert_eq!(measure.replies, messages + 3_000);
}
