//! The isolation levels of the engine, judged by the checker of dependencies.
//!
//! The sampled tier runs with `cargo test`; the full one, with all 34,650 orders of every named
//! program, is asked for with `TIDESDB_ISOLATION=full` (see `docs/testing/isolation.md`).
//! `TIDESDB_TEST_SCALE` multiplies the number of random runs and of threaded transactions.

#![expect(clippy::unwrap_used, reason = "test helpers fail by panicking")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::common_support::small::{small_db, small_family};
use tidesdb::{Components, Db, FamilyOptions};
use tidesdb_sim::rng::SplitMix64;
use tidesdb_sim::{ManualClock, SimVfs};
use tidesdb_testkit::isolation::checker::{Phenomenon, check, check_lists};
use tidesdb_testkit::isolation::engine_store::EngineStore;
use tidesdb_testkit::isolation::evidence::{Interleaver, mixed_levels, threads};
use tidesdb_testkit::isolation::history::History;
use tidesdb_testkit::isolation::interleave::random_order;
use tidesdb_testkit::isolation::invariants::{Invariant, Trial, try_out};
use tidesdb_testkit::isolation::program::{generated, lists, named};
use tidesdb_testkit::isolation::recorder::Recorder;
use tidesdb_testkit::isolation::store::{
    CommitAnswer, Key, KeyRange, Level, ScanRequest, TransactionalStore,
};
use tidesdb_testkit::isolation::threads::Workload;
use tidesdb_testkit::seeds::{from_environment, scale};
use tidesdb_testkit::watch::WatchedScheduler;

fn random(test: &str) -> SplitMix64 {
    let seed = from_environment(1);
    println!("{test}: TIDESDB_SEED={seed}, scale {}, full tier {}", scale(), full());
    SplitMix64::new(seed)
}

fn full() -> bool {
    std::env::var("TIDESDB_ISOLATION").is_ok_and(|tier| tier == "full")
}

/// Memtables that last for a few dozen runs.
fn busy_family() -> FamilyOptions {
    small_family().write_buffer_size(8 << 10)
}

/// A database on a simulated disk, whose background jobs run when the test says so.
fn stepped(seed: u64) -> EngineStore {
    let scheduler = WatchedScheduler::new(seed);
    let components = Components {
        vfs: SimVfs::new(seed),
        scheduler: Arc::clone(&scheduler) as _,
        clock: Arc::new(ManualClock::new(1_700_000_000)),
    };
    let db = Db::open_with("/db", small_db(), components).unwrap();
    EngineStore::new(db, &[busy_family(), busy_family()], Some(scheduler), seed).unwrap()
}

/// A database with threads of its own.
fn threaded(path: &Path, seed: u64) -> EngineStore {
    let db = Db::open(path, small_db()).unwrap();
    EngineStore::new(db, &[busy_family(), busy_family()], None, seed).unwrap()
}

#[test]
fn named_programs_in_any_order() {
    let mut random = random("named_programs_in_any_order");
    let store = stepped(random.next_u64());
    let mut interleaver = Interleaver::new(&store, true);
    for program in named().unwrap() {
        for _ in 0..20 * scale() {
            interleaver.some_orders(&program, 2, &mut random, check).unwrap();
            store.disturb(random.next_u64()).unwrap();
        }
    }
    println!("{:?}", interleaver.count);
}

#[test]
fn generated_programs_in_any_order() {
    let mut random = random("generated_programs_in_any_order");
    let store = stepped(random.next_u64());
    let mut interleaver = Interleaver::new(&store, true);
    for _ in 0..200 * scale() {
        let program = generated(&mut random).unwrap();
        interleaver.some_orders(&program, 3, &mut random, check).unwrap();
        store.disturb(random.next_u64()).unwrap();
    }
    println!("{:?}", interleaver.count);
}

#[test]
fn lists_in_any_order() {
    let mut random = random("lists_in_any_order");
    let store = stepped(random.next_u64());
    let mut interleaver = Interleaver::new(&store, false);
    for program in lists().unwrap() {
        for _ in 0..60 * scale() {
            let order = random_order(&mut random);
            for level in [Level::RepeatableRead, Level::Snapshot, Level::Serializable] {
                interleaver.run(&program, &order, [level; 3], check_lists).unwrap();
            }
            store.disturb(random.next_u64()).unwrap();
        }
    }
    println!("{:?}", interleaver.count);
}

