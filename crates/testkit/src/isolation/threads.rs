//! Threads on few hot keys, with the history that they leave.
//!
//! Every session is a thread with random transactions of its own: points and ranges in both
//! directions, puts, deletions, savepoints; now and then it writes without a transaction, ranges
//! that are deleted among it. A refused commit is tried again, rolled back and reset, or abandoned.
//! One more thread makes the store flush and merge all the while. The order in which threads run is
//! the machine's; the seed determines what each of them tries.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use tidesdb_sim::Stepper;
use tidesdb_sim::rng::{SplitMix64, mix64};
use tidesdb_sys::sync_points::sync_point;

use super::history::{History, Transaction};
use super::recorder::{Recorded, Recorder};
use super::store::{
    CommitAnswer, Key, KeyRange, Level, ScanRequest, StoreTransaction, TransactionalStore,
};
use crate::Verdict;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Number of threads.
    pub sessions: u32,
    /// Transactions that each of them finishes.
    pub transactions: u64,
    /// Number of hot keys, at most [`MOST_KEYS`], spread over two families.
    pub keys: u16,
    /// Level of all transactions; random ones when there is none.
    pub level: Option<Level>,
    /// Only appends to lists, and reads of them.
    pub lists: bool,
    /// What each session tries.
    pub seed: u64,
}

/// How many transactions ended which way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Committed.
    pub committed: usize,
    /// Refused or rolled back.
    pub aborted: usize,
}

/// Most keys of a workload.
pub const MOST_KEYS: u16 = 64;

/// Number of families that keys are spread over.
pub const FAMILIES: u8 = 2;

/// Runs a workload on a store that holds none of its keys, or only what it wrote itself.
///
/// # Errors
/// Whatever the store says.
pub fn run<S: TransactionalStore>(store: &S, workload: &Workload) -> Verdict<(History, Tally)> {
    run_by(store, workload, None)
}

/// As [`run`], with one thread running at a time, in turns that the seed decides.
///
/// # Errors
/// Whatever the store says.
pub fn run_in_turns<S: TransactionalStore>(
    store: &S,
    workload: &Workload,
) -> Verdict<(History, Tally)> {
    // The sessions, and the one that disturbs.
    let stepper = Stepper::new(workload.sessions as usize + 1, workload.seed);
    let result = run_by(store, workload, Some(&stepper));
    result.map_err(|e| format!("{e}\nthe last turns: {:?}", stepper.turns()))
}

/// A session that counts among those that are left until it ends.
struct Left<'a>(&'a AtomicU32);

impl Drop for Left<'_> {
    fn drop(&mut self) {
        // ORDERING: Relaxed, the count carries nothing; joining does.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn run_by<S: TransactionalStore>(
    store: &S,
    workload: &Workload,
    stepper: Option<&Arc<Stepper>>,
) -> Verdict<(History, Tally)> {
    // Numbers that an earlier run on the same store is unlikely to have used.
    let recorder = Recorder::behind((workload.seed & 0xffff) << 24);
    let mut history = History::default();
    set_up(store, workload, &recorder, &mut history)?;
    let left = AtomicU32::new(workload.sessions);
    let finished = thread::scope(|scope| {
        let (recorder, left) = (&recorder, &left);
        let session = |number| {
            let work = move || {
                let _left = Left(left);
                Session::new(recorder, workload, number).run(store)
            };
            scope.spawn(move || in_turns(stepper, number, work))
        };
        let sessions: Vec<_> = (0..workload.sessions).map(session).collect();
        let work = move || disturb(store, workload.seed, left);
        let disturber = scope.spawn(move || in_turns(stepper, workload.sessions, work));
        if let Some(stepper) = stepper {
            stepper.conduct();
        }
        let joined = |result: thread::Result<Verdict<Vec<Transaction>>>| {
            result.unwrap_or_else(|panic| Err(crate::seeds::panic_text(panic.as_ref())))
        };
        let finished: Vec<_> = sessions.into_iter().map(|s| joined(s.join())).collect();
        let disturbed = disturber.join();
        let text = |panic: Box<dyn std::any::Any + Send>| crate::seeds::panic_text(panic.as_ref());
        disturbed.unwrap_or_else(|panic| Err(text(panic))).map(|()| finished)
    })?;
    for of_session in finished {
        history.transactions.extend(of_session?);
    }
    read_all(store, workload, &recorder, &mut history)?;
    let committed = history.transactions.iter().filter(|t| t.is_committed()).count();
    let aborted = history.transactions.len() - committed;
    Ok((history, Tally { committed, aborted }))
}

