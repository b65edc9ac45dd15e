//! What a version takes over from the one before, and what it says of the space that is used.

use tidesdb_base::error::Error;
use tidesdb_base::range_tombstone::RangeTombstone;
use tidesdb_files::manifest::TableRecord;
use tidesdb_files::vlog::VLOG_HEADER_BYTES;
use tidesdb_lockfree::sync::lock;

use super::measured_deletions::RangeDeleted;
use super::test_tables::{KEYS, context, table};
use super::value_log_life::{Extent, ValueLogLife};
use super::*;

/// The life of a value log of so many bytes that a flush has written.
fn settled(bytes: u64) -> ValueLogLife {
    ValueLogLife::Settled { extent: Extent::whole(bytes) }
}

fn totals(version: &Version) -> Vec<*const run::RunTotals> {
    version.runs.iter().map(|run| Arc::as_ptr(&run.totals)).collect()
}

#[test]
fn runs_that_a_change_does_not_touch_keep_their_sums() {
    let context = context();
    let tables = (0..4).map(|n| table(&context, (2, n / 2), 10 + n, n * KEYS));
    let old = Version::of_tables(tables, BTreeMap::new());
    let before = totals(&old);
    // A flush.
    let added = vec![table(&context, (1, 7), 20, 0)];
    let flushed = old.with_tables(TableChange { added, ..TableChange::default() });
    let places: Vec<_> = flushed.runs.iter().map(|run| (run.level, run.id)).collect();
    assert_eq!(places, [(1, 7), (2, 1), (2, 0)]);
    assert_eq!(totals(&flushed)[1..], before);
    // A compaction of the two newest runs that moves one table and replaces the others.
    let change = TableChange {
        removed: vec![20, 12],
        moved: vec![13],
        moved_to: (2, 1),
        added: vec![table(&context, (2, 1), 30, 2 * KEYS)],
    };
    let merged = flushed.with_tables(change);
    let places: Vec<_> = merged.runs.iter().map(|run| (run.level, run.id)).collect();
    assert_eq!(places, [(2, 1), (2, 0)]);
    assert_eq!(totals(&merged)[1], before[1]);
    let numbers: Vec<_> = merged.tables().map(|table| table.record.number).collect();
    assert_eq!(numbers, [30, 13, 10, 11]);
    assert_eq!(merged.runs[0].totals.counts.entries, 2 * KEYS);
    let references: Vec<_> = merged.runs[0].totals.value_references.keys().copied().collect();
    assert_eq!(references, [13, 30]);
    // The last table of a run goes.
    let removed = vec![10, 11];
    let less = merged.with_tables(TableChange { removed, ..TableChange::default() });
    assert_eq!(totals(&less), totals(&merged)[..1]);
}

/// With one range tombstone each flush looked at all tables.
#[test]
fn what_range_tombstones_hide_is_added_up_once_for_a_run() {
    let context = context();
    let tables = (0..40).map(|n| table(&context, (2, n / 10), n, n * KEYS));
    let mut version = Version::of_tables(tables, BTreeMap::new());
    let (start, end) = (Box::default(), KEYS.to_be_bytes().into());
    let tombstone = RangeTombstone { start, end, sequence: 100 };
    version.add_tombstones(&[Arc::new(tombstone)]);
    let hide = |table: &Arc<TableFile>, versions: u64| {
        let known = lock(&table.measured).known();
        let known = RangeDeleted { without_snapshots: versions, ..known };
        lock(&table.measured).set(known);
    };
    let hidden = |version: &Version| -> Vec<u64> {
        version.runs.iter().map(|run| run.totals.range_deleted()).collect()
    };
    for (at, versions) in [(3, 500), (5, 200), (3, 300)] {
        hide(&version.runs[3].tables[at], versions);
    }
    assert_eq!(hidden(&version), [0, 0, 0, 500]);
    let before = MEASURED_LOOKS.get();
    let added = vec![table(&context, (1, 7), 50, 0)];
    let flushed = version.with_tables(TableChange { added, ..TableChange::default() });
    assert_eq!(MEASURED_LOOKS.get(), before, "tables were looked at");
    assert_eq!(hidden(&flushed), [0, 0, 0, 0, 500]);
    assert!(flushed.space.settled < flushed.space.bytes);
    // A snapshot in front of all is in the way of the tombstone.
    assert_ne!(flushed.space_for(&[1]).settled, 0);
    assert!(MEASURED_LOOKS.get() > before);
    // One is moved to another run, and measured for either.
    let (moved, moved_to) = (vec![3], (2, 9));
    let merged = flushed.with_tables(TableChange { moved, moved_to, ..TableChange::default() });
    assert_eq!(hidden(&merged), [300, 0, 0, 0, 0, 200]);
    hide(&version.runs[3].tables[3], 1000);
    assert_eq!((hidden(&merged)[0], hidden(&version)[3]), (1000, 1200));
}

