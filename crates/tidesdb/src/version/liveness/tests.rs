//! What of two runs counts as garbage, with and without snapshots.

use tidesdb_files::sstable::ExpiryOctiles;

use super::super::test_tables::{KEYS, context, table};
use super::*;
use crate::version::SpaceEstimate;

/// Each with the same keys: the oldest, and one above it that `newer` describes.
fn two_runs(newer: impl Fn(&mut TableRecord)) -> Vec<Run> {
    let context = context();
    let tables = [(2, 20..=30), (1, 1..=10)].map(|(run, sequences)| {
        let mut record = (*table(&context, (1, run), run, 0).record).clone();
        (record.lowest_sequence, record.highest_sequence) = (*sequences.start(), *sequences.end());
        if run == 2 {
            newer(&mut record);
        }
        TableFile::new(&context, record)
    });
    crate::version::Version::of_tables(tables, BTreeMap::new()).runs
}

fn garbage(runs: &[Run], snapshots: &[SequenceNumber], now: u64, bottom: bool) -> u64 {
    let mut count =
        LivenessCount::new(LivenessRules { snapshots, now, ..LivenessRules::default() });
    runs.iter().for_each(|run| count.add_run(run));
    let liveness = count.liveness(bottom);
    assert!(liveness.versions.abs_diff(2 * KEYS) < KEYS / 2, "{liveness:?}");
    // In tenths of what each run holds.
    (liveness.garbage() * 20 + liveness.versions / 2) / liveness.versions
}

/// I-95. Snapshots, and whether the older versions go.
const SNAPSHOTS: [(&[u64], bool); 8] = [
    (&[], true),
    (&[30], true),
    (&[40], true),
    (&[15], false),
    (&[10], false),
    // One that sees a part of a run: of which versions is unknown.
    (&[5], false),
    (&[25], false),
    (&[15, 40], false),
];

#[test]
fn what_a_snapshot_keeps_from_a_compaction_is_needed() {
    let runs = two_runs(|_| {});
    for (snapshots, go) in SNAPSHOTS {
        let found = garbage(&runs, snapshots, 0, true);
        assert_eq!(found >= 9, go, "{snapshots:?}: {found}");
        assert!(go || found == 0, "{snapshots:?}: {found}");
    }
}

#[test]
fn deletions_go_with_what_they_delete_where_nothing_lies_below() {
    let runs = two_runs(|record| record.tombstones = record.entries);
    for (snapshots, go) in SNAPSHOTS {
        let found = garbage(&runs, snapshots, 0, true);
        assert_eq!(found >= 18, go, "{snapshots:?}: {found}");
        assert!(go || found == 0, "{snapshots:?}: {found}");
    }
    let above_others = garbage(&runs, &[], 0, false);
    assert!((9..=11).contains(&above_others), "{above_others}");
    let alone = |at: usize, bottom| garbage_of(&runs[at..=at], bottom);
    assert_eq!((alone(0, false), alone(1, true)), (0, 0));
    assert!(alone(0, true) > KEYS / 2, "no snapshot needs them any more");
}

fn garbage_of(runs: &[Run], bottom: bool) -> u64 {
    let mut count = LivenessCount::new(LivenessRules::default());
    runs.iter().for_each(|run| count.add_run(run));
    count.liveness(bottom).garbage()
}

#[test]
fn what_has_expired_goes_where_nothing_lies_below() {
    // Six eighths by the time 100.
    let expiring = |record: &mut TableRecord| record.expiry = ExpiryOctiles::new(vec![100; 6]);
    let runs = two_runs(expiring);
    for (now, bottom, least, most) in
        [(99, true, 9, 11), (100, false, 9, 11), (100, true, 12, 15), (1_000, true, 12, 15)]
    {
        let found = garbage(&runs, &[], now, bottom);
        assert!((least..=most).contains(&found), "{now} {bottom}: {found}");
    }
    assert_eq!(garbage(&runs, &[15], 1_000, true), 0);
}

/// What is alive shrinks when keys are deleted: writers were slowed for that.
#[test]
fn deletions_are_no_growth_and_overwriting_is() {
    let grown = |runs: &[Run], snapshots: &[u64]| {
        let rules = LivenessRules { snapshots, ..LivenessRules::default() };
        let space = SpaceEstimate::of(runs, rules);
        space.bytes as f64 / space.settled as f64
    };
    let deleted = two_runs(|record| {
        record.tombstones = record.entries;
        record.bytes /= 10;
        record.value_references.clear();
    });
    assert!(grown(&deleted, &[]) < 1.1, "{}", grown(&deleted, &[]));
    let overwritten = two_runs(|_| {});
    let found = grown(&overwritten, &[]);
    assert!((1.8..2.2).contains(&found), "{found}");
    assert!(grown(&overwritten, &[15]) < 1.01, "a snapshot needs all of it");
}
