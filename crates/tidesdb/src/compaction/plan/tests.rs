use tidesdb_base::liveness::Liveness;
use tidesdb_sim::rng::SplitMix64;

use super::*;

mod garbage;
mod large;
mod simulation;

const RULES: PlanRules = PlanRules {
    fan_in: 4,
    trigger: 2,
    favours_readers: true,
    size_ratio: 10,
    max_space_amplification: 1.5,
    collected_from: 4.0 / 3.0,
    least_garbage_bytes: 0,
    awaits_snapshots: false,
};

const fn liveness(versions: u64, needed: u64) -> Liveness {
    Liveness { versions, needed }
}

/// What is chosen from runs and rules alone.
fn facts<'a>(runs: &'a [RunSummary], rules: &PlanRules, activity: Activity) -> PlanFacts<'a> {
    let (expired_bytes, sound_slice_garbage) = (None, None);
    PlanFacts {
        runs,
        rules: *rules,
        activity,
        in_progress: InProgress::NONE,
        has_dead_tables: false,
        expired_bytes,
        sound_slice_garbage,
    }
}

fn next_compaction(
    runs: &[RunSummary],
    rules: &PlanRules,
    activity: Activity,
) -> Option<CompactionPlan> {
    choose_compaction(&facts(runs, rules, activity))
}

/// The same beside others of the family.
fn beside_others(
    runs: &[RunSummary],
    free: usize,
    rules: &PlanRules,
    most_bytes: u64,
) -> Option<CompactionPlan> {
    let in_progress = InProgress { of_family: true, free, most_bytes };
    choose_compaction(&PlanFacts { in_progress, ..facts(runs, rules, Activity::Busy) })
}

/// Runs of these sizes with distinct keys, an entry a byte.
fn runs(sizes: &[u64]) -> Vec<RunSummary> {
    let newest_id = sizes.len() as u64;
    let mut through = 0;
    let summary = |(at, &bytes): (usize, &u64)| {
        through += bytes;
        RunSummary {
            level: if bytes > 1 { 2 } else { 1 },
            id: newest_id - at as u64,
            bytes,
            alone: liveness(bytes, bytes),
            through: liveness(through, through),
            ..RunSummary::default()
        }
    };
    sizes.iter().enumerate().map(summary).collect()
}

fn count(sizes: &[u64], activity: Activity) -> Option<usize> {
    next_compaction(&runs(sizes), &RULES, activity).map(|plan| plan.count)
}

/// An old merged run of 1,000 keys below so many newer ones, which hold `each` of the same keys.
fn overwritten(newer: usize, each: u64) -> Vec<RunSummary> {
    let mut state = runs(&[&vec![each; newer][..], &[1000]].concat());
    for run in &mut state {
        run.through.needed = run.through.needed.min(1000);
    }
    state.iter_mut().take(newer).for_each(|run| run.level = 1);
    state
}

#[test]
fn a_class_is_merged_when_it_is_full() {
    assert_eq!(count(&[], Activity::Busy), None);
    assert_eq!(count(&[1, 1, 1], Activity::Busy), None);
    assert_eq!(count(&[1, 1, 1, 1], Activity::Busy), Some(4));
    assert_eq!(count(&[1, 1, 1, 4, 4, 4], Activity::Busy), None);
    assert_eq!(count(&[1, 4, 4, 4, 4], Activity::Busy), Some(5));
    assert_eq!(count(&[4, 4, 4, 4, 16], Activity::Busy), Some(4), "the unit is the smallest run");
}

#[test]
fn a_compaction_that_fills_the_next_class_takes_it_in() {
    assert_eq!(count(&[1, 1, 1, 1, 4, 4, 4], Activity::Busy), Some(7));
    assert_eq!(count(&[1, 1, 1, 1, 4, 4], Activity::Busy), Some(4));
    assert_eq!(count(&[1, 1, 1, 1, 4, 4, 4, 16, 16, 16], Activity::Busy), Some(10));
}

#[test]
fn a_quiet_family_becomes_one_run_and_then_rests() {
    assert_eq!(count(&[2, 16], Activity::RESTING), Some(2));
    assert_eq!(count(&[1, 16], Activity::RESTING), None, "not worth rewriting the old run");
    assert_eq!(count(&[1, 1, 100], Activity::RESTING), Some(2));
    assert_eq!(count(&[16], Activity::RESTING), None);
    let waits = PlanRules { awaits_snapshots: true, ..RULES };
    assert_eq!(
        next_compaction(&runs(&[2, 16]), &waits, Activity::RESTING),
        None,
        "all of it again after that"
    );
}

