//! What a peer writes into its ring, and when it is read.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use spinwire_linux::shm::fuzzing::Ring;

thread_local! {
    static TARGET: RefCell<Ring> = RefCell::new(Ring::new());
}

fuzz_target!(|input: &[u8]| TARGET.with_borrow_mut(|target| target.run(input)));