fn in_turns<R>(stepper: Option<&Arc<Stepper>>, party: u32, work: impl FnOnce() -> R) -> R {
    match stepper {
        Some(stepper) => stepper.take_part(party as usize, work),
        None => work(),
    }
}

fn disturb<S: TransactionalStore>(store: &S, seed: u64, left: &AtomicU32) -> Verdict {
    let mut random = SplitMix64::new(seed);
    // ORDERING: Relaxed, see where it changes.
    while left.load(Ordering::Relaxed) > 0 {
        store.disturb(random.next_u64())?;
        pause();
    }
    Ok(())
}

/// Lets another thread run.
fn pause() {
    thread::yield_now();
    sync_point("between calls");
}

fn key(number: u64) -> Key {
    let family = (number % u64::from(FAMILIES)) as u8;
    Key { family, number: (number / u64::from(FAMILIES)) as u16 }
}

fn whole_family(workload: &Workload, family: u8) -> ScanRequest {
    let range = KeyRange { family, from: 0, to: workload.keys };
    ScanRequest { range, forward: true, most: usize::MAX }
}

/// Every key that a run may use is written once or deleted, so that nothing of an earlier one is
/// left; lists begin with one element, so that every level but the weakest keeps their order.
fn set_up<S: TransactionalStore>(
    store: &S,
    workload: &Workload,
    recorder: &Recorder,
    history: &mut History,
) -> Verdict {
    let mut transaction = recorder.begin(store, Level::Snapshot, u32::MAX)?;
    for number in 0..u64::from(MOST_KEYS) {
        if number < u64::from(workload.keys) && (workload.lists || number % 3 > 0) {
            transaction.put(key(number))?;
        } else {
            transaction.delete(key(number))?;
        }
    }
    transaction.commit()?;
    history.transactions.push(transaction.finish());
    Ok(())
}

fn read_all<S: TransactionalStore>(
    store: &S,
    workload: &Workload,
    recorder: &Recorder,
    history: &mut History,
) -> Verdict {
    let mut transaction = recorder.begin(store, Level::Snapshot, u32::MAX)?;
    for number in 0..u64::from(workload.keys) {
        transaction.get(key(number))?;
    }
    for family in 0..FAMILIES {
        transaction.scan(whole_family(workload, family))?;
    }
    transaction.commit()?;
    history.transactions.push(transaction.finish());
    Ok(())
}

struct Session<'a> {
    recorder: &'a Recorder,
    workload: &'a Workload,
    number: u32,
    random: SplitMix64,
    finished: Vec<Transaction>,
}

impl<'a> Session<'a> {
    fn new(recorder: &'a Recorder, workload: &'a Workload, number: u32) -> Self {
        let random = SplitMix64::new(mix64(workload.seed ^ (u64::from(number) << 32)));
        Self { recorder, workload, number, random, finished: Vec::new() }
    }

    fn level(&mut self) -> Level {
        let any = Level::ALL[self.random.index(Level::ALL.len())];
        self.workload.level.unwrap_or(any)
    }

