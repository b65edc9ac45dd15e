//! The searches that both the model and the engine have to pass.
//!
//! Each takes a store and a volume, prints how much it did, and gives the first finding with what
//! is needed to see it again.

use std::collections::BTreeSet;

use tidesdb_sim::rng::SplitMix64;

use super::checker::{Phenomenon, Report, check, check_lists};
use super::history::History;
use super::interleave::{
    Order, Run, difference, first_order, next_order, random_order, run, was_needed,
};
use super::model::Model;
use super::program::{Program, TRANSACTIONS};
use super::store::{Level, TransactionalStore};
use super::threads::{self, Tally, Workload};
use crate::Verdict;

/// Levels of the three transactions of a run.
pub type Levels = [Level; TRANSACTIONS];

/// The judge of a run.
type Judge = fn(&super::history::History) -> Report;

/// What interleavings found out besides findings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    /// Runs.
    pub runs: u64,
    /// Transactions that were refused.
    pub refused: u64,
    /// Transactions that were refused without need.
    pub needless: u64,
    /// All transactions.
    pub transactions: u64,
}

/// Interleaves programs on a store.
#[derive(Debug)]
pub struct Interleaver<'a, S> {
    store: &'a S,
    /// The reference, when results are to be compared.
    model: Option<Model>,
    /// What was counted so far.
    pub count: Count,
}

impl<'a, S: TransactionalStore> Interleaver<'a, S> {
    /// An interleaver for a store, whose results are also compared with the model's.
    pub fn new(store: &'a S, compare: bool) -> Self {
        let model = compare.then(|| Model::new(None));
        Self { store, model, count: Count::default() }
    }

    /// One run, judged.
    ///
    /// # Errors
    /// A finding.
    pub fn run(
        &mut self,
        program: &Program,
        order: &Order,
        levels: Levels,
        judge: Judge,
    ) -> Verdict<Run> {
        self.count.runs += 1;
        let number = self.count.runs;
        let found = run(self.store, program, order, levels, number);
        let result = found.and_then(|run| {
            judge(&run.history).verdict()?;
            self.compare(program, order, levels, &run)?;
            Ok(run)
        });
        let run = result.map_err(|e| {
            format!(
                "{}: {:#?}\norder {order:?}, levels {levels:?}\n{e}",
                program.name, program.text
            )
        })?;
        self.count.refused += run.refused as u64;
        self.count.transactions += TRANSACTIONS as u64;
        Ok(run)
    }

    /// What is read and who is refused is determined, except who is refused when serializable.
    fn compare(&mut self, program: &Program, order: &Order, levels: Levels, run: &Run) -> Verdict {
        let Some(model) = &self.model else { return Ok(()) };
        if levels.contains(&Level::Serializable) {
            let refused = |at: usize| {
                run.members[at].is_some_and(|at| !run.history.transactions[at].is_committed())
            };
            let serializable = |at: &usize| levels[*at] == Level::Serializable;
            if run.refused > 0 {
                let needless = (0..TRANSACTIONS).filter(serializable).filter(|at| {
                    refused(*at) && !rolls_back(program, *at) && !was_needed(run, *at)
                });
                self.count.needless += needless.count() as u64;
            }
            return Ok(());
        }
        let expected = super::interleave::run(model, program, order, levels, self.count.runs)?;
        difference(run, &expected).map_or(Ok(()), Err)
    }

    /// All orders of a program with the same levels.
    ///
    /// # Errors
    /// The first finding.
    pub fn all_orders(&mut self, program: &Program, levels: Levels, judge: Judge) -> Verdict {
        let mut order = Some(first_order());
        while let Some(now) = order {
            self.run(program, &now, levels, judge)?;
            order = next_order(&now);
        }
        Ok(())
    }

    /// Some orders of a program at each level, and with levels mixed.
    ///
    /// # Errors
    /// The first finding.
    pub fn some_orders(
        &mut self,
        program: &Program,
        count: u64,
        random: &mut SplitMix64,
        judge: Judge,
    ) -> Verdict {
        for _ in 0..count {
            let order = random_order(random);
            for level in Level::ALL {
                self.run(program, &order, [level; TRANSACTIONS], judge)?;
            }
            let mixed = mixed_levels(random);
            self.run(program, &random_order(random), mixed, judge)?;
        }
        Ok(())
    }

    /// The phenomena that happen when a program runs at a level, allowed there or not.
    ///
    /// # Errors
    /// A finding.
    pub fn phenomena(
        &mut self,
        program: &Program,
        level: Level,
        (orders, random): (u64, &mut SplitMix64),
    ) -> Verdict<BTreeSet<Phenomenon>> {
        let mut seen = BTreeSet::new();
        for _ in 0..orders {
            let run = self.run(program, &random_order(random), [level; TRANSACTIONS], check)?;
            // Under serializable rules everything that is not as if in sequence is a finding.
            let strict = check(&run.history.judged_as(Level::Serializable));
            seen.extend(strict.findings.iter().map(|finding| finding.phenomenon));
        }
        Ok(seen)
    }
}

fn rolls_back(program: &Program, member: usize) -> bool {
    program.text[member].ends_with("rollback")
}

/// Random levels for the three transactions.
pub fn mixed_levels(random: &mut SplitMix64) -> Levels {
    std::array::from_fn(|_| Level::ALL[random.index(Level::ALL.len())])
}

/// Runs threads and judges their history; what they did.
///
/// # Errors
/// A finding, with the seed.
pub fn threads<S: TransactionalStore>(store: &S, workload: &Workload) -> Verdict<Tally> {
    judge(threads::run(store, workload), workload)
}

/// As [`threads`], with one thread running at a time, in turns that the seed decides.
///
/// # Errors
/// A finding, with the seed and the last turns.
pub fn threads_in_turns<S: TransactionalStore>(store: &S, workload: &Workload) -> Verdict<Tally> {
    judge(threads::run_in_turns(store, workload), workload)
}

fn judge(result: Verdict<(History, Tally)>, workload: &Workload) -> Verdict<Tally> {
    let judge = if workload.lists { check_lists } else { check };
    let judged = result.and_then(|(history, tally)| {
        judge(&history).verdict()?;
        // Lists are judged by both orders: their own, and that of commit numbers.
        check(&history).verdict()?;
        Ok(tally)
    });
    judged.map_err(|e| format!("{workload:?}\n{e}"))
}
