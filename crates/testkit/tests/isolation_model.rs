//! The checker of isolation is tried on a model: it finds nothing when the model is right, finds
//! every mistake that the model can be set to make, and sees each anomaly that a level allows.
//!
//! `TIDESDB_TEST_SCALE` multiplies the number of runs.

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

use std::collections::BTreeSet;

use tidesdb_sim::rng::SplitMix64;
use tidesdb_testkit::Verdict;
use tidesdb_testkit::isolation::checker::{Phenomenon, check, check_lists};
use tidesdb_testkit::isolation::evidence::{Interleaver, threads};
use tidesdb_testkit::isolation::invariants::{Invariant, Trial, try_out};
use tidesdb_testkit::isolation::model::{Mistake, Model};
use tidesdb_testkit::isolation::program::{generated, lists, named};
use tidesdb_testkit::isolation::store::Level;
use tidesdb_testkit::isolation::threads::Workload;
use tidesdb_testkit::seeds::{from_environment, scale};

fn random(test: &str) -> SplitMix64 {
    let seed = from_environment(1);
    println!("{test}: TIDESDB_SEED={seed}, scale {}", scale());
    SplitMix64::new(seed)
}

/// Runs in which something that depends on the machine's schedule has to happen once.
const CHANCES: usize = 20;

fn workload(level: Option<Level>, seed: u64) -> Workload {
    let transactions = 150 * scale();
    Workload { sessions: 8, transactions, keys: 20, level, lists: false, seed }
}

#[test]
fn a_right_model_has_no_findings() {
    let mut random = random("a_right_model_has_no_findings");
    let model = Model::new(None);
    let mut interleaver = Interleaver::new(&model, true);
    for program in named().unwrap() {
        interleaver.some_orders(&program, 40 * scale(), &mut random, check).unwrap();
    }
    for _ in 0..50 * scale() {
        let program = generated(&mut random).unwrap();
        interleaver.some_orders(&program, 5, &mut random, check).unwrap();
    }
    println!("{:?}", interleaver.count);
}

#[test]
fn a_right_model_has_no_findings_in_lists() {
    let mut random = random("a_right_model_has_no_findings_in_lists");
    let model = Model::new(None);
    let mut interleaver = Interleaver::new(&model, false);
    for program in lists().unwrap() {
        for _ in 0..60 * scale() {
            let order = tidesdb_testkit::isolation::interleave::random_order(&mut random);
            for level in [Level::RepeatableRead, Level::Snapshot, Level::Serializable] {
                interleaver.run(&program, &order, [level; 3], check_lists).unwrap();
                interleaver.run(&program, &order, [level; 3], check).unwrap();
            }
        }
    }
}

#[test]
fn a_right_model_has_no_findings_under_threads() {
    let mut random = random("a_right_model_has_no_findings_under_threads");
    for level in Level::ALL.map(Some).into_iter().chain([None]) {
        let model = Model::new(None);
        let tally = threads(&model, &workload(level, random.next_u64())).unwrap();
        println!("{level:?}: {tally:?}");
        assert!(tally.committed > 100);
    }
    let lists = Workload { lists: true, ..workload(Some(Level::Serializable), random.next_u64()) };
    threads(&Model::new(None), &lists).unwrap();
}

/// The first finding in interleavings of a store that makes a mistake.
fn first_finding(mistake: Mistake, random: &mut SplitMix64) -> Verdict {
    let model = Model::new(Some(mistake));
    let mut interleaver = Interleaver::new(&model, false);
    for program in named()? {
        interleaver.some_orders(&program, 60, random, check)?;
    }
    Ok(())
}

#[test]
fn every_mistake_of_a_model_is_found() {
    let mut random = random("every_mistake_of_a_model_is_found");
    for mistake in Mistake::ALL {
        match first_finding(mistake, &mut random) {
            Ok(()) => panic!("{mistake:?} was not found"),
            Err(e) => println!("--- {mistake:?}\n{e}"),
        }
    }
}

