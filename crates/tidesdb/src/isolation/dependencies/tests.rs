//! Tests of the dependency rules, against the plain statement of them and at their bounds.

use super::super::out_conflicts::MOST_OVERWRITERS;
use super::ranges::RangeLimits;
use super::*;

fn overwritten(commits: &[u64]) -> OutConflicts {
    let mut overwritten = OutConflicts::default();
    for &commit in commits {
        overwritten.add(commit, false);
    }
    overwritten
}

/// A transaction that reads and writes single keys of one family.
fn commit(
    dependencies: &mut Dependencies,
    (snapshot, commit): (u64, Option<u64>),
    reads: &[&str],
    writes: &[&str],
    overwritten_by: &[u64],
) -> bool {
    let overwritten = overwritten(overwritten_by);
    let candidate = Candidate { snapshot, commit, conflicts: &overwritten };
    let written = writes.iter().map(|key| (1, key.as_bytes()));
    if dependencies.dangerous_structure(candidate, written).is_some() {
        return false;
    }
    if let Some(limit) = dependencies.record(candidate) {
        for key in reads {
            dependencies.record_point(1, key.as_bytes(), limit);
        }
    }
    true
}

fn with_live(snapshots: &[u64]) -> Dependencies {
    let mut dependencies = Dependencies::default();
    for &snapshot in snapshots {
        dependencies.begin(snapshot);
    }
    dependencies
}

/// Eight bytes for each commit that overwrote something, without a bound.
#[test]
fn overwriters_that_are_too_many_are_not_told_apart() {
    let mut overwritten = OutConflicts::default();
    for commit in 11..11 + 3 * MOST_OVERWRITERS as u64 {
        overwritten.add(commit, false);
        assert!(overwritten.commits.capacity() <= MOST_OVERWRITERS);
    }
    let mut dependencies = with_live(&[10, 10]);
    dependencies.pivots.rows.insert(5000, 20);
    let candidate = |commit| Candidate { snapshot: 10, commit, conflicts: &overwritten };
    let written = || std::iter::empty();
    assert_eq!(
        dependencies.dangerous_structure(candidate(Some(1 << 40)), written()),
        Some(DangerousStructure::MeetsPivot)
    );
    // The oldest is known still.
    assert_eq!(overwritten.oldest(10), Some(11));
    dependencies.pivots.rows.clear();
    assert_eq!(dependencies.dangerous_structure(candidate(Some(1 << 40)), written()), None);
}

#[test]
fn of_a_write_skew_the_second_is_refused() {
    let mut dependencies = with_live(&[10, 10]);
    assert!(commit(&mut dependencies, (10, Some(20)), &["x", "y"], &["x"], &[]));
    assert!(!commit(&mut dependencies, (10, Some(30)), &["x", "y"], &["y"], &[20]));
}

#[test]
fn a_pivot_whose_last_did_not_commit_first_goes_through() {
    // T1 commits at 20 having read `x`; T3 overwrites at 25 what T2 read; T2 writes `x` at 30. T3
    // is not the first of the three, so T1 may come before T2 and T2 before T3.
    let mut dependencies = with_live(&[10, 10]);
    assert!(commit(&mut dependencies, (10, Some(20)), &["x"], &["a"], &[]));
    assert!(commit(&mut dependencies, (10, Some(30)), &["y"], &["x"], &[25]));
}

#[test]
fn a_reader_counts_only_if_the_last_came_before_its_snapshot() {
    for (snapshot, refused) in [(15, true), (12, false)] {
        let mut dependencies = with_live(&[10, snapshot]);
        assert!(commit(&mut dependencies, (snapshot, None), &["x"], &[], &[]));
        // T3 committed at 14.
        assert_eq!(!commit(&mut dependencies, (10, Some(30)), &["y"], &["x"], &[14]), refused);
    }
}

#[test]
fn a_transaction_that_meets_a_committed_pivot_is_refused() {
    for (wrote, snapshot, refused) in [(true, 12, true), (false, 12, false), (false, 15, true)] {
        let mut dependencies = with_live(&[10, snapshot]);
        // The pivot: overwritten at 14, commits at 20.
        assert!(commit(&mut dependencies, (10, Some(20)), &["y"], &["x"], &[14]));
        let place = (snapshot, wrote.then_some(30));
        let writes: &[&str] = if wrote { &["z"] } else { &[] };
        assert_eq!(!commit(&mut dependencies, place, &["x"], writes, &[20]), refused);
    }
}

