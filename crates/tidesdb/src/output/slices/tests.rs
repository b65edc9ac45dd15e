//! Where slices are cut, and which is merged first.

use std::collections::BTreeMap;

use tidesdb_base::error::Error;

use super::*;
use crate::version::test_tables::{KEYS, context, table};

/// A version of tables given by run, counted from the newest, and first key, as a multiple of
/// `KEYS`. Run 1 is the oldest and of the second level.
fn version(tables: &[(u64, u64)]) -> Version {
    let context = context();
    let tables = tables.iter().zip(1..).map(|(&(run, at), number)| {
        let place = if run == 1 { (2, 1) } else { (1, run) };
        table(&context, place, number, at * KEYS / 2)
    });
    Version::of_tables(tables.collect::<Vec<_>>(), BTreeMap::new())
}

fn key(at: u64) -> Vec<u8> {
    (at * KEYS / 2).to_be_bytes().to_vec()
}

fn bounds(keys: &[u64]) -> SliceBounds {
    keys.iter().map(|&at| key(at)).collect()
}

/// Sixteen tables of the oldest run, two units each.
fn oldest() -> Vec<(u64, u64)> {
    (0..16).map(|n| (1, 2 * n)).collect()
}

fn with(newer: &[(u64, u64)]) -> Version {
    version(&[newer, &oldest()].concat())
}

/// Eight files were written and synced for a memtable of any size.
#[test]
fn a_small_flush_is_cut_into_fewer_slices() {
    const MIB: u64 = 1 << 20;
    let eight = bounds(&[4, 8, 12, 16, 20, 24, 28]);
    let kept = |bytes| for_flush(&eight, bytes, 64 * MIB);
    assert_eq!(kept(8 * MIB - 1000), eight);
    assert_eq!(kept(7 * MIB), bounds(&[8, 16, 24]));
    assert_eq!(kept(2 * MIB), bounds(&[16]));
    assert_eq!(kept(MIB), bounds(&[]));
    assert_eq!(kept(0), bounds(&[]));
    assert_eq!(for_flush(&eight, 64 << 10, 4 << 10), eight, "where all tables are small");
    assert_eq!(for_flush(&bounds(&[]), 16 * MIB, MIB), bounds(&[]));
}

#[test]
fn the_oldest_run_is_cut_into_eight() {
    let none = SliceBounds::default();
    let eight = bounds(&[4, 8, 12, 16, 20, 24, 28]);
    assert_eq!(renewed(&none, &with(&[]), 1), eight);
    // As few as there are tables of the usual size, and none for what was not merged.
    assert_eq!(renewed(&none, &with(&[]), 40 * KEYS), bounds(&[8, 16, 24]));
    assert_eq!(renewed(&none, &with(&[]), 1 << 30), none);
    assert_eq!(renewed(&none, &version(&[(2, 0), (2, 2)]), 1), none);
    assert_eq!(renewed(&eight, &version(&[]), 1), none);
}

#[test]
fn bounds_stay_until_slices_are_unequal_or_too_few() {
    let present = bounds(&[2, 6, 10, 14, 18, 22, 26]);
    assert_eq!(renewed(&present, &with(&[(2, 1)]), 1), present, "six and four units");
    let unequal = bounds(&[2, 4, 6, 8, 10, 12, 14]);
    let eight = bounds(&[4, 8, 12, 16, 20, 24, 28]);
    assert_eq!(renewed(&unequal, &with(&[]), 1), eight, "eighteen units in the last");
    assert_eq!(
        renewed(&bounds(&[8, 16, 24]), &with(&[]), 1),
        eight,
        "half as many as there may be"
    );
    assert_eq!(renewed(&bounds(&[6, 12, 18, 24]), &with(&[]), 1), bounds(&[6, 12, 18, 24]));
}

#[test]
fn the_worst_slice_is_the_one_with_most_above_it() {
    let cut = bounds(&[8, 16, 24]);
    let range = |from, until| {
        let key = |at: Option<u64>| at.map(key);
        Some(KeySpan { from: key(from), until: key(until) })
    };
    let worst = |version: &Version, cut| {
        super::worst(version, cut, LivenessRules::default()).map(|(_, range)| range)
    };
    assert_eq!(worst(&with(&[]), &cut), None, "nothing newer");
    assert_eq!(worst(&with(&[(2, 18)]), &cut), range(Some(16), Some(24)));
    let more_in_the_last = with(&[(3, 0), (3, 28), (2, 26), (2, 28)]);
    assert_eq!(worst(&more_in_the_last, &cut), range(Some(24), None));
    // A table reaches over a bound: both sides are one slice.
    assert_eq!(worst(&with(&[(2, 15)]), &cut), range(Some(8), Some(24)));
    assert_eq!(worst(&with(&[(3, 0), (2, 15), (2, 2)]), &cut), range(None, Some(8)));
    let over_all = with(&[(2, 7), (2, 15), (2, 23)]);
    assert_eq!(worst(&over_all, &cut), Some(KeySpan::default()));
}

#[test]
fn a_slice_with_a_damaged_table_is_passed_over() {
    let cut = bounds(&[8, 16, 24]);
    let version = with(&[(3, 0), (3, 28), (2, 26), (2, 28)]);
    let range = |from: Option<u64>, until: Option<u64>| {
        Some(KeySpan { from: from.map(key), until: until.map(key) })
    };
    let chosen = || worst(&version, &cut, LivenessRules::default()).map(|(_, range)| range);
    assert_eq!(chosen(), range(Some(24), None));
    let damage = Error::corruption("table", 0, "it is damaged");
    version.runs[2].tables[14].set_aside.set(&damage);
    assert_eq!(chosen(), range(None, Some(8)));
    version.runs[0].tables[0].set_aside.set(&damage);
    assert_eq!(chosen(), None);
}