#[test]
fn mistakes_of_a_model_are_found_under_threads() {
    let mut random = random("mistakes_of_a_model_are_found_under_threads");
    // Which transactions meet is up to the machine, so a mistake gets several chances; some need
    // serializable transactions only.
    let levels = [None, Some(Level::Serializable)].repeat(CHANCES);
    for mistake in Mistake::ALL {
        let found = levels.iter().any(|level| {
            threads(&Model::new(Some(mistake)), &workload(*level, random.next_u64())).is_err()
        });
        assert!(found, "{mistake:?} was not found");
    }
}

#[test]
fn lists_find_a_store_that_lies_about_its_order() {
    let mut random = random("lists_find_a_store_that_lies_about_its_order");
    let model = Model::new(Some(Mistake::NumbersSwapped));
    let level = Some(Level::Serializable);
    let work = Workload { lists: true, ..workload(level, random.next_u64()) };
    let (history, _) = tidesdb_testkit::isolation::threads::run(&model, &work).unwrap();
    assert!(check_lists(&history).has(Phenomenon::CommitOrder));
}

/// What happens in the named programs at a level, over so many orders each.
fn phenomena(level: Level, random: &mut SplitMix64) -> BTreeSet<Phenomenon> {
    let model = Model::new(None);
    let mut interleaver = Interleaver::new(&model, false);
    let mut seen = BTreeSet::new();
    for program in named().unwrap() {
        seen.extend(interleaver.phenomena(&program, level, (150, random)).unwrap());
    }
    seen
}

#[test]
fn what_a_level_allows_is_seen_and_nothing_else() {
    let mut random = random("what_a_level_allows_is_seen_and_nothing_else");
    let of = |level, random: &mut SplitMix64| phenomena(level, random);
    let committed = of(Level::ReadCommitted, &mut random);
    for wanted in [Phenomenon::LostUpdate, Phenomenon::ReadSkew] {
        assert!(committed.contains(&wanted), "{wanted:?} at read committed, not in {committed:?}");
    }
    let repeatable = of(Level::RepeatableRead, &mut random);
    assert!(repeatable.contains(&Phenomenon::LostUpdate), "of blind writes");
    assert!(repeatable.contains(&Phenomenon::Phantom));
    let snapshot = of(Level::Snapshot, &mut random);
    let allowed = BTreeSet::from([Phenomenon::WriteSkew, Phenomenon::Phantom]);
    assert_eq!(snapshot, allowed);
    assert_eq!(of(Level::Serializable, &mut random), BTreeSet::new());
}

/// Whether an application breaks on a model, which it gets several chances to do.
fn broken(mistake: Option<Mistake>, invariant: Invariant, level: Level) -> bool {
    let seed = from_environment(1);
    (seed..seed + CHANCES as u64).any(|seed| {
        let trial = Trial { invariant, level, sessions: 8, transactions: 300 * scale(), seed };
        try_out(&Model::new(mistake), &trial).is_err()
    })
}

/// Whether it keeps its word.
fn holds(invariant: Invariant, level: Level) -> bool {
    let seed = from_environment(1);
    let trial = Trial { invariant, level, sessions: 8, transactions: 300 * scale(), seed };
    try_out(&Model::new(None), &trial).is_ok()
}

#[test]
fn invariants_hold_on_a_right_model_and_break_on_wrong_ones() {
    use Invariant::{Bank, BoundedRange, Counters, OnCall};
    for level in [Level::RepeatableRead, Level::Snapshot, Level::Serializable] {
        assert!(holds(Bank, level) && holds(Counters, level), "{level:?}");
    }
    for invariant in [OnCall, BoundedRange] {
        assert!(holds(invariant, Level::Serializable), "{invariant:?}");
        assert!(broken(None, invariant, Level::Snapshot), "{invariant:?}");
        assert!(broken(Some(Mistake::WriteSkew), invariant, Level::Serializable), "{invariant:?}");
    }
    assert!(broken(None, Counters, Level::ReadCommitted));
    assert!(broken(Some(Mistake::LostUpdate), Counters, Level::Snapshot));
    assert!(broken(Some(Mistake::RepeatableReadUnchecked), Bank, Level::RepeatableRead));
    assert!(broken(Some(Mistake::Fractured), Bank, Level::Snapshot));
}
