//! Runs a program in one thread, in a given order of its steps.
//!
//! Transactions are handles, so one thread can have three of them open. A run sets the keys up,
//! takes the steps in order, runs what was refused once more when nothing disturbs it, and reads
//! everything at the end; all of it is in the history. A commit that is refused is tried again at
//! once, and then rolled back or abandoned.

use tidesdb_sim::rng::{SplitMix64, mix64};

use super::history::{History, Operation, Outcome};
use super::program::{Action, Program, STEPS, TRANSACTIONS};
use super::recorder::{Recorded, Recorder};
use super::store::{CommitAnswer, Key, KeyRange, Level, ScanRequest, TransactionalStore};
use crate::Verdict;

/// Which transaction takes each step of a run.
pub type Order = [u8; TRANSACTIONS * STEPS];

/// The first of all orders: one transaction after the other.
#[must_use]
pub fn first_order() -> Order {
    std::array::from_fn(|at| (at / STEPS) as u8)
}

/// The next order, in lexicographic sequence; none after the last of the 34,650.
#[must_use]
pub fn next_order(order: &Order) -> Option<Order> {
    let mut next = *order;
    let pivot = (1..next.len()).rev().find(|at| next[at - 1] < next[*at])? - 1;
    let with = (pivot + 1..next.len()).rev().find(|at| next[*at] > next[pivot])?;
    next.swap(pivot, with);
    next[pivot + 1..].reverse();
    Some(next)
}

/// A random order.
pub fn random_order(random: &mut SplitMix64) -> Order {
    let mut order = first_order();
    for at in (1..order.len()).rev() {
        order.swap(at, random.index(at + 1));
    }
    order
}

/// What a run left.
#[derive(Debug)]
pub struct Run {
    /// The history: setting up, the three transactions, second tries, the final reads.
    pub history: History,
    /// How many of the three were refused.
    pub refused: usize,
    /// Where the three stand in the history; a transaction that did nothing is not there.
    pub members: [Option<usize>; TRANSACTIONS],
}

/// Choice of [`TransactionalStore::disturb`] that moves everything to tables.
const FLUSH: u64 = 4;

/// Session number of setting up and of the final reads.
const KEEPER: u32 = 9;

/// Runs `program` on a store. Version numbers begin behind `number` times a thousand.
///
/// # Errors
/// Whatever the store says; a second try that is refused although nothing else runs.
pub fn run<S: TransactionalStore>(
    store: &S,
    program: &Program,
    order: &Order,
    levels: [Level; TRANSACTIONS],
    number: u64,
) -> Verdict<Run> {
    let recorder = Recorder::behind(number * 1_000);
    let mut history = History::default();
    set_up(store, program, &recorder, &mut history)?;
    let mut actors: [Option<Actor<'_, S>>; TRANSACTIONS] = std::array::from_fn(|_| None);
    // In one of so many runs memory goes to tables in the middle.
    let flush_at = mix64(number) % (12 * order.len() as u64);
    for (at, member) in order.iter().map(|member| usize::from(*member)).enumerate() {
        if at as u64 == flush_at {
            store.disturb(number & !63 | FLUSH)?;
        }
        let step = order[..at].iter().filter(|other| usize::from(**other) == member).count();
        if step == 0 {
            let transaction = recorder.begin(store, levels[member], member as u32)?;
            actors[member] = Some(Actor { transaction, state: State::Open });
        }
        if let Some(actor) = &mut actors[member] {
            for action in &program.transactions[member][step] {
                actor.take(action)?;
            }
        }
    }
    let mut refused = 0;
    let mut members = [None; TRANSACTIONS];
    for (member, actor) in actors.into_iter().enumerate() {
        let Some(mut actor) = actor else { continue };
        members[member] = Some(history.transactions.len());
        if actor.state == State::Refused {
            refused += 1;
            // Every other one is abandoned as it stands.
            if order[0].is_multiple_of(2) {
                actor.transaction.rollback()?;
                history.transactions.push(actor.transaction.reset(levels[member])?);
                again(&mut actor, &program.transactions[member])?;
            }
        }
        history.transactions.push(actor.transaction.finish());
    }
    read_all(store, program, &recorder, &mut history)?;
    Ok(Run { history, refused, members })
}

/// Runs a refused transaction once more while nothing else runs.
fn again<S: TransactionalStore>(actor: &mut Actor<'_, S>, steps: &[Vec<Action>; STEPS]) -> Verdict {
    actor.state = State::Open;
    steps.iter().flatten().try_for_each(|action| actor.take(action))?;
    if actor.state == State::Refused {
        return Err("a transaction with which nothing else was concurrent was refused".to_owned());
    }
    Ok(())
}

fn set_up<S: TransactionalStore>(
    store: &S,
    program: &Program,
    recorder: &Recorder,
    history: &mut History,
) -> Verdict {
    let mut transaction = recorder.begin(store, Level::ReadCommitted, KEEPER)?;
    for key in &program.keys {
        if program.present.contains(key) {
            transaction.put(*key)?;
        } else {
            transaction.delete(*key)?;
        }
    }
    transaction.commit()?;
    history.transactions.push(transaction.finish());
    Ok(())
}

fn read_all<S: TransactionalStore>(
    store: &S,
    program: &Program,
    recorder: &Recorder,
    history: &mut History,
) -> Verdict {
    let mut transaction = recorder.begin(store, Level::ReadCommitted, KEEPER)?;
    for key in &program.keys {
        transaction.get(*key)?;
    }
    // Keys in between were not set up, and may hold what another program has left.
    let follows = |a: &Key, b: &Key| a.family == b.family && a.number + 1 == b.number;
    for keys in program.keys.chunk_by(follows) {
        let (first, last) = (keys[0], keys[keys.len() - 1]);
        let range = KeyRange { family: first.family, from: first.number, to: last.number + 1 };
        transaction.scan(ScanRequest { range, forward: true, most: usize::MAX })?;
    }
    transaction.commit()?;
    history.transactions.push(transaction.finish());
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Over,
    Refused,
}

struct Actor<'a, S: TransactionalStore> {
    transaction: Recorded<'a, S::Transaction>,
    state: State,
}

