//! Invariants that hold at every moment if transactions are what their level says.
//!
//! Eight threads each run one of four small applications; what must hold is looked at all the
//! while, by points and by scans, and at the end. Unlike histories these need no judge, so they
//! would notice if the judge were wrong.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use tidesdb_sim::rng::{SplitMix64, mix64};

use super::store::{
    CommitAnswer, Key, KeyRange, Level, ScanRequest, StoreTransaction, TransactionalStore,
};
use crate::Verdict;

/// What is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invariant {
    /// Transfers between accounts leave the sum; a second family mirrors the first. Holds from
    /// repeatable read up.
    Bank,
    /// Counters hold the number of commits that incremented them, and only grow. Holds from
    /// repeatable read up.
    Counters,
    /// Of each pair of flags at least one is set. Holds when serializable.
    OnCall,
    /// A range never holds more entries than are allowed. Holds when serializable.
    BoundedRange,
}

/// Keys of an invariant.
const KEYS: u16 = 12;

const BALANCE: u64 = 1_000;

/// Most entries of the bounded range, which has room for twice as many.
const MOST_ENTRIES: usize = 6;

/// How to run one.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// What is kept.
    pub invariant: Invariant,
    /// Level of the transactions that write.
    pub level: Level,
    /// Number of threads.
    pub sessions: u64,
    /// Transactions of each.
    pub transactions: u64,
    /// What each thread tries.
    pub seed: u64,
}

fn account(family: u8, number: u64) -> Key {
    Key { family, number: number as u16 }
}

fn number_of(bytes: &[u8]) -> Verdict<u64> {
    let number = bytes.first_chunk().map(|first| u64::from_le_bytes(*first));
    number.ok_or_else(|| format!("not a value of an invariant: {bytes:?}"))
}

fn get<T: StoreTransaction>(transaction: &T, key: Key) -> Verdict<u64> {
    transaction.get(key)?.map_or(Ok(0), |bytes| number_of(&bytes))
}

fn put<T: StoreTransaction>(transaction: &mut T, key: Key, number: u64) -> Verdict {
    transaction.put(key, &number.to_le_bytes())
}

/// All entries of a family, in the order of their keys.
fn scan<T: StoreTransaction>(
    transaction: &T,
    family: u8,
    forward: bool,
) -> Verdict<Vec<(u16, u64)>> {
    let range = KeyRange { family, from: 0, to: KEYS };
    let found = transaction
        .scan(ScanRequest { range, forward, most: usize::MAX }, &mut thread::yield_now)?;
    let numbers = found.iter().map(|(key, bytes)| number_of(bytes).map(|number| (*key, number)));
    let mut numbers: Vec<_> = numbers.collect::<Verdict<_>>()?;
    if !forward {
        numbers.reverse();
    }
    Ok(numbers)
}

/// Runs a trial on a store, while it is disturbed; how many transactions committed.
///
/// # Errors
/// What does not hold, with the trial.
pub fn try_out<S: TransactionalStore>(store: &S, trial: &Trial) -> Verdict<u64> {
    run(store, trial).map_err(|e| format!("{trial:?}\n{e}"))
}

fn run<S: TransactionalStore>(store: &S, trial: &Trial) -> Verdict<u64> {
    set_up(store, trial.invariant)?;
    let increments: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let over = AtomicBool::new(false);
    let committed: Vec<Verdict<u64>> = thread::scope(|scope| {
        let (increments, over) = (&increments, &over);
        let session = |number: u64| {
            let seed = mix64(trial.seed ^ (number << 40));
            let random = SplitMix64::new(seed);
            scope.spawn(move || Worker { store, trial, random, increments }.work())
        };
        let sessions: Vec<_> = (0..trial.sessions).map(session).collect();
        let disturber = scope.spawn(move || {
            let mut random = SplitMix64::new(trial.seed);
            // ORDERING: Relaxed, the flag carries nothing.
            while !over.load(Ordering::Relaxed) {
                store.disturb(random.next_u64())?;
                thread::yield_now();
            }
            Ok(0)
        });
        let join = |handle: thread::ScopedJoinHandle<'_, Verdict<u64>>| {
            handle.join().unwrap_or_else(|e| Err(crate::seeds::panic_text(e.as_ref())))
        };
        let mut all: Vec<_> = sessions.into_iter().map(join).collect();
        // ORDERING: Relaxed, as above.
        over.store(true, Ordering::Relaxed);
        all.push(join(disturber));
        all
    });
    let committed = committed.into_iter().sum::<Verdict<u64>>()?;
    let reader = store.begin(Level::Snapshot)?;
    audit(&reader, trial.invariant, true)?;
    audit(&reader, trial.invariant, false)?;
    if trial.invariant == Invariant::Counters {
        for (number, expected) in increments.iter().enumerate() {
            let (key, expected) = (account(0, number as u64), expected.load(Ordering::SeqCst));
            let found = get(&reader, key)?;
            if found != expected {
                return Err(format!("{key} counts {found} of {expected} commits"));
            }
        }
    }
    Ok(committed)
}

fn set_up<S: TransactionalStore>(store: &S, invariant: Invariant) -> Verdict {
    let mut transaction = store.begin(Level::Snapshot)?;
    for number in 0..u64::from(KEYS) {
        for family in 0..2 {
            let key = account(family, number);
            match invariant {
                Invariant::Bank => put(&mut transaction, key, BALANCE)?,
                Invariant::Counters => put(&mut transaction, key, 0)?,
                Invariant::OnCall => put(&mut transaction, key, 1)?,
                Invariant::BoundedRange => transaction.delete(key)?,
            }
        }
    }
    transaction.commit().map(drop)
}

