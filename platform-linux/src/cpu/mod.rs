//! Pinning threads to CPUs, and checking that it worked.
//!
//! What a process may use is often not `0..n`: containers, `taskset` and isolated CPUs see to that. So the allowed set
//! is read once, before anything is pinned, and everything is chosen from it.

mod list;
mod topology;

pub use list::{CpuListError, parse_cpu_list};
pub use topology::{CpuPlacement, CpuState};

use crate::sys::host::{PINNABLE_CPUS, current_cpu, thread_affinity};
use crate::sys::os::{CallError, Errno};

/// The CPUs this process may run on, as they were when it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedCpus(Vec<u32>);

/// Why a thread could not be pinned. It is never left unpinned without this error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// The CPU is not in the allowed set.
    #[error("pin to CPU {cpu}: {}; this process may use CPUs {allowed}", state.explain(*.cpu))]
    NotAllowed {
        /// The CPU asked for.
        cpu: u32,
        /// What is known of it.
        state: CpuState,
        /// The CPUs that may be used.
        allowed: AllowedCpus,
    },
    /// More CPUs were asked for than may be used.
    #[error("{wanted} CPUs wanted, but this process may use only {}: {allowed}", allowed.0.len())]
    TooFew {
        /// The number asked for.
        wanted: usize,
        /// The CPUs that may be used.
        allowed: AllowedCpus,
    },
    /// The number is beyond what a fixed C CPU set can hold.
    #[error("pin to CPU {cpu}: only CPUs 0 to {} are supported", PINNABLE_CPUS - 1)]
    Unsupported {
        /// The CPU asked for.
        cpu: u32,
    },
    /// The kernel refused.
    #[error("pin to CPU {cpu}: {cause}; this process may use CPUs {allowed}")]
    Refused {
        /// The CPU asked for.
        cpu: u32,
        /// What the kernel said.
        cause: CallError,
        /// The CPUs that may be used.
        allowed: AllowedCpus,
    },
    /// The kernel accepted, but the thread stands elsewhere.
    #[error("pin to CPU {cpu}: the thread runs on CPU {running_on} and may use CPUs {affinity}")]
    NotPinned {
        /// The CPU asked for.
        cpu: u32,
        /// Where the thread was seen.
        running_on: u32,
        /// Its affinity afterwards.
        affinity: AllowedCpus,
    },
    /// The affinity could not be read.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl AllowedCpus {
    /// The affinity of the calling thread. Call it once at the start of the process: after pinning it is one CPU.
    ///
    /// # Errors
    /// [`CallError`] of `sched_getaffinity`.
    pub fn snapshot() -> Result<Self, CallError> {
        thread_affinity().map(AllowedCpus)
    }

    /// A set given by hand, for tests. Sorted, each number once.
    pub fn from_cpus(cpus: impl IntoIterator<Item = u32>) -> Self {
        let mut cpus: Vec<u32> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        AllowedCpus(cpus)
    }

    /// The numbers, ascending.
    pub fn as_slice(&self) -> &[u32] {
        &self.0
    }

    /// Whether `cpu` may be used.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.binary_search(&cpu).is_ok()
    }

    /// The first `wanted` allowed CPUs: the default where the user names none.
    ///
    /// # Errors
    /// [`PinError::TooFew`] with both numbers.
    pub fn first(&self, wanted: usize) -> Result<&[u32], PinError> {
        self.0.get(..wanted).ok_or_else(|| PinError::TooFew { wanted, allowed: self.clone() })
    }

    /// Checks that `cpu` may be used, without pinning.
    ///
    /// # Errors
    /// [`PinError::NotAllowed`] or [`PinError::Unsupported`].
    pub fn check(&self, cpu: u32) -> Result<(), PinError> {
        if !self.contains(cpu) {
            let state = CpuState::of(cpu);
            return Err(PinError::NotAllowed { cpu, state, allowed: self.clone() });
        }
        if cpu >= PINNABLE_CPUS { Err(PinError::Unsupported { cpu }) } else { Ok(()) }
    }
}

