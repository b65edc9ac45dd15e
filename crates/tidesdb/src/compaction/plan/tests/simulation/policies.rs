//! Policies: the engine's own planner, and models of others.

use super::world::{Choice, FLUSH, SLICES, World};
use crate::compaction::plan::{
    Activity, Beside, CompactionPlan, MergedKeys, PlanFacts, PlanRules, choose,
};
use crate::version::collected_from;

/// Chooses the next merge.
pub(super) trait Policy {
    fn name(&self) -> &'static str;
    /// The family is read.
    fn is_read(&self) -> bool {
        true
    }
    /// The merge of at most so many bytes that a thread begins, if any.
    fn choose(&self, world: &World, most_bytes: f64) -> Option<Choice>;
}

/// The planner of the engine with a family's default options.
#[derive(Debug)]
pub(super) struct TidesDb {
    pub is_read: bool,
}

impl Policy for TidesDb {
    fn name(&self) -> &'static str {
        if self.is_read { "TidesDB" } else { "unread" }
    }

    fn is_read(&self) -> bool {
        self.is_read
    }

    fn choose(&self, world: &World, most_bytes: f64) -> Option<Choice> {
        let rules = PlanRules {
            fan_in: 8,
            is_read: self.is_read,
            size_ratio: 10,
            max_space_amplification: 1.5,
            collected_from: collected_from(1.5),
            least_garbage_bytes: FLUSH as u64,
            awaits_snapshots: false,
        };
        let runs = world.summaries();
        let of_family = world.merging() > 0;
        // There are no other families, and threads that choose are free.
        let most_bytes = if of_family { most_bytes as u64 } else { u64::MAX };
        let plan = choose(&PlanFacts {
            runs: &runs,
            rules,
            activity: Activity::Busy,
            beside: Beside { of_family, free: world.free(), most_bytes },
            expired_bytes: None,
            sound_slice_garbage: None,
        });
        let CompactionPlan { count, level, keys, into_oldest, .. } = plan?;
        let slice = (keys == MergedKeys::WorstSlice).then(|| world.worst_slice());
        Some(Choice { first: 0, count, slice, by_steps: into_oldest, level })
    }
}

/// Ratio between levels of the two policies below.
const RATIO: f64 = 10.0;

/// Level `n` holds so much: four flushes, and ten times as much each further down.
fn capacity(level: u32) -> f64 {
    FLUSH * 4.0 * RATIO.powi(level as i32 - 2)
}

/// Leveled compaction: the level that is fullest for its capacity gives a slice to the next.
#[derive(Debug)]
pub(super) struct Leveled;

impl Policy for Leveled {
    fn name(&self) -> &'static str {
        "leveled"
    }

    fn choose(&self, world: &World, _: f64) -> Option<Choice> {
        if world.merging() > 0 {
            return None;
        }
        let young = world.runs.iter().take_while(|run| run.level == 1).count();
        let merged = world.runs.iter().enumerate().skip(young);
        let fullness = merged.map(|(at, run)| (at, run.bytes() / capacity(run.level)));
        let fullest = fullness.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|full| full.1 > 1.0);
        let Some((at, _)) = fullest.filter(|full| full.1 > young as f64 / 4.0) else {
            let next = world.runs.get(young).is_some_and(|run| run.level == 2);
            let all = Choice {
                first: 0,
                count: young + usize::from(next),
                slice: None,
                by_steps: false,
                level: 2,
            };
            return (young >= 4).then_some(all);
        };
        let run = world.runs.get(at)?;
        let level = run.level + 1;
        if world.runs.get(at + 1).is_none_or(|older| older.level > level) {
            return Some(Choice { first: at, count: 1, slice: None, by_steps: false, level });
        }
        // The fullest slice stands for the next files in turn.
        let slice = (0..SLICES)
            .max_by(|a, b| run.slice_bytes(*a, SLICES).total_cmp(&run.slice_bytes(*b, SLICES)))?;
        Some(Choice { first: at, count: 2, slice: Some(slice), by_steps: false, level })
    }
}

/// Spooky without its partitions: flushed runs are merged with all levels down to the first that
/// has room for them.
#[derive(Debug)]
pub(super) struct Spooky;

impl Policy for Spooky {
    fn name(&self) -> &'static str {
        "Spooky"
    }

    fn choose(&self, world: &World, _: f64) -> Option<Choice> {
        let young = world.runs.iter().take_while(|run| run.level == 1).count();
        if world.merging() > 0 || young < 4 {
            return None;
        }
        let through = |level: u32| world.runs.iter().take_while(move |run| run.level <= level);
        let has_room =
            |level: &u32| through(*level).map(|run| run.bytes()).sum::<f64>() <= capacity(*level);
        let level = (2..20).find(has_room)?;
        Some(Choice {
            first: 0,
            count: through(level).count(),
            slice: None,
            by_steps: false,
            level,
        })
    }
}
