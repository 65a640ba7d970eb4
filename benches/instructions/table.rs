//! The connection table.

use std::hint::black_box;

use spinwire_core::conn::{Place, Slot, Table};

/// A look-up of an entry that is there.
#[inline(never)]
pub fn hit(iterations: u64) {
    let mut slots: Vec<_> = std::iter::repeat_with(|| Slot::EMPTY).take(1_024).collect();
    let mut places = vec![Place::default(); 1_024];
    let mut table = Table::new(&mut slots, &mut places).expect("a size that is allowed");
    let id = (0..1_024u64).map(|n| table.insert(n).expect("room")).nth(500).expect("1,024 of them");
    for _ in 0..iterations {
        black_box(table.get(black_box(id)));
    }
    assert_eq!(table.get(id), Some(&500));
}
