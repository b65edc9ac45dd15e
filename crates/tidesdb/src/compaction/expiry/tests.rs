//! What goes unread, what is merged and when: tables of which the records say when they expire.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use tidesdb_base::error::Error;
use tidesdb_files::manifest::TableRecord;
use tidesdb_files::sstable::ExpiryOctiles;

use super::*;
use crate::version::test_tables::{KEYS, context, table};

const NOW: u64 = 1_000;

/// A table of a thousand keys; its run, counted from the newest, where run 1 is the oldest.
#[derive(Clone, Copy, Debug)]
struct Given {
    run: u64,
    /// The first key, as a multiple of half the keys of a table.
    at: u64,
    /// Expires then, beginning with the first bytes; at 0 never.
    octiles: [u64; 8],
    newest: SequenceNumber,
}

fn given(run: u64, at: u64, octiles: [u64; 8]) -> Given {
    Given { run, at, octiles, newest: 0 }
}

/// So many eighths have expired, and the rest never does.
fn gone(eighths: usize) -> [u64; 8] {
    std::array::from_fn(|at| if at < eighths { NOW - 1 } else { 0 })
}

/// A version whose oldest run is of this level.
fn version_of(level: u32, tables: &[Given]) -> Arc<Version> {
    let context = context();
    let tables = tables.iter().zip(1..).map(|(given, number)| {
        let place = if given.run == 1 { (level, 1) } else { (1, given.run) };
        let like = table(&context, place, number, given.at * KEYS / 2);
        let octiles = given.octiles.into_iter().take_while(|&time| time != 0).collect();
        let record = TableRecord {
            expiry: ExpiryOctiles::new(octiles),
            highest_sequence: given.newest,
            ..(*like.record).clone()
        };
        TableFile::new(&context, record)
    });
    Arc::new(Version::of_tables(tables.collect::<Vec<_>>(), BTreeMap::new()))
}

fn version(tables: &[Given]) -> Arc<Version> {
    version_of(2, tables)
}

/// What was found out is kept from one question to the next, as in a family.
static KNOWN: LazyLock<ExpiryOutlooks> = LazyLock::new(ExpiryOutlooks::default);

fn due_range(version: &Arc<Version>, rules: &ExpiryRules) -> Option<KeySpan> {
    super::due_range(&KNOWN, version, rules)
}

fn next_look(version: &Arc<Version>, rules: &ExpiryRules) -> Option<u64> {
    super::next_look(&KNOWN, version, rules)
}

const RULES: ExpiryRules = ExpiryRules { now: NOW, oldest: None, share: 0.3 };

/// Numbers of the tables that go unread.
fn unread(version: &Arc<Version>, rules: &ExpiryRules) -> Vec<u64> {
    let mut numbers: Vec<_> =
        expired_tables(&KNOWN, version, rules).iter().map(|table| table.record.number).collect();
    numbers.sort_unstable();
    numbers
}

fn keys(from: Option<u64>, until: Option<u64>) -> Option<KeySpan> {
    let key = |at: Option<u64>| at.map(|at| (at * KEYS / 2).to_be_bytes().to_vec());
    Some(KeySpan { from: key(from), until: key(until) })
}

#[test]
fn tables_go_unread_when_all_of_them_has_expired() {
    let ends_at = |time| [NOW - 5, NOW - 5, NOW - 5, NOW - 5, NOW - 5, NOW - 5, NOW - 5, time];
    let version = version(&[
        given(1, 0, ends_at(NOW)),
        given(1, 2, ends_at(NOW + 1)),
        given(1, 4, gone(7)),
        given(1, 6, gone(0)),
    ]);
    assert_eq!(unread(&version, &RULES), [1]);
    assert_eq!(unread(&version, &ExpiryRules { now: NOW + 1, ..RULES }), [1, 2]);
    assert_eq!(unread(&version, &ExpiryRules { now: NOW - 1, ..RULES }), [0; 0]);
}

/// An expired version hides older ones, which would be there again.
#[test]
fn nothing_that_stays_may_lie_below_what_goes() {
    let over_live = [given(3, 2, gone(8)), given(1, 3, gone(7)), given(1, 0, gone(0))];
    assert_eq!(unread(&version(&over_live), &RULES), [0; 0]);
    let beside_live = [given(3, 2, gone(8)), given(1, 4, gone(0)), given(1, 0, gone(0))];
    assert_eq!(unread(&version(&beside_live), &RULES), [1]);
    let under_live = [given(3, 2, gone(0)), given(1, 3, gone(8))];
    assert_eq!(unread(&version(&under_live), &RULES), [2], "what lies above does not matter");
    let over_expired = [given(3, 2, gone(8)), given(2, 1, gone(8)), given(1, 3, gone(8))];
    assert_eq!(unread(&version(&over_expired), &RULES), [1, 2, 3]);
    let live_at_the_end = [given(3, 2, gone(8)), given(2, 3, gone(8)), given(1, 4, gone(0))];
    assert_eq!(unread(&version(&live_at_the_end), &RULES), [0; 0]);
}

#[test]
fn a_snapshot_keeps_what_is_newer() {
    let table = Given { newest: 50, ..given(1, 0, gone(8)) };
    let version = version(&[table]);
    let under = |oldest| ExpiryRules { oldest: Some(oldest), ..RULES };
    assert_eq!(unread(&version, &under(49)), [0; 0]);
    assert_eq!(unread(&version, &under(50)), [1]);
    assert_eq!(due_range(&version, &under(49)), None);
    assert_eq!(first_held(&version, &under(49)), Some(50));
    assert_eq!(next_look(&version, &under(49)), Some(u64::MAX), "the snapshot's end is watched");
    assert_eq!((first_held(&version, &under(50)), first_held(&version, &RULES)), (None, None));
}

