//! Classes of runs by size, and which of them are merged for the number of runs alone.
//!
//! More runs of a class save rewriting, fewer are quicker to read. A small family lies in memory
//! and has few classes, so it waits for many. A large one has more classes, and each run costs a
//! reader a block of the disk: it waits for fewer, the fewer the larger it is. What a family of a
//! terabyte pays and gets stands in `docs/design/0004-simulated-scale.md` and
//! `0005-slow-compactions.md`.

use super::{PlanRules, RunSummary, bytes_of};
use crate::flow::RunBounds;

/// While the family is not read, this many times as many runs of an upper class wait for a
/// compaction.
const UNREAD_FAN_INS: usize = 2;
/// While the family is not read, there are at most this many times the fan-in of runs in all.
/// Writers are slowed by more.
const MOST_UNREAD_RUNS_PER_FAN_IN: usize = 4;

/// Families up to this size that are not kept for readers wait for as many runs as the options say.
const LARGE_BYTES: u64 = 16 << 30;
/// The same for families that are kept for readers.
const LARGE_READ_BYTES: u64 = 1 << 30;

/// A family that merges no more runs at once than this does not merge fewer when they pile up.
const FEW_RUNS: usize = 4;

/// A compaction from this size on has small runs joined first: it holds all its runs until its end,
/// and what is flushed meanwhile comes on top of them. A thread that shares the processors with
/// readers and writers takes 18 seconds for it.
const LONG_MERGE_BYTES: u64 = 1 << 30;
/// A compaction ends above flushed runs, in one that was merged before, if the newer ones are at
/// least one part in so many of that one.
const LEAST_NEWER_PART: u64 = 4;
/// Runs are small when together they are at most this part of the compaction.
const SMALL_PART: u64 = 16;

impl PlanRules {
    /// The rules for runs that have so many bytes in all.
    pub(super) fn at_size(&self, bytes: u64) -> Self {
        let eighths = match bytes / LARGE_BYTES {
            0 if self.favours_readers && bytes >= LARGE_READ_BYTES => 6,
            0 => 8,
            1..=3 => 6,
            4..=15 => 4,
            _ => 3,
        };
        Self { fan_in: (self.fan_in * eighths / 8).max(2), ..*self }
    }

    /// How many runs of a class are worth a compaction beside others, for a family of `all` runs:
    /// as many as usual, but fewer in the last quarter of the way from where writers begin to be
    /// slowed to where they are slowest. Where few runs are merged anyway it stays so, since each
    /// byte is rewritten as often as it may be.
    fn least_fan_in(&self, all: &[RunSummary]) -> usize {
        if self.fan_in <= FEW_RUNS {
            return self.fan_in;
        }
        let bytes = bytes_of(all, all.len());
        let bounds = RunBounds::of(bytes, self.favours_readers, self.trigger);
        let last_quarter = (bounds.slowest - bounds.slowing).div_ceil(4).max(1);
        let from = bounds.slowest - last_quarter;
        let over = (all.len() as u64).saturating_sub(from).min(last_quarter);
        let most_less = (self.fan_in - 2) as u64;
        self.fan_in - (over * most_less).div_ceil(last_quarter) as usize
    }
}

/// As many of the newest `count` runs as are merged first, where a compaction of `bytes` is planned
/// for all of them: those that are small for it, if they are at least `least`. A long compaction
/// goes by steps, so its oldest input is not a flushed run where that can be.
pub(super) fn small_first(runs: &[RunSummary], count: usize, bytes: u64, least: usize) -> usize {
    let (mut count, mut bytes) = (count, bytes);
    while bytes >= LONG_MERGE_BYTES {
        let is_small = |first: &usize| bytes_of(runs, *first) <= bytes / SMALL_PART;
        let Some(first) = (least..count).rfind(is_small) else {
            return into_compacted(runs, count).unwrap_or(count);
        };
        count = first;
        bytes = bytes_of(runs, first);
    }
    count
}

/// The newest of so many runs down to the oldest that was merged before: what a compaction that was
/// cut short has left of a flushed run may lie below large ones. Only if the newer ones are a good
/// part of that one. Otherwise it would be rewritten for each flush, and the flushed runs below it
/// would never have their turn.
fn into_compacted(runs: &[RunSummary], count: usize) -> Option<usize> {
    let last = runs.iter().take(count).rposition(|run| run.level > 1)?;
    let newer = bytes_of(runs, last);
    (last > 0 && newer.saturating_mul(LEAST_NEWER_PART) >= runs.get(last)?.bytes)
        .then_some(last + 1)
}

