//! What keeps space on a disk that is full, or makes it so.

use super::*;
use crate::compaction::reclaim::Left;
use crate::write::{WriteBatch, WriteOptions};

/// What an idle family has in memory kept all log of the others, up to more than the volume has.
#[test]
fn the_log_of_an_idle_family_fills_no_small_volume() {
    let sim = SimVfs::new(1);
    sim.set_capacity(Some(40 << 20));
    let (db, family) = open(&sim, DbOptions::default());
    let idle = db.create_family("idle", family.options()).unwrap();
    family.set_options(family.options().l1_file_count_trigger(2)).unwrap();
    idle.put(b"key", b"value").unwrap();
    for n in 0..40_000_u64 {
        let put = family.put(&(n % 1000).to_be_bytes(), &[7; 1000]);
        assert!(put.is_ok(), "put {n}: {put:?}");
        if n % 500 == 0 {
            db.wait_idle().unwrap();
            // A put that finds the disk full has memory written out, and gets on.
            assert!(free(&sim) > 16 << 20, "{} bytes are left after {n} puts", free(&sim));
        }
    }
    db.close().unwrap();
}

/// Deletions of batches that don't wait were forgotten, and puts that came after them refused.
#[test]
fn what_was_deleted_without_waiting_is_collected_for_a_put() {
    let sim = SimVfs::new(1);
    sim.set_capacity(Some(64 << 20));
    let (db, family) = open(&sim, DbOptions::default());
    // Nothing else gives space back.
    db.core().work.control.end_compactions();
    let put = |n: u64| family.put(&n.to_be_bytes(), &[7; 4000]);
    let full = (0..).find(|n| put(*n).is_err()).unwrap();
    let mut deletions = WriteBatch::new();
    (0..full / 2).for_each(|n| deletions.delete(&family, n.to_be_bytes()).unwrap());
    db.write_with(&deletions, WriteOptions::new().no_wait(true)).unwrap();
    for n in full..full + full / 8 {
        put(n).unwrap();
    }
    db.close().unwrap();
}

/// One that began while tables were written anew, one at a time, had no bound, and took the space.
#[test]
fn compactions_are_bounded_while_a_full_disk_is_freed() {
    let sim = SimVfs::new(1);
    sim.set_capacity(Some(64 << 20));
    let (db, family) = open(&sim, DbOptions::default());
    let disk = &db.core().flow.disk;
    disk.begin_reclaim(|| 0, Vec::new);
    let room = db.core().room_for_compactions(family.state());
    assert!(room.is_some_and(|room| room < free(&sim)), "{room:?}");
    disk.end_reclaim(0);
    db.close().unwrap();
}

/// Each try froze another memtable of a few bytes.
#[test]
fn tries_that_find_no_space_pile_up_no_memtables() {
    let sim = SimVfs::new(1);
    let (db, family) = open(&sim, DbOptions::default());
    (0..1000_u64).for_each(|n| family.put(&n.to_be_bytes(), &[7; 500]).unwrap());
    fill(&sim, 0);
    for n in 0..20_u64 {
        let _ = family.delete(&n.to_be_bytes());
        db.core().write_memory_out();
    }
    let frozen = family.state().view.load().frozen.len();
    assert_eq!(frozen, 1);
    sim.set_capacity(None);
    db.close().unwrap();
}

/// They counted as collected: no put had them looked at again when there was space.
#[test]
fn value_logs_without_space_to_be_emptied_are_looked_at_again() {
    let sim = SimVfs::new(1);
    let (db, family) = open(&sim, DbOptions::default());
    family.set_options(family.options().klog_value_threshold(512)).unwrap();
    db.core().work.control.end_compactions();
    (0..300_u64).for_each(|n| family.put(&n.to_be_bytes(), &[7; 1000]).unwrap());
    family.flush().unwrap();
    for n in (0..300_u64).filter(|n| n % 3 > 0) {
        family.delete(&n.to_be_bytes()).unwrap();
    }
    family.flush().unwrap();
    db.core().storage.log.remove_free_segments();
    fill(&sim, 40 << 10);
    assert_eq!(db.core().reclaim_tables(family.state()).unwrap(), Left::Others);
    sim.set_capacity(None);
    assert_eq!(db.core().reclaim_tables(family.state()).unwrap(), Left::Nothing);
    db.close().unwrap();
}
