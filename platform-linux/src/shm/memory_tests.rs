//! What may be mapped, and what its maker can no longer do with it.

use super::memory::{OwnMemory, PeerMemory};
use crate::mem::PageKind;

#[test]
fn memory_that_could_end_this_process_is_not_mapped() {
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    let make = |bytes: i64, fill: bool, seals: i32| {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: fresh descriptors of our own, and no memory.
        let fd = unsafe { OwnedFd::from_raw_fd(libc::memfd_create(c"test".as_ptr(), flags)) };
        // SAFETY: as above.
        unsafe {
            assert_eq!(libc::ftruncate(fd.as_raw_fd(), bytes), 0);
            assert!(!fill || libc::fallocate(fd.as_raw_fd(), 0, 0, bytes) == 0);
            assert_eq!(libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals), 0);
        }
        fd
    };
    let all = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_FUTURE_WRITE;
    let why = |fd, bytes| PeerMemory::map(fd, bytes).err().map(|error| error.to_string()).unwrap_or_default();
    assert_eq!(why(make(8_192, true, all), 8_000), "");
    for missing in [libc::F_SEAL_SHRINK, libc::F_SEAL_GROW, libc::F_SEAL_FUTURE_WRITE] {
        assert!(why(make(8_192, true, all & !missing), 8_000).contains("sealed"));
    }
    assert!(why(make(8_192, true, all), 9_000).contains("size"));
    assert!(why(make(1 << 20, true, all), 8_000).contains("size"), "no more is mapped than was said");
    assert!(why(make(8_192, false, all), 8_000).contains("present"));
    let file = std::fs::File::open("/dev/zero").unwrap();
    assert!(why(file.into(), 8_000).contains("memfd"));
}

#[test]
fn nobody_but_its_maker_can_write_a_segment_or_take_its_pages() {
    use std::os::fd::AsRawFd;
    let mut memory = OwnMemory::new(8_192, false).unwrap();
    let fd = memory.take_fd().unwrap();
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, which is refused; calls on our own descriptor.
    unsafe {
        let map = libc::mmap(std::ptr::null_mut(), 8_192, protection, libc::MAP_SHARED, fd.as_raw_fd(), 0);
        assert_eq!(map, libc::MAP_FAILED);
        assert_eq!(libc::ftruncate(fd.as_raw_fd(), 0), -1);
        let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        assert_eq!(libc::fallocate(fd.as_raw_fd(), hole, 0, 4_096), -1);
        assert_eq!(libc::madvise(memory.base().as_ptr().cast(), 4_096, libc::MADV_REMOVE), -1);
    }
}

#[test]
fn pages_of_2_mib_are_used_where_they_can_be_had_and_else_small_ones() {
    let pool = crate::mem::PagePool::of(PageKind::TwoMib).map_or(0, |pool| pool.free);
    let memory = OwnMemory::new(2 << 20, true).unwrap();
    // Others may use the pool at the same time, so a page that was free may be gone.
    assert!(pool > 0 || memory.kind() == PageKind::Small);
    assert_eq!(memory.len(), 2 << 20);
    let too_many = (pool as usize + 8) * (2 << 20);
    assert_eq!(OwnMemory::new(too_many, true).unwrap().kind(), PageKind::Small);
}
