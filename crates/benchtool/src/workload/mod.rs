//! The workloads: what the worker threads do between the start and the end of a phase.
//!
//! [`Phase`] runs a body in every thread: each opens its session, all start together behind a
//! barrier, and the phase lasts from the first start to the last end. The bodies live in `write`
//! (puts, overwrites, deletes), `read` (gets), `scan` (seek, range, full passes), `mixed`
//! (everything interleaved), `transactions`, `families` and `trace` (replays); `check` verifies
//! what comes back, `scan_rate` times a scan of it. Threads share only read-only data and the
//! generation table.
//!
//! Every body checks every result; an error of the engine ends its thread and fails the row.

pub(crate) mod batch;
pub(crate) mod check;
pub(crate) mod families;
pub(crate) mod mixed;
pub(crate) mod read;
pub(crate) mod scan;
pub(crate) mod scan_rate;
pub(crate) mod trace;
pub(crate) mod transactions;
pub(crate) mod write;

use crate::data::draw::Draw;
use crate::data::expect::{Generations, Split};
use crate::data::keys::KeySpace;
use crate::data::order::{Order, Permutation, slice_of};
use crate::data::values::Values;
use crate::measure::measured::Measured;
use crate::measure::recorder::{Limits, Recorder};
use crate::spec::{Pattern, Shape, Verify, problem_of_shape};
use bench_compare::engine::{Engine, Session, SessionMode};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

/// Seeds of independent streams of one run.
const WRITE_ORDER: u64 = 1;
const READ_ORDER: u64 = 2;

/// Everything the threads of a job share.
#[derive(Debug)]
pub(crate) struct Dataset {
    /// The test's parameters.
    pub(crate) shape: Shape,
    /// Keys of resident and spare records.
    pub(crate) keys: KeySpace,
    /// Values.
    pub(crate) values: Values,
    /// Position to record, if there are records besides the resident ones: positions below
    /// `shape.num` are resident, the others are there to be inserted.
    residence: Option<Permutation>,
    /// Positions inserted so far, finished or not.
    pub(crate) inserted: AtomicU64,
}

impl Dataset {
    /// Prepares keys and values of a test, or says why the parameters are impossible.
    pub(crate) fn new(shape: &Shape) -> Result<Self, String> {
        let keys = Self::possible(shape)?;
        let total = keys.count();
        let residence =
            (shape.spare > 0).then(|| Permutation::new(total, shape.seed ^ WRITE_ORDER));
        let values = Values::new(shape)?;
        let inserted = AtomicU64::new(0);
        Ok(Self { shape: shape.clone(), keys, values, residence, inserted })
    }

    /// The keys of a test, or why it is impossible; cheap, unlike the values.
    pub(crate) fn possible(shape: &Shape) -> Result<KeySpace, String> {
        if let Some(problem) = problem_of_shape(shape) {
            return Err(problem);
        }
        Values::check_sizes(shape)?;
        let total = shape.num.checked_add(shape.spare).ok_or("too many records")?;
        let group = shape.keys_per_prefix;
        let keys = KeySpace::new(total, shape.key_size, shape.layout, group, shape.seed)?;
        let mut probe = vec![0; shape.key_size];
        if shape.missing > 0 && !keys.encode_absent(total - 1, &mut probe) {
            return Err("the key space has no room for absent keys".to_owned());
        }
        Ok(keys)
    }

    /// The record at a position; positions from `shape.num` on are those of spare records.
    pub(crate) fn record_at(&self, position: u64) -> u64 {
        self.residence.as_ref().map_or(position, |residence| residence.at(position))
    }

    /// Whether a record belongs to those that are loaded.
    pub(crate) fn is_resident(&self, record: u64) -> bool {
        self.residence
            .as_ref()
            .is_none_or(|residence| residence.position_of(record) < self.shape.num)
    }

    /// The order in which writes or deletes go through the resident records.
    pub(crate) fn write_order(&self) -> Order {
        match &self.residence {
            Some(residence) => Order::Permuted(residence.clone()),
            None => self.order(WRITE_ORDER),
        }
    }

    /// How the threads divide that order.
    pub(crate) fn split(&self) -> Split {
        if self.shape.pattern == Pattern::SeqGlobal { Split::Interleaved } else { Split::Slices }
    }

