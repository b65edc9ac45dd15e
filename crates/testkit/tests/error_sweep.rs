//! H4: every file call of eight scenarios fails, once and for ever, for every reason there is.

use tidesdb_sys::vfs::{FaultError, FaultKind, OpSet};
use tidesdb_testkit::faults::sweep::{Sweep, Wanted};
use tidesdb_testkit::seeds;

/// Scenarios; half of them with a sync per commit.
const SCENARIOS: u64 = 8;

/// Runs of one test over all scenarios at scale 1; at which nearly every call gets its turn.
const RUNS: u64 = 2_000;

fn sweep(name: &str, wanted: Wanted) {
    let mut sweep = Sweep::new(RUNS * seeds::scale() / SCENARIOS);
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
}

#[test]
fn a_device_error_on_any_change_once() {
    let wanted = Wanted { counted: OpSet::CHANGES, kind: FaultKind::Once, error: FaultError::IO };
    sweep("a_device_error_on_any_change_once", wanted);
}

#[test]
fn a_device_error_on_any_change_for_ever() {
    let wanted =
        Wanted { counted: OpSet::CHANGES, kind: FaultKind::Forever, error: FaultError::IO };
    sweep("a_device_error_on_any_change_for_ever", wanted);
}

#[test]
fn a_device_error_on_any_look_once() {
    let wanted = Wanted { counted: OpSet::LOOKS, kind: FaultKind::Once, error: FaultError::IO };
    sweep("a_device_error_on_any_look_once", wanted);
}

#[test]
fn no_space_from_any_call_on() {
    let error = FaultError::NO_SPACE;
    let wanted = Wanted { counted: OpSet::SPACE, kind: FaultKind::Forever, error };
    sweep("no_space_from_any_call_on", wanted);
}

#[test]
fn any_sync_fails_once() {
    let wanted = Wanted { counted: OpSet::SYNCS, kind: FaultKind::Once, error: FaultError::IO };
    sweep("any_sync_fails_once", wanted);
}

#[test]
fn short_writes_are_continued() {
    let verdict = seeds::run_all("short_writes_are_continued", |seed| {
        for longest in [1, 7, 100] {
            Sweep::short_writes(seed, longest)?;
        }
        Ok(true)
    });
    let finding = verdict.err().unwrap_or_default();
    assert!(finding.is_empty(), "{finding}");
}