#[test]
fn versions_that_hide_others_count_as_the_worst_they_can_hide() {
    let mut dependencies = with_live(&[10, 10]);
    assert!(commit(&mut dependencies, (10, Some(20)), &["y"], &["x"], &[14]));
    let mut hiding = OutConflicts::default();
    hiding.add(25, true);
    let candidate = Candidate { snapshot: 10, commit: Some(30), conflicts: &hiding };
    assert!(
        dependencies.dangerous_structure(candidate, std::iter::empty()).is_some(),
        "20 may be hidden"
    );
    let candidate = Candidate { snapshot: 20, commit: Some(30), conflicts: &hiding };
    assert!(
        dependencies.dangerous_structure(candidate, std::iter::empty()).is_none(),
        "20 was seen"
    );
}

#[test]
fn the_only_live_transaction_leaves_nothing() {
    let mut dependencies = with_live(&[10]);
    assert!(commit(&mut dependencies, (10, Some(20)), &["x"], &["y"], &[]));
    assert!(dependencies.is_alone());
    assert_eq!(dependencies.last_commit(), 20);
    dependencies.begin(20);
    assert!(!dependencies.is_alone(), "the first is still live");
    dependencies.end(10);
    assert!(dependencies.is_alone());
}

#[test]
fn limits_of_ranges_are_those_of_the_plain_definition() {
    let mut ranges = RangeLimits::default();
    let mut plain = [0u64; 64];
    let mut state = 7u64;
    let mut random = |end: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % end
    };
    for round in 0..2000u64 {
        let (start, length) = (random(64) as usize, random(12) as usize);
        let end = (start + length).min(64);
        let limit = round / 2 + random(40);
        let unbounded = random(20) == 0;
        let stop = if unbounded { 64 } else { end };
        for known in &mut plain[start..stop] {
            *known = limit.max(*known);
        }
        let last = [end as u8];
        ranges.raise(&[start as u8], (!unbounded).then_some(&last[..]), limit);
        if round % 100 == 99 {
            ranges.sweep(round / 4);
            for known in &mut plain {
                *known = if *known <= round / 4 { 0 } else { *known };
            }
        }
        for (key, wanted) in plain.iter().enumerate() {
            assert_eq!(ranges.limit(&[key as u8]), *wanted, "round {round}, key {key}");
        }
        assert!(ranges.steps.len() <= 65);
    }
}

#[test]
fn what_no_transaction_needs_is_swept_out_while_others_run() {
    let mut dependencies = with_live(&[0]);
    let mut now = 10;
    for round in 0..20_000u64 {
        dependencies.begin(now);
        let key = format!("key-{round}");
        let (snapshot, at) = (now, now + 5);
        assert!(commit(&mut dependencies, (snapshot, Some(at)), &[&key], &[&key], &[]));
        let limit = at;
        dependencies.record_range(1, key.as_bytes(), Some(b"kez"), limit);
        dependencies.end(snapshot);
        now += 10;
        if round == 1000 {
            // The old one goes; from now on only the newest matter.
            dependencies.begin(now);
            dependencies.end(0);
        }
        if round > 1000 && round % 50 == 0 {
            let oldest = dependencies.oldest();
            dependencies.begin(now);
            dependencies.end(oldest);
        }
    }
    assert!(
        dependencies.points.limits.len() < 4 * FEW_ENTRIES,
        "{}",
        dependencies.points.limits.len()
    );
    let steps = dependencies.ranges.of[&1].steps.len();
    assert!(steps < 4 * FEW_ENTRIES, "{steps}");
    assert_eq!(dependencies.coarsened(), 0);
}

#[test]
fn beyond_the_bound_one_number_stands_for_all_keys() {
    let mut dependencies = with_live(&[10, 10, 10]);
    let pad = "x".repeat(60_000);
    for n in 0..4000 {
        dependencies.record_point(1, format!("{n}-{pad}").as_bytes(), 20 + n);
    }
    assert!(dependencies.coarsened() > 0);
    assert!(dependencies.points.bytes <= MOST_BYTES);
    // A reader of any key may have been there.
    assert!(!commit(&mut dependencies, (10, Some(9000)), &[], &["unread"], &[15]));
}

