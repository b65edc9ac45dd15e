//! What a compaction of a range reads, leaves and shows.

use std::collections::BTreeMap;

use tidesdb_base::compress::Compression;
use tidesdb_base::options::{DbOptions, FamilyOptions};
use tidesdb_sim::{FaultError, FaultKind, FaultVfs, ManualScheduler, OpSet, SimVfs};

use super::*;
use crate::db::{Components, Db};
use crate::handles::Family;

type Model = BTreeMap<String, String>;

/// A family with one large run, and a model of what it holds.
struct Bench {
    faults: Arc<FaultVfs>,
    db: Db,
    family: Family,
    model: Model,
}

fn key(n: usize) -> String {
    format!("{n:05}")
}

impl Bench {
    fn new() -> Self {
        let faults = FaultVfs::new(SimVfs::new(1) as _);
        let components = Components {
            vfs: Arc::clone(&faults) as _,
            scheduler: Arc::new(ManualScheduler::new(1)) as _,
            ..Components::simulated()
        };
        let db = Db::open_with("/db", DbOptions::default(), components).unwrap();
        let options = FamilyOptions::default()
            .compression(Compression::None)
            .target_table_bytes(16 << 10)
            .block_size(512)
            .min_disk_space(0);
        let family = db.create_family("family", options).unwrap();
        let mut bench = Self { faults, db, family, model: Model::new() };
        (0..4000).for_each(|n| bench.put(n, "old"));
        bench.family.compact().unwrap();
        bench
    }

    fn put(&mut self, n: usize, text: &str) {
        let value = format!("{text} {n:0>80}");
        self.family.put(key(n), &value).unwrap();
        self.model.insert(key(n), value);
    }

    fn delete(&mut self, n: usize) {
        self.family.delete(key(n)).unwrap();
        self.model.remove(&key(n));
    }

    /// Two newer runs over all keys: some are overwritten, and in a range some are deleted.
    fn overwrite_and_delete(&mut self) {
        for run in 0..2 {
            (run..4000).step_by(20).for_each(|n| self.put(n, "new"));
            (1000 + run..1100).step_by(3).for_each(|n| self.delete(n));
            self.family.flush().unwrap();
        }
    }

    fn check(&self) {
        let entries = self.family.iter().unwrap().entries();
        let found: Model = entries
            .map(|entry| {
                let entry = entry.unwrap();
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                (text(&entry.0), text(&entry.1))
            })
            .collect();
        assert!(found == self.model, "{} keys, expected {}", found.len(), self.model.len());
    }

    fn tombstones(&self) -> u64 {
        self.family.state().current_version().tables().map(|table| table.record.tombstones).sum()
    }

    fn table_bytes(&self) -> u64 {
        self.family.state().current_version().tables().map(|table| table.record.bytes).sum()
    }
}

#[test]
fn a_compaction_of_a_range_leaves_no_deletion_in_it_and_all_else_as_it_was() {
    let mut bench = Bench::new();
    bench.overwrite_and_delete();
    let snapshot = bench.db.snapshot();
    let seen = bench.model.clone();
    bench.put(1050, "newest");
    bench.delete(1051);
    assert!(bench.tombstones() > 60, "nothing is put to the test");
    let numbers = |bench: &Bench| -> Vec<u64> {
        let version = bench.family.state().current_version();
        version.tables().map(|table| table.record.number).collect()
    };
    let before = numbers(&bench);
    let (read, all) = (bench.db.stats().work.compaction_bytes_read, bench.table_bytes());
    bench.family.compact_range(key(1000)..key(1100)).unwrap();
    let read = bench.db.stats().work.compaction_bytes_read - read;
    assert!(read < all / 4, "{read} of {all} bytes were read for a fortieth of the keys");
    let stayed = before.iter().filter(|number| numbers(&bench).contains(number)).count();
    assert!(stayed * 2 > before.len(), "{stayed} of {} tables stayed", before.len());
    bench.check();
    for (key, value) in &seen {
        let found = bench.family.get_at(&snapshot, key).unwrap();
        assert_eq!(found.as_deref(), Some(value.as_bytes()), "{key}");
    }
    drop(snapshot);
    // What the snapshot needed goes now, and the newest runs hold nothing of the range.
    bench.family.compact_range(key(1000)..key(1100)).unwrap();
    bench.check();
    assert_eq!(bench.tombstones(), 0);
}

