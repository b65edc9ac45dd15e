//! Open tables within their share of memory, and what is known of them.

use tidesdb_base::options::{DbOptions, FamilyOptions, RuntimeOptions};

use super::*;
use crate::cache::TableMemory;
use crate::db::{Components, Db};
use crate::handles::Family;

const KEYS: u32 = 60_000;

fn key(n: u32) -> Vec<u8> {
    n.wrapping_mul(0x9e37_79b9).to_be_bytes().to_vec()
}

/// How many tables are open as a whole, and how many in parts.
fn held(family: &Family) -> (usize, usize) {
    let version = family.state().current_version();
    let in_parts = |file: &Arc<TableFile>| file.if_open().as_ref().map(|t| t.is_in_parts());
    let count = |wanted| version.tables().filter(|file| in_parts(file) == Some(wanted)).count();
    (count(false), count(true))
}

#[test]
fn tables_without_room_are_read_in_parts() {
    const MIB: u64 = 1 << 20;
    let options = DbOptions::default()
        .max_memory_usage(4 * MIB)
        .log_segment_bytes(64 << 10)
        .block_cache_bytes(1 << 20);
    let db = Db::open_with("/db", options, Components::simulated()).unwrap();
    // Small blocks make a large index.
    let options = FamilyOptions::default()
        .write_buffer_size(256 << 10)
        .block_size(128)
        .l1_file_count_trigger(1000);
    let family = db.create_family("tables", options).unwrap();
    // Of their share tables have half a MiB left.
    let budget = &db.core().memory.budget;
    let taken = TableMemory::share_of(4 * MIB) - MIB / 2;
    budget.take(Holder::Tables, taken);
    for n in 0..KEYS {
        family.put(&key(n), &key(n).repeat(10)).unwrap();
    }
    family.flush().unwrap();
    let read_all = |step: usize| {
        for n in (0..KEYS).step_by(step) {
            assert_eq!(family.get(&key(n)).unwrap(), Some(key(n).repeat(10)), "{n}");
        }
        let absent = family.multi_get(&[&b"absent"[..], &key(7)]).unwrap();
        assert_eq!(absent, [None, Some(key(7).repeat(10))]);
    };
    read_all(7);
    let (whole, parts) = held(&family);
    assert!(whole > 0 && parts > 0, "{whole} whole, {parts} in parts");
    let bytes = db.stats().memory.table_bytes - taken;
    // What a table will take is estimated.
    assert!(bytes <= MIB / 2 + MIB / 16, "{bytes} bytes are more than their share");
    // With memory to spare the tables that are read are held as a whole, sooner or later.
    db.set_options(RuntimeOptions::default().max_memory_usage(64 * MIB)).unwrap();
    for _ in 0..8 {
        read_all(1);
    }
    assert_eq!(held(&family).1, 0);
}

/// Each opening of a table that a scan holds since before its close took memory that nothing
/// counted.
#[test]
fn a_closed_table_counts_until_its_last_reader_has_gone() {
    let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
    let family = db.create_family("tables", FamilyOptions::default()).unwrap();
    for n in 0..1000 {
        family.put(&key(n), b"value").unwrap();
    }
    family.flush().unwrap();
    let budget = Arc::clone(&db.core().memory.budget);
    let file = family.state().current_version().tables().next().map(Arc::clone).unwrap();
    let closed = budget.table_bytes();
    let held: Vec<_> = (1..=3)
        .map(|number| {
            let open = file.table().unwrap().as_ref().map(Arc::clone).unwrap();
            let bytes = open.memory_bytes() as u64;
            assert_eq!(budget.table_bytes(), closed + number * bytes);
            file.close();
            assert_eq!(budget.table_bytes(), closed + number * bytes);
            open
        })
        .collect();
    drop(held);
    assert_eq!(budget.table_bytes(), closed);
}

#[test]
fn what_is_known_of_tables_counts_as_memory() {
    let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
    let family = db.create_family("values", FamilyOptions::default()).unwrap();
    let budget = Arc::clone(&db.core().memory.budget);
    let of_records = || budget.held().tables - budget.table_bytes();
    assert_eq!(of_records(), 0);
    for n in 0..3 {
        family.put(&key(n), &[7; 10_000]).unwrap();
        family.flush().unwrap();
    }
    let known = || {
        let version = family.state().current_version();
        let records = version.tables().map(|table| Arc::clone(&table.record));
        records.collect::<Vec<_>>()
    };
    let references = |records: &[Arc<TableRecord>]| {
        records.iter().map(|record| record.value_references.len() as u64).sum::<u64>()
    };
    assert!(references(&known()) > 0);
    let least = 512 * known().len() as u64 + 32 * references(&known());
    assert!(of_records() > least, "{} of {least}", of_records());
    assert_eq!(of_records(), known().iter().map(|record| known_bytes(record)).sum::<u64>());
    for n in 0..3 {
        family.delete(&key(n)).unwrap();
    }
    family.compact().unwrap();
    assert_eq!((known().len(), of_records()), (0, 0));
}

/// With value logs of a terabyte all writers waited for flushes that freed nothing.
#[test]
fn references_to_value_logs_take_a_part_of_the_budget_at_most() {
    let context = crate::version::test_tables::context();
    let budget = Arc::clone(&context.budget);
    budget.set_bytes(1 << 20);
    let like = crate::version::test_tables::table(&context, (1, 1), 1, 0);
    let value_references = (0..1 << 20).map(|file| (file, 1)).collect();
    let table =
        TableFile::new(&context, TableRecord { value_references, ..(*like.record).clone() });
    assert!(budget.held_by(Holder::TableRecords) > 16 << 20);
    assert_eq!(budget.held().tables, budget.bytes() / 4);
    drop(table);
    assert!(budget.held().tables < 64 << 10);
}
