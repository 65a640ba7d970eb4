//! What safe Rust cannot do: ask for the thread's context switches and the processor's time stamp, and call C.

pub mod dpdk;

use std::mem::MaybeUninit;

/// How often the kernel has taken the CPU from the calling thread so far (`ru_nivcsw`).
pub fn involuntary_switches() -> i64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for a write of one `rusage` for the length of the call.
    let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    assert_eq!(result, 0, "getrusage(RUSAGE_THREAD) cannot fail");
    // SAFETY: all zeroes is a valid `rusage`, and the call has filled it in.
    unsafe { usage.assume_init() }.ru_nivcsw
}

/// The time stamp counter: about 10 ns to read, in a unit that [`ns_per_tick`](crate::window::ns_per_tick) gives.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and Linux lets user space run it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Nanoseconds of the monotonic clock, where there is no cheaper stamp.
#[cfg(not(target_arch = "x86_64"))]
pub fn ticks() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// The CPU the calling thread is on, 0 if the system does not tell.
#[cfg(dpdk)]
fn this_cpu() -> u32 {
    // SAFETY: the call has no arguments and only returns a number.
    u32::try_from(unsafe { libc::sched_getcpu() }).unwrap_or(0)
}

/// Asks that the calling thread is not disturbed by others on its CPU: the lowest real-time priority, which its children
/// do not inherit. Whether the system allowed it.
pub fn undisturbed() -> bool {
    schedule(libc::SCHED_FIFO, 1)
}

/// Asks that the calling thread takes turns with others of the kind on its CPU, and gets more of it than the rest do.
/// Without the right to that it only takes turns.
pub fn in_turns() {
    schedule(libc::SCHED_OTHER, 0);
    // SAFETY: the call takes numbers; 0 is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
}

fn schedule(policy: i32, level: i32) -> bool {
    // SAFETY: all zeroes is a valid `sched_param` on every libc.
    let mut priority: libc::sched_param = unsafe { MaybeUninit::zeroed().assume_init() };
    priority.sched_priority = level;
    // SAFETY: the pointer is valid for a read for the length of the call; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, policy | libc::SCHED_RESET_ON_FORK, &raw const priority) == 0 }
}
