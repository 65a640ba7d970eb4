//! Memory that the two processes share: where they meet, and what the bare contestants use.

mod bulk;

use std::error::Error;
use std::fs::File;
use std::hint;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use spinwire_benches::ping_pong::PingPong;

pub use bulk::{CHUNK, Receiver, Sender};

/// A cache line to itself, and away from the next pair that the processor may prefetch.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Word(AtomicU64);

impl Word {
    /// What was stored last.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Stores it, and with it everything that was written before.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }
}

/// What both processes see. Memory of zeroes is one, and everything in it is atomic, or in `bulk` guarded by what is.
#[derive(Debug, Default)]
pub struct Board {
    /// The checks of the placement before and after a window.
    pub checks: [PingPong; 2],
    /// The bare contestant of round trips.
    pub bare: PingPong,
    /// The step that the asking process has reached.
    asks_at: Word,
    /// The step that the answering process has reached.
    answers_at: Word,
    /// The number of the last window of round trips that is over.
    pub over: Word,
    /// Messages taken in the stream since the board was made.
    pub taken: Word,
    /// Whether the answering process lost its CPU in this window.
    pub switched: Word,
    bulk: bulk::Bulk,
}

impl Board {
    /// Waits in the asking process until the answering one has come to step `step` too.
    pub fn meet_asking(&self, step: u64) {
        meet(step, &self.asks_at, &self.answers_at);
    }

    /// The other side of [`Board::meet_asking`].
    pub fn meet_answering(&self, step: u64) {
        meet(step, &self.answers_at, &self.asks_at);
    }

    /// Makes the memory. The descriptor is for [`Board::open`] in a child, which inherits it.
    ///
    /// # Errors
    /// What the system refuses. The mapping lasts as long as the process.
    pub fn make() -> Result<(&'static Self, OwnedFd), Box<dyn Error>> {
        let fd = memfd_create("spinwire-ipc", MemfdFlags::empty())?;
        ftruncate(&fd, size_of::<Board>() as u64)?;
        Ok((map(fd.as_fd())?, fd))
    }

    /// The memory that the parent made, by the number of its descriptor.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn open(number: &str) -> Result<&'static Self, Box<dyn Error>> {
        let file = File::options().read(true).write(true).open(format!("/proc/self/fd/{number}"))?;
        if file.metadata()?.len() != size_of::<Board>() as u64 {
            return Err(format!("descriptor {} is of another program", file.as_raw_fd()).into());
        }
        map(file.as_fd())
    }
}

fn meet(step: u64, own: &Word, other: &Word) {
    own.set(step);
    while other.get() < step {
        hint::spin_loop();
    }
}

fn map(fd: std::os::fd::BorrowedFd<'_>) -> Result<&'static Board, Box<dyn Error>> {
    let (flags, protection) = (MapFlags::SHARED | MapFlags::POPULATE, ProtFlags::READ | ProtFlags::WRITE);
    // SAFETY: the kernel chooses the place, so no mapping that is in use is touched. The file is as long as the mapping and
    // nobody truncates it: both processes run this program.
    let address = unsafe { mmap(ptr::null_mut(), size_of::<Board>(), protection, flags, fd, 0)? };
    // SAFETY: the mapping is as long as a `Board`, aligned to a page, and never unmapped. It began as zeroes, which are a
    // `Board`, and whoever maps it changes it only through a `Board` of the same program.
    Ok(unsafe { &*address.cast::<Board>() })
}