#[test]
fn the_oldest_input_takes_the_others_in_once_it_was_merged() {
    let plan = next_compaction(&runs(&[1, 1, 1, 1, 16]), &RULES, Activity::Busy);
    assert_eq!(
        plan,
        Some(CompactionPlan {
            count: 4,
            level: 2,
            run: 5,
            into_oldest: false,
            keys: CompactedKeys::All
        })
    );
    let plan = compact_newest(&runs(&[1, 1, 16]), 3);
    assert_eq!(
        plan,
        Some(CompactionPlan {
            count: 3,
            level: 2,
            run: 1,
            into_oldest: true,
            keys: CompactedKeys::All
        })
    );
}

#[test]
fn the_output_takes_the_number_of_its_newest_input() {
    let of_level_1 = |id, bytes| RunSummary {
        level: 1,
        id,
        bytes,
        alone: liveness(bytes, bytes),
        through: liveness(bytes, 100),
        ..RunSummary::default()
    };
    let state = [of_level_1(4, 1), of_level_1(3, 1), of_level_1(2, 10)];
    let rules = PlanRules { fan_in: 2, ..RULES };
    let plan = next_compaction(&state, &rules, Activity::Busy);
    assert_eq!(
        plan,
        Some(CompactionPlan {
            count: 2,
            level: 2,
            run: 4,
            into_oldest: false,
            keys: CompactedKeys::All
        })
    );
    let all = Some(CompactionPlan {
        count: 3,
        level: 2,
        run: 4,
        into_oldest: false,
        keys: CompactedKeys::All,
    });
    assert_eq!(compact_newest(&state, state.len()), all);
}

#[test]
fn a_damaged_run_and_all_older_ones_are_left_alone() {
    let mut state = runs(&[1, 1, 1, 1, 4, 16]);
    state[4].damaged = true;
    let plan = next_compaction(&state, &RULES, Activity::Busy);
    assert_eq!(
        plan,
        Some(CompactionPlan {
            count: 4,
            level: 2,
            run: 6,
            into_oldest: false,
            keys: CompactedKeys::All
        })
    );
    assert_eq!(compact_newest(&state, state.len()).map(|plan| plan.count), Some(4));
    state[0].damaged = true;
    assert_eq!(next_compaction(&state, &RULES, Activity::RESTING), None);
    assert_eq!(compact_newest(&state, state.len()), None);
}

#[test]
fn slices_beside_damage_are_merged_when_enough_of_them_is_garbage() {
    let mut state = runs(&[1, 1, 16]);
    state[2].damaged = true;
    // A third of 1.5 - 1 is left to what comes meanwhile: from 4/3 versions to a key on.
    let beside_damage = |state: &[RunSummary], share| {
        let sound_slice_garbage = Some(share);
        choose_compaction(&PlanFacts {
            sound_slice_garbage,
            ..facts(state, &RULES, Activity::Busy)
        })
    };
    assert_eq!(beside_damage(&state, 0.24), None);
    let plan = CompactionPlan {
        count: 3,
        level: 2,
        run: 1,
        into_oldest: true,
        keys: CompactedKeys::WorstSlice,
    };
    assert_eq!(beside_damage(&state, 0.26), Some(plan));
    state[2].value_bytes = 100;
    assert_eq!(beside_damage(&state, 0.9), None, "a slice frees no value log");
}

/// Merges runs of unique keys as planned; returns the bytes rewritten.
fn compact_while_planned(
    state: &mut Vec<RunSummary>,
    rules: &PlanRules,
    activity: Activity,
) -> u64 {
    let mut rewritten = 0;
    loop {
        let mut through = 0;
        for run in state.iter_mut() {
            through += run.bytes;
            run.alone = liveness(run.bytes, run.bytes);
            run.through = liveness(through, through);
        }
        let Some(plan) = next_compaction(state, rules, activity) else { return rewritten };
        let bytes = state.drain(..plan.count).map(|run| run.bytes).sum();
        rewritten += bytes;
        let merged = RunSummary { level: plan.level, id: plan.run, bytes, ..RunSummary::default() };
        state.insert(0, merged);
    }
}

/// Feeds flushes of unique keys, in turn of these sizes, merging as planned; returns the bytes
/// rewritten per byte.
fn rewrites(flushes: u64, sizes: &[u64], rules: &PlanRules, most_runs: usize) -> f64 {
    let mut state: Vec<RunSummary> = Vec::new();
    let (mut written, mut rewritten) = (0, 0);
    for (id, &bytes) in (1..=flushes).zip(sizes.iter().cycle()) {
        let flushed = RunSummary { level: 1, id, bytes, ..Default::default() };
        written += bytes;
        state.insert(0, flushed);
        rewritten += compact_while_planned(&mut state, rules, Activity::Busy);
        assert!(state.len() <= most_runs, "{} runs after {id} flushes", state.len());
        // From twice the trigger on, half the fan-in, writers are slowed by them, most at nine
        // times.
        let flushed = state.iter().filter(|run| run.level == 1).count();
        assert!(flushed < 2 * rules.fan_in, "{flushed} of them flushed, after {id} flushes");
    }
    rewritten as f64 / written as f64
}

