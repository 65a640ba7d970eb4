//! What may be mapped, and what its maker can no longer do with it.

use super::closer::Closer;
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

/// Without the question the kernel would look for a process to end; the stop keeps it from that here.
#[test]
fn more_than_the_machine_has_is_refused_before_it_is_asked_for() {
    use crate::mem::Refusal;
    let stop = crate::signals::Stop::default();
    stop.set(libc::SIGTERM as u8);
    let bytes = 1 << 46;
    for made in [OwnMemory::changeable(bytes, &stop), OwnMemory::large(bytes, true, &stop)] {
        let error = made.err().expect("there is no such machine");
        assert!(error.refused.iter().any(|refused| matches!(refused.reason, Refusal::Short(_))), "{error}");
        assert!(error.to_string().contains("65536 GiB wanted"), "{error}");
    }
}

/// Of whatever kind: none is read, waited for or asked its size.
#[test]
fn descriptors_of_other_kinds_are_refused_at_once() {
    use std::fs::{File, OpenOptions};
    use std::os::fd::{FromRawFd, OwnedFd};
    use std::os::unix::fs::OpenOptionsExt;
    let path = std::env::temp_dir().join(format!("spinwire-fifo-{}", std::process::id()));
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: a C string; fresh descriptors of our own.
    let (event, epoll) = unsafe {
        assert_eq!(libc::mkfifo(name.as_ptr(), 0o600), 0);
        (OwnedFd::from_raw_fd(libc::eventfd(0, 0)), OwnedFd::from_raw_fd(libc::epoll_create1(0)))
    };
    // For reading and writing: it would be waited for a writer.
    let fifo = File::options().read(true).write(true).open(&path).unwrap();
    let on_path = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let (pipe, _write) = std::io::pipe().unwrap();
    let kinds: [(&str, OwnedFd); 8] = [
        ("a pipe", pipe.into()),
        ("a fifo", fifo.into()),
        ("a path", on_path.into()),
        ("an event", event),
        ("an epoll set", epoll),
        ("a terminal multiplexer", File::open("/dev/ptmx").unwrap().into()),
        ("a directory", File::open("/").unwrap().into()),
        ("a socket", std::os::unix::net::UnixDatagram::unbound().unwrap().into()),
    ];
    let closer = Closer::new().unwrap();
    for (kind, fd) in kinds {
        let begun = std::time::Instant::now();
        let error = PeerMemory::map(fd.try_clone().unwrap(), 8_192).err().unwrap_or_else(|| panic!("{kind} is mapped"));
        assert!(error.to_string().contains("memfd"), "{kind}: {error}");
        assert!(closer.memfds(vec![fd]).is_err(), "{kind}");
        assert!(begun.elapsed().as_millis() < 500, "{kind}: {:?}", begun.elapsed());
    }
    closer.settle();
}
