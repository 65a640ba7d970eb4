//! The limit a container sets on hugepages. The kernel applies it when a page is first touched, not when it is mapped,
//! so a mapping that went well says nothing about it.
//!
//! Only the unified hierarchy (cgroup v2) is looked at. The limit is for messages: whether pages can be had is decided
//! by trying.

use std::fs;
use std::path::{Path, PathBuf};

/// The tightest limit of reserved hugepages of one size that applies to this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupLimit {
    /// Bytes of such pages that all processes below the limit may hold together.
    pub bytes: u64,
    /// The file it was read from.
    pub file: PathBuf,
}

/// The limit for pages of the kernel's name `size` (`2MB`, `1GB`); `None` where there is none, or none can be seen.
pub(super) fn hugetlb_limit(size: &str) -> Option<CgroupLimit> {
    let mountinfo = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let cgroup = fs::read_to_string("/proc/self/cgroup").ok()?;
    let (mount, directory) = locate(&mountinfo, &cgroup)?;
    tightest(&mount, &directory, size)
}

/// Where the unified hierarchy is mounted, and this process's directory in it.
fn locate(mountinfo: &str, cgroup: &str) -> Option<(PathBuf, PathBuf)> {
    let path = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?;
    mountinfo.lines().find_map(|line| {
        // id parent major:minor root mount-point options [tags ...] - type source options
        let (left, right) = line.split_once(" - ")?;
        let mut fields = left.split(' ').skip(3);
        let (root, mount) = (fields.next()?, fields.next()?);
        if !right.starts_with("cgroup2 ") {
            return None;
        }
        let below = Path::new(path).strip_prefix(root).ok()?;
        Some((PathBuf::from(mount), Path::new(mount).join(below)))
    })
}

/// The smallest number in the limit files from `directory` up to `mount`.
fn tightest(mount: &Path, directory: &Path, size: &str) -> Option<CgroupLimit> {
    let levels = directory.ancestors().take_while(|level| level.starts_with(mount));
    let files = levels.flat_map(|level| ["max", "rsvd.max"].map(|limit| level.join(format!("hugetlb.{size}.{limit}"))));
    let limits = files.filter_map(|file| {
        let bytes = fs::read_to_string(&file).ok()?.trim().parse().ok()?;
        Some(CgroupLimit { bytes, file })
    });
    limits.min_by_key(|limit| limit.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_found_below_the_mount() {
        let mountinfo = "24 1 0:22 / /proc rw - proc proc rw\n\
                         38 31 0:35 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n\
                         41 31 0:38 /box /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
        let at = |path: &str| locate(mountinfo, &format!("8:pids:/x\n0::{path}\n"));
        let mount = PathBuf::from("/sys/fs/cgroup");
        assert_eq!(at("/box/a/b"), Some((mount.clone(), mount.join("a/b"))));
        assert_eq!(at("/box"), Some((mount.clone(), mount)));
        assert_eq!(at("/elsewhere"), None);
        assert_eq!(locate(mountinfo, "8:pids:/x\n"), None);
        assert_eq!(locate("", "0::/box\n"), None);
    }

    #[test]
    fn the_tightest_limit_on_the_way_up_counts() {
        let mount = std::env::temp_dir().join(format!("spinwire-cgroup-{}", std::process::id()));
        let leaf = mount.join("pod/container");
        fs::create_dir_all(&leaf).unwrap();
        assert_eq!(tightest(&mount, &leaf, "2MB"), None);
        fs::write(leaf.join("hugetlb.2MB.max"), "max\n").unwrap();
        fs::write(leaf.join("hugetlb.2MB.rsvd.max"), "4194304\n").unwrap();
        fs::write(leaf.join("hugetlb.1GB.max"), "0\n").unwrap();
        let file = leaf.join("hugetlb.2MB.rsvd.max");
        assert_eq!(tightest(&mount, &leaf, "2MB"), Some(CgroupLimit { bytes: 4 << 20, file }));
        let file = mount.join("pod/hugetlb.2MB.max");
        fs::write(&file, "0\n").unwrap();
        assert_eq!(tightest(&mount, &leaf, "2MB"), Some(CgroupLimit { bytes: 0, file }));
        fs::remove_dir_all(&mount).unwrap();
    }
}
