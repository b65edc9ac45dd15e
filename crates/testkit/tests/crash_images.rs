//! H3: crash images of random workloads on the simulated disk, in all three sync modes.

use std::sync::{Arc, Mutex};

use tidesdb::SyncMode;
use tidesdb_sim::rng::SplitMix64;
use tidesdb_testkit::Verdict;
use tidesdb_testkit::crash::{Camera, Counts, Judge, Odds};
use tidesdb_testkit::operations;
use tidesdb_testkit::oracle::History;
use tidesdb_testkit::runner::{Machine, Promises, Runner};
use tidesdb_testkit::seeds;
use tidesdb_testkit::settings::Settings;

/// Images per sync mode at scale 1. `scripts/planted-bugs` and nights take scale 16 and more:
/// 9,600 in the three modes together.
const IMAGES: u64 = 200;

/// Images of workloads in which garbage is collected slice by slice, at scale 1.
const SLICED_IMAGES: u64 = 80;

/// Images of workloads with commits of several MiB at scale 1.
const LARGE_IMAGES: u64 = 30;

/// One workload from an empty disk, crashed all along.
fn one_run(seed: u64, mode: SyncMode) -> Verdict<Counts> {
    let mut random = SplitMix64::new(seed);
    let settings = Settings::random(&mut random, mode);
    let context = format!("{settings:?}");
    let machine = Machine::new(random.next_u64(), settings);
    let promises = Arc::new(Mutex::new(Promises::default()));
    let odds = Odds { piece: 400, other: 4_000 };
    let camera = Camera::install(&machine.sim, &promises, random.next_u64(), odds);
    let mut judge = Judge::new(random.next_u64(), 50);
    let run = |judge: &mut Judge| -> Verdict {
        let seed = random.next_u64();
        let mut runner = Runner::start(machine, seed, History::default(), promises)?;
        judge.judge_all(&runner, &camera, 0)?;
        runner.create_all()?;
        runner.run(400, |runner| judge.judge_all(runner, &camera, 0))?;
        runner.check()
    };
    run(&mut judge).map_err(|e| format!("{e}\n{context}"))?;
    Ok(judge.counts)
}

fn judge_mode(name: &str, mode: SyncMode) {
    let mut all = Counts::default();
    let verdict = seeds::run_all(name, |seed| {
        let counts = one_run(seed, mode)?;
        all.images += counts.images;
        all.nested += counts.nested;
        all.second_generation += counts.second_generation;
        all.lossy += counts.lossy;
        Ok(all.images >= IMAGES * seeds::scale())
    });
    println!("{name}: {all:?}");
    let finding = verdict.err().unwrap_or_default();
    assert!(finding.is_empty(), "{finding}");
    assert!(all.nested > 0 && all.lossy > 0 || std::env::var("TIDESDB_RUN").is_ok(), "{all:?}");
}

#[test]
fn crashes_without_syncs() {
    judge_mode("crashes_without_syncs", SyncMode::None);
}

#[test]
fn crashes_with_interval_syncs() {
    judge_mode("crashes_with_interval_syncs", SyncMode::Interval { interval_us: 1000 });
}

#[test]
fn crashes_with_a_sync_per_commit() {
    judge_mode("crashes_with_a_sync_per_commit", SyncMode::Full);
}

/// Commits of several MiB over all families, between small ones, crashed all along: in the middle
/// of their records, and of flushes of what they filled.
fn one_large_run(seed: u64) -> Verdict<Counts> {
    let mut random = SplitMix64::new(seed);
    let modes = [SyncMode::None, SyncMode::Interval { interval_us: 1000 }, SyncMode::Full];
    let mode = modes[random.index(modes.len())];
    let settings = Settings { huge_values: false, ..Settings::random(&mut random, mode) };
    let context = format!("{settings:?}");
    let machine = Machine::new(random.next_u64(), settings);
    let promises = Arc::new(Mutex::new(Promises::default()));
    // Some fifty thousand pieces a record.
    let odds = Odds { piece: 6, other: 1_500 };
    let camera = Camera::install(&machine.sim, &promises, random.next_u64(), odds);
    let mut judge = Judge::new(random.next_u64(), 10);
    let run = |judge: &mut Judge| -> Verdict {
        let mut runner = Runner::start(machine, random.next_u64(), History::default(), promises)?;
        runner.create_all()?;
        for _ in 0..2 {
            runner.run(10, |runner| judge.judge_all(runner, &camera, 0))?;
            runner.create_all()?;
            let large = operations::large_batch(&mut random, &runner.machine.settings);
            runner.apply(&large).map_err(|e| format!("large commit: {e}"))?;
            judge.judge_all(&runner, &camera, 0)?;
        }
        runner.run(10, |runner| judge.judge_all(runner, &camera, 0))?;
        runner.check()
    };
    run(&mut judge).map_err(|e| format!("{e}\n{context}"))?;
    Ok(judge.counts)
}