#[test]
fn an_endless_stream_of_flushes_keeps_few_runs_and_rewrites_little() {
    let read = |fan_in| PlanRules { fan_in, ..RULES };
    assert!(rewrites(1000, &[100], &read(4), 16) < 4.2);
    assert!(rewrites(1000, &[100], &read(8), 24) < 3.0);
    assert!(rewrites(50, &[100], &read(8), 16) < 1.2);
    assert!(rewrites(110, &[100], &read(8), 24) > 1.4);
    // Not read.
    let unread = |fan_in| PlanRules { fan_in, favours_readers: false, ..RULES };
    assert!(rewrites(110, &[100], &unread(8), 24) < 1.0);
    assert!(rewrites(1000, &[100], &unread(8), 33) < 2.0);
    assert!(rewrites(20_000, &[100], &unread(8), 34) < 3.8);
    assert!(rewrites(20_000, &[100], &unread(4), 24) < 5.0);
}

#[test]
fn flushes_of_any_sizes_do_not_pile_up() {
    let mut random = SplitMix64::new(7);
    let any: Vec<u64> = (0..997).map(|_| 1 << random.index(12)).collect();
    for (fan_in, favours_readers) in [(4, true), (8, true), (4, false), (8, false)] {
        let rules = PlanRules { fan_in, favours_readers, ..RULES };
        let most = 5 * fan_in;
        for sizes in [
            &[300, 100][..],
            &[100, 100, 100, 100, 100, 100, 100, 300],
            &[100, 100, 100, 100, 100, 100, 100, 5000],
            &[80, 120, 90, 110, 100],
            &[1, 1000, 1000, 1000, 1000, 1000, 1000],
            &any,
        ] {
            rewrites(3000, sizes, &rules, most);
        }
    }
}

/// What was merged alone, because no more could be at that time, does not keep the rest from being
/// merged.
#[test]
fn small_runs_below_a_larger_one_count_as_larger_ones() {
    let rules = PlanRules { fan_in: 8, favours_readers: false, ..RULES };
    let mut sizes = [&[1; 7][..], &[8; 16]].concat();
    let first = beside_others(&runs(&sizes), sizes.len(), &rules, 67).unwrap();
    assert_eq!(first.count, 14);
    sizes.splice(..14, [63]);
    sizes.splice(..0, [1; 7]);
    let after = |more: usize| {
        let sizes = [&sizes[..7], &vec![63; more], &sizes[7..]].concat();
        next_compaction(&runs(&sizes), &rules, Activity::Busy).map(|plan| plan.count)
    };
    assert_eq!(after(5), None);
    assert_eq!(after(6), Some(23), "sixteen of its class");
}

#[test]
fn tiers_come_before_slices_when_there_are_very_many_runs() {
    let plan = |newer| next_compaction(&overwritten(newer, 40), &RULES, Activity::Busy);
    assert_eq!(plan(15).map(|plan| (plan.count, plan.keys)), Some((16, CompactedKeys::WorstSlice)));
    let tiers = plan(16).unwrap();
    assert!(
        tiers.count < 17 && tiers.keys == CompactedKeys::All && !tiers.into_oldest,
        "{tiers:?}"
    );
}

#[test]
fn what_has_expired_comes_first() {
    let mut state = overwritten(15, 40);
    let expired = |state: &[RunSummary], of_family| {
        let in_progress = InProgress { of_family, ..InProgress::NONE };
        let expired_bytes = Some(100);
        choose_compaction(&PlanFacts {
            expired_bytes,
            in_progress,
            ..facts(state, &RULES, Activity::Busy)
        })
    };
    let keys = |plan: Option<CompactionPlan>| plan.map(|plan| (plan.count, plan.keys));
    assert_eq!(keys(expired(&state, false)), Some((16, CompactedKeys::Expired)));
    assert_eq!(keys(expired(&state, true)), Some((15, CompactedKeys::All)), "for their number");
    state[3].damaged = true;
    assert_eq!(keys(expired(&state, false)), Some((16, CompactedKeys::Expired)), "of other keys");
    // Before a compaction that waits for a thread, what can begin at once.
    let state = overwritten(15, 40);
    let in_progress = InProgress { most_bytes: 190, ..InProgress::NONE };
    let plan =
        choose_compaction(&PlanFacts { in_progress, ..facts(&state, &RULES, Activity::Busy) });
    assert_eq!(keys(plan), Some((4, CompactedKeys::All)));
}

