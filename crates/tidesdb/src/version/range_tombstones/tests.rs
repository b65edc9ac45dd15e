//! Tombstones that come to their end while tables come and go.

use std::collections::{BTreeMap, BTreeSet};

use tidesdb_base::entry::SequenceNumber;
use tidesdb_sim::rng::SplitMix64;

use super::*;
use crate::version::TableChange;
use crate::version::file_context::FileContext;
use crate::version::test_tables::{context, table};

/// Sequence numbers of what the older version has are below this.
const LATER: SequenceNumber = 100;

fn tombstone(start: u64, keys: u64, sequence: SequenceNumber) -> Arc<RangeTombstone> {
    let bytes = |key: u64| key.to_be_bytes().into();
    Arc::new(RangeTombstone { start: bytes(start), end: bytes(start + keys), sequence })
}

/// First key, lowest sequence number, and the tombstone up to which all were applied.
type TableShape = (u64, SequenceNumber, SequenceNumber);

/// A table of 1000 keys in a run of its own.
fn table_of(context: &Arc<FileContext>, number: u64, shape: TableShape) -> Arc<TableFile> {
    let (first, lowest_sequence, range_deletes_applied_through) = shape;
    let like = table(context, (1, number), number, first);
    let record = TableRecord {
        lowest_sequence,
        highest_sequence: lowest_sequence + 50,
        range_deletes_applied_through,
        value_references: Vec::new(),
        ..(*like.record).clone()
    };
    TableFile::new(context, record)
}

fn shapes(random: &mut SplitMix64) -> Vec<TableShape> {
    let tables = 0..random.below(6);
    tables.map(|_| (random.below(5000), random.below(150), random.below(150))).collect()
}

/// At least one tombstone, each newer than the one before.
fn tombstones(
    random: &mut SplitMix64,
    most: u64,
    from: SequenceNumber,
) -> Vec<Arc<RangeTombstone>> {
    let numbers = from..from + 1 + random.below(most);
    numbers.map(|n| tombstone(random.below(6000), 1 + random.below(2000), n)).collect()
}

#[test]
fn what_a_new_table_needs_stays() {
    let context = context();
    let mut older = Version::of_tables([table_of(&context, 1, (0, 5, 90))], BTreeMap::new());
    older.add_tombstones(&[tombstone(0, 10, 50), tombstone(500, 10, 60)]);
    let (finished, mut kept) = older.finished_tombstones(&[]);
    assert_eq!((finished.len(), kept.len()), (2, 0));
    // A compaction that had begun before the tombstones were known.
    let added = vec![table_of(&context, 2, (505, 5, 0))];
    let mut newer = older.with_tables(TableChange { added, ..TableChange::default() });
    newer.add_tombstones(&[tombstone(0, 10, LATER)]);
    let [finished, needed] = newer.part_finished(&older, &older.table_numbers(), &finished);
    assert_eq!(finished, [tombstone(0, 10, 50)]);
    kept.add(needed);
    let kept = newer.kept_since(&older, kept);
    let kept: BTreeSet<_> = kept.iter().map(|one| one.sequence).collect();
    assert_eq!(kept, BTreeSet::from([60, LATER]));
}

#[test]
fn what_goes_is_needed_by_no_table() {
    let mut gone = 0;
    for seed in 0..2000 {
        let random = &mut SplitMix64::new(seed);
        let context = context();
        let (old, new) = (shapes(random), shapes(random));
        let tables = old.iter().zip(1..).map(|(&shape, number)| table_of(&context, number, shape));
        let mut older = Version::of_tables(tables, BTreeMap::new());
        for one in tombstones(random, 20, LATER - 50) {
            older.add_tombstones(&[one]);
        }
        let mut snapshots: Vec<_> = (0..random.below(4)).map(|_| random.below(LATER)).collect();
        snapshots.sort_unstable();
        let (found, mut kept) = older.finished_tombstones(&snapshots);
        let added = new.iter().zip(50..).map(|(&shape, n)| table_of(&context, n, shape)).collect();
        let removed = (1..=old.len() as u64).step_by(2).collect();
        let change = TableChange { added, removed, ..TableChange::default() };
        let mut newer = older.with_tables(change);
        newer.add_tombstones(&tombstones(random, 10, LATER));
        let [finished, needed] = newer.part_finished(&older, &older.table_numbers(), &found);
        kept.add(needed);
        let kept = newer.kept_since(&older, kept);
        for one in &found {
            let of_new_tables = newer.runs.iter().filter(|run| run.id >= 50);
            let mut tables = of_new_tables.flat_map(|run| run.tables.iter());
            let needed = tables
                .any(|table| table_overlaps(&table.record, one) && table_needs(&table.record, one));
            assert_eq!(finished.contains(one), !needed, "seed {seed}: {one:?}");
        }
        let all = |sets: &RangeTombstoneSets| sets.iter().cloned().collect::<BTreeSet<_>>();
        let mut parts = all(&kept);
        gone += finished.len();
        let apart = finished.into_iter().all(|one| parts.insert(one));
        assert!(apart, "seed {seed}: kept and finished");
        assert_eq!(parts, all(&newer.range_tombstones), "seed {seed}");
    }
    assert!(gone > 1000, "{gone}");
}
