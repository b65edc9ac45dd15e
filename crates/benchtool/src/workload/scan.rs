//! Seeks, ranges and full passes over a loaded database that nothing writes to.
//!
//! A seek positions on a record's key and checks key and every byte of the value of the row it
//! finds; a range goes on for `range_size` rows; a pass visits everything. Passes are recorded in
//! steps of [`PASS_STEP`] rows; the pass that runs when the time is up is completed, without a
//! limit there is one.

use super::check::SequenceCheck;
use super::{Dataset, Worker, share_of};
use crate::data::random::Random;
use crate::measure::series::Kind;
use crate::spec::RowCount;
use bench_compare::engine::{Direction, ScanRequest};

/// Seed stream of the number of rows.
const ROWS: u64 = 4_000;
/// Rows per recorded call of a full pass.
pub(crate) const PASS_STEP: u64 = 1_000;

fn direction(dataset: &Dataset) -> Direction {
    if dataset.shape.reverse { Direction::Reverse } else { Direction::Forward }
}

/// Seeks or ranges of `rows` rows each.
pub(crate) fn ranges(
    dataset: &Dataset,
    rows: u64,
    checks: bool,
    worker: &mut Worker<'_, '_>,
) -> Result<(), String> {
    let shape = &dataset.shape;
    let direction = direction(dataset);
    let every_byte = rows == 1;
    let mut chooser = dataset.chooser(worker.thread);
    let mut key = vec![0; dataset.keys.key_bytes()];
    let mut check = SequenceCheck::new(dataset, direction);
    let mut coin = Random::new(shape.seed, ROWS + worker.thread);
    let mut left = share_of(shape.operations, shape.threads, worker.thread);
    while left > 0 {
        let record = chooser.next();
        dataset.keys.encode(record, &mut key);
        let rows = match shape.range_rows {
            RowCount::Uniform if rows > 1 => 1 + coin.below(rows),
            _ => rows,
        };
        check.restart(record, rows);
        worker.recorder.begin();
        worker
            .session
            .scan(ScanRequest { start: Some(&key), direction }, &mut |key, value| {
                if checks { check.row(key, value, every_byte) } else { check.count() }
            })
            .map_err(|error| format!("scan: {error}"))?;
        let go_on = worker.recorder.end(Kind::Primary, 1);
        if checks {
            check.finish();
        }
        worker.done += 1;
        left -= 1;
        if !go_on {
            break;
        }
    }
    check.into_tally(&mut worker.tally);
    Ok(())
}

/// Complete passes over all rows; each thread makes its own.
pub(crate) fn passes(
    dataset: &Dataset,
    checks: bool,
    worker: &mut Worker<'_, '_>,
) -> Result<(), String> {
    let direction = direction(dataset);
    let count = dataset.keys.count();
    let resident = |record: &u64| dataset.is_resident(*record);
    let first = match direction {
        Direction::Forward => (0..count).find(resident),
        Direction::Reverse => (0..count).rev().find(resident),
    };
    let first = first.ok_or("there is no record to visit")?;
    let mut check = SequenceCheck::new(dataset, direction);
    let mut go_on = true;
    while go_on {
        check.restart(first, count);
        let mut in_step = 0;
        let recorder = &mut worker.recorder;
        recorder.begin();
        worker
            .session
            .scan(ScanRequest { start: None, direction }, &mut |key, value| {
                let more = if checks { check.row(key, value, false) } else { check.count() };
                in_step += 1;
                if in_step == PASS_STEP {
                    go_on &= recorder.end(Kind::Primary, in_step);
                    in_step = 0;
                    recorder.begin();
                }
                more
            })
            .map_err(|error| format!("scan: {error}"))?;
        // The pass is over even if the engine returned fewer rows than a step.
        go_on &= recorder.end(Kind::Primary, in_step);
        go_on &= dataset.shape.seconds.is_some();
        if checks {
            check.finish();
        }
    }
    worker.done += check.rows;
    check.into_tally(&mut worker.tally);
    Ok(())
}