/// Pins the calling thread to `cpu`, looks where it then runs, and says so.
///
/// # Errors
/// [`PinError`]. With [`PinError::NotPinned`] and [`PinError::Call`] the affinity may have changed, else it has not.
pub fn pin_current(allowed: &AllowedCpus, cpu: u32) -> Result<CpuPlacement, PinError> {
    // Also keeps numbers from `core_affinity` that would end the process there.
    allowed.check(cpu)?;
    if !core_affinity::set_for_current(core_affinity::CoreId { id: cpu as usize }) {
        let cause = CallError { call: "sched_setaffinity", errno: Errno::last() };
        return Err(PinError::Refused { cpu, cause, allowed: allowed.clone() });
    }
    let (affinity, running_on) = (thread_affinity()?, current_cpu()?);
    if affinity != [cpu] || running_on != cpu {
        return Err(PinError::NotPinned { cpu, running_on, affinity: AllowedCpus(affinity) });
    }
    Ok(CpuPlacement::of(cpu))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// Each test pins a thread of its own; the test harness's threads keep their affinity.
    fn on_thread<T: Send>(run: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| scope.spawn(run).join().unwrap())
    }

    #[test]
    fn every_allowed_cpu_can_be_pinned_to() {
        let allowed = AllowedCpus::snapshot().unwrap();
        assert!(!allowed.as_slice().is_empty());
        for &cpu in allowed.as_slice() {
            let (placement, seen) = on_thread(|| (pin_current(&allowed, cpu).unwrap(), AllowedCpus::snapshot()));
            assert_eq!((placement.cpu, seen), (cpu, Ok(AllowedCpus(vec![cpu]))));
            assert!(!placement.siblings.contains(&cpu));
        }
        assert_eq!(AllowedCpus::snapshot().unwrap(), allowed, "this thread is as it was");
    }

    #[test]
    fn the_set_of_the_process_is_what_counts_and_not_0_to_n() {
        let all = AllowedCpus::snapshot().unwrap();
        let last = *all.as_slice().last().unwrap();
        on_thread(|| {
            pin_current(&all, last).unwrap();
            // A process started with `taskset -c last` sees this.
            let allowed = AllowedCpus::snapshot().unwrap();
            assert_eq!(allowed.first(1), Ok(&[last][..]));
            let error = allowed.first(2).unwrap_err();
            assert_eq!(error.to_string(), format!("2 CPUs wanted, but this process may use only 1: {last}"));
            for &cpu in all.as_slice().iter().filter(|&&cpu| cpu != last) {
                let error = pin_current(&allowed, cpu).unwrap_err().to_string();
                assert!(error.contains("outside the CPU set of this process"), "{error}");
                assert!(error.ends_with(&format!("may use CPUs {last}")), "{error}");
            }
        });
    }

    #[test]
    fn defaults_come_from_a_set_with_gaps() {
        let allowed = AllowedCpus::from_cpus([4, 2]);
        assert_eq!(allowed.first(2), Ok(&[2, 4][..]));
        assert_eq!(allowed.first(0), Ok(&[][..]));
        assert_eq!(allowed.first(3).unwrap_err().to_string(), "3 CPUs wanted, but this process may use only 2: 2,4");
        assert!(allowed.check(2).is_ok() && allowed.check(4).is_ok());
        for cpu in [0, 1, 3] {
            let error = allowed.check(cpu).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("pin to CPU {cpu}: ")) && error.ends_with("may use CPUs 2,4"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_an_error_and_not_an_abort() {
        let real = AllowedCpus::snapshot().unwrap();
        for cpu in [200, 1023, 1024, 8191, u32::MAX].into_iter().filter(|&cpu| !real.contains(cpu)) {
            let error = on_thread(|| pin_current(&real, cpu)).unwrap_err();
            assert!(matches!(error, PinError::NotAllowed { .. }), "{error}");
        }
        // Even if a set claims it is there.
        let claims = AllowedCpus::from_cpus([1023, 1024, u32::MAX]);
        for cpu in [1024, u32::MAX] {
            assert_eq!(on_thread(|| pin_current(&claims, cpu)), Err(PinError::Unsupported { cpu }));
        }
        if !real.contains(1023) {
            let error = on_thread(|| pin_current(&claims, 1023)).unwrap_err();
            let cause = CallError { call: "sched_setaffinity", errno: Errno(libc::EINVAL) };
            assert_eq!(error, PinError::Refused { cpu: 1023, cause, allowed: claims });
        }
    }
}
