//! Regions that a side exposes to the other: each a memfd of its own, passed in the handshake with the rights named.
//!
//! A peer that may change a region has a descriptor it can write with. It cannot resize the region (`SHRINK`, `GROW`), but
//! it can punch holes into it. Into small pages that is harmless: whoever touches a hole gets a fresh page of zeroes. From
//! a region on huge pages the page would go back to the machine's pool, and the next touch could be a bus error; so only
//! regions that cannot be changed (`FUTURE_WRITE`) are on huge pages, and one that can is not mapped if it is.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use spinwire_core::cm::event::PrivateData;
use spinwire_core::fabric::{OneSidedOp, OneSidedWr};
use spinwire_core::remote::{RemoteRegion, Rights};

use super::memory::{AttachError, OwnMemory, PeerMemory, ShareError};
use crate::mem::{ExposedRegion, copy_shared};
use crate::signals::Stop;

/// Regions that one core exposes, at most.
pub const REGIONS_MAX: usize = 6;

/// A region of this side's.
pub(crate) struct OwnRegion {
    memory: OwnMemory,
    fd: OwnedFd,
    len: u64,
    rights: Rights,
}

/// A region of a peer's.
pub(super) struct PeerRegion {
    memory: PeerMemory,
    len: u64,
    rights: Rights,
}

impl OwnRegion {
    /// Makes `len` bytes of zeroes that peers may use as `rights` say.
    pub(super) fn new(len: usize, rights: Rights, hugepages: bool, stop: &Stop) -> Result<Self, ShareError> {
        let mut memory = if rights.change() {
            OwnMemory::changeable(len, stop)?
        } else {
            OwnMemory::large(len, hugepages && len >= HUGE_FROM, stop)?
        };
        let fd = memory.take_fd().expect("a fresh memory has its descriptor");
        Ok(Self { memory, fd, len: len as u64, rights })
    }

    pub(super) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    #[cfg(test)]
    pub(super) fn is_on_small_pages(&self) -> bool {
        self.memory.kind() == crate::mem::PageKind::Small
    }

    /// The token of the `number`-th region of a core.
    pub(super) fn remote(&self, number: usize) -> RemoteRegion {
        RemoteRegion::new(0, self.len, number as u32, self.rights).expect("it begins at 0")
    }
}

/// Makes the `number`-th region of a core: what is passed to peers, and its owner's way to it. Fails if `stop` says so.
pub(crate) fn expose(
    number: usize,
    len: usize,
    rights: Rights,
    hugepages: bool,
    stop: &Stop,
) -> Result<(Rc<OwnRegion>, ExposedRegion), ShareError> {
    let region = Rc::new(OwnRegion::new(len, rights, hugepages, stop)?);
    let base = region.memory.base();
    // SAFETY: mapped for reading and writing while the region lives, zeroed, aligned to a page, and used through raw copies
    // and atomics alone.
    let exposed = unsafe { ExposedRegion::new(base, len, region.remote(number), Rc::clone(&region) as Rc<_>) };
    Ok((region, exposed))
}

/// What a peer is told of regions, in the order of their descriptors: 8 bytes of length and 1 of rights each.
pub(super) fn table<'r>(regions: impl Iterator<Item = &'r OwnRegion>) -> PrivateData {
    regions.flat_map(|region| region.len.to_le_bytes().into_iter().chain([region.rights.to_bits()])).collect()
}

/// Maps the regions of a peer that sent this table with these descriptors.
pub(super) fn attach(table: &[u8], fds: Vec<OwnedFd>) -> Result<Vec<PeerRegion>, AttachError> {
    let (entries, rest) = table.as_chunks::<ENTRY_BYTES>();
    if !rest.is_empty() || entries.len() != fds.len() || entries.len() > REGIONS_MAX {
        return Err(AttachError::Unfit("is announced as other regions than it passed"));
    }
    let attach_one = |(entry, fd): (&[u8; ENTRY_BYTES], OwnedFd)| {
        let [len @ .., rights] = *entry;
        let len = u64::from_le_bytes(len);
        let rights =
            Rights::from_bits(rights).ok_or(AttachError::Unfit("is exposed with rights that there are not"))?;
        let bytes = usize::try_from(len).ok().filter(|&len| len > 0 && len <= REGION_BYTES_MAX);
        let bytes = bytes.ok_or(AttachError::Unfit("has a region of no length, or beyond all limits"))?;
        let memory = PeerMemory::map_region(fd, bytes, rights.change())?;
        Ok(PeerRegion { memory, len, rights })
    };
    entries.iter().zip(fds).map(attach_one).collect()
}

impl PeerRegion {
    /// Does what `wr` asks for, with its buffer at `local`. `false`: the region does not allow that, or not there.
    ///
    /// # Safety
    /// `local` has as many bytes as `wr` says, the device's for now: readable, writable, and nobody else's.
    pub(super) unsafe fn carry_out(&self, wr: &OneSidedWr, local: *mut u8) -> bool {
        let is_inside = wr.addr.checked_add(wr.len.into()).is_some_and(|end| end <= self.len);
        if !is_inside || !self.rights.allow(wr.op.needs()) {
            return false;
        }
        // SAFETY: inside the mapping, which is at least `len` bytes long.
        let at = unsafe { self.memory.base().as_ptr().add(wr.addr as usize) };
        let len = wr.len as usize;
        match wr.op {
            // SAFETY: `len` bytes at both; the region is mapped for writing, for `rights` name it. The memory is of another
            // mapping than any buffer, so the two do not overlap.
            OneSidedOp::Write => unsafe { copy_shared(local, at, len) },
            // SAFETY: as above, the other way round.
            OneSidedOp::Read => unsafe { copy_shared(at, local, len) },
            OneSidedOp::CompareSwap { .. } | OneSidedOp::FetchAdd { .. } => {
                if len != 8 || !wr.addr.is_multiple_of(8) {
                    return false;
                }
                // SAFETY: inside, aligned, mapped for writing; others change it as they like, it is a word of bits.
                let word = unsafe { AtomicU64::from_ptr(at.cast()) };
                let was = match wr.op {
                    OneSidedOp::CompareSwap { expected, new } => word
                        .compare_exchange(expected, new, Ordering::SeqCst, Ordering::SeqCst)
                        .unwrap_or_else(|was| was),
                    OneSidedOp::FetchAdd { add } => word.fetch_add(add, Ordering::SeqCst),
                    OneSidedOp::Write | OneSidedOp::Read => unreachable!("matched above"),
                };
                // SAFETY: 8 bytes of the buffer (caller).
                unsafe { local.cast::<u64>().write_unaligned(was) };
            }
        }
        true
    }
}

const ENTRY_BYTES: usize = 9;
/// More than a machine has.
const REGION_BYTES_MAX: usize = 1 << 46;
/// Shorter regions would waste more than half of a page of 2 MiB.
const HUGE_FROM: usize = 1 << 20;

const _: () = assert!(REGIONS_MAX * ENTRY_BYTES <= spinwire_core::config::CONNECT_PRIVATE_DATA_MAX);
