//! Pinning threads to CPUs, and checking that it worked.
//!
//! What a process may use is often not `0..n`: containers, `taskset` and isolated CPUs see to that. So the allowed set
//! is read once, before anything is pinned, and everything is chosen from it.

use std::fmt;
use std::fs;
use std::path::Path;

use crate::sys::host::{PINNABLE_CPUS, current_cpu, thread_affinity};
use crate::sys::os::{CallError, Errno};

/// The CPUs this process may run on, as they were when it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedCpus(Vec<u32>);

/// Where a pinned thread stands, for a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuPlacement {
    /// The CPU's number.
    pub cpu: u32,
    /// Its NUMA node; `None` where the kernel does not tell.
    pub node: Option<u32>,
    /// Whether the kernel was told to keep other threads off it (`isolcpus=` or an isolated cpuset partition).
    pub isolated: bool,
    /// The other hardware threads of its core. Work on one of them slows this one down.
    pub siblings: Vec<u32>,
}

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

/// Why a CPU may be missing from the allowed set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuState {
    /// The machine does not have it.
    Absent,
    /// The machine has it, switched off.
    Offline,
    /// It runs; this process may not use it.
    Online,
}

impl CpuState {
    fn explain(self, cpu: u32) -> String {
        match self {
            CpuState::Absent => "this machine has no such CPU".to_owned(),
            CpuState::Offline => {
                format!("it is offline (`echo 1 > /sys/devices/system/cpu/cpu{cpu}/online` brings it back)")
            }
            CpuState::Online => "it is outside the CPU set of this process (taskset, cgroup or container)".to_owned(),
        }
    }
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
            let state = cpu_state(Path::new(SYSFS), cpu);
            return Err(PinError::NotAllowed { cpu, state, allowed: self.clone() });
        }
        if cpu >= PINNABLE_CPUS { Err(PinError::Unsupported { cpu }) } else { Ok(()) }
    }
}

/// Pins the calling thread to `cpu`, looks where it then runs, and says so.
///
/// # Errors
/// [`PinError`]; the thread's affinity is unchanged, except with [`PinError::NotPinned`].
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
    Ok(CpuPlacement::read(Path::new(SYSFS), cpu))
}

impl CpuPlacement {
    /// What the kernel tells about `cpu` under `sysfs` (`/sys/devices/system`).
    fn read(sysfs: &Path, cpu: u32) -> Self {
        let list = |name: &str| read_cpu_list(&sysfs.join("cpu").join(name)).unwrap_or_default();
        let siblings = list(&format!("cpu{cpu}/topology/thread_siblings_list"));
        CpuPlacement {
            cpu,
            node: node_of(sysfs, cpu),
            isolated: list("isolated").contains(&cpu),
            siblings: siblings.into_iter().filter(|&other| other != cpu).collect(),
        }
    }
}

/// Parses the kernel's list of CPUs: `0,2-4` is 0, 2, 3, 4; the empty text is no CPU. Sorted, each number once.
///
/// # Errors
/// [`CpuListError`] with the part that is not a number or an ascending range of numbers below 8,192.
pub fn parse_cpu_list(text: &str) -> Result<Vec<u32>, CpuListError> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|_| !text.trim().is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse().ok().filter(|&cpu: &u32| cpu < 8192);
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => cpus.extend(first..=last),
            _ => return Err(CpuListError { part: part.to_owned() }),
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// A part of a CPU list that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a CPU number or range: {part:?} (a list looks like 0,2-4)")]
pub struct CpuListError {
    /// The part between two commas.
    pub part: String,
}

/// The notation of the kernel: runs as `first-last`.
impl fmt::Display for AllowedCpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        let runs = self.0.chunk_by(|a, b| a + 1 == *b);
        for (n, run) in runs.enumerate() {
            let comma = if n > 0 { "," } else { "" };
            match *run {
                [cpu] => write!(f, "{comma}{cpu}")?,
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [] => unreachable!("chunk_by yields no empty run"),
            }
        }
        Ok(())
    }
}

