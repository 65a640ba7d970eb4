//! The mapping itself: made, placed, made present, released.

use std::alloc::Layout;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{self, NonNull};

use super::hugepage::default_hugepage_bytes;
use super::memfd;
use super::page::PageKind;
use super::pieces;
use crate::signals::Stop;
use crate::sys::os::{CallError, Errno, check};

/// Memory of this process, readable and writable: private, or that of a memfd. Unmapped on drop.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<u8>,
    len: usize,
    release: Release,
}

/// How the mapping was made, and so how it goes.
#[derive(Debug)]
enum Release {
    /// By `hugepage_rs::alloc` with this layout.
    Hugepage(Layout),
    /// By `mmap`: address and length of the whole, guards included.
    Unmap(NonNull<u8>, usize),
}

// SAFETY: the mapping is owned by this value alone and belongs to no thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `len` bytes, a multiple of `kind`'s page size and not 0. Reserved hugepages are set aside now, but no page
    /// is present before [`populate`](Self::populate).
    pub(super) fn new(kind: PageKind, len: usize) -> Result<Self, CallError> {
        debug_assert!(len > 0 && len.is_multiple_of(kind.page_bytes()));
        match kind {
            PageKind::TwoMib if default_hugepage_bytes() == Some(kind.page_bytes()) => Self::default_hugepages(len),
            PageKind::TwoMib | PageKind::OneGib => {
                let size = kind.page_bytes().trailing_zeros() as libc::c_int;
                let flags = libc::MAP_HUGETLB | size << libc::MAP_HUGE_SHIFT;
                let base = mmap(len, libc::PROT_READ | libc::PROT_WRITE, flags)?;
                Ok(Mapping { base, len, release: Release::Unmap(base, len) })
            }
            PageKind::Transparent => {
                let mapping = Self::guarded(len, kind.page_bytes())?;
                mapping.advise("madvise(MADV_HUGEPAGE)", libc::MADV_HUGEPAGE)?;
                Ok(mapping)
            }
            PageKind::Small => Self::guarded(len, kind.page_bytes()),
        }
    }

    /// As [`new`](Self::new), of a memfd that is given along with it.
    pub(super) fn shared(kind: PageKind, len: usize) -> Result<(Self, OwnedFd), CallError> {
        let fd = memfd::create(kind, len)?;
        // Addresses at a multiple of the page size, so that small pages can become large ones.
        let mapping = Self::guarded(len, kind.page_bytes())?;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: takes the place of our own fresh mapping, which nothing refers to and which is as long.
        let base = unsafe { libc::mmap(mapping.base.as_ptr().cast(), len, protection, flags, fd.as_raw_fd(), 0) };
        if base == libc::MAP_FAILED {
            return Err(CallError { call: "mmap", errno: Errno::last() });
        }
        if kind == PageKind::Transparent {
            mapping.advise("madvise(MADV_HUGEPAGE)", libc::MADV_HUGEPAGE)?;
        }
        Ok((mapping, fd))
    }

    /// Hugepages of the kernel's default size.
    fn default_hugepages(len: usize) -> Result<Self, CallError> {
        let layout = Layout::from_size_align(len, small_page_bytes())
            .map_err(|_| CallError { call: "mmap", errno: Errno(libc::ENOMEM) })?;
        // SAFETY: the layout's size is not 0. The crate would panic only where the kernel reports no default size of
        // hugepages; the caller has just read it.
        let base = unsafe { hugepage_rs::alloc(layout) };
        match NonNull::new(base) {
            Some(base) => Ok(Mapping { base, len, release: Release::Hugepage(layout) }),
            None => Err(CallError { call: "mmap", errno: Errno::last() }),
        }
    }

    /// Ordinary memory at a multiple of `align`, with inaccessible memory before and behind it: an overrun faults, and
    /// the kernel never merges the mapping with a neighbour.
    fn guarded(len: usize, align: usize) -> Result<Self, CallError> {
        let too_large = CallError { call: "mmap", errno: Errno(libc::ENOMEM) };
        let whole_len = len.checked_add(2 * align).ok_or(too_large)?;
        let whole = mmap(whole_len, libc::PROT_NONE, 0)?;
        // Between one byte and `align` bytes in; both ends are whole small pages.
        let offset = align - whole.as_ptr().addr() % align;
        // SAFETY: `offset + len <= align + len`, inside the mapping.
        let base = unsafe { whole.add(offset) };
        let mapping = Mapping { base, len, release: Release::Unmap(whole, whole_len) };
        // SAFETY: the range is inside our own fresh mapping, which nothing refers to.
        check("mprotect", || unsafe { libc::mprotect(base.as_ptr().cast(), len, libc::PROT_READ | libc::PROT_WRITE) })?;
        Ok(mapping)
    }

    pub(super) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Keeps the mapping out of children made by `fork`, so that copy-on-write never moves a page under a device.
    pub(super) fn keep_from_children(&self) -> Result<(), CallError> {
        self.advise("madvise(MADV_DONTFORK)", libc::MADV_DONTFORK)
    }

    /// Makes every page present and writable, or fails without a signal; the pages are of `kind`. Needs Linux 5.14 (`EINVAL`
    /// before). Cost: the kernel clears the pages, 0.1-0.3 s per GiB; less if `stop` says so meanwhile ([`pieces::STOPPED`]).
    pub(super) fn populate(&self, kind: PageKind, stop: &Stop) -> Result<(), CallError> {
        pieces::each(self.len, kind.page_bytes(), stop, |offset, len| {
            self.advise_part(POPULATE, libc::MADV_POPULATE_WRITE, offset, len)
        })
    }

    /// Asks the kernel to gather small pages into hugepages now. An attempt: whether it helped is seen afterwards.
    pub(super) fn collapse(&self, stop: &Stop) {
        let _ = pieces::each(self.len, PageKind::Transparent.page_bytes(), stop, |offset, len| {
            self.advise_part("madvise(MADV_COLLAPSE)", libc::MADV_COLLAPSE, offset, len)
        });
    }

    /// Keeps the pages from being swapped out.
    pub(super) fn lock(&self) -> Result<(), CallError> {
        // SAFETY: the range is ours; locking changes no content.
        check("mlock", || unsafe { libc::mlock(self.base.as_ptr().cast(), self.len) })
    }

    /// Lets pages come from NUMA node `node` only. To be called before they are present.
    pub(super) fn bind(&self, node: u32) -> Result<(), CallError> {
        let mut nodes = [0_u64; NODES_MAX / 64];
        let word = nodes.get_mut(node as usize / 64);
        *word.ok_or(CallError { call: "mbind", errno: Errno(libc::EINVAL) })? |= 1 << (node % 64);
        // SAFETY: the range is ours and the mask is as long as we say; binding changes no content.
        check("mbind", || unsafe {
            let result = libc::syscall(
                libc::SYS_mbind,
                self.base.as_ptr(),
                self.len,
                libc::MPOL_BIND,
                nodes.as_ptr(),
                NODES_MAX,
                0,
            );
            result as i32
        })
    }

    /// The NUMA node of the first page, which must be present; `None` where the kernel does not tell.
    pub(super) fn node(&self) -> Option<u32> {
        let mut node: libc::c_int = -1;
        // SAFETY: with these flags the kernel writes one int, the node of the page at the address; no mask is passed.
        let result = unsafe {
            libc::syscall(
                libc::SYS_get_mempolicy,
                &raw mut node,
                ptr::null::<u64>(),
                0,
                self.base.as_ptr(),
                MPOL_F_NODE | MPOL_F_ADDR,
            )
        };
        if result == 0 { u32::try_from(node).ok() } else { None }
    }

    fn advise(&self, call: &'static str, advice: libc::c_int) -> Result<(), CallError> {
        self.advise_part(call, advice, 0, self.len)
    }

    fn advise_part(&self, call: &'static str, advice: libc::c_int, offset: usize, len: usize) -> Result<(), CallError> {
        debug_assert!(offset + len <= self.len);
        // SAFETY: the range is ours, and none of the advices used here changes the content of pages.
        check(call, || unsafe { libc::madvise(self.base.as_ptr().add(offset).cast(), len, advice) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        match self.release {
            // SAFETY: made by `hugepage_rs::alloc` with this layout; we own it, so nothing refers to it any more.
            Release::Hugepage(layout) => unsafe { hugepage_rs::dealloc(self.base.as_ptr(), layout) },
            Release::Unmap(base, len) => {
                // SAFETY: made by `mmap` with this length; we own it, so nothing refers to it any more.
                let result = unsafe { libc::munmap(base.as_ptr().cast(), len) };
                debug_assert_eq!(result, 0, "a whole mapping can always be unmapped");
            }
        }
    }
}

/// Anonymous private memory at an address the kernel chooses.
fn mmap(len: usize, protection: libc::c_int, flags: libc::c_int) -> Result<NonNull<u8>, CallError> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
    let base = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return Err(CallError { call: "mmap", errno: Errno::last() });
    }
    NonNull::new(base.cast()).ok_or(CallError { call: "mmap", errno: Errno(libc::EFAULT) })
}

