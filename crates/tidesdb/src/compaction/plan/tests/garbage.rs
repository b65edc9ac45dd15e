//! Garbage of all kinds, and when it is collected.

use super::*;

#[test]
fn garbage_is_collected_where_it_lies() {
    let mut state = runs(&[1, 1, 10]);
    assert_eq!(next_compaction(&state, &RULES, Activity::Busy), None);
    // Ten entries of old keys above the ten live ones.
    for (run, (versions, needed)) in state.iter_mut().zip([(5, 5), (10, 10), (20, 10)]) {
        run.through = liveness(versions, needed);
    }
    assert_eq!(next_compaction(&state, &RULES, Activity::Busy).map(|plan| plan.count), Some(3));
    // The same five keys in both new runs, and a large old run: the new ones suffice.
    for (run, (versions, needed)) in state.iter_mut().zip([(50, 5), (100, 5), (110, 15)]) {
        run.through = liveness(versions, needed);
    }
    assert_eq!(next_compaction(&state, &RULES, Activity::Busy).map(|plan| plan.count), Some(2));
    let small = PlanRules { least_garbage_bytes: 1000, ..RULES };
    assert_eq!(next_compaction(&state, &small, Activity::Busy), None, "too little in all");
}

#[test]
fn deletions_count_as_garbage_with_what_they_delete() {
    let mut state = runs(&[8, 8]);
    state[1].through = liveness(16, 0);
    assert_eq!(next_compaction(&state, &RULES, Activity::Busy).map(|plan| plan.count), Some(2));
}

/// Each flush of mostly deletions had everything rewritten, however little that was of it.
#[test]
fn tombstones_have_the_rest_rewritten_when_they_are_a_part_of_it_or_at_rest() {
    let planned = |sizes: &[u64], activity| {
        let mut state = runs(sizes);
        for run in state.iter_mut().take(2) {
            run.tombstone_bytes = run.bytes;
        }
        next_compaction(&state, &RULES, activity).map(|plan| plan.count)
    };
    assert_eq!(planned(&[1, 1, 40], Activity::Busy), None);
    assert_eq!(planned(&[2, 2, 36], Activity::Busy), Some(3));
    let quiet = |most_bytes| Activity::Quiet { most_bytes };
    assert_eq!(planned(&[1, 1, 40], quiet(41)), Some(2), "for readers");
    assert_eq!(planned(&[1, 1, 40], quiet(42)), Some(3));
}

/// Tables were merged two seconds after the last put, however high the trigger was.
#[test]
fn a_raised_trigger_holds_for_a_family_at_rest() {
    let planned = |count: usize, trigger| {
        let rules = PlanRules { trigger, ..RULES };
        let activity = Activity::Quiet { most_bytes: 1_000 };
        next_compaction(&runs(&vec![1; count]), &rules, activity).map(|plan| plan.count)
    };
    assert_eq!((planned(2, 4), planned(2, 3)), (Some(2), Some(2)));
    assert_eq!((planned(2, 5), planned(3, 5), planned(5, 5)), (None, Some(3), Some(5)));
    assert_eq!((planned(7, 10), planned(8, 10)), (None, Some(8)));
}

#[test]
fn garbage_in_value_logs_is_worth_a_compaction_however_small_the_tables_are() {
    let run = |id, value_bytes, through| RunSummary {
        level: 2,
        id,
        bytes: 1,
        value_bytes,
        alone: liveness(100, 100),
        through,
        ..RunSummary::default()
    };
    let rules =
        PlanRules { max_space_amplification: 1.5, least_garbage_bytes: 1_000, fan_in: 8, ..RULES };
    let all_overwritten = |value_bytes| {
        [run(2, value_bytes, liveness(100, 100)), run(1, value_bytes, liveness(200, 100))]
    };
    let plan = |value_bytes| next_compaction(&all_overwritten(value_bytes), &rules, Activity::Busy);
    assert_eq!(plan(100), None);
    assert_eq!(plan(1_000).map(|plan| plan.count), Some(2));
}

/// One value log that was mostly garbage, however small, had all runs merged.
#[test]
fn dead_values_have_those_runs_rewritten_that_point_at_them_if_that_frees_enough() {
    let planned = |dead: [u64; 4]| {
        let mut state = runs(&[2, 4, 100, 10_000]);
        state.iter_mut().zip(dead).for_each(|(run, dead)| run.dead_value_bytes = dead);
        next_compaction(&state, &RULES, Activity::Busy).map(|plan| plan.count)
    };
    assert_eq!(planned([0; 4]), None);
    assert_eq!(planned([0, 1, 0, 0]), Some(2));
    assert_eq!(planned([0, 0, 10, 0]), None, "less than a tenth of the three runs");
    assert_eq!(planned([0, 0, 11, 0]), Some(3));
    assert_eq!(planned([0, 0, 0, 1_000]), None);
    assert_eq!(planned([0, 0, 0, 1_011]), Some(4));
    assert_eq!(planned([0, 0, 6, 1_005]), Some(4), "together they are worth it");
    assert_eq!(planned([0, 2, 0, 1_011]), Some(2), "more for each byte");
    assert_eq!(planned([2, 0, 0, 0]), Some(1));
    let mut damaged = runs(&[2, 4, 100, 10_000]);
    damaged.iter_mut().for_each(|run| run.dead_value_bytes = 1 << 20);
    damaged[2].damaged = true;
    let plan = next_compaction(&damaged, &RULES, Activity::Busy);
    assert_eq!(plan.map(|plan| plan.count), Some(1), "the first is the cheapest");
}