#[test]
fn the_newest_runs_tell_of_bulk_deletions() {
    let are = |runs: &[(u64, u64)]| are_bulk_deletions(runs.iter().copied());
    assert!(!are(&[]) && !are(&[(100, 0)]) && !are(&[(100, 74)]));
    assert!(are(&[(100, 75)]) && are(&[(100, 100), (20, 0)]));
    // Four small runs of deletions switched off the rules for readers of a large family.
    let after_four = |deleted, others| are(&[[(deleted, deleted); 4], [(others, 0); 4]].concat());
    assert!(!after_four(9, 1_000_000) && !after_four(1_000, 1_000_000));
    assert!(after_four(100_000, 1_000_000) && after_four(10_000, 1_000_000));
    assert!(!are(&[(9, 9), (1_000_000, 0)]));
    // They don't hide those of larger runs below.
    let after_small =
        |deleted| are(&[&[(9, 9); 4][..], &[(deleted, deleted), (1 << 30, 0)]].concat());
    assert!(!after_small(1 << 20) && after_small(1 << 24));
    // Whatever a damaged manifest says, it is answered.
    assert!(are(&[(1, 2)]) && are(&[(u64::MAX, u64::MAX), (u64::MAX, 1)]));
}

#[test]
fn space_counts_what_several_runs_hold_of_a_key() {
    let context = context();
    // number of runs, whether they hold the same keys -> share that is alive
    for (runs, same, share) in [(1, true, 1.0), (4, true, 0.25), (4, false, 1.0)] {
        let first = |run| if same { 0 } else { run * KEYS };
        let tables = (0..runs).map(|run| table(&context, (1, run), run, first(run)));
        let version = Version::of_tables(tables, BTreeMap::new());
        let space = version.space;
        assert_eq!(space.bytes, runs * 100 * KEYS);
        let found = space.settled as f64 / space.bytes as f64;
        assert!((found - share).abs() < 0.15, "{runs} runs, {same}: {space:?}");
        let allowed = space.allowed_bytes(1.5) as f64 / space.bytes as f64;
        assert!((allowed - 1.5 * share).abs() < 0.25, "{runs} runs, {same}: {space:?}");
        version.tables().for_each(|table| table.set_aside.set(&unreadable()));
        let tables = version.tables().cloned();
        assert_eq!(Version::of_tables(tables, BTreeMap::new()).space, SpaceEstimate::default());
    }
}

/// Writers were slowed for deletions that no compaction could drop.
#[test]
fn deletions_above_a_damaged_run_are_no_garbage() {
    let context = context();
    let with_tombstones = |run: u64, tombstones| {
        let like = table(&context, (1, run), run, run * KEYS);
        TableFile::new(&context, TableRecord { tombstones, ..(*like.record).clone() })
    };
    let tables = [with_tombstones(1, 0), with_tombstones(2, 0), with_tombstones(3, KEYS)];
    let rules = |version: &Version| version.liveness_rules(&[], 0);
    let version = Version::of_tables(tables.clone(), BTreeMap::new());
    let space = version.space;
    assert_eq!(space.bytes, 3 * 100 * KEYS);
    assert!(space.settled < space.bytes * 3 / 4, "{space:?}");
    tables[0].set_aside.set(&unreadable());
    let version = Version::of_tables(tables, BTreeMap::new());
    let space = version.space;
    assert_eq!(space.bytes, 2 * 100 * KEYS);
    assert!(space.settled > space.bytes * 9 / 10, "{space:?}");
    // As compactions see it.
    let mut count = LivenessCount::new(rules(&version));
    version.mergeable_runs().for_each(|run| count.add_run(run));
    let seen = count.liveness(false);
    let settled = space.settled as f64 / space.bytes as f64;
    assert!((seen.needed as f64 / seen.versions as f64 - settled).abs() < 0.01);
}

