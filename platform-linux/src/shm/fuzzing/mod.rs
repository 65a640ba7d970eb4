//! What the fuzz targets in `platform-linux/fuzz` call: one input is one peer's whole behaviour. Only in builds for fuzzing, and
//! in tests, which run the corpus.

mod attach;
mod fds;
mod input;
mod regions;
mod ring;
#[cfg(test)]
mod tests;

pub use attach::Attach;
pub use regions::Regions;
pub use ring::Ring;

use std::sync::Mutex;

use spinwire_core::config::{Config, Mode};

use super::local::LocalMemory;
use crate::mem::{Arena, ArenaConfig, PageKind, PagePolicy};

/// Small segments, which cost little to make.
pub(super) fn config(message_bytes_max: u32) -> Config {
    Config {
        mode: Mode::Spinwire,
        depth: 4,
        message_bytes_max,
        inline_bytes_max: 0,
        timeouts: Default::default(),
        retry: Default::default(),
        keepalive: None,
        seed: 0,
    }
}

/// An arena that lives as long as the process: there is one for each target.
fn arena(bytes: usize) -> (LocalMemory<'static>, &'static mut [u8]) {
    let pages = PagePolicy::new([PageKind::Small]).expect("a policy of one kind");
    LocalMemory::split(keep(
        Arena::allocate(&ArenaConfig { bytes, pages, ..ArenaConfig::default() }).expect("a few pages"),
    ))
}

/// Keeps something until the process ends, and where a search for leaks finds that it is wanted.
fn keep<T>(what: T) -> &'static mut T {
    static KEPT: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    let kept = Box::leak(Box::new(what));
    KEPT.lock().expect("nothing panics here").push(std::ptr::from_mut(kept).expose_provenance());
    kept
}
