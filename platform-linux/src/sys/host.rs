//! Scheduler, clock and processor affinity: what the kernel tells about where and when a thread runs.

use super::os::{CallError, Errno, check};

/// The largest number of CPUs a Linux kernel can be built for.
const CPUS_MAX: usize = 8192;

/// CPUs that a fixed C `cpu_set_t` can name. `core_affinity` uses one, and ends the process with a number beyond.
pub(crate) const PINNABLE_CPUS: u32 = libc::CPU_SETSIZE as u32;

/// The CPUs the calling thread may run on, ascending.
pub(crate) fn thread_affinity() -> Result<Vec<u32>, CallError> {
    let mut words = [0_u64; CPUS_MAX / 64];
    // SAFETY: the kernel writes at most `size_of_val(&words)` bytes, and the C library zeroes what it leaves. A
    // `cpu_set_t` is an array of such words, only shorter.
    check("sched_getaffinity", || unsafe {
        libc::sched_getaffinity(0, size_of_val(&words), words.as_mut_ptr().cast())
    })?;
    let is_set = |cpu: &u32| words[*cpu as usize / 64] >> (cpu % 64) & 1 == 1;
    Ok((0..CPUS_MAX as u32).filter(is_set).collect())
}

/// The CPU the calling thread runs on at this moment.
pub(crate) fn current_cpu() -> Result<u32, CallError> {
    // SAFETY: takes nothing and touches no memory of ours.
    let cpu = unsafe { libc::sched_getcpu() };
    u32::try_from(cpu).map_err(|_| CallError { call: "sched_getcpu", errno: Errno::last() })
}

/// Nanoseconds on `CLOCK_MONOTONIC`, through the vDSO where the clock source allows it (some 20 ns).
#[inline]
pub(crate) fn monotonic_nanos() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours and large enough. The call cannot fail with a known clock and a valid pointer.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