/// All value logs that are overwritten evenly are mostly dead at the same time.
#[test]
fn the_deadest_value_logs_are_collected_first_and_not_too_many_at_once() {
    let context = context();
    let live = [(1, 10_000), (2, 40_000), (3, 30_000), (4, 60_000), (5, 0)];
    let tables = live.map(|(number, bytes)| {
        let like = table(&context, (2, 1), number, number * KEYS);
        let value_references = if bytes > 0 { vec![(number, bytes)] } else { vec![] };
        TableFile::new(&context, TableRecord { value_references, ..(*like.record).clone() })
    });
    let logs = live.map(|(number, _)| {
        let bytes = VLOG_HEADER_BYTES + 100_000;
        (number, ValueLogFile::new(&context, number, settled(bytes)))
    });
    let version = Version::of_tables(tables, BTreeMap::from(logs));
    for (most_bytes, wanted) in
        [(0, &[1][..]), (39_999, &[1]), (40_000, &[1, 3]), (u64::MAX, &[1, 2, 3])]
    {
        let chosen = version.mostly_dead_value_logs(1, most_bytes);
        assert!(chosen.iter().eq(wanted), "{most_bytes}: {chosen:?}");
    }
    assert!(version.has_mostly_dead_value_logs());
    assert_eq!(version.dead_value_logs(), [5]);
    // 4 has less garbage than values.
    let dead = 3 * 100_000 - 10_000 - 40_000 - 30_000;
    assert_eq!(version.dead_value_bytes(), BTreeMap::from([((2, 1), dead)]));
}

/// Each look and each install asked each run about each value log, some of them several times.
#[test]
fn what_runs_point_at_is_added_up_once_for_a_version() {
    const RUNS: u64 = 20;
    const LOGS: u64 = 50;
    let context = context();
    let tables = (0..RUNS).map(|run| {
        let like = table(&context, (1, run), run, 0);
        // Each into every second value log.
        let value_references =
            (0..LOGS).filter(|log| log % 2 == run % 2).map(|log| (log, 100)).collect();
        TableFile::new(&context, TableRecord { value_references, ..(*like.record).clone() })
    });
    let logs = (0..=LOGS).map(|number| {
        let bytes = VLOG_HEADER_BYTES + 3000;
        (number, ValueLogFile::new(&context, number, settled(bytes)))
    });
    let mut version = Version::of_tables(tables, logs.collect());
    let references = (RUNS * LOGS / 2) as usize;
    let before = value_log_garbage::REFERENCES.get();
    let added_up = || value_log_garbage::REFERENCES.get() - before;
    let look = |version: &Version| {
        assert_eq!(version.dead_value_logs(), [LOGS]);
        let tables = || version.tables();
        assert!(version.small_value_logs(tables(), 10_000).len() == LOGS as usize);
        assert!(version.has_mostly_dead_value_logs());
        version.value_logs_with_garbage().len()
    };
    for _ in 0..10 {
        assert_eq!(look(&version), LOGS as usize);
        // Each value log is pointed into by ten runs, the oldest of which is the first or second.
        let dead = (3000 - 1000) * LOGS / 2;
        let dead = BTreeMap::from([((1, 0), dead), ((1, 1), dead)]);
        assert_eq!(version.dead_value_bytes(), dead);
    }
    assert_eq!(added_up(), references);
    assert!(version.runs.iter().all(|run| run.totals.value_bytes == 100 * LOGS / 2));
    // Another version is another sum: the oldest run goes.
    let removed = vec![0];
    version = version.with_tables(TableChange { removed, ..TableChange::default() });
    for _ in 0..10 {
        look(&version);
        let dead =
            BTreeMap::from([((1, 1), (3000 - 1000) * LOGS / 2), ((1, 2), (3000 - 900) * LOGS / 2)]);
        assert_eq!(version.dead_value_bytes(), dead);
    }
    assert_eq!(added_up(), 2 * references - LOGS as usize / 2);
}