    fn run<S: TransactionalStore>(mut self, store: &S) -> Verdict<Vec<Transaction>> {
        let mut reused = None;
        for _ in 0..self.workload.transactions {
            if !self.workload.lists && self.random.chance(1, 10) {
                self.write_batch(store)?;
                continue;
            }
            let level = self.level();
            let mut transaction: Recorded<'_, S::Transaction> = match reused.take() {
                Some(transaction) => self.reset(transaction, level)?,
                None => self.recorder.begin(store, level, self.number)?,
            };
            let padding = if self.random.chance(1, 8) { 300 } else { self.random.index(40) };
            transaction.pad(padding);
            for _ in 0..=self.random.below(5) {
                // Without it few transactions meet on a machine with few cores.
                if self.random.chance(1, 3) {
                    pause();
                }
                if self.workload.lists {
                    self.list_step(&mut transaction)?;
                } else {
                    self.step(&mut transaction)?;
                }
            }
            if self.end(&mut transaction)? && self.random.chance(1, 2) {
                reused = Some(transaction);
            } else {
                self.finished.push(transaction.finish());
            }
        }
        self.finished.extend(reused.map(Recorded::finish));
        Ok(self.finished)
    }

    fn reset<'r, T: StoreTransaction>(
        &mut self,
        mut transaction: Recorded<'r, T>,
        level: Level,
    ) -> Verdict<Recorded<'r, T>> {
        self.finished.push(transaction.reset(level)?);
        Ok(transaction)
    }

    /// Writes without a transaction count as well.
    fn write_batch<S: TransactionalStore>(&mut self, store: &S) -> Verdict {
        let mut keys: Vec<(Key, bool)> = Vec::new();
        if self.random.chance(1, 6) {
            // Neighbours, which the store deletes as a range.
            let Key { family, number } = self.key();
            let last = number + 1 + self.random.below(4) as u16;
            keys.extend((number..=last).map(|number| (Key { family, number }, true)));
        } else {
            for _ in 0..=self.random.below(3) {
                let key = self.key();
                if keys.iter().all(|(other, _)| *other != key) {
                    keys.push((key, self.random.chance(1, 4)));
                }
            }
        }
        self.finished.push(self.recorder.write_batch(store, &keys, self.number)?);
        Ok(())
    }

    fn key(&mut self) -> Key {
        key(self.random.below(u64::from(self.workload.keys)))
    }

    fn request(&mut self) -> ScanRequest {
        let half = u64::from(self.workload.keys / 2);
        let from = self.random.below(half) as u16;
        let to = from + 1 + self.random.below(half) as u16;
        let family = self.random.below(u64::from(FAMILIES)) as u8;
        let most = if self.random.chance(1, 3) { 1 + self.random.index(3) } else { usize::MAX };
        let range = KeyRange { family, from, to };
        ScanRequest { range, forward: self.random.chance(1, 2), most }
    }

    fn step<T: StoreTransaction>(&mut self, transaction: &mut Recorded<'_, T>) -> Verdict {
        let key = self.key();
        match self.random.below(20) {
            0..7 => transaction.get(key).map(drop),
            7 => transaction.get_untracked(key).map(drop),
            8..11 => {
                let request = self.request();
                let mut pauses = self.random.clone();
                let mut between = || {
                    if pauses.chance(1, 4) {
                        pause();
                    }
                };
                transaction.scan_slowly(request, &mut between).map(drop)
            }
            11..17 => transaction.put(key),
            17 | 18 => transaction.delete(key),
            _ => {
                transaction.put(key)?;
                transaction.savepoint(1)?;
                transaction.put(self.key())?;
                transaction.delete(self.key())?;
                transaction.rollback_to(1)?;
                transaction.get(key).map(drop)
            }
        }
    }

    fn list_step<T: StoreTransaction>(&mut self, transaction: &mut Recorded<'_, T>) -> Verdict {
        let key = self.key();
        if self.random.chance(1, 3) {
            transaction.append(key)
        } else {
            transaction.get(key).map(drop)
        }
    }

    /// Ends a transaction; false when it was left as it stood after a conflict.
    fn end<T: StoreTransaction>(&mut self, transaction: &mut Recorded<'_, T>) -> Verdict<bool> {
        if self.random.chance(1, 20) {
            return transaction.rollback().map(|()| true);
        }
        let mut answer = transaction.commit()?;
        if answer == CommitAnswer::Conflict && self.random.chance(1, 2) {
            answer = transaction.commit()?;
        }
        if answer != CommitAnswer::Conflict {
            return Ok(answer != CommitAnswer::Unknown);
        }
        if self.random.chance(1, 4) {
            return Ok(false);
        }
        transaction.rollback().map(|()| true)
    }
}
