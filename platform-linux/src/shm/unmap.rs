//! Unmapping what is large. The last one who lets go of memory has its pages freed, 60 ms for 1 GiB of small ones; where a peer
//! was killed that is this side. A loop that serves others does not wait for that: a thread of the process does it.

use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::mpsc::{self, Sender};
use std::thread;

use crate::sys::os::{CallError, Errno};

/// A mapping that nobody uses any more.
struct Gone {
    address: usize,
    len: usize,
}

/// Less takes hardly more time than waking a thread does.
const LARGE: usize = 1 << 20;

static THREAD: OnceLock<Sender<Gone>> = OnceLock::new();

/// Starts the thread, if there is none, on the CPUs that the calling thread may use: so before it is pinned.
pub(super) fn start() -> Result<(), CallError> {
    if THREAD.get().is_some() {
        return Ok(());
    }
    let (to, from) = mpsc::channel::<Gone>();
    let builder = thread::Builder::new().name("spinwire-unmap".to_owned()).stack_size(super::closer::STACK_BYTES);
    builder.spawn(move || from.into_iter().for_each(|gone| now(&gone))).map_err(|error| CallError {
        call: "clone (a thread that unmaps memory)",
        errno: Errno(error.raw_os_error().unwrap_or(0)),
    })?;
    // Another core may have been faster: then this thread ends, for nobody has its other end.
    let _ = THREAD.set(to);
    Ok(())
}

/// Unmaps `len` bytes from `base`, now or some time.
///
/// # Safety
/// That is a whole mapping, which nobody uses any more.
pub(super) unsafe fn unmap(base: NonNull<u8>, len: usize) {
    let gone = Gone { address: base.as_ptr().addr(), len };
    match THREAD.get().filter(|_| len >= LARGE) {
        // The thread is there as long as the process.
        Some(thread) => drop(thread.send(gone)),
        None => now(&gone),
    }
}

fn now(gone: &Gone) {
    // SAFETY: a whole mapping that nobody uses (`unmap`, which alone makes such values).
    let result = unsafe { libc::munmap(ptr::without_provenance_mut(gone.address), gone.len) };
    debug_assert_eq!(result, 0, "a whole mapping can always be unmapped");
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::shm::memory::OwnMemory;

    #[test]
    fn what_is_large_is_gone_soon_and_what_is_small_at_once() {
        start().unwrap();
        start().unwrap();
        let is_mapped = |address: usize| {
            let maps = fs::read_to_string("/proc/self/maps").unwrap();
            maps.lines().any(|line| line.starts_with(&format!("{address:x}-")) && line.contains("memfd:spinwire"))
        };
        for len in [4_096, 64 * LARGE] {
            let memory = OwnMemory::new(len, false).unwrap();
            let (address, begun) = (memory.base().as_ptr().addr(), Instant::now());
            assert!(is_mapped(address));
            drop(memory);
            while is_mapped(address) {
                assert!(len >= LARGE && begun.elapsed() < Duration::from_secs(10), "{len} bytes are still mapped");
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
}
