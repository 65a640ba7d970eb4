//! How much memory can still be had. The kernel promises pages that it does not have, and where they are then wanted it ends
//! a process, this one or any other: so large memory is asked about before it is asked for.
//!
//! What is free changes all the time, so this refuses only what cannot be had even if everything that can be given back
//! is. The limit of a memory cgroup is found in both of its versions.

use std::fs;
use std::path::{Path, PathBuf};

use super::cgroup::{self, Hierarchy};

/// What can be had, at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes.
    pub bytes: u64,
    /// The file of the cgroup's limit that says so; `None`: the machine has no more.
    pub limit: Option<PathBuf>,
}

/// The room of this process if it is less than `bytes`. Reads a few small files.
pub(super) fn short_of(bytes: u64) -> Option<Room> {
    let (available, swap) = fs::read_to_string("/proc/meminfo").ok().and_then(|text| machine(&text))?;
    let machine = Room { bytes: available.saturating_add(swap), limit: None };
    let of_cgroup = |hierarchy: &Hierarchy| {
        let (mount, directory) = cgroup::own_directory(hierarchy.controller)?;
        tightest(&mount, &directory, hierarchy, swap)
    };
    let rooms = HIERARCHIES.iter().filter_map(of_cgroup).chain([machine]);
    rooms.min_by_key(|room| room.bytes).filter(|room| room.bytes < bytes)
}

/// What the machine can give, and what of its memory it can put onto its disks.
fn machine(meminfo: &str) -> Option<(u64, u64)> {
    let bytes = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? << 10)
    };
    Some((bytes("MemAvailable:")?, bytes("SwapFree:").unwrap_or(0)))
}

/// The least that is left below a limit from `directory` up to `mount`, if what the kernel can take back is.
fn tightest(mount: &Path, directory: &Path, hierarchy: &Hierarchy, swap: u64) -> Option<Room> {
    let levels = directory.ancestors().take_while(|level| level.starts_with(mount));
    let rooms = levels.filter_map(|level| {
        let number = |name: &str| fs::read_to_string(level.join(name)).ok()?.trim().parse::<u64>().ok();
        let file = level.join(hierarchy.limit);
        let (limit, used) = (number(hierarchy.limit)?, number(hierarchy.used)?);
        let stat = fs::read_to_string(level.join("memory.stat")).unwrap_or_default();
        let part = |line: &str| {
            let (name, bytes) = line.split_once(' ')?;
            hierarchy.given_back.contains(&name).then(|| bytes.parse::<u64>().ok())?
        };
        let given_back: u64 = stat.lines().filter_map(part).sum();
        let bytes = limit.saturating_sub(used.saturating_sub(given_back)).saturating_add(swap);
        Some(Room { bytes, limit: Some(file) })
    });
    rooms.min_by_key(|room| room.bytes)
}

/// The unified hierarchy, and the one before it.
const HIERARCHIES: [Hierarchy; 2] = [
    Hierarchy {
        controller: None,
        limit: "memory.max",
        used: "memory.current",
        given_back: &["active_file", "inactive_file", "slab_reclaimable"],
    },
    Hierarchy {
        controller: Some("memory"),
        limit: "memory.limit_in_bytes",
        used: "memory.usage_in_bytes",
        given_back: &["total_active_file", "total_inactive_file"],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_what_is_available_and_what_can_be_swapped_out() {
        let text = "MemTotal:       24684096 kB\nMemFree:         100 kB\nMemAvailable:   3 kB\nSwapFree:  2 kB\n";
        assert_eq!(machine(text), Some((3 << 10, 2 << 10)));
        assert_eq!(machine("MemAvailable:   3 kB\n"), Some((3 << 10, 0)));
        assert_eq!(machine("MemFree: 3 kB\n"), None);
        assert!(short_of(1).is_none());
        assert!(short_of(u64::MAX).is_some());
    }

    #[test]
    fn a_limit_further_up_counts_with_what_can_be_given_back() {
        let mount = std::env::temp_dir().join(format!("spinwire-room-{}", std::process::id()));
        let leaf = mount.join("pod/container");
        fs::create_dir_all(&leaf).unwrap();
        let write = |at: &Path, name: &str, text: &str| fs::write(at.join(name), text).unwrap();
        let [unified, earlier] = &HIERARCHIES;
        assert_eq!(tightest(&mount, &leaf, unified, 0), None);
        write(&leaf, "memory.max", "max\n");
        write(&leaf, "memory.current", "1000\n");
        assert_eq!(tightest(&mount, &leaf, unified, 0), None);
        let pod = mount.join("pod");
        write(&pod, "memory.max", "5000\n");
        write(&pod, "memory.current", "4000\n");
        write(&pod, "memory.stat", "anon 9\nfile 700\nactive_file 300\ninactive_file 200\nslab_reclaimable 10\n");
        let room = |bytes, name: &str| Some(Room { bytes, limit: Some(pod.join(name)) });
        assert_eq!(tightest(&mount, &leaf, unified, 0), room(1_510, "memory.max"));
        assert_eq!(tightest(&mount, &leaf, unified, 40), room(1_550, "memory.max"));
        write(&pod, "memory.limit_in_bytes", "100\n");
        write(&pod, "memory.usage_in_bytes", "400\n");
        assert_eq!(tightest(&mount, &leaf, earlier, 0), room(0, "memory.limit_in_bytes"));
        fs::remove_dir_all(&mount).unwrap();
    }
}
