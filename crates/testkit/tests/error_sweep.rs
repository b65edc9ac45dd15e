//! H4: every file call of eight scenarios fails, once and from then on, for every reason there is.

use tidesdb_sim::{FaultError, FaultKind, OpSet};
use tidesdb_testkit::faults::sweep::{Sweep, Wanted};
use tidesdb_testkit::seeds;
use tidesdb_testkit::settings::Mix;

/// Scenarios; half of them with a sync per commit.
const SCENARIOS: u64 = 8;

/// Runs of one test over all scenarios at scale 1. At scale 16, which `scripts/planted-bugs` takes,
/// nearly every call gets its turn.
const RUNS: u64 = 120;

/// The same of tests in which garbage is collected slice by slice.
const RUNS_WITH_SLICES: u64 = 32;

fn sweep(name: &str, wanted: Wanted) {
    let slices = wanted.mix == Mix::Overwrites;
    let runs = if slices { RUNS_WITH_SLICES } else { RUNS };
    let mut sweep = Sweep::new(runs * seeds::scale() / SCENARIOS);
    let mut done = 0;
    let verdict = seeds::run_all(name, |seed| {
        sweep.scenario(seed, wanted, done % 2 == 1)?;
        done += 1;
        Ok(done >= SCENARIOS)
    });
    println!("{name}: {:?}", sweep.counts);
    let finding = verdict.err().unwrap_or_default();
    assert!(finding.is_empty(), "{finding}");
    assert!(sweep.counts.fired > sweep.counts.runs / 2, "{:?}", sweep.counts);
    let enough = !slices || sweep.counts.slices > 2 * sweep.counts.runs;
    assert!(enough, "too few slices are merged: {:?}", sweep.counts);
}

/// One kind of failure under both kinds of work.
macro_rules! sweeps {
    ($($name:ident, $with_slices:ident: $counted:ident, $kind:ident, $error:ident;)*) => {$(
        #[test]
        fn $name() {
            let (counted, kind) = (OpSet::$counted, FaultKind::$kind);
            let (error, mix) = (FaultError::$error, Mix::Everything);
            sweep(stringify!($name), Wanted { mix, counted, kind, error });
        }

        #[test]
        fn $with_slices() {
            let (counted, kind) = (OpSet::$counted, FaultKind::$kind);
            let (error, mix) = (FaultError::$error, Mix::Overwrites);
            sweep(stringify!($with_slices), Wanted { mix, counted, kind, error });
        }
    )*};
}

sweeps! {
    a_device_error_on_any_change_once, slices_and_a_device_error_on_any_change_once:
        CHANGES, Once, IO;
    a_device_error_on_any_change_for_ever, slices_and_a_device_error_on_any_change_for_ever:
        CHANGES, Forever, IO;
    a_device_error_on_any_look_once, slices_and_a_device_error_on_any_look_once: LOOKS, Once, IO;
    a_device_error_on_any_look_for_ever, slices_and_a_device_error_on_any_look_for_ever:
        LOOKS, Forever, IO;
    no_space_from_any_call_on, slices_and_no_space_from_any_call_on: SPACE, Forever, NO_SPACE;
    any_sync_fails_once, slices_and_any_sync_fails_once: SYNCS, Once, IO;
    any_sync_finds_no_space_once, slices_and_any_sync_finds_no_space_once: SYNCS, Once, NO_SPACE;
    syncs_find_no_space_from_any_call_on, slices_and_syncs_find_no_space_from_any_call_on:
        SYNCS, Forever, NO_SPACE;
}

/// Memory for memtables is refused at each block, once and from then on.
#[test]
fn memory_is_refused_at_any_block() {
    let mut sweep = Sweep::new(12 * seeds::scale());
    let verdict = seeds::run_all("memory_is_refused_at_any_block", |seed| {
        for mix in [Mix::Everything, Mix::Overwrites] {
            for refused in [1, u64::MAX] {
                sweep
                    .scenario_of_memory(seed, mix, refused)
                    .map_err(|e| format!("{mix:?}: {e}"))?;
            }
        }
        Ok(sweep.counts.runs > 75 * seeds::scale())
    });
    println!("memory_is_refused_at_any_block: {:?}", sweep.counts);
    let finding = verdict.err().unwrap_or_default();
    assert!(finding.is_empty(), "{finding}");
    assert!(sweep.counts.fired > sweep.counts.runs / 2, "{:?}", sweep.counts);
}

/// Memory for what lies in files is refused, once and from then on: to flushes, compactions, reads
/// and openings. The process was ended there.
#[test]
fn memory_for_files_is_refused_anywhere() {
    let mut sweep = Sweep::new(12 * seeds::scale());
    let verdict = seeds::run_all("memory_for_files_is_refused_anywhere", |seed| {
        for mix in [Mix::Everything, Mix::Overwrites] {
            for refused in [1, u64::MAX] {
                sweep
                    .scenario_of_contents(seed, mix, refused)
                    .map_err(|e| format!("{mix:?}: {e}"))?;
            }
        }
        Ok(sweep.counts.runs > 90 * seeds::scale())
    });
    println!("memory_for_files_is_refused_anywhere: {:?}", sweep.counts);
    let finding = verdict.err().unwrap_or_default();
    assert!(finding.is_empty(), "{finding}");
    assert!(sweep.counts.fired > sweep.counts.runs / 2, "{:?}", sweep.counts);
}

#[test]
fn short_writes_are_continued() {
    let verdict = seeds::run_all("short_writes_are_continued", |seed| {
        for longest in [1, 7, 100] {
            Sweep::short_writes(seed, Mix::Everything, longest)?;
            Sweep::short_writes(seed, Mix::Overwrites, longest)?;
        }
        Ok(true)
    });
    let finding = verdict.err().unwrap_or_default();
    assert!(finding.is_empty(), "{finding}");
}