#[test]
fn beside_other_compactions_free_runs_are_merged_for_their_number() {
    let state = runs(&[1, 1, 1, 1, 4, 4, 4, 100]);
    let rules = PlanRules { fan_in: 4, ..RULES };
    let count = |runs: &[RunSummary], free, most_bytes| {
        beside_others(runs, free, &rules, most_bytes).map(|plan| plan.count)
    };
    // free runs, most bytes -> count
    for (free, most_bytes, wanted) in [
        (3, u64::MAX, None),
        (4, u64::MAX, Some(4)),
        // The output would be the fourth of its class.
        (7, u64::MAX, Some(7)),
        (8, u64::MAX, Some(7)),
        // So much can't be done now, but the first step of it can.
        (7, 15, Some(4)),
        (7, 3, None),
    ] {
        assert_eq!(count(&state, free, most_bytes), wanted, "{free} {most_bytes}");
    }
    let many = runs(&[&[1; 12][..], &[100]].concat());
    assert_eq!(count(&many, 12, 9), Some(9), "so many have piled up that not all can be merged");
    let mut damaged = state.clone();
    damaged[3].damaged = true;
    assert_eq!(count(&damaged, 7, u64::MAX), None);
    let plan = beside_others(&state, 4, &rules, u64::MAX).unwrap();
    assert_eq!((plan.run, plan.into_oldest, plan.keys), (state[0].id, false, CompactedKeys::All));
}

/// Each flush that a pause followed had all bytes rewritten but those of the oldest run: half as
/// many times as there had been flushes.
#[test]
fn a_trickle_with_pauses_rewrites_a_byte_a_few_times_whatever_there_is_already() {
    for (flushes, most) in [(100, 11.0), (1_000, 19.0), (10_000, 26.0)] {
        let mut state = vec![RunSummary { level: 2, id: 0, bytes: 1 << 40, ..Default::default() }];
        let (mut rewritten, mut most_runs) = (0, 0);
        for id in 1..=flushes {
            state.insert(0, RunSummary { level: 1, id, bytes: 20, ..Default::default() });
            rewritten += compact_while_planned(&mut state, &RULES, Activity::RESTING);
            most_runs = most_runs.max(state.len());
        }
        let rewrites = rewritten as f64 / (20 * flushes) as f64;
        println!("{flushes} flushes: {rewrites:.1} rewrites, {most_runs} runs at most");
        assert!(rewrites < most && most_runs <= 7, "{flushes}: {rewrites}, {most_runs} runs");
    }
}

/// Flushes of 11 MiB with pauses of two seconds had the runs above a large one rewritten with each
/// flush, and the large one with them when they had a tenth of it: fifteen times all that was
/// written.
#[test]
fn pauses_between_flushes_cost_less_than_a_rest() {
    const MIB: u64 = 1 << 20;
    let rules = PlanRules { fan_in: 8, favours_readers: false, ..RULES };
    for (before, flushes, most, most_runs) in [
        (1_700, 20, 4.0, 16),
        (1_700, 200, 5.0, 32),
        (1_700, 2_000, 6.0, 40),
        (1_000_000, 20, 4.0, 16),
        (1_000_000, 20_000, 12.0, 24),
    ] {
        let large = RunSummary { level: 2, id: 0, bytes: before * MIB, ..Default::default() };
        let mut state = vec![large];
        let (mut rewritten, mut runs) = (0, 0);
        for id in 1..=flushes {
            state.insert(0, RunSummary { level: 1, id, bytes: 11 * MIB, ..Default::default() });
            rewritten += compact_while_planned(&mut state, &rules, Activity::Busy);
            rewritten += compact_while_planned(&mut state, &rules, Activity::after_rest(2));
            runs = runs.max(state.len());
        }
        let rewrites = rewritten as f64 / (11 * MIB * flushes) as f64;
        println!("{before} MiB, {flushes} flushes: {rewrites:.1} rewrites, {runs} runs at most");
        assert!(rewrites < most && runs <= most_runs, "{flushes}: {rewrites}, {runs} runs");
    }
}

#[test]
fn a_family_that_rests_longer_has_more_merged_for_its_readers() {
    const GIB: u64 = 1 << 30;
    let state = runs(&[GIB / 100, GIB / 100, GIB / 6, GIB]);
    let count = |seconds| {
        let plan = next_compaction(&state, &RULES, Activity::after_rest(seconds));
        plan.map(|plan| plan.count)
    };
    assert_eq!([0, 2, 12, 60].map(count), [None, Some(2), Some(3), Some(4)]);
}
