//! What a peer exposes, and what it does with it while this side uses it.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use spinwire_linux::shm::fuzzing::Regions;

thread_local! {
    static TARGET: RefCell<Regions> = RefCell::new(Regions::new());
}

fuzz_target!(|input: &[u8]| TARGET.with_borrow_mut(|target| target.run(input)));