    fn order(&self, stream: u64) -> Order {
        let (count, seed) = (self.shape.num, self.shape.seed ^ stream);
        match self.shape.pattern {
            Pattern::Seq | Pattern::SeqGlobal => Order::Ascending,
            Pattern::Reverse => Order::Descending(count),
            Pattern::Sweep => Order::Sweep(count),
            Pattern::Prefix if count >= self.shape.keys_per_prefix.max(1) => {
                let size = self.shape.keys_per_prefix.max(1);
                Order::Grouped { groups: Permutation::new(count / size, seed), size }
            }
            _ => Order::Permuted(Permutation::new(count, seed)),
        }
    }

    /// What one thread asks for, in which order.
    pub(crate) fn chooser(&self, thread: u64) -> Chooser<'_> {
        let shape = &self.shape;
        let source = match shape.pattern {
            Pattern::Latest => Source::Latest(Draw::new(shape, thread)),
            pattern if pattern.draws() => Source::Drawn(Draw::new(shape, thread)),
            Pattern::SeqGlobal => Source::Ordered {
                order: Order::Ascending,
                next: thread % shape.num,
                step: shape.threads,
            },
            _ => {
                let next = slice_of(shape.num, shape.threads, thread).start % shape.num;
                Source::Ordered { order: self.order(READ_ORDER), next, step: 1 }
            }
        };
        Chooser { dataset: self, source }
    }

    /// The generation that a value of a record names, if the value is right as far as the test
    /// wants it to be checked.
    pub(crate) fn check_value(&self, record: u64, value: &[u8]) -> Option<u32> {
        if self.shape.verify == Verify::Full {
            self.values.check(record, value)
        } else {
            self.values.check_header(record, value)
        }
    }

    /// Family of a record.
    pub(crate) fn family_of(&self, record: u64) -> u32 {
        (record % self.shape.families) as u32
    }

    /// A table of the states of all records, changed by the threads that write.
    pub(crate) fn generations(&self) -> Generations {
        let shape = &self.shape;
        let loaded = shape.workload.needs_data();
        let changers = if shape.writers > 0 { shape.writers } else { shape.threads };
        Generations::new(shape.num + shape.spare, changers, |record| {
            loaded && self.is_resident(record)
        })
    }
}

#[derive(Debug)]
enum Source {
    /// Walks an order from the thread's part on, around and around.
    Ordered { order: Order, next: u64, step: u64 },
    /// Independent draws.
    Drawn(Draw),
    /// Draws counted backwards from the newest record.
    Latest(Draw),
}

/// A thread's source of record numbers; never ends.
#[derive(Debug)]
pub(crate) struct Chooser<'a> {
    dataset: &'a Dataset,
    source: Source,
}

impl Chooser<'_> {
    /// The next record number. With the pattern `latest` it may be one whose insertion is under
    /// way.
    pub(crate) fn next(&mut self) -> u64 {
        let dataset = self.dataset;
        let position = match &mut self.source {
            Source::Ordered { order, next, step } => {
                let position = order.at(*next);
                *next += *step;
                if *next >= dataset.shape.num {
                    *next %= dataset.shape.num;
                }
                position
            }
            Source::Drawn(draw) => draw.next(),
            Source::Latest(draw) => {
                let spare = dataset.shape.spare;
                let inserted = dataset.inserted.load(Ordering::Relaxed).min(spare);
                dataset.shape.num + inserted - 1 - draw.next()
            }
        };
        dataset.record_at(position)
    }

    /// Like [`Self::next`], but never a record that was inserted in this phase.
    pub(crate) fn next_resident(&mut self) -> u64 {
        match &mut self.source {
            Source::Latest(draw) => {
                self.dataset.record_at(self.dataset.shape.num - 1 - draw.next())
            }
            _ => self.next(),
        }
    }
}

