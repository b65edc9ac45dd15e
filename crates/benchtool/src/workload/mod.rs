//! The workloads: what the worker threads do between the start and the end of a phase.
//!
//! [`Phase`] runs a body in every thread: each opens its session, all start together behind a
//! barrier, and the phase lasts from the first start to the last end. The bodies live in `write`
//! (puts, overwrites, deletes), `read` (gets, mixed), `scan` (seek, range, full passes); `check`
//! verifies what comes back. Threads share only read-only data and the generation table.
//!
//! Every body checks every result; an error of the engine ends its thread and fails the row.

pub(crate) mod check;
pub(crate) mod read;
pub(crate) mod scan;
pub(crate) mod write;

use crate::data::keys::KeySpace;
use crate::data::order::{Order, Permutation, slice_of};
use crate::data::random::Random;
use crate::data::values::Values;
use crate::data::zipf::Zipf;
use crate::measure::recorder::{Limits, Measured, Recorder};
use crate::spec::{Pattern, Shape};
use bench_compare::engine::{Engine, Session, SessionMode};
use std::sync::Barrier;

/// Seeds of independent streams of one run.
const WRITE_ORDER: u64 = 1;
const READ_ORDER: u64 = 2;
const RANK_ORDER: u64 = 3;

/// Everything the threads of a job share.
#[derive(Debug)]
pub(crate) struct Dataset {
    /// The test's parameters.
    pub(crate) shape: Shape,
    /// Keys.
    pub(crate) keys: KeySpace,
    /// Values.
    pub(crate) values: Values,
}

impl Dataset {
    /// Prepares keys and values of a test, or says why the parameters are impossible.
    pub(crate) fn new(shape: &Shape) -> Result<Self, String> {
        if shape.threads == 0 || shape.batch == 0 {
            return Err("threads and batch must be at least 1".to_owned());
        }
        let keys = KeySpace::new(shape.num, shape.key_size, shape.layout, shape.seed)?;
        let values = Values::new(shape.value_size, shape.compress_ratio, shape.seed)?;
        Ok(Self { shape: shape.clone(), keys, values })
    }

    /// The order in which writes or deletes go through the records.
    pub(crate) fn write_order(&self) -> Order {
        self.order(WRITE_ORDER)
    }

    fn order(&self, stream: u64) -> Order {
        match self.shape.pattern {
            Pattern::Seq => Order::Ascending,
            _ => Order::Permuted(Permutation::new(self.shape.num, self.shape.seed ^ stream)),
        }
    }

    /// What one thread reads, in which order.
    pub(crate) fn chooser(&self, thread: u64) -> Chooser {
        let shape = &self.shape;
        let random = Random::new(shape.seed, 1_000 + thread);
        match shape.pattern {
            Pattern::Seq | Pattern::Random => {
                let slice = slice_of(shape.num, shape.threads, thread);
                Chooser::Ordered {
                    order: self.order(READ_ORDER),
                    next: slice.start,
                    count: shape.num,
                }
            }
            Pattern::Uniform => Chooser::Uniform { random, count: shape.num },
            Pattern::Zipfian => Chooser::Zipfian {
                random,
                zipf: Zipf::new(shape.num, shape.theta),
                ranks: Permutation::new(shape.num, shape.seed ^ RANK_ORDER),
            },
        }
    }

    /// Key plus value bytes of one record.
    pub(crate) fn record_bytes(&self) -> u64 {
        (self.keys.key_bytes() + self.values.value_bytes()) as u64
    }
}

/// A thread's source of record numbers; never ends.
#[derive(Debug)]
pub(crate) enum Chooser {
    /// Walks an order from the thread's part on, around and around.
    Ordered {
        /// The order.
        order: Order,
        /// Next position.
        next: u64,
        /// Number of positions.
        count: u64,
    },
    /// Independent draws.
    Uniform {
        /// The stream.
        random: Random,
        /// Number of records.
        count: u64,
    },
    /// Skewed draws; ranks are scattered by a permutation.
    Zipfian {
        /// The stream.
        random: Random,
        /// The distribution of ranks.
        zipf: Zipf,
        /// Rank to record.
        ranks: Permutation,
    },
}

impl Chooser {
    /// The next record number.
    pub(crate) fn next(&mut self) -> u64 {
        match self {
            Self::Ordered { order, next, count } => {
                let record = order.at(*next);
                *next += 1;
                if *next == *count {
                    *next = 0;
                }
                record
            }
            Self::Uniform { random, count } => random.below(*count),
            Self::Zipfian { random, zipf, ranks } => ranks.at(zipf.draw(random)),
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