/// The file would be read for nothing: what the older run points at keeps it.
#[test]
fn no_value_leaves_a_file_into_which_a_run_points_that_is_not_merged() {
    let context = context();
    let pointing = [(2, 1), (1, 2)].map(|place| {
        let like = table(&context, place, place.1, place.1 * KEYS);
        let value_references = vec![(7, 10_000), (7 + place.1, 10_000)];
        TableFile::new(&context, TableRecord { value_references, ..(*like.record).clone() })
    });
    let logs = [7, 8, 9].map(|number| {
        let bytes = VLOG_HEADER_BYTES + 100_000;
        (number, ValueLogFile::new(&context, number, settled(bytes)))
    });
    let version = Version::of_tables(pointing, BTreeMap::from(logs));
    assert!(version.mostly_dead_value_logs(1, u64::MAX).into_iter().eq([9]));
    assert!(version.mostly_dead_value_logs(2, u64::MAX).into_iter().eq([7, 8, 9]));
    let dead = BTreeMap::from([((1, 2), 90_000), ((2, 1), 80_000 + 90_000)]);
    assert_eq!(version.dead_value_bytes(), dead);
}

/// Prints what a flush of a family with many tables costs in the version.
#[test]
fn a_flush_beside_five_thousand_tables() {
    let context = context();
    let tables = (0..5000).map(|n| table(&context, (2, n % 10), n, (n / 10) * KEYS));
    let old = Version::of_tables(tables, BTreeMap::new());
    let begun = std::time::Instant::now();
    old.runs.iter().for_each(|run| drop(Run::of(run.level, run.id, run.tables.to_vec())));
    let all = begun.elapsed();
    let added = vec![table(&context, (1, 11), 9999, 0)];
    let begun = std::time::Instant::now();
    let next = old.with_tables(TableChange { added, ..TableChange::default() });
    println!("sums of all runs: {all:?}; a version more: {:?}", begun.elapsed());
    assert_eq!(totals(&next)[1..], totals(&old));
}

fn unreadable() -> Error {
    Error::corruption("table", 0, "planted")
}

/// They counted as work that compactions had left undone, and slowed writers without end.
#[test]
fn runs_that_compactions_cannot_take_do_not_count_as_young() {
    let context = context();
    let tables = (0..5).map(|n| table(&context, (1, n), 10 + n, 0));
    let version = Version::of_tables(tables, BTreeMap::new());
    assert_eq!(version.young_runs(), 5);
    version.runs[2].tables[0].set_aside.set(&unreadable());
    assert_eq!(version.young_runs(), 2);
}

/// Once any file of the database had been set aside, be it for a moment, each lump of writes had
/// every table of the family looked at.
#[test]
fn writers_look_at_no_table_until_another_file_is_set_aside() {
    const TABLES: u64 = 100;
    let context = context();
    let tables = (0..TABLES).map(|n| table(&context, (2, n % 10), n, (n / 10) * KEYS));
    let mut version = Version::of_tables(tables, BTreeMap::new());
    let elsewhere = table(&context, (1, 1), 1000, 0);
    let looks = || context.set_aside_changes.looks();
    let mergeable = |version: &Version| {
        let before = looks();
        let found = version.mergeable_runs().count();
        for _ in 0..100 {
            assert_eq!(version.mergeable_runs().count(), found);
        }
        assert!(looks() - before <= TABLES, "{} looks", looks() - before);
        found
    };
    assert_eq!((mergeable(&version), looks()), (10, 0));
    let failed = std::io::Error::other("planted");
    let failed = Error::io("read", "elsewhere", failed);
    elsewhere.set_aside.set(&failed);
    assert_eq!(mergeable(&version), 10);
    version.runs[4].tables[9].set_aside.set(&failed);
    assert_eq!(mergeable(&version), 4);
    version.runs[2].tables[0].set_aside.set(&unreadable());
    assert_eq!(mergeable(&version), 2);
    version.forget_failed_reads();
    assert_eq!(mergeable(&version), 2, "damage stays");
    // The damaged table goes; the others of its run are in a run that was never looked at.
    let removed = vec![version.runs[2].tables[0].record.number];
    version = version.with_tables(TableChange { removed, ..TableChange::default() });
    assert_eq!(mergeable(&version), 10, "that of the other has passed");
    // One is moved to another run while it is set aside, and read again after that.
    let moving = Arc::clone(&version.runs[0].tables[0]);
    moving.set_aside.set(&failed);
    let (moved, moved_to) = (vec![moving.record.number], (1, 20));
    version = version.with_tables(TableChange { moved, moved_to, ..TableChange::default() });
    assert_eq!(mergeable(&version), 0);
    version.forget_failed_reads();
    assert_eq!(mergeable(&version), 11);
}