/// All 34,650 orders of every program at one mix of levels each, and of the named ones at each
/// level.
#[test]
fn all_orders_of_all_programs() {
    if !full() {
        println!("only in the full tier");
        return;
    }
    let mut random = random("all_orders_of_all_programs");
    let store = stepped(random.next_u64());
    let mut interleaver = Interleaver::new(&store, true);
    for program in named().unwrap() {
        for level in [Level::ReadCommitted, Level::RepeatableRead, Level::Snapshot] {
            interleaver.all_orders(&program, [level; 3], check).unwrap();
        }
        interleaver.all_orders(&program, [Level::Serializable; 3], check).unwrap();
        interleaver.all_orders(&program, mixed_levels(&mut random), check).unwrap();
        store.disturb(0).unwrap();
        println!("{}: {:?}", program.name, interleaver.count);
    }
    for _ in 0..80 * scale() {
        let program = generated(&mut random).unwrap();
        interleaver.all_orders(&program, mixed_levels(&mut random), check).unwrap();
        store.disturb(random.next_u64()).unwrap();
    }
    println!("{:?}", interleaver.count);
}

/// While one transaction steps through scans, others commit between the steps, and memory goes to
/// tables.
#[test]
fn scans_with_commits_between_their_steps() {
    let mut random = random("scans_with_commits_between_their_steps");
    let store = stepped(random.next_u64());
    for round in 0..150 * scale() {
        let recorder = Recorder::behind(round * 10_000);
        let mut history = History::default();
        let everything: Vec<_> =
            (0..12).map(|n| (Key { family: 0, number: n }, n % 3 > 0)).collect();
        history.transactions.push(recorder.write_batch(&store, &everything, 1).unwrap());
        for level in Level::ALL {
            let mut reader = recorder.begin(&store, level, 0).unwrap();
            if random.chance(1, 2) {
                reader.put(Key { family: 0, number: random.below(12) as u16 }).unwrap();
            }
            for _ in 0..2 {
                let most = if random.chance(1, 3) { 3 } else { usize::MAX };
                let range = KeyRange { family: 0, from: 0, to: 12 };
                let request = ScanRequest { range, forward: random.chance(1, 2), most };
                let mut between = || disturb_a_scan(&store, &recorder, &mut random, &mut history);
                reader.scan_slowly(request, &mut between).unwrap();
            }
            if reader.commit().unwrap() == CommitAnswer::Conflict {
                reader.rollback().unwrap();
            }
            history.transactions.push(reader.finish());
        }
        check(&history).verdict().unwrap();
    }
}

/// One commit of another transaction, or work in the background.
fn disturb_a_scan(
    store: &EngineStore,
    recorder: &Recorder,
    random: &mut SplitMix64,
    history: &mut History,
) {
    if random.chance(1, 20) {
        store.disturb(random.next_u64() & !63 | 4).unwrap();
        return;
    }
    let mut other = recorder.begin(store, Level::Serializable, 1).unwrap();
    let key = |random: &mut SplitMix64| Key { family: 0, number: random.below(12) as u16 };
    other.get(key(random)).unwrap();
    if random.chance(1, 3) {
        other.delete(key(random)).unwrap();
    }
    other.put(key(random)).unwrap();
    other.commit().unwrap();
    history.transactions.push(other.finish());
}

fn phenomena(level: Level, random: &mut SplitMix64) -> BTreeSet<Phenomenon> {
    let store = stepped(random.next_u64());
    let mut interleaver = Interleaver::new(&store, false);
    let mut seen = BTreeSet::new();
    for program in named().unwrap() {
        seen.extend(interleaver.phenomena(&program, level, (100, random)).unwrap());
    }
    seen
}

#[test]
fn what_a_level_allows_is_reached_and_nothing_else() {
    let mut random = random("what_a_level_allows_is_reached_and_nothing_else");
    for level in [Level::ReadUncommitted, Level::ReadCommitted] {
        let seen = phenomena(level, &mut random);
        for wanted in [Phenomenon::LostUpdate, Phenomenon::ReadSkew] {
            assert!(seen.contains(&wanted), "{wanted:?} at {level:?}, not in {seen:?}");
        }
        for never in [Phenomenon::AbortedRead, Phenomenon::IntermediateRead] {
            assert!(!seen.contains(&never), "{never:?} at {level:?}");
        }
    }
    let seen = phenomena(Level::RepeatableRead, &mut random);
    assert!(seen.contains(&Phenomenon::LostUpdate), "the last blind write wins, not in {seen:?}");
    assert!(seen.contains(&Phenomenon::Phantom), "phantoms at repeatable read, not in {seen:?}");
    assert!(!seen.contains(&Phenomenon::ReadSkew), "{seen:?}");
    let allowed = BTreeSet::from([Phenomenon::WriteSkew, Phenomenon::Phantom]);
    assert_eq!(phenomena(Level::Snapshot, &mut random), allowed);
    assert_eq!(phenomena(Level::Serializable, &mut random), BTreeSet::new());
}

