//! Where steps end, and what they let go of.

use std::sync::Arc;

use super::*;
use crate::version::TableFile;
use crate::version::test_tables::{KEYS, context, table};

/// Tables of runs, newest first, that begin at these multiples of half of `KEYS`.
fn runs(begins: &[&[u64]]) -> Vec<Vec<Arc<TableFile>>> {
    let context = context();
    let mut number = 0;
    let mut of_run = |(run, begins): (u64, &&[u64])| {
        let tables = begins.iter().map(|at| {
            number += 1;
            table(&context, (2, 100 - run), number, at * KEYS / 2)
        });
        tables.collect()
    };
    (0..).zip(begins).map(&mut of_run).collect()
}

fn key(at: u64) -> Vec<u8> {
    (at * KEYS / 2).to_be_bytes().to_vec()
}

fn range(from: Option<u64>, until: Option<u64>) -> KeySpan {
    KeySpan { from: from.map(key), until: until.map(key) }
}

/// One table has so many bytes.
const TABLE: u64 = 10 * KEYS;

#[test]
fn a_step_ends_between_tables_of_the_oldest_run() {
    let all = runs(&[&[1, 3, 5, 7], &[0, 2, 4, 6]]);
    assert_eq!(next_border(&all, &range(None, None), 8 * TABLE), None);
    assert_eq!(next_border(&all, &range(None, None), 4 * TABLE), Some(key(4)));
    assert_eq!(next_border(&all, &range(None, None), 5 * TABLE), Some(key(4)));
    assert_eq!(next_border(&all, &range(None, None), 3 * TABLE), Some(key(2)));
    // The table that begins at 3 reaches into the rest.
    assert_eq!(next_border(&all, &range(Some(4), None), 3 * TABLE), Some(key(6)));
    assert_eq!(next_border(&all, &range(Some(4), None), 5 * TABLE), None);
    assert_eq!(next_border(&all, &range(Some(4), Some(6)), 3 * TABLE), None);
}

#[test]
fn a_step_cuts_a_table_of_the_oldest_run_that_is_too_long() {
    let mut all = runs(&[&[0, 2, 4, 6, 8], &[]]);
    assert_eq!(next_border(&all, &range(None, None), 2 * TABLE), Some(key(4)));
    let mut long = all[0].clone();
    let context = context();
    let mut record = (*long.remove(0).record).clone();
    record.largest_key = key(20);
    all[1] = vec![TableFile::new(&context, record)];
    let border = next_border(&all, &range(None, None), 4 * TABLE).unwrap();
    assert_eq!(border, key(6));
    let step = KeySpan { from: None, until: Some(border) };
    let mut past = key(20);
    past.push(0);
    let rest = KeySpan { from: Some(key(6)), until: Some(past) };
    assert_eq!(rests(&all[1], &step), [rest]);
    let second = range(Some(6), Some(8));
    assert_eq!(rests(&all[1], &second).len(), 2);
}

#[test]
fn every_step_gets_on() {
    for begins in [vec![0, 1, 2, 3, 4, 5], vec![0, 2, 4, 40, 42, 80]] {
        let all = runs(&[&begins, &begins, &[0, 30, 60]]);
        let mut from = None;
        for step in 0.. {
            assert!(step < 20, "{begins:?}");
            let rest = KeySpan { from: from.clone(), until: None };
            let Some(border) = next_border(&all, &rest, 1) else { break };
            assert!(from.is_none_or(|from| from < border));
            from = Some(border);
        }
    }
}

/// A table with keys from one place to another, of so many tables' bytes.
fn long(number: u64, (from, until): (u64, u64), tables: u64) -> Arc<TableFile> {
    let context = context();
    let mut record = (*table(&context, (2, 1), number, from * KEYS / 2).record).clone();
    record.largest_key = key(until);
    record.bytes = tables * TABLE;
    TableFile::new(&context, record)
}

/// What each step of a compaction of all has, with what it writes anew beside that.
fn steps(runs: &[Vec<Arc<TableFile>>], step_bytes: u64) -> Vec<(u64, u64)> {
    let (mut steps, mut range) = (Vec::new(), range(None, None));
    loop {
        let tables = runs.iter().map(|tables| tables_over(tables, &range).to_vec()).collect();
        let cut = Cut::first(tables, range.clone(), step_bytes);
        steps.push(cut.bytes_by(|table| table.record.bytes));
        assert!(cut.range.until.is_none() || cut.range.until > range.from);
        match cut.range.until {
            Some(until) => range.from = Some(until),
            None => return steps,
        }
        assert!(steps.len() < 1000, "{steps:?}");
    }
}

