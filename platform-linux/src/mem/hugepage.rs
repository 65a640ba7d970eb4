//! The kernel's pools of hugepages, and why pages could not be had, with the command that changes it.

use std::fmt;
use std::fs;
use std::path::Path;

use super::cgroup::{CgroupLimit, hugetlb_limit};
use super::map::POPULATE;
use super::memfd::space_hint;
use super::page::PageKind;
use super::room::{self, Room};
use crate::sys::os::{CallError, Errno};
use crate::words::Bytes;

/// The pool of reserved hugepages of one size, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagePool {
    /// Pages in the pool.
    pub total: u64,
    /// Pages that are neither used nor promised to a mapping.
    pub free: u64,
}

/// A kind of page that was tried and not got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What was tried.
    pub kind: PageKind,
    /// Pages that were wanted.
    pub wanted: u64,
    /// Why it was not got.
    pub reason: Refusal,
}

/// Why a kind of page was not got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A call failed on reserved hugepages. The state is that of right after.
    Pool {
        /// The call, and what it said.
        cause: CallError,
        /// The pool; `None` if the kernel has none of this size.
        pool: Option<PagePool>,
        /// The container's limit, if there is one.
        cgroup: Option<CgroupLimit>,
    },
    /// The kernel gave too few hugepages of its own.
    Transparent {
        /// Bytes on hugepages.
        got_bytes: u64,
        /// The kernel's setting: `always`, `madvise` (or `advise`), `never`, ... or `unknown`.
        setting: String,
        /// The file it is read from: there is one for private and one for shared memory.
        file: &'static str,
    },
    /// There is less memory than was wanted. No call was made: the kernel would have ended a process for want of it.
    Short(Room),
    /// A call failed.
    Call(CallError),
}

impl PagePool {
    /// Reads the pool of pages of `kind` from the kernel; `None` if it has none.
    pub fn of(kind: PageKind) -> Option<Self> {
        let directory = Path::new("/sys/kernel/mm/hugepages").join(directory_name(kind));
        let count = |name: &str| fs::read_to_string(directory.join(name)).ok()?.trim().parse::<u64>().ok();
        let (total, free, promised) = (count("nr_hugepages")?, count("free_hugepages")?, count("resv_hugepages")?);
        Some(PagePool { total, free: free.saturating_sub(promised) })
    }
}

impl Refused {
    /// Explains a failed call.
    pub(crate) fn call(kind: PageKind, wanted: u64, cause: CallError) -> Self {
        let reason = match kind {
            PageKind::OneGib | PageKind::TwoMib => {
                let size = if kind == PageKind::OneGib { "1GB" } else { "2MB" };
                Refusal::Pool { cause, pool: PagePool::of(kind), cgroup: hugetlb_limit(size) }
            }
            PageKind::Transparent | PageKind::Small => Refusal::Call(cause),
        };
        Refused { kind, wanted, reason }
    }

    /// Whether `wanted` pages of `kind` are more than there can be. Reserved hugepages are counted by their pool.
    pub(crate) fn short(kind: PageKind, wanted: u64) -> Result<(), Self> {
        if matches!(kind, PageKind::OneGib | PageKind::TwoMib) {
            return Ok(());
        }
        let room = room::short_of(wanted.saturating_mul(kind.page_bytes() as u64));
        room.map_or(Ok(()), |room| Err(Refused { kind, wanted, reason: Refusal::Short(room) }))
    }

    /// Explains that only `got_bytes` stand on transparent hugepages.
    pub(super) fn transparent(wanted: u64, got_bytes: u64, shared: bool) -> Self {
        let file = if shared { SHARED_SETTING } else { TRANSPARENT_SETTING };
        let text = fs::read_to_string(file).unwrap_or_default();
        // The setting that holds is the one in brackets: "always [madvise] never".
        let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        let setting = chosen.map_or("unknown", |(setting, _)| setting).to_owned();
        Refused { kind: PageKind::Transparent, wanted, reason: Refusal::Transparent { got_bytes, setting, file } }
    }
}

