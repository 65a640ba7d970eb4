//! The connection table at its largest, and ten million random operations against a model that remembers everything.
#![cfg(not(loom))]

use spinwire_core::conn::{Place, Slot, Table, TableError};
use spinwire_core::id::ConnId;
use spinwire_core::sim::Random;

/// The last generation a slot has before it starts again.
const GENERATION_MAX: u64 = (1 << 48) - 1;

fn slots(count: usize, generation: u64) -> (Vec<Slot<u64>>, Vec<Place>) {
    ((0..count).map(|_| Slot::at_generation(generation)).collect(), vec![Place::default(); count])
}

#[test]
fn the_largest_table_holds_exactly_65536() {
    let (mut slots, mut places) = slots(65_536, 0);
    let mut table = Table::new(&mut slots, &mut places).unwrap();
    let ids: Vec<_> = (0..65_536).map(|n| table.insert(n).unwrap()).collect();
    assert_eq!((table.live(), table.capacity(), table.insert(7)), (65_536, 65_536, Err(7)));
    for (n, &id) in ids.iter().enumerate() {
        assert_eq!((id.slot(), table.get(id), table.live_at(n as u32)), (n, Some(&(n as u64)), Some(id)));
    }
    assert_eq!(table.live_at(65_536), None);
    assert!(ids.iter().rev().all(|&id| table.remove(id).is_some()));
    assert_eq!(table.live(), 0);
}

#[test]
fn sizes_out_of_range_are_refused() {
    let mut none: [Slot<u64>; 0] = [];
    assert_eq!(Table::new(&mut none, &mut []).unwrap_err(), TableError::Slots { asked: 0 });
    let mut places = vec![Place::default(); 65_537];
    let error = Table::new(&mut slots(65_537, 0).0, &mut places).unwrap_err();
    assert_eq!(error.to_string(), "a table of 65537 connections is out of range: 1 to 65536");
    let error = Table::new(&mut slots(3, 0).0, &mut places[..2]).unwrap_err();
    assert_eq!(error, TableError::Places { slots: 3, places: 2 });
    // More places than slots are of no consequence.
    assert!(Table::new(&mut slots(3, 0).0, &mut places).is_ok());
}

/// What a table should be: slots that remember their life, and a stack of the free ones.
struct Model {
    entries: Vec<Option<(ConnId, u64)>>,
    generations: Vec<u64>,
    free: Vec<usize>,
    live: Vec<ConnId>,
}

impl Model {
    fn new(count: usize, generation: u64) -> Self {
        Model {
            entries: vec![None; count],
            generations: vec![generation; count],
            free: (0..count).rev().collect(),
            live: Vec::new(),
        }
    }

    fn insert(&mut self, value: u64) -> Option<ConnId> {
        let slot = self.free.pop()?;
        let generation = &mut self.generations[slot];
        *generation = if *generation == GENERATION_MAX { 1 } else { *generation + 1 };
        let id = ConnId::from_bits(*generation << 16 | slot as u64).unwrap();
        self.entries[slot] = Some((id, value));
        self.live.push(id);
        Some(id)
    }

    fn get(&self, id: ConnId) -> Option<u64> {
        self.entries.get(id.slot()).copied().flatten().filter(|entry| entry.0 == id).map(|entry| entry.1)
    }

    /// Takes out the `n`-th in the model's own order.
    fn remove_nth(&mut self, n: usize) -> (ConnId, u64) {
        let id = self.live.swap_remove(n);
        self.free.push(id.slot());
        self.entries[id.slot()].take().unwrap()
    }

    /// Every entry is walked over once, and nothing else.
    fn check_walk(&self, table: &Table<'_, u64>) {
        let mut walked: Vec<_> = (0..table.live()).map(|place| table.live_at(place).unwrap().to_bits()).collect();
        let mut expected: Vec<_> = self.live.iter().map(|id| id.to_bits()).collect();
        walked.sort_unstable();
        expected.sort_unstable();
        assert_eq!(walked, expected);
        assert_eq!(table.live_at(table.live()), None);
    }
}

#[test]
fn ten_million_operations_agree_with_a_model() {
    let sizes = [1, 2, 7, 64, 1_000, 65_536];
    for size in sizes {
        // Every slot passes the end of its generations, but those of the largest table.
        let start = GENERATION_MAX - if size == 65_536 { 2 } else { 20 };
        let (mut slots, mut places) = slots(size, start);
        let mut table = Table::new(&mut slots, &mut places).unwrap();
        let (mut model, mut random) = (Model::new(size, start), Random(size as u64));
        let mut gone = [ConnId::from_bits(start << 16).unwrap(); 64];
        // It is filled and drained in turns, so that it is full and empty at times.
        let mut filling = true;
        for step in 0..10_000_000 / sizes.len() as u64 {
            filling = if filling { table.live() < table.capacity() } else { table.live() == 0 };
            let choice = random.next();
            let pick = (choice >> 32) as usize;
            let stale = gone[pick % gone.len()];
            match choice % 8 {
                0..=2 if filling == (choice % 8 > 0) => {
                    let id = model.insert(step);
                    assert_eq!(table.insert(step), id.ok_or(step), "slot, generation, or full");
                }
                0..=2 if !model.live.is_empty() => {
                    let (id, value) = model.remove_nth(pick % model.live.len());
                    assert_eq!(table.remove(id), Some(value));
                    gone[pick % gone.len()] = id;
                }
                3 => assert!(table.remove(stale).or(table.get_mut(stale).copied()).is_none()),
                4 if !model.live.is_empty() => {
                    let id = model.live[pick % model.live.len()];
                    assert_eq!(table.get(id).copied(), model.get(id));
                }
                5 => {
                    let slot = pick % (size + 1);
                    let entry = model.entries.get(slot).copied().flatten();
                    assert_eq!(table.id_at(slot), entry.map(|entry| entry.0));
                    assert_eq!(table.at_mut(slot).map(|(id, value)| (id, *value)), entry);
                }
                _ => {
                    // Any handle at all, made up.
                    let id = ConnId::from_bits(((choice >> 8 & 31) + 1) << 16 | (pick % size) as u64).unwrap();
                    assert_eq!(table.get(id).copied(), model.get(id));
                }
            }
            assert_eq!(table.live() as usize, model.live.len());
            if step % 200_000 == 0 {
                model.check_walk(&table);
            }
        }
        model.check_walk(&table);
        let passed = model.generations.iter().filter(|&&generation| generation < start).count();
        assert!(passed * 3 > size, "{passed} of {size} slots passed their last generation");
    }
}