/// The name of the call that makes pages present, as errors carry it.
pub(super) const POPULATE: &str = "madvise(MADV_POPULATE_WRITE)";

/// Bytes in a base page.
pub(super) fn small_page_bytes() -> usize {
    // SAFETY: takes a number and returns one.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).expect("every Linux has a page size")
}

/// Not in `libc`: `get_mempolicy` is asked for a node, and for that of an address (`linux/mempolicy.h`).
const MPOL_F_NODE: libc::c_ulong = 1 << 0;
const MPOL_F_ADDR: libc::c_ulong = 1 << 1;

/// NUMA nodes in a mask; more than any kernel is built for.
const NODES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool with fewer pages than were mapped: without a reservation the mapping works, and a touch would be SIGBUS.
    #[test]
    fn pages_that_are_not_there_are_an_error_and_not_a_signal() {
        let free = super::super::PagePool::of(PageKind::TwoMib).map_or(0, |pool| pool.free as usize);
        let len = (free + 8) * PageKind::TwoMib.page_bytes();
        let flags = libc::MAP_HUGETLB | 21 << libc::MAP_HUGE_SHIFT | libc::MAP_NORESERVE;
        match mmap(len, libc::PROT_READ | libc::PROT_WRITE, flags) {
            Ok(base) => {
                let mapping = Mapping { base, len, release: Release::Unmap(base, len) };
                let error = mapping.populate(PageKind::TwoMib, &Stop::default()).unwrap_err();
                assert_eq!(error.call, POPULATE);
            }
            // A kernel without pages of this size says so here already.
            Err(error) => assert!(matches!(error.errno, Errno(libc::ENOMEM | libc::EINVAL)), "{error}"),
        }
    }

    #[test]
    fn ordinary_memory_is_aligned_and_guarded() {
        for align in [small_page_bytes(), 2 << 20] {
            let mapping = Mapping::guarded(align, align).unwrap();
            let Release::Unmap(whole, whole_len) = mapping.release else { panic!("made by mmap") };
            let (base, whole) = (mapping.base.as_ptr().addr(), whole.as_ptr().addr());
            assert_eq!(base % align, 0);
            assert!(whole < base && base + mapping.len < whole + whole_len);
        }
        let error = Mapping::guarded(usize::MAX - 4095, small_page_bytes()).unwrap_err();
        assert_eq!(error.errno, Errno(libc::ENOMEM));
    }

    #[test]
    fn a_node_beyond_the_mask_is_refused() {
        let mapping = Mapping::new(PageKind::Small, small_page_bytes()).unwrap();
        assert_eq!(mapping.bind(1024).unwrap_err().errno, Errno(libc::EINVAL));
    }
}