/// Keys that are overwritten all along, in families with value logs and without, crashed at changes
/// of files above all. Returns the slices that were merged.
fn one_run_of_overwrites(seed: u64) -> Verdict<(Counts, u64)> {
    let mut random = SplitMix64::new(seed);
    let modes = [SyncMode::None, SyncMode::Interval { interval_us: 1000 }, SyncMode::Full];
    let mode = modes[random.index(modes.len())];
    let settings = Settings::overwriting(&mut random, mode);
    let context = format!("{settings:?}");
    let machine = Machine::new(random.next_u64(), settings);
    let (sim, promises) = (Arc::clone(&machine.sim), Arc::new(Mutex::new(Promises::default())));
    let mut judge = Judge::new(random.next_u64(), 25);
    let run = |judge: &mut Judge| -> Verdict<u64> {
        let (seed, shared) = (random.next_u64(), Arc::clone(&promises));
        let mut runner = Runner::start(machine, seed, History::default(), shared)?;
        runner.load()?;
        let odds = Odds { piece: 10, other: 900 };
        let camera = Camera::install(&sim, &promises, random.next_u64(), odds);
        runner.run(200, |runner| judge.judge_all(runner, &camera, 0))?;
        runner.check()?;
        Ok(runner.slices_merged())
    };
    let slices = run(&mut judge).map_err(|e| format!("{e}\n{context}"))?;
    Ok((judge.counts, slices))
}

#[test]
fn crashes_between_slices() {
    let name = "crashes_between_slices";
    let (mut all, mut slices, mut runs) = (Counts::default(), 0, 0);
    let verdict = seeds::run_all(name, |seed| {
        let (counts, merged) = one_run_of_overwrites(seed)?;
        all.images += counts.images;
        all.nested += counts.nested;
        all.lossy += counts.lossy;
        slices += merged;
        runs += 1;
        Ok(all.images >= SLICED_IMAGES * seeds::scale())
    });
    println!("{name}: {all:?}, {slices} slices");
    let finding = verdict.err().unwrap_or_default();
    assert!(finding.is_empty(), "{finding}");
    assert!(slices > 10 * runs, "{slices} slices in {runs} runs");
    assert!(all.nested > 0 && all.lossy > 0 || std::env::var("TIDESDB_RUN").is_ok(), "{all:?}");
}

#[test]
fn crashes_within_large_transactions() {
    let name = "crashes_within_large_transactions";
    let mut all = Counts::default();
    let verdict = seeds::run_all(name, |seed| {
        let counts = one_large_run(seed)?;
        all.images += counts.images;
        all.nested += counts.nested;
        all.lossy += counts.lossy;
        Ok(all.images >= LARGE_IMAGES * seeds::scale())
    });
    println!("{name}: {all:?}");
    let finding = verdict.err().unwrap_or_default();
    assert!(finding.is_empty(), "{finding}");
    assert!(all.nested > 0 && all.lossy > 0 || std::env::var("TIDESDB_RUN").is_ok(), "{all:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let trace = || {
        let mut random = SplitMix64::new(seeds::from_environment(5));
        let settings = Settings::random(&mut random, SyncMode::None);
        let machine = Machine::new(random.next_u64(), settings);
        let sim = Arc::clone(&machine.sim);
        let promises = Arc::new(Mutex::new(Promises::default()));
        let mut runner = Runner::start(machine, 9, History::default(), promises).unwrap();
        runner.create_all().unwrap();
        runner.run(300, |_| Ok(())).unwrap();
        (sim.trace_hash(), sim.state_hash())
    };
    assert_eq!(trace(), trace());
}