impl fmt::Display for CpuPlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CPU {}", self.cpu)?;
        match self.node {
            Some(node) => write!(f, ", node {node}")?,
            None => f.write_str(", node unknown")?,
        }
        f.write_str(if self.isolated { ", isolated" } else { ", not isolated" })?;
        match self.siblings[..] {
            [] => Ok(()),
            _ => write!(f, ", shares its core with CPU {}", AllowedCpus(self.siblings.clone())),
        }
    }
}

fn cpu_state(sysfs: &Path, cpu: u32) -> CpuState {
    let lists = |name: &str| read_cpu_list(&sysfs.join("cpu").join(name)).is_some_and(|cpus| cpus.contains(&cpu));
    match (lists("online"), lists("present")) {
        (true, _) => CpuState::Online,
        (false, true) => CpuState::Offline,
        (false, false) => CpuState::Absent,
    }
}

/// A CPU's directory holds a link `nodeN` to its node.
fn node_of(sysfs: &Path, cpu: u32) -> Option<u32> {
    let entries = fs::read_dir(sysfs.join(format!("cpu/cpu{cpu}"))).ok()?;
    entries.flatten().find_map(|entry| entry.file_name().to_str()?.strip_prefix("node")?.parse().ok())
}

fn read_cpu_list(path: &Path) -> Option<Vec<u32>> {
    parse_cpu_list(&fs::read_to_string(path).ok()?).ok()
}

const SYSFS: &str = "/sys/devices/system";

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

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        let cases: [(&str, &[u32]); 6] = [
            ("", &[]),
            ("\n", &[]),
            ("0\n", &[0]),
            ("0,2-4", &[0, 2, 3, 4]),
            ("7,1-1,1", &[1, 7]),
            (" 5 - 6 ", &[5, 6]),
        ];
        for (text, cpus) in cases {
            assert_eq!(parse_cpu_list(text).as_deref(), Ok(cpus), "{text:?}");
        }
        for (text, part) in
            [("a", "a"), ("1,,2", ""), ("4-2", "4-2"), ("-1", "-1"), ("0-99999", "0-99999"), ("1-2-3", "1-2-3")]
        {
            assert_eq!(parse_cpu_list(text), Err(CpuListError { part: part.into() }), "{text:?}");
        }
    }

    #[test]
    fn sets_are_printed_as_the_kernel_writes_them() {
        for text in ["0", "0,2-4", "1-2,5,7-9"] {
            assert_eq!(AllowedCpus(parse_cpu_list(text).unwrap()).to_string(), text);
        }
        assert_eq!(AllowedCpus(vec![]).to_string(), "none");
    }

    #[test]
    fn topology_is_read_from_sysfs() {
        let sysfs = std::env::temp_dir().join(format!("spinwire-sysfs-{}", std::process::id()));
        let cpu3 = sysfs.join("cpu/cpu3");
        fs::create_dir_all(cpu3.join("topology")).unwrap();
        fs::create_dir_all(cpu3.join("node1")).unwrap();
        fs::write(cpu3.join("topology/thread_siblings_list"), "1,3\n").unwrap();
        fs::write(sysfs.join("cpu/isolated"), "2-3\n").unwrap();
        fs::write(sysfs.join("cpu/online"), "0-3\n").unwrap();
        fs::write(sysfs.join("cpu/present"), "0-4\n").unwrap();

        let placement = CpuPlacement::read(&sysfs, 3);
        assert_eq!(placement, CpuPlacement { cpu: 3, node: Some(1), isolated: true, siblings: vec![1] });
        assert_eq!(placement.to_string(), "CPU 3, node 1, isolated, shares its core with CPU 1");
        assert_eq!(CpuPlacement::read(&sysfs, 9).to_string(), "CPU 9, node unknown, not isolated");
        assert_eq!(
            [3, 4, 5].map(|cpu| cpu_state(&sysfs, cpu)),
            [CpuState::Online, CpuState::Offline, CpuState::Absent]
        );
        fs::remove_dir_all(&sysfs).unwrap();
    }
}