/// I-237. Such a step had no end.
#[test]
fn a_step_ends_whatever_reaches_over_its_beginning() {
    let begins: Vec<u64> = (0..200).map(|n| n * 2).collect();
    // Some long tables of newer runs, from the first key on and from later on.
    for from in [0, 3] {
        let mut all: Vec<_> = (0..4).map(|n| vec![long(1000 + n, (from, 400), 10)]).collect();
        all.extend(runs(&[&begins]));
        let steps = steps(&all, 3 * TABLE);
        let largest = steps.iter().map(|step| step.0).max();
        assert!(largest <= Some(4 * 40 * TABLE), "{from}: {steps:?}");
        let rests: u64 = steps.iter().map(|step| step.1).sum();
        assert!(steps.len() >= 3 && rests <= 2 * TABLE, "{from}: {steps:?}");
    }
    // Very many runs of small ones.
    let run = |at: u64| (0..60).map(|n| n * 2 + at % 2).collect::<Vec<_>>();
    let many: Vec<_> = (0..40).map(run).collect();
    let all = runs(&many.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let steps = steps(&all, 3 * TABLE);
    assert!(steps.iter().all(|step| step.0 <= 4 * 40 * TABLE), "{steps:?}");
    assert!(steps.len() >= 15, "{steps:?}");
}

/// I-237. Steps that end at the next key would write its rest anew each time.
#[test]
fn the_rest_of_a_long_table_of_the_oldest_run_is_written_seldom() {
    let begins: Vec<u64> = (0..200).map(|n| n * 2).collect();
    let mut all = runs(&[&begins]);
    all.push(vec![long(1000, (0, 400), 100)]);
    let steps = steps(&all, 3 * TABLE);
    let rests: u64 = steps.iter().map(|step| step.1).sum();
    assert!(rests <= 300 * TABLE && steps.len() > 1, "{steps:?}");
}

fn numbers(tables: &[Arc<TableFile>]) -> Vec<u64> {
    let mut numbers: Vec<_> = tables.iter().map(|table| table.record.number).collect();
    numbers.sort_unstable();
    numbers
}

/// I-170.
#[test]
fn what_hides_versions_of_a_table_that_stays_stays_as_well() {
    let none = BTreeSet::new();
    // 1, 2, 3 are the newest; 4, 5, 6 lie half a table further on.
    let newer = runs(&[&[0, 2, 4], &[1, 3, 5]]);
    let merged = |until| range(None, Some(until));
    assert_eq!(numbers(&released(&newer, &merged(2), &none)), [0; 0]);
    assert_eq!(numbers(&released(&newer, &merged(3), &none)), [1, 4]);
    assert_eq!(numbers(&released(&newer, &merged(4), &none)), [1, 4]);
    assert_eq!(numbers(&released(&newer, &range(None, None), &none)), [1, 2, 3, 4, 5, 6]);
    // A newer table that stays keeps nothing older.
    let newer = runs(&[&[1, 3, 5], &[0, 2, 4]]);
    assert_eq!(numbers(&released(&newer, &merged(2), &none)), [4]);
    assert_eq!(numbers(&released(&newer, &merged(4), &none)), [1, 4, 5]);
    // What begins before the compaction did was not read as a whole.
    assert_eq!(numbers(&released(&newer, &range(Some(1), Some(5)), &none)), [5]);
    let settled = BTreeSet::from([4]);
    assert_eq!(numbers(&released(&newer, &merged(4), &settled)), [1, 5]);
}

#[test]
fn the_smallest_step_ends_at_the_first_key_that_it_can() {
    let all = runs(&[&[1, 3, 5, 7], &[0, 2, 4, 6]]);
    let smallest = |from| Cut::smallest(all.clone(), range(from, None));
    let cut = smallest(None);
    assert_eq!((cut.range.until, cut.rests.len()), (Some(key(1)), 1));
    assert_eq!(smallest(Some(1)).range.until, Some(key(2)));
    assert_eq!(smallest(Some(6)).range.until, Some(key(7)));
    assert_eq!(smallest(Some(7)).range.until, None, "all that is left lies there");
    // Between two tables there is nothing to be merged.
    let apart = Cut::smallest(runs(&[&[6], &[10, 20]]), range(Some(2), None));
    assert_eq!(apart.range.until, Some(key(10)));
}

#[test]
fn a_cut_table_of_the_oldest_run_counts_as_a_whole() {
    let all = runs(&[&[2, 4], &[1, 3, 5]]);
    let cut = Cut::first(all, range(Some(2), Some(4)), u64::MAX);
    // Of the oldest run one table begins before the step, and one goes on behind it.
    assert_eq!(cut.rests.len(), 2);
    assert_eq!(cut.bytes_by(|table| table.record.bytes), (2 * TABLE, TABLE));
}
