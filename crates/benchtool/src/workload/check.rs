//! Checks of what an engine returned, during a phase and after it.
//!
//! During a phase, gets and seeks check every byte of the value; ranges and passes check each key
//! against the one that must come next, and length, record number and generation of each value, so
//! that the check costs less than the fastest scan. After a phase that wrote, [`verify_contents`]
//! scans everything and checks every byte, compares the number of rows with what must be visible,
//! and looks a sample of keys up.

use super::{Dataset, Tally};
use crate::data::expect::Expectation;
use crate::data::random::Random;
use bench_compare::engine::{Direction, Engine, ScanRequest, Session, SessionMode};

/// Keys looked up after a phase that wrote.
const SAMPLED_GETS: u64 = 20_000;

/// Checks a scan over a database that holds every record in generation 0.
pub(crate) struct SequenceCheck<'a> {
    dataset: &'a Dataset,
    /// Record that must come next.
    next: u64,
    step: i64,
    /// Rows still wanted.
    left: u64,
    key: Vec<u8>,
    /// Rows seen.
    pub(crate) rows: u64,
    /// Wrong rows.
    pub(crate) wrong: u64,
    /// First wrong row.
    pub(crate) problem: Option<String>,
}

impl<'a> SequenceCheck<'a> {
    /// A check whose rows can be counted from any record.
    pub(crate) fn new(dataset: &'a Dataset, direction: Direction) -> Self {
        let step = if direction == Direction::Forward { 1 } else { -1 };
        let key = vec![0; dataset.keys.key_bytes()];
        Self { dataset, next: 0, step, left: 0, key, rows: 0, wrong: 0, problem: None }
    }

    /// Expects rows from `record` on, which is resident, `limit` of them or as many as there are.
    pub(crate) fn restart(&mut self, record: u64, limit: u64) {
        self.next = record;
        self.left = limit;
    }

    /// Goes on to the next resident record, if there is one.
    fn advance(&mut self) {
        self.left -= 1;
        loop {
            self.next = self.next.wrapping_add_signed(self.step);
            if self.next >= self.dataset.keys.count() {
                self.left = 0;
                return;
            }
            if self.dataset.is_resident(self.next) {
                return;
            }
        }
    }

    /// Takes a row; returns whether more are wanted.
    pub(crate) fn row(&mut self, key: &[u8], value: &[u8], every_byte: bool) -> bool {
        self.rows += 1;
        if self.left == 0 {
            self.report(|| format!("a row after the last one: {}", show(key)));
            return false;
        }
        self.dataset.keys.encode(self.next, &mut self.key);
        let values = &self.dataset.values;
        let generation = if every_byte {
            self.dataset.check_value(self.next, value)
        } else {
            values.check_header(self.next, value)
        };
        if self.key != key || generation != Some(0) {
            let expected = show(&self.key);
            self.report(|| format!("scan: expected row {expected}, got {}", show(key)));
        }
        self.advance();
        self.left > 0
    }

    /// Takes a row without looking at it; returns whether more are wanted.
    pub(crate) fn count(&mut self) -> bool {
        self.rows += 1;
        self.left = self.left.saturating_sub(1);
        self.left > 0
    }

    /// Call when the scan has returned: rows that did not come are wrong.
    pub(crate) fn finish(&mut self) {
        if self.left > 0 {
            let (left, next) = (self.left, self.next);
            self.report(|| format!("scan: {left} rows missing from record {next} on"));
        }
    }

    fn report(&mut self, describe: impl FnOnce() -> String) {
        self.wrong += 1;
        if self.problem.is_none() {
            self.problem = Some(describe());
        }
    }

    /// Moves the counts into a tally.
    pub(crate) fn into_tally(self, tally: &mut Tally) {
        tally.rows += self.rows;
        tally.wrong += self.wrong;
        tally.problems.extend(self.problem);
    }
}

/// A key as text for a message.
pub(crate) fn show(key: &[u8]) -> String {
    key.escape_ascii().to_string()
}