/// One line: what was tried, what was there, and what to do.
impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refused { kind, wanted, reason } = self;
        match reason {
            Refusal::Pool { cause, pool: None, .. } => write!(f, "{kind}: {cause}; this kernel has no pool of them"),
            Refusal::Pool { cause, pool: Some(pool), cgroup } => {
                write!(f, "{kind}: {}; {wanted} wanted, {} free of {}", Cause(cause), pool.free, pool.total)?;
                match cgroup {
                    Some(CgroupLimit { bytes, file }) => {
                        write!(f, ", cgroup limit {} ({})", Bytes(*bytes), file.display())?;
                    }
                    None => f.write_str(", no cgroup limit")?,
                }
                if pool.free < *wanted {
                    write!(f, "; `{}` makes enough", grow(*kind, pool.total + wanted - pool.free))?;
                }
                let wanted_bytes = wanted * kind.page_bytes() as u64;
                if cgroup.as_ref().is_some_and(|limit| limit.bytes < wanted_bytes) {
                    write!(
                        f,
                        "; raise the cgroup limit (Kubernetes: limits, hugepages-{})",
                        match kind {
                            PageKind::OneGib => "1Gi",
                            _ => "2Mi",
                        }
                    )?;
                }
                Ok(())
            }
            Refusal::Transparent { got_bytes, setting, file } => {
                let wanted_bytes = wanted * kind.page_bytes() as u64;
                write!(f, "{kind}: the kernel gave {} of {}", Bytes(*got_bytes), Bytes(wanted_bytes))?;
                match setting.as_str() {
                    "never" | "deny" if *file == SHARED_SETTING => write!(f, "; `echo advise > {file}` allows them"),
                    "never" => write!(f, "; `echo madvise > {file}` allows them"),
                    "unknown" => f.write_str("; this kernel has none"),
                    _ => f.write_str("; memory is short or in pieces (`sysctl vm.compact_memory=1` may help)"),
                }
            }
            Refusal::Short(Room { bytes, limit }) => {
                let wanted_bytes = wanted.saturating_mul(kind.page_bytes() as u64);
                write!(f, "{kind}: {} wanted, {} to be had ", Bytes(wanted_bytes), Bytes(bytes >> 20 << 20))?;
                match limit {
                    Some(file) => {
                        write!(f, "below the memory limit in {} (--memory of a container)", file.display())
                    }
                    None => f.write_str("on this machine (`free` tells what has the rest)"),
                }
            }
            Refusal::Call(cause) => {
                write!(f, "{kind}: {}", Cause(cause))?;
                if cause.errno == Errno(libc::ENOMEM) { f.write_str(&space_hint()) } else { Ok(()) }
            }
        }
    }
}

/// A failed call, with the one cause that its text hides.
struct Cause<'a>(&'a CallError);

impl fmt::Display for Cause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)?;
        if self.0.call == POPULATE && self.0.errno == Errno(libc::EINVAL) {
            f.write_str(" (this needs Linux 5.14)")?;
        }
        Ok(())
    }
}

/// The command that makes the pool of `kind` hold `total` pages.
fn grow(kind: PageKind, total: u64) -> String {
    match kind {
        PageKind::TwoMib if default_hugepage_bytes() == Some(kind.page_bytes()) => {
            format!("sysctl vm.nr_hugepages={total}")
        }
        _ => format!("echo {total} > /sys/kernel/mm/hugepages/{}/nr_hugepages", directory_name(kind)),
    }
}

/// The size of hugepage that a mapping gets which names none; `None` if the kernel has no hugepages.
pub(super) fn default_hugepage_bytes() -> Option<usize> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let size = meminfo.lines().find_map(|line| line.strip_prefix("Hugepagesize:"))?;
    Some(size.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok()? << 10)
}

fn directory_name(kind: PageKind) -> String {
    format!("hugepages-{}kB", kind.page_bytes() >> 10)
}

const TRANSPARENT_SETTING: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const SHARED_SETTING: &str = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";

#[cfg(test)]
mod tests {
    use super::*;