/// Refusals that nothing called for are counted, and few.
#[test]
fn few_serializable_transactions_are_refused_without_need() {
    let mut random = random("few_serializable_transactions_are_refused_without_need");
    let store = stepped(random.next_u64());
    let mut interleaver = Interleaver::new(&store, true);
    for program in named().unwrap() {
        for _ in 0..30 * scale() {
            let order = random_order(&mut random);
            interleaver.run(&program, &order, [Level::Serializable; 3], check).unwrap();
        }
    }
    let count = interleaver.count;
    println!("{count:?}");
    assert!(count.needless * 20 < count.transactions, "{count:?}");
}

fn workload(level: Option<Level>, seed: u64) -> Workload {
    let transactions = 250 * scale();
    Workload { sessions: 8, transactions, keys: 20, level, lists: false, seed }
}

fn threads_at(level: Option<Level>, lists: bool) {
    let mut random = random("threads");
    let directory = tempfile::tempdir().unwrap();
    let store = threaded(directory.path(), random.next_u64());
    // Several short histories: the checker takes longer than the engine, and a fresh one starts
    // over with few versions.
    for round in 0..scale().div_ceil(10) {
        let base = workload(level, random.next_u64());
        let transactions = base.transactions.min(2_500);
        // Now and then fewer keys, so that nearly everything conflicts, or more.
        let keys = [20, 4, 20, 60][round as usize % 4];
        let workload = Workload { lists, transactions, keys, ..base };
        let tally = threads(&store, &workload).unwrap();
        println!("{level:?}, lists {lists}: {tally:?}");
        assert!(tally.committed > 100, "{tally:?}");
    }
    let verdict = store.db().verify().unwrap();
    drop(verdict);
}

#[test]
fn threads_that_read_uncommitted() {
    threads_at(Some(Level::ReadUncommitted), false);
}

#[test]
fn threads_that_read_committed() {
    threads_at(Some(Level::ReadCommitted), false);
}

#[test]
fn threads_that_read_repeatably() {
    threads_at(Some(Level::RepeatableRead), false);
}

#[test]
fn threads_with_snapshots() {
    threads_at(Some(Level::Snapshot), false);
}

#[test]
fn serializable_threads() {
    threads_at(Some(Level::Serializable), false);
}

#[test]
fn threads_of_all_levels() {
    threads_at(None, false);
}

#[test]
fn lists_of_threads_with_snapshots() {
    threads_at(Some(Level::Snapshot), true);
}

#[test]
fn lists_of_serializable_threads() {
    threads_at(Some(Level::Serializable), true);
}

fn keeps(invariant: Invariant, level: Level) {
    let mut random = random("keeps");
    let directory = tempfile::tempdir().unwrap();
    let store = threaded(directory.path(), random.next_u64());
    let transactions = 300 * scale();
    let trial = Trial { invariant, level, sessions: 8, transactions, seed: random.next_u64() };
    let committed = try_out(&store, &trial).unwrap();
    println!("{invariant:?} at {level:?}: {committed} commits");
    assert!(committed > 50);
}

#[test]
fn a_bank_keeps_its_money_from_repeatable_read_on() {
    for level in [Level::RepeatableRead, Level::Snapshot, Level::Serializable] {
        keeps(Invariant::Bank, level);
    }
}

#[test]
fn counters_count_every_commit_from_repeatable_read_on() {
    for level in [Level::RepeatableRead, Level::Snapshot, Level::Serializable] {
        keeps(Invariant::Counters, level);
    }
}

#[test]
fn one_stays_on_call_when_serializable() {
    keeps(Invariant::OnCall, Level::Serializable);
}

#[test]
fn a_range_keeps_its_bound_when_serializable() {
    keeps(Invariant::BoundedRange, Level::Serializable);
}
