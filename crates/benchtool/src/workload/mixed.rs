//! Gets, puts of new and old records, deletes, read-modify-writes and scans, interleaved.
//!
//! Each thread draws the kind of each operation from the test's shares. Reads ask for any record,
//! changes go to records that the thread owns; the generation table says what a reader may meet.
//! With `writers`, the first threads only put, batch after batch, until the others have ended, and
//! the others do not change anything.
//!
//! A scan is checked against the states that were committed before it began: rows in order, no row
//! missing that was there all the time, no generation older than that.

mod scan_check;

use self::scan_check::{ScanCheck, ScanWindow};
use super::batch::BatchBuffer;
use super::check::show;
use super::write::timed_commit;
use super::{Chooser, Dataset, Worker, share_of};
use crate::data::expect::{Generations, State};
use crate::data::random::Random;
use crate::measure::series::Kind;
use crate::spec::RowCount;
use bench_compare::engine::{Direction, ScanRequest};
use std::sync::atomic::{AtomicU64, Ordering};

/// What the threads of a mixed phase share.
pub(crate) struct Shared<'a> {
    dataset: &'a Dataset,
    table: &'a Generations,
    checks: bool,
    /// Threads that do not only write and are still at work.
    readers: AtomicU64,
}

impl<'a> Shared<'a> {
    /// Before the phase starts.
    pub(crate) fn new(dataset: &'a Dataset, table: &'a Generations, checks: bool) -> Self {
        let readers = AtomicU64::new(dataset.shape.threads - dataset.shape.writers);
        Self { dataset, table, checks, readers }
    }

    /// The body of one thread.
    pub(crate) fn run(&self, worker: &mut Worker<'_, '_>) -> Result<(), String> {
        let mut thread = Mixer {
            shared: self,
            chooser: self.dataset.chooser(worker.thread),
            coin: Random::new(self.dataset.shape.seed, 2_000 + worker.thread),
            batch: BatchBuffer::new(self.dataset),
            window: Vec::new(),
            key: vec![0; self.dataset.keys.key_bytes()],
        };
        if worker.thread < self.dataset.shape.writers {
            return thread.write_until_alone(worker);
        }
        let outcome = thread.interleave(worker);
        // ORDERING: the count carries no data; a writer that sees it late does one batch more.
        self.readers.fetch_sub(1, Ordering::Relaxed);
        outcome
    }
}

/// One thread of a mixed phase.
struct Mixer<'a> {
    shared: &'a Shared<'a>,
    chooser: Chooser<'a>,
    coin: Random,
    batch: BatchBuffer<'a>,
    /// States before a scan, from its first record on.
    window: Vec<State>,
    key: Vec<u8>,
}