    const NO_MEMORY: CallError = CallError { call: "mmap", errno: Errno(libc::ENOMEM) };

    fn pool(total: u64, free: u64, cgroup: Option<u64>) -> String {
        let cgroup = cgroup.map(|bytes| CgroupLimit { bytes, file: "/sys/fs/cgroup/hugetlb.2MB.max".into() });
        let reason = Refusal::Pool { cause: NO_MEMORY, pool: Some(PagePool { total, free }), cgroup };
        Refused { kind: PageKind::TwoMib, wanted: 32, reason }.to_string()
    }

    #[test]
    fn a_small_pool_is_explained_with_the_command_that_grows_it() {
        let text = pool(10, 3, None);
        assert!(text.starts_with("2 MiB pages: mmap: Cannot allocate memory"), "{text}");
        assert!(text.contains("32 wanted, 3 free of 10, no cgroup limit"), "{text}");
        assert!(text.contains("=39` makes enough") || text.contains("echo 39 > "), "{text}");
    }

    #[test]
    fn a_cgroup_limit_is_explained_although_pages_are_free() {
        let text = pool(64, 64, Some(0));
        assert!(
            text.contains("32 wanted, 64 free of 64, cgroup limit 0 bytes (/sys/fs/cgroup/hugetlb.2MB.max)"),
            "{text}"
        );
        assert!(text.ends_with("raise the cgroup limit (Kubernetes: limits, hugepages-2Mi)"), "{text}");
        assert!(!text.contains("makes enough"), "{text}");
        let enough = pool(0, 0, Some(64 << 20));
        assert!(!enough.contains("raise the cgroup limit"), "{enough}");
    }

    #[test]
    fn memory_that_is_not_there_is_explained_with_what_is() {
        let text = |limit| {
            let reason = Refusal::Short(Room { bytes: 1 << 30, limit });
            Refused { kind: PageKind::Transparent, wanted: 1 << 10, reason }.to_string()
        };
        assert!(text(None).starts_with("transparent hugepages: 2 GiB wanted, 1 GiB to be had on this machine"));
        let limited = text(Some("/sys/fs/cgroup/memory.max".into()));
        assert!(limited.contains("1 GiB to be had below the memory limit in /sys/fs/cgroup/memory.max"), "{limited}");
        assert_eq!(Refused::short(PageKind::TwoMib, u64::MAX), Ok(()));
        assert!(Refused::short(PageKind::Small, u64::MAX).is_err());
    }

    #[test]
    fn a_kernel_that_cannot_populate_is_told_apart() {
        let reason = Refusal::Call(CallError { call: POPULATE, errno: Errno(libc::EINVAL) });
        let text = Refused { kind: PageKind::Small, wanted: 1, reason }.to_string();
        assert!(text.ends_with("(this needs Linux 5.14)"), "{text}");
    }

    #[test]
    fn a_kernel_without_the_size_is_named() {
        let reason = Refusal::Pool { cause: NO_MEMORY, pool: None, cgroup: None };
        let text = Refused { kind: PageKind::OneGib, wanted: 1, reason }.to_string();
        assert!(text.ends_with("this kernel has no pool of them"), "{text}");
        assert_eq!(grow(PageKind::OneGib, 3), "echo 3 > /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages");
    }

    #[test]
    fn transparent_hugepages_are_explained_by_the_setting() {
        let of = |setting: &str, file| {
            let reason = Refusal::Transparent { got_bytes: 2 << 20, setting: setting.into(), file };
            Refused { kind: PageKind::Transparent, wanted: 4, reason }.to_string()
        };
        let text = |setting: &str| of(setting, TRANSPARENT_SETTING);
        assert!(
            text("never").starts_with("transparent hugepages: the kernel gave 2 MiB of 8 MiB; `echo madvise > /sys/")
        );
        assert!(text("madvise").contains("vm.compact_memory=1"));
        assert!(text("unknown").ends_with("this kernel has none"));
        assert!(
            of("never", SHARED_SETTING).contains("`echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled`")
        );
    }
}