/// One serializable transaction idles while others come and go.
#[test]
fn what_is_remembered_beside_an_idle_transaction_is_bounded() {
    const MOST: u64 = 300 << 10;
    let mut dependencies = with_live(&[10]);
    for n in 0..30_000_u64 {
        let (snapshot, number) = (20 + n * 10, 25 + n * 10);
        dependencies.begin(snapshot);
        dependencies.set_most_bytes(MOST);
        let overwritten = overwritten(&[number - 1]);
        let candidate = Candidate { snapshot, commit: Some(number), conflicts: &overwritten };
        // A short transaction is not refused for what was given up: that is older.
        let key = n.to_be_bytes();
        assert_eq!(
            dependencies.dangerous_structure(candidate, [(1, &key[..])].into_iter()),
            None,
            "{n}"
        );
        if let Some(limit) = dependencies.record(candidate) {
            dependencies.record_point(1, &key, limit);
            let family = (n % 7) as u32;
            dependencies.record_range(family, &key, Some(&(n + 1).to_be_bytes()), limit);
        }
        dependencies.end(snapshot);
        assert!(dependencies.memory_bytes() <= MOST, "{} at {n}", dependencies.memory_bytes());
    }
    assert!(dependencies.coarsened() > 0, "nothing was put to the test");
    dependencies.end(10);
    assert_eq!(dependencies.memory_bytes(), 0);
}

/// With room for one more than there are, each commit that was known was sorted in anew, all over.
#[test]
fn commits_met_again_cost_no_more_than_new_ones() {
    let mut met = OutConflicts::default();
    let mut work = 0;
    for round in 0..40 {
        for commit in 1..=1023 {
            let before = met.commits.len();
            met.add(commit, false);
            // What is sorted is what there was, unless it only grew.
            work += if met.commits.len() <= before { before } else { 1 };
        }
        assert!(met.commits.len() >= 1023, "{round}");
    }
    assert!(work < 20 * 40 * 1023, "{work} steps");
    met.sort();
    assert_eq!(met.commits, (1..=1023).collect::<Vec<_>>());
}

/// Searching what was read in what is written, and the other way round.
#[test]
fn many_written_keys_are_judged_as_few_are() {
    let mut random = tidesdb_sim::rng::SplitMix64::new(1);
    let key = |n: u64| n.to_be_bytes();
    let (mut found, mut absent) = (0, 0);
    for round in 0..300 {
        let mut dependencies = with_live(&[10, 10]);
        for _ in 0..random.below(4) {
            let limit = 15 + random.below(10);
            dependencies.record_point(random.below(3) as u32, &key(random.below(600)), limit);
        }
        for _ in 0..random.below(4) {
            let (start, limit) = (random.below(600), 15 + random.below(10));
            let end = key(start + random.below(9));
            let end = (random.below(10) > 0).then_some(&end[..]);
            dependencies.record_range(random.below(3) as u32, &key(start), end, limit);
        }
        if random.below(20) == 0 {
            dependencies.begin_recording(18);
        }
        let keys: Vec<[u8; 8]> = (0..100).map(|_| key(random.below(600))).collect();
        let mut written: Vec<(u32, &[u8])> = Vec::new();
        written.extend(keys.iter().map(|key| (1 + random.below(2) as u32, &key[..])));
        written.sort_unstable();
        let overwritten = overwritten(&[15 + random.below(10)]);
        let candidate = Candidate { snapshot: 10, commit: Some(90), conflicts: &overwritten };
        let few = dependencies.dangerous_structure(candidate, written.iter().copied());
        let many = dependencies.dangerous_structure_of_many(candidate, &written);
        assert_eq!(few.is_some(), many.is_some(), "{round}: {few:?}, {many:?}");
        if let Some(DangerousStructure::IsPivot { family, key }) = many {
            let this = std::iter::once((family, key));
            assert!(dependencies.dangerous_structure(candidate, this).is_some(), "{round}");
        }
        found += u32::from(many.is_some());
        absent += u32::from(many.is_none());
    }
    assert!(found > 20 && absent > 20, "{found} found, {absent} absent");
}