impl Mixer<'_> {
    fn write_until_alone(&mut self, worker: &mut Worker<'_, '_>) -> Result<(), String> {
        if self.shared.dataset.shape.batch > 1 {
            worker.recorder.time_all();
        }
        loop {
            // ORDERING: see `run`.
            let alone = self.shared.readers.load(Ordering::Relaxed) == 0;
            if alone || !self.update(worker)? {
                return self.finish(worker);
            }
        }
    }

    fn interleave(&mut self, worker: &mut Worker<'_, '_>) -> Result<(), String> {
        let shape = &self.shared.dataset.shape;
        let mix = shape.mix;
        let reads = mix.reads().unwrap_or(0);
        let mut left = share_of(
            shape.operations,
            shape.threads - shape.writers,
            worker.thread - shape.writers,
        );
        let mut go_on = true;
        while go_on && left > 0 {
            let mut toss = self.coin.below(100);
            let mut is = |share: u64| {
                let hit = toss < share;
                toss = toss.wrapping_sub(share);
                hit
            };
            go_on = if is(reads) {
                self.get(worker)?
            } else if is(mix.update) {
                self.update(worker)?
            } else if is(mix.insert) {
                self.insert(worker)?
            } else if is(mix.modify) {
                self.modify(worker)?
            } else if is(mix.delete) {
                self.delete(worker)?
            } else {
                self.scan(worker)?
            };
            left -= 1;
        }
        self.finish(worker)
    }

    fn finish(&mut self, worker: &mut Worker<'_, '_>) -> Result<(), String> {
        if self.batch.records.is_empty() {
            Ok(())
        } else {
            self.commit(worker, Kind::Put).map(|_| ())
        }
    }

    fn commit(&mut self, worker: &mut Worker<'_, '_>, kind: Kind) -> Result<bool, String> {
        let go_on = timed_commit(worker, &mut self.batch, kind)?;
        self.batch.records.iter().for_each(|record| self.shared.table.commit(*record));
        self.batch.clear();
        Ok(go_on)
    }

    fn commit_if_full(&mut self, worker: &mut Worker<'_, '_>, kind: Kind) -> Result<bool, String> {
        if self.batch.is_full() { self.commit(worker, kind) } else { Ok(true) }
    }

    fn owned(&mut self, worker: &Worker<'_, '_>) -> u64 {
        let table = self.shared.table;
        // Spare records belong to the thread that inserts them.
        let record = table.own(worker.thread, self.chooser.next_resident());
        if self.shared.dataset.is_resident(record) {
            record
        } else {
            self.resident_near(worker, record)
        }
    }

    /// The next resident record that the thread owns, going around.
    fn resident_near(&self, worker: &Worker<'_, '_>, record: u64) -> u64 {
        let (dataset, table) = (self.shared.dataset, self.shared.table);
        let shape = &dataset.shape;
        let step = if shape.writers > 0 { shape.writers } else { shape.threads };
        let mut candidate = record;
        for _ in 0..table.count() {
            candidate += step;
            if candidate >= table.count() {
                candidate = worker.thread;
            }
            if dataset.is_resident(candidate) {
                return candidate;
            }
        }
        candidate
    }

    fn update(&mut self, worker: &mut Worker<'_, '_>) -> Result<bool, String> {
        let record = self.owned(worker);
        self.batch.put(record, self.shared.table.begin(record));
        self.commit_if_full(worker, Kind::Put)
    }

    fn insert(&mut self, worker: &mut Worker<'_, '_>) -> Result<bool, String> {
        let dataset = self.shared.dataset;
        // ORDERING: the number carries no data; the table says what is there.
        let slot = dataset.inserted.fetch_add(1, Ordering::Relaxed);
        if slot >= dataset.shape.spare {
            dataset.inserted.store(dataset.shape.spare, Ordering::Relaxed);
            return self.update(worker);
        }
        let record = dataset.record_at(dataset.shape.num + slot);
        self.batch.put(record, self.shared.table.begin(record));
        self.commit_if_full(worker, Kind::Put)
    }

    fn delete(&mut self, worker: &mut Worker<'_, '_>) -> Result<bool, String> {
        let record = self.owned(worker);
        self.shared.table.begin_delete(record);
        self.batch.delete(record);
        self.commit_if_full(worker, Kind::Delete)
    }

    fn get(&mut self, worker: &mut Worker<'_, '_>) -> Result<bool, String> {
        let shape = &self.shared.dataset.shape;
        let record = self.chooser.next();
        let absent = shape.missing > 0 && self.coin.below(100) < shape.missing;
        self.get_record(worker, record, absent)
    }

    /// A timed and checked get.
    fn get_record(
        &mut self,
        worker: &mut Worker<'_, '_>,
        record: u64,
        absent: bool,
    ) -> Result<bool, String> {
        let Shared { dataset, table, checks, .. } = *self.shared;
        if absent {
            dataset.keys.encode_absent(record, &mut self.key);
        } else {
            dataset.keys.encode(record, &mut self.key);
        }
        let before = table.before(record);
        let mut generation = None;
        worker.recorder.begin();
        let found = worker
            .session
            .get(&self.key, &mut |value| generation = dataset.check_value(record, value))
            .map_err(|error| format!("get: {error}"))?;
        let go_on = worker.recorder.end(Kind::Get, 1);
        worker.done += 1;
        worker.tally.not_found += u64::from(!found);
        if checks {
            let damaged = found && generation.is_none();
            let right = if absent { !found } else { table.allows(record, before, generation) };
            if damaged || !right {
                let key = &self.key;
                worker.tally.wrong(|| match generation {
                    _ if damaged => format!("get {}: wrong value", show(key)),
                    None => format!("get {}: not found", show(key)),
                    Some(got) => format!("get {}: generation {got} after {before:?}", show(key)),
                });
            }
        }
        Ok(go_on)
    }

    /// Reads a record and writes its next generation; both together are one operation.
    fn modify(&mut self, worker: &mut Worker<'_, '_>) -> Result<bool, String> {
        let Shared { dataset, table, checks, .. } = *self.shared;
        if !self.batch.records.is_empty() {
            self.commit(worker, Kind::Put)?;
        }
        let record = self.owned(worker);
        dataset.keys.encode(record, &mut self.key);
        let before = table.before(record);
        let mut generation = None;
        worker.recorder.begin();
        worker
            .session
            .get(&self.key, &mut |value| generation = dataset.check_value(record, value))
            .map_err(|error| format!("get: {error}"))?;
        // The table decides, so that a wrong read cannot hide behind the write.
        let right = table.allows(record, before, generation);
        self.batch.put(record, table.begin(record));
        worker.tally.conflicts += self.batch.commit(worker.session.as_mut())?;
        let go_on = worker.recorder.end(Kind::Modify, 1);
        table.commit(record);
        worker.tally.user_bytes += self.batch.user_bytes();
        worker.tally.commits += 1;
        worker.done += 1;
        self.batch.clear();
        if checks && !right {
            let key = &self.key;
            worker.tally.wrong(|| format!("modify {}: read {generation:?}", show(key)));
        }
        Ok(go_on)
    }

    fn scan(&mut self, worker: &mut Worker<'_, '_>) -> Result<bool, String> {
        let Shared { dataset, table, checks, .. } = *self.shared;
        let shape = &dataset.shape;
        let rows = match shape.range_rows {
            RowCount::Fixed => shape.range_size,
            RowCount::Uniform => 1 + self.coin.below(shape.range_size),
        };
        let start = self.chooser.next();
        dataset.keys.encode(start, &mut self.key);
        let direction = if shape.reverse { Direction::Reverse } else { Direction::Forward };
        // Room for spare and deleted records among the rows; what lies beyond is checked less.
        let reach = if shape.spare > 0 || shape.mix.delete > 0 { 2 * rows + 16 } else { rows };
        let window = ScanWindow::take(&mut self.window, table, (start, reach), direction, checks);
        let mut check = ScanCheck { dataset, table, window, expected: 0, seen: 0, problem: None };
        worker.recorder.begin();
        worker
            .session
            .scan(ScanRequest { start: Some(&self.key), direction }, &mut |key, value| {
                if checks {
                    check.row(key, value);
                }
                check.seen += 1;
                check.seen < rows
            })
            .map_err(|error| format!("scan: {error}"))?;
        let go_on = worker.recorder.end(Kind::Scan, 1);
        if checks && check.seen < rows {
            check.end();
        }
        worker.tally.rows += check.seen;
        worker.done += 1;
        if let Some(problem) = check.problem {
            worker.tally.wrong(|| problem);
        }
        Ok(go_on)
    }
}
