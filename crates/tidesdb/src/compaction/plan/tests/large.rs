//! Families and compactions of gigabytes.

use super::*;

/// Sizes in GiB.
fn large(sizes: &[f64]) -> Vec<RunSummary> {
    let bytes: Vec<u64> = sizes.iter().map(|size| (size * (1_u64 << 30) as f64) as u64).collect();
    runs(&bytes)
}

#[test]
fn larger_families_wait_for_fewer_runs() {
    let rules = PlanRules { fan_in: 8, ..RULES };
    let merged = |oldest: f64| {
        let enough = (2..=8).find(|&newer| {
            let state = large(&[&vec![0.03; newer][..], &[oldest]].concat());
            next_compaction(&state, &rules, Activity::Busy).is_some()
        });
        enough.unwrap()
    };
    assert_eq!([0.5, 15.0, 17.0, 65.0, 257.0, 4_000.0].map(merged), [8, 6, 6, 4, 3, 3]);
    // Beside another compaction all runs count as well.
    let state = large(&[0.03, 0.03, 0.03, 257.0]);
    let plan = beside_others(&state, 3, &rules, u64::MAX);
    assert_eq!(plan.map(|plan| plan.count), Some(3));
}

/// A long compaction held many small runs, on top of which as many came while it went on.
#[test]
fn a_long_compaction_has_many_small_runs_joined_first() {
    let count = |sizes: &[f64]| {
        // Three of a class at this size.
        next_compaction(&large(sizes), &RULES, Activity::Busy).map(|plan| plan.count)
    };
    let small = [0.03, 0.03, 0.1, 0.1, 0.3];
    let long = [5.0, 5.0, 5.0];
    assert_eq!(count(&[&small[..], &long].concat()), Some(5));
    assert_eq!(count(&[&small[2..], &long].concat()), Some(3));
    assert_eq!(count(&[&small[3..], &long].concat()), Some(5), "few are as well taken along");
    let soon_done = [0.003, 0.003, 0.01, 0.2, 0.2, 0.2, 0.2];
    assert_eq!(count(&soon_done), Some(7));
}

/// While a long compaction held many runs, those that were flushed waited for as many as ever, and
/// writers stood almost still until its end.
#[test]
fn fewer_runs_are_merged_beside_a_long_compaction_the_more_there_are() {
    let rules = PlanRules { fan_in: 8, trigger: 4, ..RULES };
    let merged = |free: usize, held: usize| {
        let state = large(&[&vec![0.03; free][..], &vec![0.2; held]].concat());
        beside_others(&state, free, &rules, u64::MAX).map(|plan| plan.count)
    };
    // From 12 runs on writers are slowed, and most by 24; 6 are a class at this size.
    assert_eq!([merged(5, 13), merged(6, 12)], [None, Some(6)]);
    assert_eq!([merged(3, 18), merged(4, 18)], [None, Some(4)]);
    assert_eq!([merged(1, 23), merged(2, 22), merged(3, 30)], [None, Some(2), Some(3)]);
    let quiet = PlanRules { fan_in: 4, ..rules };
    let state = large(&[&vec![0.03; 2][..], &[0.2; 40]].concat());
    assert!(beside_others(&state, 2, &quiet, u64::MAX).is_none(), "few are merged anyway");
}

/// A compaction into a flushed run is one step, however large: 8 GB after a restart.
#[test]
fn a_long_compaction_does_not_go_into_a_flushed_run() {
    let mut state = large(&[0.03, 3.0, 3.0, 3.0, 0.01, 9.0]);
    state[4].level = 1;
    let rules = PlanRules { fan_in: 3, ..RULES };
    let plan = beside_others(&state, 5, &rules, u64::MAX).unwrap();
    assert_eq!((plan.count, plan.into_oldest), (4, true));
    let mut one = large(&[9.0, 0.01]);
    one[1].level = 1;
    assert_eq!(compact_newest(&one, 2).map(|plan| plan.count), Some(2));
}

/// A compaction of flushed runs that did not end left them below what had been merged meanwhile.
/// That was then rewritten with each flush, and they were never merged.
#[test]
fn flushed_runs_below_a_larger_one_have_their_turn() {
    let rules = PlanRules { fan_in: 8, trigger: 4, ..RULES };
    let mut state = large(&[&[0.03, 0.45][..], &[0.07; 10]].concat());
    state.iter_mut().for_each(|run| run.level = 1);
    state[1].level = 2;
    let plan = next_compaction(&state, &rules, Activity::Busy).unwrap();
    assert_eq!((plan.count, plan.into_oldest), (12, false));
}
