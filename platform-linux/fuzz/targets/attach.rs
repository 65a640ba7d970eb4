//! What a peer sends on the way to a connection: packets, descriptors, and when it goes.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use spinwire_linux::shm::fuzzing::Attach;

thread_local! {
    static TARGET: RefCell<Attach> = RefCell::new(Attach::new());
}

fuzz_target!(|input: &[u8]| TARGET.with_borrow_mut(|target| target.run(input)));
