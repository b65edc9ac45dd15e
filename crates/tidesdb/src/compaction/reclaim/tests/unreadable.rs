//! What a file that can't be read keeps from being done, and what it doesn't.

use std::path::Path;

use tidesdb_base::compress::Compression;
use tidesdb_sim::ManualScheduler;

use super::*;
use crate::iterator::ScanOptions;
use crate::version::TableFile;

struct Bench {
    faults: Arc<FaultVfs>,
    scheduler: Arc<ManualScheduler>,
    db: Db,
    family: Family,
}

fn bench(change: impl FnOnce(FamilyOptions) -> FamilyOptions) -> Bench {
    let faults = FaultVfs::new(SimVfs::new(1) as _);
    let scheduler = Arc::new(ManualScheduler::new(1));
    let components = Components {
        vfs: Arc::clone(&faults) as _,
        scheduler: Arc::clone(&scheduler) as _,
        ..Components::simulated()
    };
    let db = Db::open_with("/db", DbOptions::default().block_cache_bytes(0), components).unwrap();
    let options = FamilyOptions::default()
        .compression(Compression::None)
        .target_table_bytes(16 << 10)
        .block_size(512)
        .klog_value_threshold(1 << 20)
        .min_disk_space(0);
    let family = db.create_family("family", change(options)).unwrap();
    Bench { faults, scheduler, db, family }
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

impl Bench {
    fn tables(&self) -> Vec<Arc<TableFile>> {
        self.family.state().current_version().tables().cloned().collect()
    }

    fn bytes(&self) -> u64 {
        self.tables().iter().map(|table| table.record.bytes).sum()
    }

    fn put_all(&self, random: &mut SplitMix64) {
        ('a'..='h').for_each(|prefix| put(&self.family, prefix, random));
        self.family.flush().unwrap();
        self.scheduler.run_until_idle();
    }
}

/// A piece that was read ahead failed as a whole, and took the blocks with it that were in front of
/// the one that can't be read.
#[test]
fn a_scan_reads_up_to_the_block_that_can_not_be_read() {
    let bench = bench(|options| options.target_table_bytes(1 << 20));
    bench.put_all(&mut SplitMix64::new(1));
    bench.family.compact().unwrap();
    let table = bench.tables().into_iter().max_by_key(|table| table.record.bytes).unwrap();
    let middle = table.record.bytes / 2;
    bench.faults.fail_reads_of(name(table.path()), middle..middle + 1);
    let keys = || ('a'..='h').flat_map(|p| (0..300).map(move |n| format!("{p}{n:03}")));
    let readable = keys().take_while(|key| bench.family.get(key).is_ok()).count();
    assert!((50..2300).contains(&readable), "{readable}");
    let mut scanned = bench.family.scan(ScanOptions::new()).unwrap().entries();
    let before = bench.faults.fired();
    let rows = scanned.by_ref().take_while(Result::is_ok).count();
    assert_eq!(rows, readable);
    // A disk tries for seconds, and each block before the bad one had it try again.
    let failed = bench.faults.fired() - before;
    assert!((1..8).contains(&failed), "{failed} reads failed");
}

/// All tables behind the first that can't be read were left, each time again.
#[test]
fn tables_that_can_be_read_are_written_anew_beside_one_that_can_not() {
    let bench = bench(|options| options);
    bench.put_all(&mut SplitMix64::new(1));
    bench.family.compact().unwrap();
    let tables = bench.tables();
    assert!(tables.len() > 10, "{}", tables.len());
    for key in ('a'..='h').flat_map(|p| (0..300).map(move |n| (p, n))).filter(|k| k.1 % 10 > 0) {
        bench.family.delete(format!("{}{:03}", key.0, key.1)).unwrap();
    }
    bench.family.flush().unwrap();
    let before = bench.bytes();
    let first = bench.family.state().current_version().runs.last().unwrap().tables[0].clone();
    let middle = first.record.bytes / 4;
    bench.faults.fail_reads_of(name(first.path()), middle..middle + 1);
    bench.db.core().reclaim_tables(bench.family.state()).unwrap();
    assert!(bench.faults.fired() > 0 && first.is_damaged());
    let after = bench.bytes();
    assert!(after < before / 3, "{after} of {before} bytes are left");
    // It may have passed.
    bench.faults.clear_faults();
    bench.family.compact().unwrap();
    assert!(bench.bytes() < before / 8, "{} bytes", bench.bytes());
    assert_eq!(bench.family.iter().unwrap().entries().count(), 8 * 30);
}

/// A table of which the file system had lost the record ended it all, each time again.
#[test]
fn tables_are_written_anew_beside_one_that_can_not_be_opened() {
    let bench = bench(|options| options);
    bench.put_all(&mut SplitMix64::new(1));
    bench.family.compact().unwrap();
    for key in ('a'..='h').flat_map(|p| (0..300).map(move |n| format!("{p}{n:03}"))) {
        bench.family.delete(key).unwrap();
    }
    bench.family.flush().unwrap();
    let before = bench.bytes();
    let first = bench.family.state().current_version().runs.last().unwrap().tables[0].clone();
    bench.faults.damage_record(name(first.path()));
    bench.tables().iter().for_each(|table| crate::cache::HeldTable::close(table.as_ref()));
    bench.db.core().reclaim_tables(bench.family.state()).unwrap();
    assert!(first.is_damaged());
    let after = bench.bytes();
    assert!(after < before / 3, "{after} of {before} bytes are left");
}

/// Values that can't be read kept all value logs behind theirs from being emptied.
#[test]
fn value_logs_that_can_be_read_are_emptied_beside_one_that_can_not() {
    // Nothing is compacted before.
    let quiet = |options: FamilyOptions| {
        let options = options.klog_value_threshold(512).l1_file_count_trigger(100);
        options.max_space_amplification(1000.0).tombstone_density_min_entries(1 << 30)
    };
    let bench = bench(quiet);
    let version = || bench.family.state().current_version();
    let mut random = SplitMix64::new(1);
    for prefix in ['a', 'b'] {
        for n in 0..300 {
            let mut value = vec![0; 1000];
            random.fill(&mut value);
            bench.family.put(format!("{prefix}{n:03}"), value).unwrap();
        }
        bench.family.flush().unwrap();
    }
    // Those of `a` have less left, and are looked at first.
    for (prefix, kept) in [('a', 5), ('b', 3)] {
        for n in (0..300).filter(|n| n % kept > 0) {
            bench.family.delete(format!("{prefix}{n:03}")).unwrap();
        }
    }
    bench.family.flush().unwrap();
    let numbers: Vec<u64> = version().value_logs.keys().copied().collect();
    let path = version().value_logs[&numbers[0]].path().to_owned();
    bench.faults.fail_reads_of(name(&path), 4096..1 << 30);
    bench.db.core().reclaim_tables(bench.family.state()).unwrap();
    let left: Vec<u64> = version().value_logs.keys().copied().collect();
    assert!(bench.faults.fired() > 0, "nothing was put to the test");
    assert!(left.contains(&numbers[0]) && !left.contains(&numbers[numbers.len() - 1]), "{left:?}");
    bench.faults.clear_faults();
    assert_eq!(bench.family.iter().unwrap().entries().count(), 60 + 100);
}

/// A table was replaced by what was read of it, though that was less than it holds (I-33).
#[test]
fn a_table_of_which_a_part_was_not_found_is_not_replaced() {
    let bench = bench(|options| options);
    bench.put_all(&mut SplitMix64::new(1));
    for n in 0..200 {
        bench.family.delete(format!("a{n:03}")).unwrap();
    }
    bench.family.flush().unwrap();
    let (core, state) = (bench.db.core(), bench.family.state());
    let table = state.current_version().runs.last().unwrap().tables[0].clone();
    let forged = table.with_entries(table.record.entries + 1);
    let error = core.reclaim_table(state, &forged, None).unwrap_err();
    assert!(error.is_corruption(), "{error}");
    assert!(bench.tables().iter().any(|other| other.record.number == table.record.number));
    core.reclaim_table(state, &table, None).unwrap();
    assert!(
        !bench.tables().iter().any(|other| other.record.number == table.record.number),
        "nothing was put to the test"
    );
}

/// Compactions failed at the same place for good, and each try wrote the same again.
#[test]
fn runs_above_a_table_that_can_not_be_read_are_merged() {
    let bench = bench(|options| options);
    let mut random = SplitMix64::new(1);
    bench.put_all(&mut random);
    bench.family.compact().unwrap();
    let table = Arc::clone(&bench.tables()[3]);
    bench.faults.fail_reads_of(name(table.path()), 600..601);
    let mut most = 0;
    for _ in 0..40 {
        bench.put_all(&mut random);
        most = most.max(bench.family.state().current_version().runs.len());
    }
    assert!(bench.faults.fired() > 0 && table.is_damaged(), "nothing was put to the test");
    assert!(most < 24, "{most} runs");
    bench.faults.clear_faults();
    // After a while it is read again, without a caller.
    while bench.scheduler.fire_timer() && table.is_damaged() {
        bench.scheduler.run_until_idle();
    }
    assert!(!table.is_damaged());
    bench.family.compact().unwrap();
    assert_eq!(bench.family.state().current_version().runs.len(), 1);
}