/// Each flush writes some, and none of them was ever joined with another.
#[test]
fn small_value_logs_that_no_other_table_points_into_are_joined_when_they_are_many() {
    let context = context();
    let tables: Vec<_> = (1..=10).map(|n| table(&context, (1, n), n, n * KEYS)).collect();
    let log = |number| {
        let bytes = if number == 2 { 200_000 } else { 90_100 };
        (number, ValueLogFile::new(&context, number, settled(bytes)))
    };
    let mut version = Version::of_tables(tables.clone(), (1..=10).map(log).collect());
    let joined =
        |version: &Version, count| version.small_value_logs(tables.iter().take(count), 100_000);
    assert!(joined(&version, 10).iter().eq(&[1, 3, 4, 5, 6, 7, 8, 9, 10]));
    assert!(joined(&version, 9).iter().eq(&[1, 3, 4, 5, 6, 7, 8, 9]));
    assert!(joined(&version, 8).is_empty(), "too few");
    version.value_logs[&3].set_aside.set(&tidesdb_base::error::Error::corruption("file", 0, ""));
    assert!(joined(&version, 9).is_empty(), "one can't be read");
    // Another table points into the fourth.
    let value_references = vec![(4, 1000)];
    let like = table(&context, (2, 0), 20, 0);
    let record = TableRecord { value_references, ..(*like.record).clone() };
    let added = vec![TableFile::new(&context, record)];
    version = version.with_tables(TableChange { added, ..TableChange::default() });
    assert!(joined(&version, 10).is_empty());
}

/// I-111.
#[test]
fn a_copy_settles_value_logs_for_itself_alone() {
    let context = context();
    let life = ValueLogLife::Closed { through: 7, extent: Extent::whole(100) };
    let file = ValueLogFile::new(&context, 10, life);
    let logs = BTreeMap::from([(10, Arc::clone(&file))]);
    let version = Version::of_tables([table(&context, (1, 0), 10, 0)], logs);
    let copy = version.for_another_family(Vec::new());
    let copied = copy.value_logs.get(&10).unwrap();
    // A flush of the copy.
    copied.change_life(|life| life.settle(100));
    assert!(copied.life().is_settled());
    assert!(!file.life().is_settled(), "commits in memory of the source point into it");
}

