//! Rings between two processes, over a memory file that each maps for itself.
#![cfg(all(not(loom), not(miri), target_os = "linux"))]

use std::ffi::CStr;
use std::ptr::{self, NonNull};
use std::time::{Duration, Instant};

use spinwire_core::ring::shared::{Region, batch, latency};
use spinwire_core::ring::{Consumer, Memory, PopError, Producer};
use spinwire_core::sim::Random;

const CAPACITY: usize = 64;
/// Of each of the two rings in the file: header and slots, in whole pages.
const LEN: usize = 8192;

/// A memory file that cannot shrink.
struct File(i32);

impl File {
    fn new() -> File {
        let name: &CStr = c"ring";
        // SAFETY: plain calls; the name ends with a zero, and the file is ours.
        unsafe {
            let file = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
            assert!(file >= 0, "{}", std::io::Error::last_os_error());
            assert_eq!(libc::ftruncate(file, 2 * LEN as i64), 0);
            assert_eq!(libc::fcntl(file, libc::F_ADD_SEALS, libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL), 0);
            File(file)
        }
    }

    /// Maps it, at an address of this call's own, for as long as the process lives, and returns the two regions.
    fn map(&self) -> [Region<'static>; 2] {
        // SAFETY: a new mapping, so nobody in this process has a reference to it; it is never unmapped, and the file
        // cannot shrink.
        unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let start = libc::mmap(ptr::null_mut(), 2 * LEN, protection, libc::MAP_SHARED, self.0, 0);
            assert_ne!(start, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
            let start = NonNull::new(start.cast::<u8>()).unwrap();
            [Region::new(start, LEN).unwrap(), Region::new(start.add(LEN), LEN).unwrap()]
        }
    }
}

/// A second process that runs `work` and nothing else, and is gone when this is dropped.
struct Child(i32);

impl Child {
    /// `work` must not allocate: another thread of this process may hold the allocator's lock.
    fn start(work: impl FnOnce()) -> Child {
        // SAFETY: the child calls `work`, which does not allocate, and `_exit`.
        match unsafe { libc::fork() } {
            0 => {
                work();
                // SAFETY: ends the process at once.
                unsafe { libc::_exit(0) }
            }
            child => {
                assert!(child > 0, "{}", std::io::Error::last_os_error());
                Child(child)
            }
        }
    }

    fn exit_status(self) -> i32 {
        let mut status = 0;
        // SAFETY: our own child, waited for once: `drop` is not run.
        unsafe { libc::waitpid(self.0, &mut status, 0) };
        std::mem::forget(self);
        status
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: our own child, not yet waited for.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, ptr::null_mut(), 0);
        }
    }
}

fn deadline() -> impl Fn() {
    let since = Instant::now();
    move || {
        assert!(since.elapsed() < Duration::from_secs(60), "the other process does not answer");
        // On one core, spinning would wait for the scheduler.
        std::thread::yield_now();
    }
}

fn echo<M: Memory>(mut requests: Consumer<M>, mut answers: Producer<M>) {
    loop {
        match requests.pop() {
            Ok(mut item) => {
                while let Err(error) = answers.push(item) {
                    item = error.into_item();
                    std::thread::yield_now();
                }
            }
            Err(PopError::Empty) => std::thread::yield_now(),
            Err(_) => return,
        }
    }
}

/// The other process echoes until the ring is closed, and closes its own. Nothing is lost, and "closed" comes last.
macro_rules! echo_between_processes {
    ($layout:ident) => {{
        let file = File::new();
        let child = Child::start(|| {
            let [there, back] = file.map();
            echo(
                $layout::attach_consumer::<[u64; 7]>(there, CAPACITY).unwrap(),
                $layout::attach_producer(back, CAPACITY).unwrap(),
            );
        });
        let [there, back] = file.map();
        let mut requests = Some($layout::attach_producer::<[u64; 7]>(there, CAPACITY).unwrap());
        let mut answers = $layout::attach_consumer::<[u64; 7]>(back, CAPACITY).unwrap();
        let (mut next, mut expected, wait) = (0, 0, deadline());
        loop {
            if let Some(producer) = &mut requests {
                while next < 100_000 && producer.push([next; 7]).is_ok() {
                    next += 1;
                }
                if next == 100_000 {
                    requests = None;
                }
            }
            match answers.pop() {
                Ok(item) => {
                    assert_eq!(item, [expected; 7]);
                    expected += 1;
                }
                Err(PopError::Empty) => wait(),
                Err(error) => {
                    assert_eq!((error, expected), (PopError::Closed, 100_000));
                    break;
                }
            }
        }
        assert_eq!(child.exit_status(), 0);
    }};
}

#[test]
fn everything_is_echoed_and_closed_comes_last() {
    echo_between_processes!(latency);
    echo_between_processes!(batch);
}

/// The other process writes garbage over the whole mapping until it is killed.
#[test]
fn a_hostile_process_causes_typed_errors_only() {
    let file = File::new();
    let _child = Child::start(|| {
        let mut random = Random(3);
        // SAFETY: a mapping of this process alone, as long as is written.
        unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let start = libc::mmap(ptr::null_mut(), 2 * LEN, protection, libc::MAP_SHARED, file.0, 0).cast::<u64>();
            loop {
                let word = match random.below(4) {
                    0 => 16 * random.below(3),
                    _ => random.below(2 * LEN as u64 / 8),
                };
                start.add(word as usize).write_volatile(random.next() >> random.below(64));
            }
        }
    });
    let [region, _] = file.map();
    let (mut faults, wait) = (0, deadline());
    while faults < 1_000 {
        let mut producer = latency::attach_producer::<[u64; 7]>(region, CAPACITY).unwrap();
        let mut consumer = batch::attach_consumer::<[u64; 7]>(region, CAPACITY).unwrap();
        for _ in 0..2 * CAPACITY {
            let _ = producer.push([0; 7]);
            assert!(consumer.drain(usize::MAX).count() <= CAPACITY);
        }
        faults += usize::from(producer.fault().is_some()) + usize::from(consumer.fault().is_some());
        wait();
    }
}