/// What one run holds in vain, since snapshots are gone or ranges were deleted.
fn with_own_garbage(sizes: &[u64], garbage: &[u64]) -> Vec<RunSummary> {
    let mut runs = runs(sizes);
    let mut sum = 0;
    for (run, garbage) in runs.iter_mut().zip(garbage) {
        sum += garbage;
        run.alone.needed -= garbage;
        run.through.needed -= sum;
    }
    runs
}

/// Garbage that a run has by itself is collected down to the oldest run that has much of it; little
/// is not worth it whatever is allowed. While the family is written, what all of it may have
/// counts.
#[test]
fn what_a_run_holds_in_vain_is_collected() {
    let with = |released: [u64; 3]| with_own_garbage(&[10, 100, 10_000], &released);
    let count = |released, rules: &PlanRules, activity| {
        next_compaction(&with(released), rules, activity).map(|plan| plan.count)
    };
    assert_eq!(count([0, 0, 0], &RULES, Activity::RESTING), Some(2), "for readers");
    assert_eq!(count([0, 0, 5_000], &RULES, Activity::RESTING), Some(3));
    assert_eq!(count([0, 0, 2_400], &RULES, Activity::RESTING), Some(2), "1.31 versions per key");
    assert_eq!(count([0, 0, 5_000], &RULES, Activity::Busy), Some(3));
    assert_eq!(count([0, 0, 2_000], &RULES, Activity::Busy), None);
    assert_eq!(count([0, 60, 0], &RULES, Activity::RESTING), Some(2));
    assert_eq!(count([0, 60, 0], &RULES, Activity::Busy), None);
    let small = PlanRules { least_garbage_bytes: 20_000, ..RULES };
    assert_eq!(count([0, 0, 5_000], &small, Activity::RESTING), Some(2), "not worth it");
    let eager = PlanRules { max_space_amplification: 1.1, collected_from: 16.0 / 15.0, ..RULES };
    assert_eq!(count([0, 0, 500], &eager, Activity::RESTING), Some(2));
    assert_eq!(count([0, 0, 700], &eager, Activity::RESTING), Some(3));
    for activity in [Activity::Busy, Activity::RESTING] {
        let alone = with_own_garbage(&[100], &[50]);
        let plan = next_compaction(&alone, &RULES, activity).unwrap();
        assert_eq!((plan.count, plan.into_oldest), (1, true));
    }
}

#[test]
fn overwritten_keys_are_merged_by_slices_before_the_bound_is_reached() {
    let plan = |runs: &[RunSummary]| next_compaction(runs, &RULES, Activity::Busy);
    let by_slices = |count| {
        Some(CompactionPlan {
            count,
            level: 2,
            run: 1,
            into_oldest: true,
            keys: CompactedKeys::WorstSlice,
        })
    };
    assert_eq!(plan(&overwritten(3, 110)), None, "within two thirds of what is allowed");
    assert_eq!(plan(&overwritten(3, 120)), by_slices(4));
    // An oldest run that was never merged, or values elsewhere: everything at once.
    let mut flushed = overwritten(3, 120);
    flushed[3].level = 1;
    assert_eq!(plan(&flushed).map(|plan| (plan.count, plan.keys)), Some((4, CompactedKeys::All)));
    let mut elsewhere = overwritten(3, 120);
    elsewhere[3].value_bytes = 2000;
    let all = Some(CompactionPlan { keys: CompactedKeys::All, ..by_slices(4).unwrap() });
    assert_eq!(plan(&elsewhere), all);
    // What only a snapshot keeps is no garbage.
    let mut held = overwritten(3, 120);
    held[3].through = liveness(1360, 1360);
    assert_eq!(plan(&held), None);
}

#[test]
fn what_has_expired_counts_like_other_garbage_up_to_a_half() {
    let near = |share: f64, expected: f64| (share - expected).abs() < 1e-9;
    assert!(near(expired_share(4.0 / 3.0), 0.25));
    assert!(near(expired_share(16.0 / 15.0), 1.0 / 16.0));
    assert!(near(expired_share(1000.0), 0.5));
    let all = Some(CompactionPlan {
        count: 3,
        level: 2,
        run: 1,
        into_oldest: true,
        keys: CompactedKeys::All,
    });
    let mut state = runs(&[1, 1, 16]);
    state[0].damaged = true;
    let expired_bytes = Some(100);
    let plan =
        choose_compaction(&PlanFacts { expired_bytes, ..facts(&state, &RULES, Activity::Busy) });
    let all = all.map(|all| CompactionPlan { keys: CompactedKeys::Expired, ..all });
    assert_eq!(plan, all, "other keys than the damaged ones");
}

#[test]
fn whole_tables_go_before_anything_is_read_and_beside_nothing() {
    let state = overwritten(15, 40);
    let choice = |has_dead_tables, of_family| {
        let in_progress = InProgress { of_family, ..InProgress::NONE };
        let facts = facts(&state, &RULES, Activity::Busy);
        choose(&PlanFacts { has_dead_tables, in_progress, expired_bytes: Some(100), ..facts })
    };
    assert_eq!(choice(true, false), Choice::DropTables);
    assert!(matches!(choice(false, false), Choice::Compact(_)));
    assert!(matches!(choice(true, true), Choice::Compact(_)));
    assert_eq!(choose(&facts(&[], &RULES, Activity::Busy)), Choice::Nothing);
}
