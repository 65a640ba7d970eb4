//! What every benchmark needs: two threads on known cores that start together, and a line that names the machine.
//!
//! Numbers without their machine mean nothing, and on virtual machines only ratios taken inside one run carry over.
#![deny(unsafe_code)]

pub mod null;

use std::fs;
use std::hint;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The two CPUs a two-thread benchmark runs on.
#[derive(Clone, Copy, Debug)]
pub struct CorePair {
    first: core_affinity::CoreId,
    second: core_affinity::CoreId,
}

impl CorePair {
    /// The first two CPUs this process may use. Call it before anything is pinned.
    ///
    /// # Errors
    /// A sentence that says how many CPUs there are, if fewer than two.
    pub fn first_allowed() -> Result<Self, String> {
        let ids = core_affinity::get_core_ids().unwrap_or_default();
        match ids[..] {
            [first, second, ..] => Ok(CorePair { first, second }),
            _ => Err(format!("two CPUs are needed, this process may use {}", ids.len())),
        }
    }

    /// Runs `first` and `second` at once, each pinned to its CPU, and returns the time from the first start to the last
    /// stop. Both wait for each other before the clock starts, so creating threads is not measured.
    ///
    /// # Panics
    /// If a thread cannot be pinned, or panics itself.
    pub fn time(self, first: impl FnOnce() + Send, second: impl FnOnce() + Send) -> Duration {
        let waiting = AtomicUsize::new(2);
        let (a, b) = thread::scope(|scope| {
            let a = scope.spawn(|| pinned(self.first, &waiting, first));
            let b = scope.spawn(|| pinned(self.second, &waiting, second));
            (a.join(), b.join())
        });
        let ((a_start, a_stop), (b_start, b_stop)) = (a.expect("first thread"), b.expect("second thread"));
        a_stop.max(b_stop) - a_start.min(b_start)
    }
}

/// One line: CPUs used, processor, kernel, clock source.
pub fn machine(cores: CorePair) -> String {
    let read = |path: &str| fs::read_to_string(path).map_or_else(|_| "unknown".into(), |text| text.trim().to_owned());
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|(_, model)| model))
        .unwrap_or("unknown processor");
    let hypervisor = if cpuinfo.contains(" hypervisor") { "virtual, " } else { "" };
    format!(
        "machine: CPUs {} and {} of {} ({hypervisor}{model}), Linux {}, clock {}",
        cores.first.id,
        cores.second.id,
        thread::available_parallelism().map_or(0, usize::from),
        read("/proc/sys/kernel/osrelease"),
        read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
    )
}

fn pinned(core: core_affinity::CoreId, waiting: &AtomicUsize, work: impl FnOnce()) -> (Instant, Instant) {
    assert!(core_affinity::set_for_current(core), "cannot pin to CPU {}", core.id);
    waiting.fetch_sub(1, Ordering::AcqRel);
    while waiting.load(Ordering::Acquire) > 0 {
        hint::spin_loop();
    }
    let start = Instant::now();
    work();
    (start, Instant::now())
}