#[test]
fn groups_are_merged_when_enough_of_them_has_expired() {
    let due = |tables: &[Given]| due_range(&version(tables), &RULES);
    assert_eq!(due(&[given(1, 0, gone(2)), given(1, 2, gone(0))]), None, "a quarter");
    assert_eq!(due(&[given(1, 0, gone(3)), given(1, 2, gone(0))]), keys(None, Some(2)));
    // Tables of three runs that overlap one another are merged or left together.
    let one_group = [given(3, 2, gone(8)), given(2, 1, gone(0)), given(1, 3, gone(0))];
    let with = |octiles| [&one_group[..], &[given(1, 0, octiles), given(1, 5, gone(0))]].concat();
    assert_eq!(due(&with(gone(0))), None, "a quarter of the group");
    assert_eq!(due(&with(gone(2))), keys(None, Some(5)));
    // Neighbours that are due come along, and the ones between others do not.
    let many: Vec<_> = [8, 4, 0, 4, 5, 3, 0, 4]
        .into_iter()
        .zip(0..)
        .map(|(n, at)| given(1, 2 * at, gone(n)))
        .collect();
    assert_eq!(due(&many), keys(None, Some(4)));
    assert_eq!(due(&many[1..]), keys(None, Some(4)));
    assert_eq!(due(&many[2..]), keys(Some(6), Some(12)));
    assert_eq!(due(&many[6..]), keys(Some(14), None));
}

/// Only into a run that was merged before can some of the keys be merged.
#[test]
fn young_tables_are_merged_all_or_not() {
    let tables = [given(2, 0, gone(4)), given(1, 2, gone(0))];
    assert_eq!(due_range(&version(&tables), &RULES), keys(None, Some(2)));
    assert_eq!(due_range(&version_of(1, &tables), &RULES), None);
    let tables = [given(2, 0, gone(6)), given(1, 2, gone(0))];
    assert_eq!(due_range(&version_of(1, &tables), &RULES), Some(KeySpan::default()));
}

#[test]
fn damaged_groups_are_passed_over() {
    let version = version(&[given(2, 0, gone(4)), given(1, 1, gone(4)), given(1, 4, gone(4))]);
    assert_eq!(due_range(&version, &RULES), Some(KeySpan::default()));
    version.runs[1].tables[0].set_aside.set(&Error::corruption("table", 0, "it is damaged"));
    assert_eq!(due_range(&version, &RULES), keys(Some(4), None));
}

#[test]
fn the_next_look_is_when_more_is_due() {
    let at = |times: [u64; 8], now| {
        let version = version(&[given(1, 0, times), given(1, 2, gone(0))]);
        next_look(&version, &ExpiryRules { now, ..RULES })
    };
    let (first, due, all) = (NOW + 10, NOW + 20, NOW + 30);
    let times = [first, first, due, due, due, due, due, all];
    assert_eq!(at([0; 8], NOW), None);
    assert_eq!(at(times, NOW), Some(first), "found without a look at the tables");
    assert_eq!(at(times, first), Some(due));
    assert_eq!(at(times, due), Some(all));
    assert_eq!(at(times, all), Some(u64::MAX), "its compaction failed");
    let never_due = [first, first, 0, 0, 0, 0, 0, 0];
    assert_eq!(at(never_due, first), Some(u64::MAX));
}

/// What stays in the tables is not planned for again: merging it would go on without end.
#[test]
fn what_was_merged_is_not_due_until_more_has_expired() {
    let held = Given { newest: 50, ..given(1, 0, gone(6)) };
    let shed = given(1, 2, [NOW + 9, NOW + 9, NOW + 9, NOW + 9, 0, 0, 0, 0]);
    let merged = version(&[held, shed]);
    let rules = ExpiryRules { oldest: Some(20), ..RULES };
    assert_eq!(due_range(&merged, &rules), None);
    assert_eq!(next_look(&merged, &rules), Some(NOW + 9));
    assert_eq!(due_range(&merged, &ExpiryRules { now: NOW + 9, ..rules }), keys(Some(2), None));
}

/// Each look ordered all tables by key five times.
#[test]
fn tables_are_ordered_once_for_a_version_and_its_oldest_snapshot() {
    let tables = [
        Given { newest: 50, ..given(2, 0, gone(2)) },
        Given { newest: 40, ..given(1, 1, gone(1)) },
        Given { newest: 30, ..given(1, 4, [NOW + 5; 8]) },
    ];
    let known = ExpiryOutlooks::default();
    let look = |version: &Arc<Version>, rules: &ExpiryRules| {
        for now in [NOW, NOW + 4] {
            let rules = ExpiryRules { now, ..*rules };
            assert_eq!(super::next_look(&known, version, &rules), Some(NOW + 5));
            assert_eq!(super::due_range(&known, version, &rules), None);
            assert!(expired_tables(&known, version, &rules).is_empty());
        }
        known.made()
    };
    let (first, second) = (version(&tables), version(&tables));
    assert_eq!(look(&first, &RULES), 1);
    assert_eq!(look(&first, &RULES), 1);
    let under = |oldest| ExpiryRules { oldest: Some(oldest), ..RULES };
    assert_eq!(look(&first, &under(50)), 1, "the snapshot sees all of it");
    assert_eq!(look(&first, &under(45)), 2);
    assert_eq!(look(&first, &under(45)), 2);
    assert_eq!(look(&second, &under(45)), 3);
    second.runs[0].tables[0].set_aside.set(&Error::corruption("table", 0, "it is damaged"));
    assert_eq!(look(&second, &under(45)), 4);
    assert_eq!(look(&second, &ExpiryRules { share: 0.9, ..under(45) }), 5);
}