/// What the checks after a phase found.
#[derive(Debug, Default)]
pub(crate) struct Verified {
    /// Rows the scan saw.
    pub(crate) visible: u64,
    /// Wrong results.
    pub(crate) tally: Tally,
}

/// Scans the whole database and samples gets, against what must be there.
pub(crate) fn verify_contents(
    engine: &dyn Engine,
    dataset: &Dataset,
    expectation: &Expectation,
) -> Result<Verified, String> {
    let mut verified = Verified::default();
    let mut session = engine.session(SessionMode::ReadOnly).map_err(|error| error.to_string())?;
    for family in 0..dataset.shape.families as u32 {
        session.use_family(family).map_err(|error| error.to_string())?;
        verified.visible +=
            scan_family(session.as_mut(), dataset, expectation, family, &mut verified.tally)?;
    }
    let (visible, expected) = (verified.visible, expectation.visible());
    if visible > expected || (visible < expected && !expectation.may_lack()) {
        verified.tally.wrong(|| format!("after: {visible} rows visible, {expected} expected"));
    }
    sample_gets(session.as_mut(), dataset, expectation, &mut verified.tally)?;
    Ok(verified)
}

/// Checks every row of a family; returns how many there are.
fn scan_family(
    session: &mut dyn Session,
    dataset: &Dataset,
    expectation: &Expectation,
    family: u32,
    tally: &mut Tally,
) -> Result<u64, String> {
    let request = ScanRequest { start: None, direction: Direction::Forward };
    let mut visible = 0;
    let mut previous = None;
    let scanned = session.scan(request, &mut |key, value| {
        visible += 1;
        let Some(record) = dataset.keys.decode(key) else {
            tally.wrong(|| format!("after: a key that was never written: {}", show(key)));
            return true;
        };
        if previous.is_some_and(|previous| previous >= record) {
            tally.wrong(|| format!("after: key out of order: {}", show(key)));
        }
        if dataset.family_of(record) != family {
            tally.wrong(|| format!("after: record {record} is in family {family}"));
        }
        previous = Some(record);
        check_row(dataset, expectation, record, value, tally);
        true
    });
    scanned.map_err(|error| error.to_string())?;
    Ok(visible)
}

fn check_row(
    dataset: &Dataset,
    expectation: &Expectation,
    record: u64,
    value: &[u8],
    tally: &mut Tally,
) {
    let expected = expectation.of(record, dataset.is_resident(record));
    match (expected, dataset.values.check(record, value)) {
        (None, _) => tally.wrong(|| format!("after: record {record} must be absent")),
        (Some(_), None) => tally.wrong(|| format!("after: record {record} has a wrong value")),
        (Some(allowed), Some(generation)) if !allowed.contains(&generation) => {
            tally.wrong(|| {
                format!("after: record {record} has generation {generation}, not {allowed:?}")
            });
        }
        _ => {}
    }
}

fn sample_gets(
    session: &mut dyn Session,
    dataset: &Dataset,
    expectation: &Expectation,
    tally: &mut Tally,
) -> Result<(), String> {
    let count = dataset.keys.count();
    let mut random = Random::new(dataset.shape.seed, 0x6765_7473);
    let mut key = vec![0; dataset.keys.key_bytes()];
    for turn in 0..count.min(SAMPLED_GETS) {
        let record = if count <= SAMPLED_GETS { turn } else { random.below(count) };
        dataset.keys.encode(record, &mut key);
        session.use_family(dataset.family_of(record)).map_err(|error| error.to_string())?;
        let found = session
            .get(&key, &mut |value| check_row(dataset, expectation, record, value, tally))
            .map_err(|error| error.to_string())?;
        let wanted = expectation.of(record, dataset.is_resident(record)).is_some();
        if !found && wanted && !expectation.may_lack() {
            tally.wrong(|| format!("after: record {record} is not found"));
        }
    }
    Ok(())
}
