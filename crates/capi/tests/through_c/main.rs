//! Random operations and isolation histories through the C interface, against the oracle and the
//! judge of the test kit: the same evidence as for the Rust interface.

#![expect(unsafe_code, reason = "calls C functions")]
#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]
#![allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one contract, that of a function of the interface, covers all of its raw arguments"
)]
#![allow(unreachable_pub, reason = "modules of one test")]

mod costs;
mod handles;
mod store;
#[path = "../../src/types.rs"]
#[allow(dead_code, reason = "of the structures only some are used here")]
mod types;
mod workload;

// The functions are found by name.
use tidesdb_c as _;

use store::CStore;
use tidesdb_sim::rng::SplitMix64;
use tidesdb_testkit::isolation::checker::{check, check_lists};
use tidesdb_testkit::isolation::evidence::{Interleaver, threads};
use tidesdb_testkit::isolation::interleave::random_order;
use tidesdb_testkit::isolation::invariants::{Invariant, Trial, try_out};
use tidesdb_testkit::isolation::program::{lists, named};
use tidesdb_testkit::isolation::store::{Level, TransactionalStore};
use tidesdb_testkit::isolation::threads::Workload;
use tidesdb_testkit::seeds::{from_environment, run_all, scale};
use workload::Run;

fn random(test: &str) -> SplitMix64 {
    let seed = from_environment(1);
    println!("{test}: TIDESDB_SEED={seed}, scale {}", scale());
    SplitMix64::new(seed)
}

#[test]
fn random_operations_agree_with_the_oracle() {
    let mut runs = 0;
    run_all("random_operations_agree_with_the_oracle", |seed| {
        let directory = tempfile::tempdir().unwrap();
        Run::start(&directory.path().join("db"), seed, None)?.run(400)?;
        runs += 1;
        Ok(runs >= 12 * scale())
    })
    .unwrap();
}

#[test]
fn a_write_that_is_left_out_is_noticed() {
    let mut random = random("a_write_that_is_left_out_is_noticed");
    let noticed = (0..5).filter(|_| {
        let directory = tempfile::tempdir().unwrap();
        let run = Run::start(&directory.path().join("db"), random.next_u64(), Some(20));
        let verdict = run.and_then(|mut run| run.run(400));
        verdict.is_err_and(|e| e.contains("differs from") || e.contains("changed"))
    });
    assert_eq!(noticed.count(), 5);
}

/// A store on a directory whose memtables last for a few dozen runs; families have one each, or
/// share one.
fn store(directory: &tempfile::TempDir, too_weak: bool, shared: bool) -> CStore {
    let config = types::FamilyConfig {
        write_buffer_size: 8 << 10,
        min_disk_space: 0,
        ..handles::default_family()
    };
    CStore::new(directory.path(), &config, too_weak, shared).unwrap()
}

#[test]
fn named_programs_in_any_order() {
    let mut random = random("named_programs_in_any_order");
    for shared in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let store = store(&directory, false, shared);
        let mut interleaver = Interleaver::new(&store, false);
        for program in named().unwrap() {
            for _ in 0..4 * scale() {
                interleaver.some_orders(&program, 2, &mut random, check).unwrap();
                store.disturb(random.next_u64()).unwrap();
            }
        }
        for program in lists().unwrap() {
            for _ in 0..10 * scale() {
                let order = random_order(&mut random);
                for level in [Level::RepeatableRead, Level::Snapshot, Level::Serializable] {
                    interleaver.run(&program, &order, [level; 3], check_lists).unwrap();
                }
            }
        }
        println!("shared {shared}: {:?}", interleaver.count);
    }
}

#[test]
fn threads_at_every_level() {
    let mut random = random("threads_at_every_level");
    let first = random.chance(1, 2);
    for (at, level) in Level::ALL.map(Some).into_iter().chain([None]).enumerate() {
        let (directory, shared) = (tempfile::tempdir().unwrap(), first == at.is_multiple_of(2));
        let store = store(&directory, false, shared);
        let (transactions, seed) = (120 * scale().min(20), random.next_u64());
        let lists = level.is_some_and(|level| level >= Level::Snapshot);
        for lists in [false, lists] {
            let workload = Workload { sessions: 8, transactions, keys: 20, level, lists, seed };
            let tally = threads(&store, &workload).unwrap();
            println!("{level:?}, lists {lists}, shared {shared}: {tally:?}");
            assert!(tally.committed > 50, "{tally:?}");
        }
    }
}

#[test]
fn sums_and_counters_hold() {
    let mut random = random("sums_and_counters_hold");
    for invariant in [Invariant::Bank, Invariant::Counters] {
        for level in [Level::RepeatableRead, Level::Snapshot, Level::Serializable] {
            let directory = tempfile::tempdir().unwrap();
            let store = store(&directory, false, random.chance(1, 2));
            let (transactions, seed) = (150 * scale(), random.next_u64());
            let trial = Trial { invariant, level, sessions: 8, transactions, seed };
            assert!(try_out(&store, &trial).unwrap() > 50);
        }
    }
}

#[test]
fn levels_that_are_too_weak_are_noticed() {
    let mut random = random("levels_that_are_too_weak_are_noticed");
    let directory = tempfile::tempdir().unwrap();
    let store = store(&directory, true, random.chance(1, 2));
    for level in [Level::RepeatableRead, Level::Snapshot, Level::Serializable] {
        let mut interleaver = Interleaver::new(&store, false);
        let noticed = named().unwrap().iter().any(|program| {
            (0..100).any(|_| {
                let order = random_order(&mut random);
                interleaver.run(program, &order, [level; 3], check).is_err()
            })
        });
        assert!(noticed, "{level:?} judged as such, and run a level below");
    }
}

/// `cargo test --release -p tidesdb-c --test through_c -- --ignored --nocapture`, on a machine that
/// does nothing else.
#[test]
#[ignore = "measures"]
fn the_way_through_c_costs_little() {
    let directory = tempfile::tempdir().unwrap();
    let ratios = costs::ratios(directory.path()).unwrap();
    for (what, ratio) in &ratios {
        println!("{what}: {ratio:.3} of the time through Rust");
    }
    assert!(ratios.iter().all(|(_, ratio)| *ratio < 1.1), "{ratios:?}");
}
