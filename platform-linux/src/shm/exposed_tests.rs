//! Regions between two sides of one process: what is carried out, what is refused, and what a hostile peer can do.

use std::os::fd::{AsRawFd, OwnedFd};

use spinwire_core::fabric::{OneSidedOp, OneSidedWr};
use spinwire_core::remote::Rights;

use super::exposed::{OwnRegion, PeerRegion, attach, expose, table};
use super::memory::{AttachError, OwnMemory};
use crate::mem::ExposedRegion;
use crate::signals::Stop;
use crate::sys::os::check;

const LEN: usize = 10_000;

/// What an owner exposes, and what a peer makes of it.
fn exposed(rights: Rights) -> (ExposedRegion, OwnedFd, PeerRegion) {
    let (own, region) = expose(0, LEN, rights, false, &Stop::default()).unwrap();
    let fd = own.fd().try_clone().unwrap();
    let mut peer = attach(&table([&*own].into_iter()), vec![own.fd().try_clone().unwrap()]).unwrap();
    (region, fd, peer.remove(0))
}

/// Asks for an operation on 8 bytes of the buffer.
fn ask(peer: &PeerRegion, op: OneSidedOp, addr: u64, buffer: &mut [u8; 8]) -> bool {
    let wr = OneSidedWr { op, addr, len: 8, ..OneSidedWr::EMPTY };
    // SAFETY: 8 bytes of our own.
    unsafe { peer.carry_out(&wr, buffer.as_mut_ptr()) }
}

#[test]
fn what_a_peer_does_the_owner_sees_and_the_other_way_round() {
    let (region, _, peer) = exposed(Rights::ALL);
    let mut buffer = *b"written!";
    assert!(ask(&peer, OneSidedOp::Write, LEN as u64 - 8, &mut buffer));
    let mut seen = [0; 8];
    region.read_at(LEN - 8, &mut seen);
    assert_eq!(&seen, b"written!");
    region.write_at(16, b"to read?");
    assert!(ask(&peer, OneSidedOp::Read, 16, &mut buffer));
    assert_eq!(&buffer, b"to read?");
    assert!(ask(&peer, OneSidedOp::FetchAdd { add: 5 }, 8, &mut buffer));
    assert_eq!((u64::from_ne_bytes(buffer), region.load_u64(8)), (0, 5));
    for (expected, new, now) in [(4, 1, 5), (5, 7, 7)] {
        let before = region.load_u64(8);
        assert!(ask(&peer, OneSidedOp::CompareSwap { expected, new }, 8, &mut buffer));
        assert_eq!((u64::from_ne_bytes(buffer), region.load_u64(8)), (before, now));
    }
}

#[test]
fn what_is_not_allowed_or_not_there_is_refused() {
    let (region, _, peer) = exposed(Rights::READ);
    let mut buffer = [1; 8];
    for op in [OneSidedOp::Write, OneSidedOp::FetchAdd { add: 1 }, OneSidedOp::CompareSwap { expected: 0, new: 1 }] {
        assert!(!ask(&peer, op, 0, &mut buffer), "{op:?}");
    }
    assert_eq!(region.load_u64(0), 0);
    for addr in [LEN as u64 - 7, LEN as u64, u64::MAX - 3] {
        assert!(!ask(&peer, OneSidedOp::Read, addr, &mut buffer), "{addr}");
    }
    let (_, _, peer) = exposed(Rights::ATOMIC);
    assert!(!ask(&peer, OneSidedOp::Read, 0, &mut buffer));
    assert!(!ask(&peer, OneSidedOp::FetchAdd { add: 1 }, 4, &mut buffer), "not aligned");
}

/// The kernel's word, not ours: a peer has no way to write what it may only read.
#[test]
fn memory_that_may_only_be_read_cannot_be_mapped_for_writing() {
    let (_, fd, _) = exposed(Rights::READ);
    for protection in [libc::PROT_READ | libc::PROT_WRITE, libc::PROT_READ] {
        let flags = libc::MAP_SHARED;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let map = unsafe { libc::mmap(std::ptr::null_mut(), LEN, protection, flags, fd.as_raw_fd(), 0) };
        let writes = protection & libc::PROT_WRITE != 0;
        assert_eq!(map == libc::MAP_FAILED, writes, "writing is refused, reading is not");
        if !writes {
            // SAFETY: made above, and nobody refers to it.
            unsafe { libc::munmap(map, LEN) };
        }
    }
    let one = [1_u8];
    // SAFETY: a byte of our own.
    let written = unsafe { libc::pwrite(fd.as_raw_fd(), one.as_ptr().cast(), 1, 0) };
    assert_eq!(written, -1, "nor can it be written as a file");
}

/// A peer that may change a region punches holes into it while both sides use it: zeroes, and no signal.
#[test]
fn holes_that_a_peer_punches_are_zeroes_and_no_bus_error() {
    let (region, fd, peer) = exposed(Rights::ALL);
    region.write_at(0, &[7; LEN]);
    let holes = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: calls on our own descriptor that touch no memory of ours.
    check("fallocate", || unsafe { libc::fallocate(fd.as_raw_fd(), holes, 0, 12_288) }).unwrap();
    let mut bytes = [9; LEN];
    region.read_at(0, &mut bytes);
    assert_eq!(bytes, [0; LEN]);
    let mut buffer = [3; 8];
    assert!(ask(&peer, OneSidedOp::Write, 8_000, &mut buffer));
    region.store_u64(0, 1);
    // SAFETY: as above.
    assert!(check("ftruncate", || unsafe { libc::ftruncate(fd.as_raw_fd(), 0) }).is_err(), "it cannot be shortened");
}

fn unfit(table: &[u8], fds: Vec<OwnedFd>) -> &'static str {
    match attach(table, fds) {
        Err(AttachError::Unfit(why)) => why,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was taken"),
    }
}

#[test]
fn tables_and_memory_that_do_not_fit_are_not_mapped() {
    let (own, _) = expose(0, LEN, Rights::ALL, false, &Stop::default()).unwrap();
    let fd = || own.fd().try_clone().unwrap();
    let good = table([&*own].into_iter());
    assert!(unfit(&good, vec![]).contains("other regions"));
    assert!(unfit(&good, vec![fd(), fd()]).contains("other regions"));
    assert!(unfit(&good[..8], vec![fd()]).contains("other regions"));
    for (len, why) in
        [(0, "no length"), (u64::MAX, "no length"), (LEN as u64 + 8_192, "another size"), (1, "another size")]
    {
        let mut bad = good.clone();
        bad[..8].copy_from_slice(&len.to_le_bytes());
        assert!(unfit(&bad, vec![fd()]).contains(why), "{len}");
    }
    let mut bad = good.clone();
    bad[8] = 8;
    assert!(unfit(&bad, vec![fd()]).contains("rights"));
    // Said to be for reading only, but not sealed against writing.
    bad[8] = Rights::READ.to_bits();
    assert!(unfit(&bad, vec![fd()]).contains("sealed against shrinking, growing and writing"));
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    assert!(unfit(&good, vec![file.into()]).contains("sealed"), "no memfd at all");
    // A segment is no region that can be changed: the kernel refuses the mapping.
    let mut sealed = OwnMemory::new(LEN, false).unwrap();
    assert!(matches!(attach(&good, vec![sealed.take_fd().unwrap()]), Err(AttachError::Call(_))));
}

#[test]
fn a_region_that_can_be_changed_is_never_on_huge_pages() {
    assert!(OwnRegion::new(4 << 20, Rights::WRITE, true, &Stop::default()).unwrap().is_on_small_pages());
}
