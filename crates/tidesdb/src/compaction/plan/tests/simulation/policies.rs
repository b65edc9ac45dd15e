//! Policies: the engine's own planner, and models of others.

use std::cell::RefCell;
use std::rc::Rc;

use super::tables::{Run, Table};
use super::world::{FLUSH, PUT_RATE, World};
use crate::compaction::expiry::{ExpiryRules, due_of, expired_of, outlook_of};
use crate::compaction::plan::{
    CompactedKeys, CompactionPlan, InProgress, PlanFacts, choose_compaction, expired_share,
};
use crate::compaction::state::rules;
use crate::flow::{FamilySignals, Pace, family_pace};
use crate::output::key_partitions::KeySpan;
use crate::version::{are_bulk_deletions, collected_from};

/// A compaction of runs at some places, newest first, into the oldest of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Choice {
    pub first: usize,
    pub count: usize,
    /// Of the first run, only this table and what shares keys with it.
    pub only: Option<Rc<Table>>,
    pub range: KeySpan,
    /// The slice with the most garbage.
    pub by_slices: bool,
    pub by_steps: bool,
    pub level: u32,
}

/// Chooses the next compaction.
pub(super) trait Policy {
    fn name(&self) -> &'static str;

    /// Large values lie in value logs.
    fn separates(&self) -> bool {
        false
    }

    /// Bytes that may be put in a second. Models slow writers as RocksDB does: between 20 and 36
    /// of the runs that they count.
    fn rate(&self, world: &World) -> f64 {
        let over = (self.slowing_runs(world) as f64 - 20.0).max(0.0);
        PUT_RATE * (1.0 - over / 16.0).max(0.02)
    }

    /// Runs that slow writers.
    fn slowing_runs(&self, world: &World) -> usize {
        young(world)
    }

    /// Level of a run that holds so many bytes.
    fn level_of(&self, _: f64) -> u32 {
        2
    }

    /// Tables that go without a compaction.
    fn expired(&self, _: &World) -> Vec<Rc<Table>> {
        Vec::new()
    }

    /// The compaction of at most so many bytes that a thread begins, if any.
    fn choose(&self, world: &World, most_bytes: u64) -> Option<Choice>;
}

/// Flushed runs.
fn young(world: &World) -> usize {
    world.runs.iter().take_while(|run| run.level == 1).count()
}

/// The planner of the engine with a family's default options.
#[derive(Debug)]
pub(super) struct TidesDb {
    pub is_read: bool,
}

impl TidesDb {
    /// As the engine's `FamilyState::favours_readers`.
    fn favours_readers(&self, world: &World) -> bool {
        let deletions = |run: &Run| run.watched.iter().filter(|entry| entry.is_deletion).count();
        let counts = world.runs.iter().map(|run| (run.watched.len() as u64, deletions(run) as u64));
        self.is_read && !are_bulk_deletions(counts)
    }

    fn expiry_rules(world: &World) -> ExpiryRules {
        ExpiryRules {
            now: world.now as u64,
            oldest: world.snapshot.map(u64::from),
            share: expired_share(collected_from(world.options.max_space_amplification)),
        }
    }
}

fn tables(world: &World) -> Vec<&[Rc<Table>]> {
    world.runs.iter().map(|run| run.tables.as_slice()).collect()
}

impl Policy for TidesDb {
    fn name(&self) -> &'static str {
        if self.is_read { "TidesDB" } else { "unread" }
    }

    fn separates(&self) -> bool {
        true
    }

    fn rate(&self, world: &World) -> f64 {
        let amplification = world.options.max_space_amplification;
        let (bytes, settled) = world.estimate.space(&world.runs);
        let allowed = |amplification: f64| (settled as f64 * amplification) as u64;
        let signals = FamilySignals {
            write_buffer_bytes: world.options.write_buffer_size as u64,
            queue_limit: world.options.l0_queue_stall_threshold as u64,
            compaction_trigger: world.options.l1_file_count_trigger as u64,
            young_runs: world.young() as u64,
            runs: world.runs.len() as u64,
            run_bytes: world.runs.iter().map(|run| run.bytes).sum(),
            favours_readers: self.favours_readers(world),
            flush_bytes_per_second: world.load.flush_rate as u64,
            table_bytes: bytes,
            settled_table_bytes: settled,
            collected_table_bytes: allowed(collected_from(amplification)),
            allowed_table_bytes: allowed(amplification),
            ..FamilySignals::default()
        };
        match family_pace(&signals) {
            Pace::Free => PUT_RATE,
            Pace::Slow { bytes_per_second, .. } => PUT_RATE.min(bytes_per_second as f64),
            Pace::Wait(_) => 0.0,
        }
    }

    fn expired(&self, world: &World) -> Vec<Rc<Table>> {
        match world.load.expires {
            true => expired_of(&tables(world), &Self::expiry_rules(world)),
            false => Vec::new(),
        }
    }

    fn choose(&self, world: &World, most_bytes: u64) -> Option<Choice> {
        let mut runs = world.estimate.summaries(&world.runs);
        for run in &mut runs {
            run.dead_value_bytes = world.dead_values.get(&run.id).copied().unwrap_or(0);
        }
        let in_parts = runs.last().is_some_and(|oldest| oldest.level > 1);
        let due = || {
            let (tables, rules) = (tables(world), Self::expiry_rules(world));
            due_of(&tables, &outlook_of(&tables, in_parts, &rules), &rules)
        };
        let of_family = !world.merges.is_empty();
        let looks = world.load.expires && world.estimate.is_new && !of_family;
        let range = looks.then(due).flatten();
        let plan = choose_compaction(&PlanFacts {
            runs: &runs,
            rules: rules(&world.options, self.favours_readers(world)),
            activity: world.activity,
            in_progress: InProgress {
                of_family,
                free: world.free(),
                // There are no other families, and threads that choose are free.
                most_bytes: if of_family { most_bytes } else { u64::MAX },
            },
            has_dead_tables: false,
            expired_bytes: range.as_ref().map(|_| 0),
            sound_slice_garbage: None,
        });
        let CompactionPlan { count, level, keys, into_oldest, .. } = plan?;
        let by_slices = keys == CompactedKeys::WorstSlice;
        let range = range.unwrap_or_default();
        Some(Choice { count, range, by_slices, by_steps: into_oldest, level, ..Choice::default() })
    }
}