/// Bounds that hold nothing between them had the rests of a table that both cut overlap, and its
/// number of versions seemed to be damaged.
#[test]
fn a_range_that_ends_before_it_begins_holds_nothing() {
    let mut bench = Bench::new();
    bench.overwrite_and_delete();
    let runs = bench.family.state().current_version().runs.len();
    for (from, to) in [(1100, 1000), (1050, 1050), (3999, 0)] {
        bench.family.compact_range(key(from)..key(to)).unwrap();
        assert_eq!(bench.family.state().current_version().runs.len(), runs);
    }
    bench.family.compact().unwrap();
    bench.check();
    assert_eq!(bench.family.state().current_version().runs.len(), 1);
}

/// No older run has keys of the range: what was deleted in it leaves nothing behind.
#[test]
fn deletions_go_where_no_older_run_holds_keys_of_the_range() {
    let mut bench = Bench::new();
    (5000..9000).for_each(|n| bench.put(n, "old"));
    bench.family.flush().unwrap();
    let before = bench.family.state().current_version().runs.len();
    assert_eq!(before, 2, "nothing is put to the test");
    // It becomes a run that was merged, above the other.
    (5000..9000).step_by(2).for_each(|n| bench.put(n, "new"));
    bench.family.compact_range(key(5000)..).unwrap();
    assert_eq!(bench.family.state().current_version().runs.len(), 2);
    (6000..6100).for_each(|n| bench.delete(n));
    bench.family.flush().unwrap();
    bench.family.compact_range(key(6000)..key(6100)).unwrap();
    bench.check();
    assert_eq!(bench.tombstones(), 0);
}

/// A step fits into what is free, and the tables behind it would not.
#[test]
fn tables_are_written_anew_where_min_disk_space_is_left() {
    let mut bench = Bench::new();
    bench.overwrite_and_delete();
    let options = bench.family.options().min_disk_space(u64::MAX / 2);
    bench.family.set_options(options).unwrap();
    let places: Vec<_> = {
        let version = bench.family.state().current_version();
        version.runs.iter().rev().skip(1).rev().map(Run::place).collect()
    };
    let span = KeySpan { from: Some(key(1000).into()), until: Some(key(1100).into()) };
    let numbers = || -> Vec<u64> {
        let version = bench.family.state().current_version();
        version.tables().map(|table| table.record.number).collect()
    };
    let before = numbers();
    bench.db.core().leave_out(bench.family.state(), &places, &span).unwrap();
    assert_eq!(numbers(), before, "a table was written where nothing may be");
}

/// What is done of it stays done, and is right by itself, wherever a call fails. A full disk is no
/// failure once all is merged.
#[test]
fn a_compaction_of_a_range_may_fail_anywhere() {
    for error in [FaultError::IO, FaultError::NO_SPACE] {
        let mut failed = 0;
        for call in 0.. {
            let mut bench = Bench::new();
            bench.overwrite_and_delete();
            bench.faults.count_only(OpSet::CHANGES);
            bench.faults.reset();
            bench.faults.fail_call(call, FaultKind::Once, error);
            let result = bench.family.compact_range(key(1000)..key(1100));
            let fired = bench.faults.fired();
            bench.faults.clear_faults();
            bench.check();
            bench.overwrite_and_delete();
            bench.family.compact_range(key(900)..key(1200)).unwrap();
            bench.check();
            failed += u64::from(result.is_err());
            if fired == 0 {
                break;
            }
        }
        assert!(failed > 5, "only {failed} failed for {error:?}");
    }
}