/// The newest of `runs` to be merged for their number, if they have at most `most_bytes`, while the
/// rest of `all` runs of the family is in compactions under way.
///
/// What these hold is merged when they end, and what is flushed meanwhile comes on top. Where that
/// would soon make writers slowest, fewer runs of a class are waited for: down to two, the nearer
/// the bound is.
pub(super) fn by_tiers_beside_others(
    runs: &[RunSummary],
    all: &[RunSummary],
    rules: &PlanRules,
    most_bytes: u64,
) -> Option<usize> {
    let fan_ins = (rules.least_fan_in(all)..=rules.fan_in).rev();
    let rules_of = |fan_in| PlanRules { fan_in, ..*rules };
    fan_ins.map(rules_of).find_map(|rules| by_tiers(runs, &rules, most_bytes))
}

/// The newest runs that hold enough of one class, if they have at most so many bytes.
pub(super) fn by_tiers(runs: &[RunSummary], rules: &PlanRules, most_bytes: u64) -> Option<usize> {
    let tiers = Tiers::of(runs, rules)?;
    let fan_in = tiers.fan_in;
    // Flushed runs are merged when they are many, also where their sizes are of several classes.
    let flushed = runs.iter().take_while(|run| run.level == 1).count();
    let full = tiers.first_full().or((flushed >= fan_in).then_some(flushed));
    let mut count = full?;
    if bytes_of(runs, count) > most_bytes {
        // As many as can be: waiting for a compaction of all would make them even more.
        return (fan_in..count).rfind(|&fewer| bytes_of(runs, fewer) <= most_bytes);
    }
    loop {
        // The output would be of this class: with enough others there already, they come along.
        let class_of_output = tiers.class(bytes_of(runs, count));
        let wider = tiers.up_to(class_of_output);
        let others = tiers.classes.iter().take(wider).skip(count);
        let others = others.filter(|class| **class == class_of_output).count();
        if wider <= count
            || others + 1 < tiers.enough(class_of_output)
            || bytes_of(runs, wider) > most_bytes
        {
            return Some(count);
        }
        count = wider;
    }
}

/// The classes of some of a family's runs, newest first.
struct Tiers {
    fan_in: usize,
    upper_fan_in: usize,
    /// Bytes of the smallest run.
    unit: f64,
    any_flushed: bool,
    /// The highest class of each run and all newer ones. A small run below a larger one can only be
    /// merged together with it, so it counts as one of that class.
    classes: Vec<u32>,
}

impl Tiers {
    fn of(runs: &[RunSummary], rules: &PlanRules) -> Option<Self> {
        let fan_in = rules.fan_in.max(2);
        let few = runs.len() <= fan_in * MOST_UNREAD_RUNS_PER_FAN_IN;
        let mut tiers = Self {
            fan_in,
            upper_fan_in: if rules.favours_readers || !few {
                fan_in
            } else {
                fan_in * UNREAD_FAN_INS
            },
            unit: runs.iter().map(|run| run.bytes).min()?.max(1) as f64,
            any_flushed: runs.iter().any(|run| run.level == 1),
            classes: Vec::new(),
        };
        let classes = runs.iter().scan(0, |highest: &mut u32, run| {
            *highest = tiers.class(run.bytes).max(*highest);
            Some(*highest)
        });
        tiers.classes = classes.collect();
        Some(tiers)
    }

    /// The class of the nearest size: a compaction that drops something yields less than the sum of
    /// its inputs.
    fn class(&self, bytes: u64) -> u32 {
        let units = bytes as f64 / self.unit;
        let fan_in = self.fan_in as f64;
        if units < fan_in.sqrt() {
            return 0;
        }
        1 + (units / fan_in).log(self.upper_fan_in as f64).round().max(0.0) as u32
    }

    /// How many runs of a class are merged. Without a flushed run, those of the lowest were merged
    /// before.
    fn enough(&self, class: u32) -> usize {
        if class == 0 && self.any_flushed { self.fan_in } else { self.upper_fan_in }
    }

    /// The newest runs of at most this class.
    fn up_to(&self, class: u32) -> usize {
        self.classes.partition_point(|other| *other <= class)
    }

    /// The newest runs up to the first class of which there are enough.
    fn first_full(&self) -> Option<usize> {
        let full = |class: &u32| {
            let below = class.checked_sub(1).map_or(0, |below| self.up_to(below));
            self.up_to(*class) - below >= self.enough(*class)
        };
        (0..=*self.classes.last()?).find(full).map(|class| self.up_to(class))
    }
}
