//! The error sweep: a scenario is run once to count its file calls, then once for each call that
//! is to fail.
//!
//! While calls fail, an operation either works or returns an error that the failure explains, and
//! one that fails leaves nothing behind, except a commit that is not durable, which is visible.
//! When the cause is gone the same database takes writes again without being reopened, and shows
//! what the oracle says; a crash in the middle of the trouble, and one after it, leave a prefix of
//! the history.

use std::sync::{Arc, Mutex};

use tidesdb::SyncMode;
use tidesdb_sim::rng::SplitMix64;
use tidesdb_sim::{CrashProfile, FaultError, FaultKind, OpSet};
use tidesdb_sys::large_vec::refusals;

use super::{Fault, Faults, Refusal};
use crate::Verdict;
use crate::crash::{Camera, Odds, check_files};
use crate::operations::{Operation, PlannedWrite};
use crate::oracle::History;
use crate::runner::{Machine, Promises, Runner, locked};
use crate::seeds::panic_text;
use crate::settings::{Mix, SLOTS, Settings};

/// Operations of one scenario.
const OPERATIONS: usize = 70;

/// Writes after the cause of a failure is gone, until one of them must work.
const PATIENCE: usize = 4;

/// What is to fail.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// What is done meanwhile.
    pub mix: Mix,
    /// Which calls.
    pub counted: OpSet,
    /// Once, or from one call on.
    pub kind: FaultKind,
    /// What they return.
    pub error: FaultError,
}

/// What was done so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Runs of scenarios.
    pub runs: u64,
    /// Runs in which a call failed.
    pub fired: u64,
    /// Merges of slices of the key space in them.
    pub slices: u64,
}

/// A sweep over scenarios.
#[derive(Debug)]
pub struct Sweep {
    /// What was done so far.
    pub counts: Counts,
    runs_per_scenario: u64,
}

/// What is ordered to fail in a run.
#[derive(Clone, Copy, Debug)]
enum Order {
    Nothing,
    Calls(Fault),
    Memory(Refusal),
    Contents(Refusal),
}

/// What is done to families and to the whole database at the end of each scenario; the random
/// operations before it do it rarely.
const LAST_OPERATIONS: [Operation; 5] = [
    Operation::CopyFamily(0, 1),
    Operation::CreateOrDrop(2),
    Operation::Rename(1, 2),
    Operation::CopyDatabase { backup: false },
    Operation::CopyDatabase { backup: true },
];

fn work(runner: &mut Runner) -> Verdict {
    runner.run(OPERATIONS, |_| Ok(()))?;
    LAST_OPERATIONS.iter().try_for_each(|operation| {
        runner.apply(operation).map_err(|e| format!("{operation:?}: {e}"))
    })
}

/// Where the runs of a scenario begin: a disk, and what was done to it.
struct Scenario {
    seed: u64,
    machine: Machine,
    history: History,
    promises: Promises,
}

impl Scenario {
    fn new(seed: u64, mix: Mix, full: bool) -> Verdict<Self> {
        let mut random = SplitMix64::new(seed);
        let mode = if full { SyncMode::Full } else { SyncMode::None };
        if mix == Mix::Everything {
            let mut settings = Settings::random(&mut random, mode);
            settings.keys = settings.keys.min(60);
            let machine = Machine::new(random.next_u64(), settings);
            let (history, promises) = (History::default(), Promises::default());
            return Ok(Self { seed: random.next_u64(), machine, history, promises });
        }
        let settings = Settings::overwriting(&mut random, mode);
        let machine = Machine::new(random.next_u64(), settings);
        let promises = Arc::new(Mutex::new(Promises::default()));
        let mut runner =
            Runner::start(machine, random.next_u64(), History::default(), Arc::clone(&promises))?;
        runner.load()?;
        runner.shut();
        let promises = locked(&promises).clone();
        let seed = random.next_u64();
        Ok(Self { seed, machine: runner.machine, history: runner.history, promises })
    }

