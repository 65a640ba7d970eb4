//! What happens at a [`Point`] in a process that plays a scene.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::clock;
use crate::shm::hook::Point;

/// How often each point is passed before it acts; 0 for never.
static LEFT: [AtomicU32; 3] = [const { AtomicU32::new(0) }; 3];
/// The signal that this process then sends itself.
static SIGNAL: AtomicU32 = AtomicU32::new(0);

/// Lets this process send itself `signal` when it comes to `point` for the `nth` time.
pub(super) fn arm(point: Point, nth: u32, signal: libc::c_int) {
    SIGNAL.store(signal as u32, Ordering::Relaxed);
    LEFT[point as usize].store(nth, Ordering::Relaxed);
}

/// A point was come to.
pub(in crate::shm) fn reach(point: Point) {
    let left = &LEFT[point as usize];
    // One thread sends; the others of a test program find 0 here.
    if left.load(Ordering::Relaxed) == 0 || left.fetch_sub(1, Ordering::Relaxed) != 1 {
        return;
    }
    println!("dies {} at {point:?}", clock::now().as_nanos());
    // SAFETY: a signal to this process, which plays a scene and is to get it here.
    unsafe { libc::kill(libc::getpid(), SIGNAL.load(Ordering::Relaxed) as libc::c_int) };
}
