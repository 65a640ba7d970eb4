//! The corpus, and inputs of chance: what the fuzz targets do, without a fuzzer.

use std::fs;
use std::path::Path;

use super::{Attach, Regions, Ring};

/// The inputs in the tree, and `count` of chance, which begin as one of them.
fn inputs(target: &str, count: usize) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut inputs: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect();
    let kept = inputs.len();
    assert!(kept > 0, "there is a corpus");
    let mut state = 0x5eed_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    };
    for _ in 0..count {
        let mut input = inputs[random() % kept].clone();
        for _ in 0..random() % 8 {
            if input.is_empty() || random() % 4 == 0 {
                input.push(random() as u8);
            } else {
                let at = random() % input.len();
                input[at] = random() as u8;
            }
        }
        inputs.push(input);
    }
    inputs
}

#[test]
fn what_peers_send_on_the_way_to_a_connection_does_no_harm_and_leaves_nothing() {
    let run = || {
        // A table of descriptors of its own: other tests open and close some meanwhile.
        // SAFETY: from here on this thread uses descriptors of its own only.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_FILES) }, 0);
        let mut attach = Attach::new();
        inputs("attach", 3_000).iter().for_each(|input| attach.run(input));
    };
    std::thread::spawn(run).join().unwrap();
}

#[test]
fn what_peers_write_into_their_rings_does_no_harm() {
    let mut ring = Ring::new();
    for input in inputs("ring", 5_000) {
        ring.run(&input);
    }
}

#[test]
fn what_peers_expose_and_do_with_it_does_no_harm() {
    let mut regions = Regions::new();
    for input in inputs("regions", 3_000) {
        regions.run(&input);
    }
}