/// What one thread, or all of them, counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Operations done, per thread in order after merging.
    pub(crate) done: Vec<u64>,
    /// Rows visited.
    pub(crate) rows: u64,
    /// Key and value bytes accepted.
    pub(crate) user_bytes: u64,
    /// Write calls.
    pub(crate) commits: u64,
    /// Wrong results.
    pub(crate) wrong: u64,
    /// The first few wrong results and errors.
    pub(crate) problems: Vec<String>,
    /// Calls that returned an error.
    pub(crate) errors: u64,
    /// Keys asked for that are absent, as they should be.
    pub(crate) not_found: u64,
    /// Transactions that lost against another one.
    pub(crate) conflicts: u64,
}

/// Problems kept for the report.
const KEPT_PROBLEMS: usize = 5;

impl Tally {
    /// Counts a wrong result.
    pub(crate) fn wrong(&mut self, describe: impl FnOnce() -> String) {
        self.wrong += 1;
        if self.problems.len() < KEPT_PROBLEMS {
            self.problems.push(describe());
        }
    }

    /// Adds what another thread, or a later check, counted.
    pub(crate) fn absorb(&mut self, other: Self) {
        self.done.extend(other.done);
        self.rows += other.rows;
        self.user_bytes += other.user_bytes;
        self.commits += other.commits;
        self.wrong += other.wrong;
        self.errors += other.errors;
        self.not_found += other.not_found;
        self.conflicts += other.conflicts;
        self.problems.extend(other.problems);
        self.problems.truncate(KEPT_PROBLEMS);
    }
}

/// How a phase runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Phase<'a> {
    /// Worker threads.
    pub(crate) threads: u64,
    /// Whether anything writes.
    pub(crate) mode: SessionMode,
    /// When it ends.
    pub(crate) limits: Limits<'a>,
}

impl Phase<'_> {
    /// Runs `body` in every thread; returns what was measured and counted.
    pub(crate) fn run<F>(&self, engine: &dyn Engine, body: F) -> Result<(Measured, Tally), String>
    where
        F: Fn(&mut Worker<'_, '_>) -> Result<(), String> + Sync,
    {
        let barrier = Barrier::new(self.threads as usize);
        let outcomes = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.threads)
                .map(|thread| {
                    let (body, barrier) = (&body, &barrier);
                    scope.spawn(move || self.work(engine, barrier, thread, body))
                })
                .collect();
            workers.into_iter().map(|worker| worker.join()).collect::<Vec<_>>()
        });
        let mut tally = Tally::default();
        let mut parts = Vec::new();
        for outcome in outcomes {
            let (measured, counted) =
                outcome.map_err(|_| "a worker thread panicked".to_owned())??;
            parts.push(measured);
            tally.absorb(counted);
        }
        let measured = Measured::merge(parts)?.ok_or("a phase needs a thread")?;
        Ok((measured, tally))
    }

    fn work<F>(
        &self,
        engine: &dyn Engine,
        barrier: &Barrier,
        thread: u64,
        body: &F,
    ) -> Result<(Measured, Tally), String>
    where
        F: Fn(&mut Worker<'_, '_>) -> Result<(), String> + Sync,
    {
        let session = engine.session(self.mode);
        barrier.wait();
        let mut worker = Worker {
            thread,
            session: session.map_err(|error| error.to_string())?,
            recorder: Recorder::start(self.limits)?,
            tally: Tally::default(),
            done: 0,
        };
        let outcome = body(&mut worker);
        let Worker { recorder, mut tally, done, .. } = worker;
        tally.done = vec![done];
        if let Err(problem) = outcome {
            tally.errors += 1;
            tally.problems.insert(0, problem);
        }
        Ok((recorder.finish(), tally))
    }
}

/// What a body works with in its thread.
pub(crate) struct Worker<'e, 'l> {
    /// Number of the thread.
    pub(crate) thread: u64,
    /// Its session.
    pub(crate) session: Box<dyn Session + 'e>,
    /// Its measurements.
    pub(crate) recorder: Recorder<'l>,
    /// Its counts.
    pub(crate) tally: Tally,
    /// Operations it completed (and must be visible).
    pub(crate) done: u64,
}

/// Operations of one thread when a total is given.
pub(crate) fn share_of(total: Option<u64>, threads: u64, thread: u64) -> u64 {
    total.map_or(u64::MAX, |total| {
        let slice = slice_of(total, threads, thread);
        slice.end - slice.start
    })
}
