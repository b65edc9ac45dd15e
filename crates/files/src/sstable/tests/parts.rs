//! Tables whose index and filter are read part by part answer what others do.

use super::*;
use crate::sstable::iterator::{Readahead, TableIterator};
use crate::testing::assert_names_place;

fn open_holding(file: &Arc<MemoryFile>, held: HeldParts) -> tidesdb_base::Result<Table> {
    let table = Table::open_within(file.clone(), Path::new(PATH), IDENTITY, |_| held)?;
    assert!(table.is_in_parts() && table.sizes().both() > 0);
    assert!(held == HeldParts::None || table.held_parts() == held);
    Ok(table)
}

fn open_in_parts(file: &Arc<MemoryFile>) -> tidesdb_base::Result<Table> {
    open_holding(file, HeldParts::None)
}

#[test]
fn parts_answer_as_an_ordered_map_does() {
    let mut rng = seeded();
    for (name, block_size, model) in shapes(&mut rng) {
        for (filter, index) in filters_and_forms() {
            let (file, summary) =
                write(&model, TableOptions { filter, index, ..options(block_size) });
            let held = [HeldParts::None, HeldParts::Filter][rng.index(2)];
            let (table, whole) = (open_holding(&file, held).unwrap(), open(&file).unwrap());
            assert_eq!(*table.summary(), summary, "{name}");
            assert_eq!(table.has_filter(), whole.has_filter(), "{name}");
            table.verify().unwrap_or_else(|error| panic!("{name}: {error}"));
            let keys: Vec<_> = model.keys().map(|(key, _)| key.clone()).collect();
            for key in keys.into_iter().chain(targets(&model, &mut rng, 1000)) {
                let snapshot = [0, rng.below(1 << 20), u64::MAX][rng.index(3)];
                let wanted = expected(&model, &key, snapshot);
                assert_eq!(answer(&table, &key, snapshot).unwrap(), wanted, "{name}: {key:?}");
                let hash = key_hash(&key);
                let known =
                    table.may_contain(hash) && table.may_contain_by_parts(hash, &Uncached).unwrap();
                assert_eq!(known, whole.may_contain(hash), "{name}");
            }
            for readahead in [Readahead::None, Readahead::Bytes(1000)] {
                let mut walk = TableIterator::new(&table, Uncached, readahead);
                walk.seek_to_first().unwrap();
                for (key, seq) in model.keys() {
                    assert_eq!((walk.key(), walk.seq()), (key.as_slice(), seq.0), "{name}");
                    walk.next().unwrap();
                }
                assert!(!walk.valid());
            }
        }
    }
}

#[test]
fn a_table_in_parts_takes_little_memory() {
    let mut model = Model::new();
    for n in 0..20_000u64 {
        let key = format!("key{:012}", n * 7919).into_bytes();
        model.insert((key, Reverse(1)), (ValueKind::Value, 0, vec![7; 100]));
    }
    let (file, _) = write(&model, options(4096));
    let whole = open(&file).unwrap().memory_bytes();
    let parts = open_in_parts(&file).unwrap().memory_bytes();
    assert!(parts * 8 < whole, "{parts} of {whole}");
    let filter = open_holding(&file, HeldParts::Filter).unwrap();
    let (sizes, bytes) = (filter.sizes(), filter.memory_bytes() as u64);
    assert!(sizes.index * 4 > sizes.filter, "{sizes:?}: nothing was put to the test");
    assert!((sizes.filter..sizes.filter + sizes.index / 2).contains(&bytes), "{bytes}");
}

#[test]
fn what_changes_behind_an_open_table_in_parts_is_corruption() {
    let mut model = Model::new();
    for n in 0..2000u64 {
        let key = format!("key{n:06}").into_bytes();
        model.insert((key, Reverse(1)), (ValueKind::Value, 0, vec![b'v'; 9]));
    }
    let (file, summary) = write(&model, options(64));
    let table = open_in_parts(&file).unwrap();
    let blocks = table.index.data_bytes() as usize;
    let mut noticed = 0;
    for at in (blocks..summary.file_len as usize).step_by(97) {
        file.change(|bytes| bytes[at] ^= 1);
        for (key, seq) in model.keys().step_by(61) {
            match answer(&table, key, seq.0) {
                Ok(found) => assert_eq!(found, expected(&model, key, seq.0)),
                Err(error) => {
                    noticed += 1;
                    assert_names_place::<()>(Err(error), summary.file_len as usize, "changed");
                }
            }
        }
        assert_names_place(open_in_parts(&file), summary.file_len as usize, "opened");
        file.change(|bytes| bytes[at] ^= 1);
    }
    assert!(noticed > 20, "{noticed}");
}