    /// A database with something in it, its fault ordered.
    fn start(&self, order: Order) -> Verdict<Runner> {
        let mut machine = self.machine.with_disk(self.machine.sim.fork());
        machine.faults = Some(match order {
            Order::Nothing => Faults::around(&machine.sim, OpSet::ALL),
            Order::Calls(fault) => Faults::ordered(&machine.sim, fault),
            Order::Memory(refusal) => Faults::of_memory(&machine.sim, refusal),
            Order::Contents(refusal) => Faults::of_contents(&machine.sim, refusal),
        });
        let promises = Arc::new(Mutex::new(self.promises.clone()));
        let _ = Camera::install(&machine.sim, &promises, 0, Odds { piece: 0, other: 0 });
        let mut runner = Runner::start(machine, self.seed, self.history.clone(), promises)?;
        runner.create_all()?;
        Ok(runner)
    }
}

impl Sweep {
    /// A sweep of at most so many runs per scenario.
    #[must_use]
    pub fn new(runs_per_scenario: u64) -> Self {
        Self { counts: Counts::default(), runs_per_scenario: runs_per_scenario.max(1) }
    }

    /// One scenario, with as many of its calls failing in turn as the sweep has runs for.
    ///
    /// # Errors
    /// The first finding.
    pub fn scenario(&mut self, seed: u64, wanted: Wanted, full: bool) -> Verdict {
        // With the order far beyond reach, to count.
        let never = Fault {
            call: u64::MAX,
            counted: wanted.counted,
            kind: FaultKind::Once,
            error: wanted.error,
        };
        let scenario = Scenario::new(seed, wanted.mix, full)?;
        let mut runner = scenario.start(Order::Calls(never))?;
        work(&mut runner)?;
        let calls = runner.machine.faults.as_ref().map_or(0, |faults| faults.instrument().calls());
        drop(runner);
        let stride = calls.div_ceil(self.runs_per_scenario).max(1);
        let mut call = seed % stride;
        while call < calls {
            let fault = Fault { call, ..never };
            let fault = Fault { kind: wanted.kind, ..fault };
            self.run_and_count(&scenario, Order::Calls(fault))
                .map_err(|e| format!("call {call} of {calls}: {e}"))?;
            call += stride;
        }
        Ok(())
    }

    /// One scenario, in which memory is refused at each block in turn, until all that are asked for
    /// have had their turn.
    ///
    /// # Errors
    /// The first finding.
    pub fn scenario_of_memory(&mut self, seed: u64, mix: Mix, refused: u64) -> Verdict {
        let scenario = Scenario::new(seed, mix, seed % 2 == 1)?;
        for given in 0..self.runs_per_scenario {
            let order = Order::Memory(Refusal { given, refused });
            if !self.run_and_count(&scenario, order)? {
                break;
            }
        }
        Ok(())
    }

    /// One scenario, in which memory for what lies in files is refused: buffers of flushes,
    /// compactions, readers and openings, indexes and filters. Each run refuses another request,
    /// evenly spaced over all requests; there are as many runs as the sweep has.
    ///
    /// # Errors
    /// The first finding.
    pub fn scenario_of_contents(&mut self, seed: u64, mix: Mix, refused: u64) -> Verdict {
        let scenario = Scenario::new(seed, mix, seed % 2 == 1)?;
        // The first one counts them.
        let most = 1 << 40;
        let runner = scenario.start(Order::Contents(Refusal { given: most, refused: 1 }));
        let mut runner = runner?;
        work(&mut runner)?;
        let (left, _) = refusals::order(0, 0);
        drop(runner);
        let stride = (most - left).div_ceil(self.runs_per_scenario).max(1);
        let mut given = seed % stride;
        while given < most - left {
            self.run_and_count(&scenario, Order::Contents(Refusal { given, refused }))?;
            given += stride;
        }
        Ok(())
    }

