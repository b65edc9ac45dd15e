//! Transactions: begin, get and put some records, commit at the test's isolation level.
//!
//! Disjoint: every thread has records of its own, so nothing may conflict by rights and the
//! generation table judges every read. Hot: all threads read and write the same few records; each
//! transaction adds one to the generation of every record it touches, so that from repeatable read
//! on the generation at the end must equal the number of commits (an update that got lost shows). A
//! conflict is counted, rolled back, and not repeated.

use super::check::show;
use super::{Chooser, Dataset, Worker, share_of};
use crate::data::expect::Generations;
use crate::data::random::Random;
use crate::measure::series::Kind;
use crate::spec::{Isolation, Overlap};
use bench_compare::engine::{self, Commit};
use std::sync::atomic::{AtomicU32, Ordering};

/// Records that all threads share when the overlap is hot.
const HOT_RECORDS: u64 = 1_000;

/// What the threads of a phase of transactions share.
pub(crate) struct Shared<'a> {
    dataset: &'a Dataset,
    table: &'a Generations,
    checks: bool,
    /// Commits per hot record.
    commits: Vec<AtomicU32>,
}

impl<'a> Shared<'a> {
    /// Before the phase starts.
    pub(crate) fn new(dataset: &'a Dataset, table: &'a Generations, checks: bool) -> Self {
        let hot = match dataset.shape.overlap {
            Overlap::Disjoint => 0,
            Overlap::Hot => HOT_RECORDS.min(dataset.shape.num),
        };
        Self { dataset, table, checks, commits: (0..hot).map(|_| AtomicU32::new(0)).collect() }
    }

    /// The `index`-th hot record; they lie scattered.
    fn hot(&self, index: u64) -> u64 {
        let distance = self.dataset.shape.num / self.commits.len() as u64;
        self.dataset.record_at(index * distance)
    }

    /// After the phase: enters what must be found into the table.
    pub(crate) fn enter_commits(&self) {
        let isolation = self.dataset.shape.isolation;
        let weak = matches!(isolation, Isolation::ReadUncommitted | Isolation::ReadCommitted);
        for (index, commits) in self.commits.iter().enumerate() {
            // ORDERING: all threads of the phase have ended.
            let commits = commits.load(Ordering::Relaxed);
            let fewest = if weak { commits.min(1) } else { commits };
            self.table.set(self.hot(index as u64), fewest..=commits);
        }
    }

    /// The body of one thread.
    pub(crate) fn run(&self, worker: &mut Worker<'_, '_>) -> Result<(), String> {
        let shape = &self.dataset.shape;
        let mut thread = Client {
            shared: self,
            chooser: self.dataset.chooser(worker.thread),
            random: Random::new(shape.seed, 5_000 + worker.thread),
            picks: Vec::new(),
            key: vec![0; shape.key_size],
            value: vec![0; shape.value_size],
        };
        let mut left = share_of(shape.operations, shape.threads, worker.thread);
        while left > 0 && thread.transact(worker)? {
            left -= 1;
        }
        Ok(())
    }
}

struct Client<'a> {
    shared: &'a Shared<'a>,
    chooser: Chooser<'a>,
    random: Random,
    picks: Vec<u64>,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Client<'_> {
    /// Chooses the records of the next transaction: distinct, in ascending order.
    fn pick(&mut self, thread: u64) {
        let shared = self.shared;
        self.picks.clear();
        for _ in 0..shared.dataset.shape.txn_size {
            let record = match shared.commits.len() as u64 {
                0 => shared.table.own(thread, self.chooser.next_resident()),
                hot => self.random.below(hot),
            };
            self.picks.push(record);
        }
        self.picks.sort_unstable();
        self.picks.dedup();
    }

    fn transact(&mut self, worker: &mut Worker<'_, '_>) -> Result<bool, String> {
        let shape = &self.shared.dataset.shape;
        let disjoint = self.shared.commits.is_empty();
        let failed = |error: engine::EngineError| format!("transaction: {error}");
        self.pick(worker.thread);
        worker.recorder.begin();
        worker.session.begin(shape.isolation.of_engines()).map_err(failed)?;
        let mut bytes = 0;
        for index in 0..self.picks.len() {
            let pick = self.picks[index];
            let record = if disjoint { pick } else { self.shared.hot(pick) };
            bytes += self.change(worker, record, disjoint)?;
        }
        let outcome = worker.session.commit().map_err(failed)?;
        let done = outcome == Commit::Done;
        let go_on = worker.recorder.end(Kind::Primary, u64::from(done));
        worker.done += u64::from(done);
        if done {
            worker.tally.commits += 1;
            worker.tally.user_bytes += bytes;
        } else {
            worker.tally.conflicts += 1;
        }
        for pick in &self.picks {
            match (disjoint, done) {
                (true, true) => self.shared.table.commit(*pick),
                (true, false) => self.shared.table.abandon(*pick),
                (false, true) => {
                    // ORDERING: a count; read after the threads have ended.
                    self.shared.commits[*pick as usize].fetch_add(1, Ordering::Relaxed);
                }
                (false, false) => {}
            }
        }
        Ok(go_on)
    }

    /// Reads a record and puts its next generation; returns the bytes put.
    fn change(
        &mut self,
        worker: &mut Worker<'_, '_>,
        record: u64,
        disjoint: bool,
    ) -> Result<u64, String> {
        let Shared { dataset, table, checks, .. } = *self.shared;
        dataset.keys.encode(record, &mut self.key);
        let before = table.before(record);
        let mut generation = None;
        worker
            .session
            .get_in_transaction(&self.key, &mut |value| {
                generation = dataset.check_value(record, value);
            })
            .map_err(|error| format!("get: {error}"))?;
        let right =
            if disjoint { table.allows(record, before, generation) } else { generation.is_some() };
        if checks && !right {
            let key = &self.key;
            worker.tally.wrong(|| format!("transaction: {} is {generation:?}", show(key)));
        }
        let next = if disjoint { table.begin(record) } else { generation.unwrap_or(0) + 1 };
        let size = dataset.values.fill(record, next, &mut self.value);
        worker
            .session
            .put_in_transaction(&self.key, &self.value[..size])
            .map_err(|error| format!("put: {error}"))?;
        Ok((self.key.len() + size) as u64)
    }
}
