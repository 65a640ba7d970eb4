//! The table by itself.

extern crate std;
use super::*;
use std::vec;
use std::vec::Vec;

fn slots(count: usize) -> Vec<Slot<u64>> {
    core::iter::repeat_with(|| Slot::EMPTY).take(count).collect()
}

#[test]
fn a_full_table_gives_the_value_back() {
    let (mut slots, mut places) = (slots(2), vec![Place::default(); 2]);
    let mut table = Table::new(&mut slots, &mut places).unwrap();
    let (a, b) = (table.insert(1).unwrap(), table.insert(2).unwrap());
    assert_eq!(table.insert(3), Err(3));
    assert_eq!((table.remove(a), table.remove(a)), (Some(1), None));
    let c = table.insert(3).unwrap();
    assert_eq!((c.slot(), c.generation()), (a.slot(), 2), "the same slot in its next life");
    assert_eq!((table.get(a), table.get(b), table.get(c)), (None, Some(&2), Some(&3)));
}

/// The rule that the table's description states.
#[test]
fn the_slot_freed_last_is_taken_and_unused_ones_come_last_in_order() {
    let (mut slots, mut places) = (slots(6), vec![Place::default(); 6]);
    let mut table = Table::new(&mut slots, &mut places).unwrap();
    let ids: Vec<_> = (0..4).map(|n| table.insert(n).unwrap()).collect();
    assert_eq!(ids.iter().map(|id| id.slot()).collect::<Vec<_>>(), [0, 1, 2, 3], "unused slots from the first on");
    for freed in [2, 0, 3] {
        table.remove(ids[freed]).unwrap();
    }
    let taken: Vec<_> = (0..5).map(|n| table.insert(n).unwrap().slot()).collect();
    assert_eq!(taken, [3, 0, 2, 4, 5], "those freed, from the last on, then the unused");
}

#[test]
fn no_handle_leads_to_a_free_slot() {
    let (mut slots, mut places) = (slots(2), vec![Place::default(); 2]);
    let mut table = Table::new(&mut slots, &mut places).unwrap();
    let id = table.insert(1).unwrap();
    table.remove(id).unwrap();
    // Also not one that somebody makes up, of the life before, of the next, or with what the free slot's word is.
    for bits in [1 << 16, 2 << 16, 1 << 16 | 0xffff, !0xffff, 1 << 16 | 1] {
        let made_up = ConnId::from_bits(bits).unwrap();
        assert_eq!((table.get_mut(made_up).copied(), table.remove(made_up), table.get(made_up)), (None, None, None));
    }
    assert!(table.at_mut(0).is_none() && table.at_mut(9).is_none());
    assert_eq!((table.id_at(0), table.id_at(1), table.id_at(9)), (None, None, None));
}

#[test]
fn handles_of_an_earlier_table_over_the_same_slots_stay_stale() {
    let (mut slots, mut places) = (slots(1), vec![Place::default(); 1]);
    let first = Table::new(&mut slots, &mut places).unwrap().insert(1).unwrap();
    let mut table = Table::new(&mut slots, &mut places).unwrap();
    assert_eq!((table.live(), table.get(first)), (0, None));
    let second = table.insert(2).unwrap();
    assert_eq!((second.generation(), table.get(first), table.get(second)), (2, None, Some(&2)));
}

#[test]
fn generations_that_other_names_used_are_skipped() {
    let (mut slots, mut places) = (slots(1), vec![Place::default(); 1]);
    let mut table = Table::new(&mut slots, &mut places).unwrap();
    let first = table.insert(1).unwrap();
    let last = first.next_attempt().next_attempt();
    assert_eq!(table.get(last), None, "the entry has its first name only");
    assert_eq!(table.remove_up_to(last, last), None);
    assert_eq!(table.remove_up_to(first, last), Some(1));
    assert_eq!(table.insert(2).unwrap(), last.next_attempt());
}

#[test]
fn the_generation_starts_again_after_its_last() {
    let (mut slots, mut places) = ([Slot::at_generation(GENERATION_MAX - 1)], [Place::default()]);
    let mut table = Table::new(&mut slots, &mut places).unwrap();
    let last = table.insert(1).unwrap();
    assert_eq!(last.generation(), GENERATION_MAX);
    table.remove(last);
    assert_eq!(table.insert(2).unwrap().generation(), 1);
    assert_eq!(table.get(last), None);
}