    /// Returns whether anything failed.
    fn run_and_count(&mut self, scenario: &Scenario, order: Order) -> Verdict<bool> {
        let run = || one_run(scenario, order);
        let verdict = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        let verdict =
            verdict.unwrap_or_else(|panic| Err(format!("panic: {}", panic_text(&*panic))));
        let (fired, slices) = verdict.map_err(|e| format!("{order:?}: {e}"))?;
        self.counts.runs += 1;
        self.counts.fired += u64::from(fired);
        self.counts.slices += slices;
        Ok(fired)
    }

    /// A scenario in which no write takes more than `longest` bytes: nothing may fail.
    ///
    /// # Errors
    /// The first finding.
    pub fn short_writes(seed: u64, mix: Mix, longest: usize) -> Verdict {
        let mut runner = Scenario::new(seed, mix, false)?.start(Order::Nothing)?;
        let Some(faults) = runner.machine.faults.clone() else { return Ok(()) };
        faults.limit_writes(longest);
        work(&mut runner)?;
        if faults.instrument().fired() == 0 {
            return Err("no write was cut short".to_owned());
        }
        runner.apply(&Operation::Reopen { close: false })
    }
}

/// Runs a scenario with one fault; says whether any call failed, and how many slices were merged.
fn one_run(scenario: &Scenario, order: Order) -> Verdict<(bool, u64)> {
    let seed = scenario.seed;
    let mut runner = scenario.start(order)?;
    work(&mut runner)?;
    let Some(faults) = runner.machine.faults.clone() else { return Ok((false, 0)) };
    let fired = faults.fired() > 0;
    judge_crashes(&runner, seed).map_err(|e| format!("crash amid the trouble: {e}"))?;
    faults.clear();
    runner.db.iter().for_each(|db| faults.give_memory(db));
    resume(&mut runner)?;
    faults.expect_health();
    runner.check().map_err(|e| format!("after the trouble: {e}"))?;
    for operation in [Operation::Flush, Operation::Check, Operation::Compact, Operation::Check] {
        runner.apply(&operation).map_err(|e| format!("{operation:?} after the trouble: {e}"))?;
    }
    judge_crashes(&runner, seed).map_err(|e| format!("crash after the trouble: {e}"))?;
    runner.apply(&Operation::Reopen { close: false })?;
    check_files(&runner).map_err(|e| format!("opened after the trouble: {e}"))?;
    Ok((fired, runner.slices_merged()))
}

/// With the cause gone, the database must take writes again, in every family.
fn resume(runner: &mut Runner) -> Verdict {
    for slot in 0..SLOTS {
        let write = PlannedWrite { slot, key: 1, length: Some(30), ..PlannedWrite::default() };
        let mut last = Ok(false);
        for _ in 0..PATIENCE {
            last = runner.try_write(write);
            if !matches!(last, Ok(false)) {
                break;
            }
            runner.settle();
        }
        if !last.map_err(|e| format!("resuming: {e}"))? {
            return Err(format!(
                "takes no writes although the cause is gone: {:?}",
                runner.last_error
            ));
        }
    }
    Ok(())
}

fn judge_crashes(runner: &Runner, seed: u64) -> Verdict {
    // Nothing fails where a crash is looked at.
    let _quiet = runner.machine.faults.as_ref().map(|faults| faults.suspend());
    for profile in [CrashProfile::Everything, CrashProfile::Nothing, CrashProfile::Random] {
        let promises = locked(&runner.promises).clone();
        let lower = match profile {
            CrashProfile::Everything => promises.acknowledged,
            _ => promises.durable,
        };
        let machine = runner.machine.with_disk(runner.machine.sim.crash_image(profile, seed));
        let started = promises.started;
        let shared = Arc::new(Mutex::new(promises));
        let after = Runner::start(machine, seed, runner.history.clone(), shared)
            .map_err(|e| format!("{profile:?}: {e}"))?;
        after.find_prefix(lower, started).map_err(|e| format!("{profile:?}: {e}"))?;
        check_files(&after).map_err(|e| format!("{profile:?}: {e}"))?;
    }
    Ok(())
}