/// What must hold in a snapshot.
fn audit<T: StoreTransaction>(transaction: &T, invariant: Invariant, forward: bool) -> Verdict {
    let entries = scan(transaction, 0, forward)?;
    let wrong = |what: &str| Err(format!("{what}: {entries:?}"));
    for (number, scanned) in &entries {
        let read = get(transaction, account(0, u64::from(*number)))?;
        if read != *scanned {
            return wrong(&format!("k{number} is {read} by itself"));
        }
    }
    match invariant {
        Invariant::Bank => {
            let sum: u64 = entries.iter().map(|(_, balance)| balance).sum();
            if sum != u64::from(KEYS) * BALANCE {
                return wrong(&format!("the bank holds {sum}"));
            }
            let mirror = scan(transaction, 1, forward)?;
            if mirror != entries {
                return wrong(&format!("the mirror shows {mirror:?}"));
            }
        }
        Invariant::OnCall => {
            let set = |number: u16| entries.iter().any(|(n, value)| *n == number && *value > 0);
            if (0..KEYS).step_by(2).any(|first| !set(first) && !set(first + 1)) {
                return wrong("nobody is on call");
            }
        }
        Invariant::BoundedRange if entries.len() > MOST_ENTRIES => {
            return wrong(&format!("{} entries", entries.len()));
        }
        Invariant::BoundedRange | Invariant::Counters => {}
    }
    Ok(())
}

struct Worker<'a, S> {
    store: &'a S,
    trial: &'a Trial,
    random: SplitMix64,
    increments: &'a [AtomicU64],
}

impl<S: TransactionalStore> Worker<'_, S> {
    fn work(mut self) -> Verdict<u64> {
        let mut committed = 0;
        let mut seen = vec![0; usize::from(KEYS)];
        let mut transaction = self.store.begin(self.trial.level)?;
        for _ in 0..self.trial.transactions {
            let incremented = self.attempt(&mut transaction)?;
            if transaction.commit()? == CommitAnswer::Conflict {
                transaction.rollback()?;
            } else {
                committed += 1;
                for key in incremented {
                    // ORDERING: Relaxed, read after the thread is joined.
                    self.increments[usize::from(key.number)].fetch_add(1, Ordering::Relaxed);
                }
            }
            transaction.reset(self.trial.level)?;
            if self.random.chance(1, 4) {
                self.look(&mut seen)?;
            }
        }
        Ok(committed)
    }

    /// Looks at what must hold in a snapshot of its own.
    fn look(&mut self, seen: &mut [u64]) -> Verdict {
        let levels = [Level::RepeatableRead, Level::Snapshot, Level::Serializable];
        let reader = self.store.begin(levels[self.random.index(levels.len())])?;
        audit(&reader, self.trial.invariant, self.random.chance(1, 2))?;
        if self.trial.invariant == Invariant::Counters {
            for (number, count) in scan(&reader, 0, true)? {
                let before = &mut seen[usize::from(number)];
                if count < *before {
                    return Err(format!("k{number} went from {before} back to {count}"));
                }
                *before = count;
            }
        }
        Ok(())
    }

    /// One transaction up to its commit; the counters that it increments.
    fn attempt(&mut self, transaction: &mut S::Transaction) -> Verdict<Vec<Key>> {
        let number = self.random.below(u64::from(KEYS));
        let other = self.random.below(u64::from(KEYS));
        match self.trial.invariant {
            Invariant::Bank if number != other => {
                let (from, to) = (account(0, number), account(0, other));
                let balance = get(transaction, from)?;
                let amount = self.random.below(balance + 1);
                let target = get(transaction, to)?;
                thread::yield_now();
                for family in 0..2 {
                    put(transaction, account(family, number), balance - amount)?;
                    put(transaction, account(family, other), target + amount)?;
                }
            }
            Invariant::Bank => {}
            Invariant::Counters => {
                let mut keys = vec![account(0, number)];
                keys.extend((number != other).then(|| account(0, other)));
                for key in &keys {
                    let count = get(transaction, *key)?;
                    thread::yield_now();
                    put(transaction, *key, count + 1)?;
                }
                return Ok(keys);
            }
            Invariant::OnCall => {
                let (mine, partner) = (account(0, number), account(0, number ^ 1));
                let (own, others) = if self.random.chance(1, 2) {
                    (get(transaction, mine)?, get(transaction, partner)?)
                } else {
                    let all = scan(transaction, 0, self.random.chance(1, 2))?;
                    let of =
                        |key: Key| all.iter().find(|(n, _)| *n == key.number).map_or(0, |e| e.1);
                    (of(mine), of(partner))
                };
                thread::yield_now();
                if own > 0 && others > 0 {
                    transaction.delete(mine)?;
                } else if own == 0 {
                    put(transaction, mine, 1)?;
                }
            }
            Invariant::BoundedRange => {
                let entries = scan(transaction, 0, self.random.chance(1, 2))?;
                thread::yield_now();
                let there = entries.iter().any(|(n, _)| u64::from(*n) == number);
                if there && self.random.chance(1, 3) {
                    transaction.delete(account(0, number))?;
                } else if !there && entries.len() < MOST_ENTRIES {
                    put(transaction, account(0, number), 1)?;
                }
            }
        }
        Ok(Vec::new())
    }
}
