//! What the kernel tells about one CPU, from `/sys/devices/system`.

use std::fmt;
use std::fs;
use std::path::Path;

use super::{AllowedCpus, parse_cpu_list};

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
    /// Looks `cpu` up.
    pub(super) fn of(cpu: u32) -> Self {
        Self::read(Path::new(SYSFS), cpu)
    }

    fn read(sysfs: &Path, cpu: u32) -> Self {
        let lists = |name: &str| read_cpu_list(&sysfs.join("cpu").join(name)).is_some_and(|cpus| cpus.contains(&cpu));
        match (lists("online"), lists("present")) {
            (true, _) => CpuState::Online,
            (false, true) => CpuState::Offline,
            (false, false) => CpuState::Absent,
        }
    }

    pub(super) fn explain(self, cpu: u32) -> String {
        match self {
            CpuState::Absent => "this machine has no such CPU".to_owned(),
            CpuState::Offline => {
                format!("it is offline (`echo 1 > /sys/devices/system/cpu/cpu{cpu}/online` brings it back)")
            }
            CpuState::Online => "it is outside the CPU set of this process (taskset, cgroup or container)".to_owned(),
        }
    }
}

impl CpuPlacement {
    /// What the kernel tells about `cpu`.
    pub(super) fn of(cpu: u32) -> Self {
        Self::read(Path::new(SYSFS), cpu)
    }

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
            [3, 4, 5].map(|cpu| CpuState::read(&sysfs, cpu)),
            [CpuState::Online, CpuState::Offline, CpuState::Absent]
        );
        fs::remove_dir_all(&sysfs).unwrap();
    }
}
