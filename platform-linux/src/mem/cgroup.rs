//! The limits a container sets. That of hugepages the kernel applies when a page is first touched, not when it is mapped,
//! so a mapping that went well says nothing about it. It is for messages, and looked for in the unified hierarchy (cgroup v2)
//! only: whether such pages can be had is decided by trying. For ordinary memory see `room`.

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
    let (mount, directory) = own_directory(None)?;
    tightest(&mount, &directory, size)
}

/// Where one hierarchy tells what a group may have and has.
pub(super) struct Hierarchy {
    /// Its controller; `None` for the unified one.
    pub(super) controller: Option<&'static str>,
    /// The file of the limit.
    pub(super) limit: &'static str,
    /// The file of what is used.
    pub(super) used: &'static str,
    /// Of that, what the kernel takes back when it is short, as lines of `memory.stat`.
    pub(super) given_back: &'static [&'static str],
}

/// Where the hierarchy of `controller` is mounted, and this process's directory in it; of the unified one if that is `None`.
pub(super) fn own_directory(controller: Option<&str>) -> Option<(PathBuf, PathBuf)> {
    let mountinfo = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let cgroup = fs::read_to_string("/proc/self/cgroup").ok()?;
    locate(&mountinfo, &cgroup, controller)
}

fn locate(mountinfo: &str, cgroup: &str, controller: Option<&str>) -> Option<(PathBuf, PathBuf)> {
    // number:controllers:path
    let path = cgroup.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let is_it = controller.map_or(controllers.is_empty(), |name| controllers.split(',').any(|one| one == name));
        is_it.then_some(path)
    })?;
    mountinfo.lines().find_map(|line| {
        // id parent major:minor root mount-point options [tags ...] - type source options
        let (left, right) = line.split_once(" - ")?;
        let mut fields = left.split(' ').skip(3);
        let (root, mount) = (fields.next()?, fields.next()?);
        let is_it = match controller {
            None => right.starts_with("cgroup2 "),
            Some(name) => {
                let options = right.rsplit(' ').next().unwrap_or_default();
                right.starts_with("cgroup ") && options.split(',').any(|one| one == name)
            }
        };
        if !is_it {
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
        let at = |path: &str| locate(mountinfo, &format!("8:cpu,pids:/x\n0::{path}\n"), None);
        let mount = PathBuf::from("/sys/fs/cgroup");
        assert_eq!(at("/box/a/b"), Some((mount.clone(), mount.join("a/b"))));
        assert_eq!(at("/box"), Some((mount.clone(), mount)));
        assert_eq!(at("/elsewhere"), None);
        assert_eq!(locate(mountinfo, "8:pids:/x\n", None), None);
        assert_eq!(locate("", "0::/box\n", None), None);
        let pids = PathBuf::from("/sys/fs/cgroup/pids");
        assert_eq!(locate(mountinfo, "8:cpu,pids:/x\n0::/box\n", Some("pids")), Some((pids.clone(), pids.join("x"))));
        assert_eq!(locate(mountinfo, "8:memory:/x\n0::/box\n", Some("memory")), None);
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