/// Levels that are so many times too large come before flushed runs, so that debt is not only moved
/// downwards.
const MOST_OVERFULL: f64 = 2.0;
/// Ratio between levels of two of the policies below.
const RATIO: f64 = 10.0;
/// Flushed runs that are merged.
const TRIGGER: usize = 4;

/// Level `n` holds so much: four flushes, and ten times as much each further down.
fn capacity(level: u32) -> f64 {
    FLUSH * TRIGGER as f64 * RATIO.powi(level as i32 - 2)
}

/// The first level that has room for so many bytes.
fn level_for(bytes: f64) -> u32 {
    (2..20).find(|level| bytes <= capacity(*level)).unwrap_or(20)
}

/// Leveled compaction: the level that is fullest for its capacity gives a table to the next.
#[derive(Debug, Default)]
pub(super) struct Leveled {
    /// Of each level, where the last table was taken.
    taken: RefCell<[u64; 24]>,
}

impl Policy for Leveled {
    fn name(&self) -> &'static str {
        "leveled"
    }

    fn level_of(&self, bytes: f64) -> u32 {
        level_for(bytes)
    }

    fn choose(&self, world: &World, _: u64) -> Option<Choice> {
        if !world.merges.is_empty() {
            return None;
        }
        let young = young(world);
        let merged = world.runs.iter().enumerate().skip(young);
        let fullness = merged.map(|(at, run)| (at, run.bytes as f64 / capacity(run.level)));
        let fullest = fullness.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|full| full.1 > 1.0);
        let waiting = (young as f64 / TRIGGER as f64).min(MOST_OVERFULL);
        let Some((first, _)) = fullest.filter(|full| full.1 > waiting) else {
            let next = world.runs.get(young).is_some_and(|run| run.level == 2);
            let count = young + usize::from(next);
            return (young >= TRIGGER).then(|| Choice { count, level: 2, ..Choice::default() });
        };
        let run = world.runs.get(first)?;
        let level = run.level + 1;
        if world.runs.get(first + 1).is_none_or(|older| older.level > level) {
            return Some(Choice { first, count: 1, level, ..Choice::default() });
        }
        let mut taken = self.taken.borrow_mut();
        let taken = taken.get_mut(run.level as usize)?;
        let next = run.tables.iter().find(|table| table.from > *taken).or(run.tables.first())?;
        *taken = next.from;
        Some(Choice { first, count: 2, only: Some(Rc::clone(next)), level, ..Choice::default() })
    }
}

/// Tiered compaction as RocksDB's universal one: runs of about one size are merged, all of them
/// when the newer ones are twice the oldest, and the newest when they are too many.
#[derive(Debug)]
pub(super) struct Universal;

impl Policy for Universal {
    fn name(&self) -> &'static str {
        "universal"
    }

    fn slowing_runs(&self, world: &World) -> usize {
        world.runs.len()
    }

    fn choose(&self, world: &World, most_bytes: u64) -> Option<Choice> {
        let free = world.runs.get(..world.free())?;
        if world.runs.len() < TRIGGER || free.len() < 2 || most_bytes < u64::MAX {
            return None;
        }
        let bytes: Vec<f64> = free.iter().map(|run| run.bytes as f64).collect();
        let newer = bytes.iter().sum::<f64>() - bytes.last()?;
        let all = free.len() == world.runs.len() && newer >= 2.0 * bytes.last()?;
        let mut sum = 0.0;
        let alike = bytes.iter().take_while(|bytes| {
            let fits = sum == 0.0 || **bytes <= sum * 1.01;
            sum += **bytes;
            fits
        });
        let count = match alike.count() {
            _ if all => free.len(),
            1 if free.len() > TRIGGER => free.len() - TRIGGER + 1,
            1 => return None,
            count => count,
        };
        Some(Choice { count, level: 2, ..Choice::default() })
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

    fn level_of(&self, bytes: f64) -> u32 {
        level_for(bytes)
    }

    fn choose(&self, world: &World, _: u64) -> Option<Choice> {
        if !world.merges.is_empty() || young(world) < TRIGGER {
            return None;
        }
        let through = |level: u32| world.runs.iter().take_while(move |run| run.level <= level);
        let has_room = |level: &u32| {
            through(*level).map(|run| run.bytes as f64).sum::<f64>() <= capacity(*level)
        };
        let level = (2..=20).find(has_room)?;
        Some(Choice { count: through(level).count(), level, ..Choice::default() })
    }
}