/// With each flush all tables were looked at.
#[test]
fn covered_tables_are_found_without_a_look_at_all_tables() {
    const RUNS: u64 = 4;
    let context = context();
    let table_at = |run: u64, number: u64, place: u64| {
        let like = table(&context, (2, run), number, place * KEYS);
        let (lowest_sequence, highest_sequence) = (number, number + 10);
        let record = TableRecord { lowest_sequence, highest_sequence, ..(*like.record).clone() };
        TableFile::new(&context, record)
    };
    let tables = (0..1000).map(|n| table_at(n % RUNS, n, n / RUNS));
    let mut version = Version::of_tables(tables, BTreeMap::new());
    let mut covered = CoveredTables::default();
    assert!(covered.of(&version).is_empty());
    for turn in 0..100_u64 {
        // A few tables, and more than one, lie in the range, or none as a whole.
        let (from, sequence) = (turn * 7 % 240 * KEYS, 5_000 + turn);
        let bytes = |key: u64| key.to_be_bytes().into();
        let end = if turn % 3 == 0 { from + KEYS / 2 } else { from + (1 + turn % 2) * KEYS };
        let tombstone = RangeTombstone { start: bytes(from), end: bytes(end), sequence };
        version.add_tombstones(&[Arc::new(tombstone)]);
        let added = table_at(RUNS + turn, 2_000 + turn, turn);
        let removed = if turn % 5 == 0 { vec![turn, turn + 400] } else { Vec::new() };
        let change = TableChange { added: vec![added], removed, ..TableChange::default() };
        version = version.with_tables(change);
        if turn % 10 == 9 {
            let (mut finished, mut kept) = version.finished_tombstones(&[]);
            kept.add(finished.split_off(finished.len().min(5)));
            if !kept.is_empty() {
                version.range_tombstones = kept;
            }
        }
        covered.looked_at = 0;
        let found: Vec<u64> = covered.of(&version).iter().map(|t| t.record.number).collect();
        let is_covered =
            |table: &&Arc<TableFile>| version.is_covered(&table.record, SequenceNumber::MAX);
        let mut expected: Vec<u64> =
            version.tables().filter(is_covered).map(|table| table.record.number).collect();
        expected.sort_unstable();
        assert_eq!(found, expected, "{turn}");
        let is_first = turn == 0;
        let of_changed_runs = if turn % 5 == 0 { 2 * 1000 / RUNS as usize } else { 0 };
        let most = if is_first { 1001 } else { of_changed_runs + 20 * RUNS as usize };
        assert!(covered.looked_at <= most, "{turn}: {} tables", covered.looked_at);
        assert!(covered.kept() <= version.tables().count(), "{turn}: {}", covered.kept());
    }
}

/// A look at a version that another thread had loaded before made the tables unknown that a look at
/// the newer one had found.
#[test]
fn covered_tables_stay_known_after_a_look_at_an_older_version() {
    let context = context();
    let tables = (0..10).map(|number| table(&context, (2, 1), number, number * KEYS));
    let mut older = Version::of_tables(tables, BTreeMap::new());
    let bytes = |key: u64| key.to_be_bytes().into();
    let tombstone = |end: u64, sequence: u64| {
        Arc::new(RangeTombstone { start: bytes(0), end: bytes(end), sequence })
    };
    older.add_tombstones(&[tombstone(1, 5_000)]);
    let mut newer = older.clone();
    newer.add_tombstones(&[tombstone(u64::MAX, 5_001)]);
    let mut covered = CoveredTables::default();
    let counts = [&older, &newer, &older, &newer].map(|version| covered.of(version).len());
    assert_eq!(counts, [0, 10, 0, 10]);
}

/// Each new tombstone was looked up in each run.
#[test]
fn many_tombstones_at_once_cost_two_looks_at_each_table() {
    const TABLES: u64 = 40;
    let context = context();
    let tables = (0..TABLES).map(|number| table(&context, (2, 1), number, number * KEYS));
    let mut version = Version::of_tables(tables, BTreeMap::new());
    let mut covered = CoveredTables::default();
    let bytes = |key: u64| key.to_be_bytes().into();
    let tombstone = |key: u64, end: u64, sequence: u64| {
        Arc::new(RangeTombstone { start: bytes(key), end: bytes(end), sequence })
    };
    version.add_tombstones(&[tombstone(0, 1, 5_000)]);
    covered.of(&version);
    let all: Vec<_> = (0..1000).map(|n| tombstone(n, u64::MAX, 5_001 + n)).collect();
    version.add_tombstones(&all);
    covered.looked_at = 0;
    let found = covered.of(&version).len();
    assert!(found > 0 && covered.kept() == found, "{} are kept of {found}", covered.kept());
    assert!(covered.looked_at <= 2 * TABLES as usize, "{} tables", covered.looked_at);
}