impl<S: TransactionalStore> Actor<'_, S> {
    fn take(&mut self, action: &Action) -> Verdict {
        if self.state != State::Open {
            return Ok(());
        }
        let transaction = &mut self.transaction;
        match action {
            Action::Begin => Ok(()),
            Action::Get(key) => transaction.get(*key).map(drop),
            Action::GetBoth(keys) => transaction.get_several(keys),
            Action::Peek(key) => transaction.get_untracked(*key).map(drop),
            Action::Scan(request) => transaction.scan(*request).map(drop),
            Action::Put(key) => transaction.put(*key),
            Action::Delete(key) => transaction.delete(*key),
            Action::Append(key) => transaction.append(*key),
            Action::Savepoint(name) => transaction.savepoint(*name),
            Action::RollbackTo(name) => transaction.rollback_to(*name),
            Action::Rollback => {
                self.state = State::Over;
                transaction.rollback()
            }
            Action::Commit => {
                let mut answer = transaction.commit()?;
                if answer == CommitAnswer::Conflict {
                    answer = transaction.commit()?;
                }
                let refused = answer == CommitAnswer::Conflict;
                self.state = if refused { State::Refused } else { State::Over };
                Ok(())
            }
        }
    }
}

/// Whether refusing a transaction was needed: what had committed before, with it, would have had
/// no order.
#[must_use]
pub fn was_needed(run: &Run, member: usize) -> bool {
    let Some(at) = run.members[member] else { return true };
    let transactions = &run.history.transactions;
    let refused = &transactions[at];
    let before = transactions.iter().filter(|t| t.is_committed() && t.end.end < refused.end.start);
    let mut supposed = History { transactions: before.cloned().collect() };
    let mut committed = refused.clone();
    committed.outcome = Outcome::Committed(Some(u64::MAX / 2));
    supposed.transactions.push(committed);
    !super::checker::check(&supposed).findings.is_empty()
}

/// The first difference between two runs of one program in one order, whose version numbers began
/// equal: every read and every outcome must be the same.
#[must_use]
pub fn difference(a: &Run, b: &Run) -> Option<String> {
    for (one, other) in a.history.transactions.iter().zip(&b.history.transactions) {
        let same_end = one.is_committed() == other.is_committed();
        let mut pairs = one.operations.iter().zip(&other.operations);
        let same_reads = pairs.all(|(one, other)| match (one, other) {
            (Operation::Read { seen, .. }, Operation::Read { seen: expected, .. }) => {
                seen == expected
            }
            (Operation::Scan { found, .. }, Operation::Scan { found: expected, .. }) => {
                found == expected
            }
            _ => true,
        });
        if !same_end || !same_reads {
            let (one, other) = (super::history::describe(one), super::history::describe(other));
            return Some(format!("{one}\n  where the model says\n  {other}"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_34_650_orders() {
        let mut order = first_order();
        let mut count = 1;
        while let Some(next) = next_order(&order) {
            assert!(next > order);
            order = next;
            count += 1;
        }
        assert_eq!(count, 34_650);
    }
}
