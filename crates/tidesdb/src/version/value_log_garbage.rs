//! How much of a family's value logs is garbage.
//!
//! Tables say how many bytes of each value log they point at. There may be many value logs and many
//! runs, and each look for a compaction asks several times: so what all runs point at is added up
//! once for a version, when it is first asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use tidesdb_files::manifest::ValueLogRecord;
use tidesdb_files::vlog::VLOG_HEADER_BYTES;

use super::{Run, TableFile, ValueLogLife, Version};

/// A value-log file that is mostly garbage.
struct MostlyDead {
    /// Bytes that are left.
    live: u64,
    number: u64,
    /// Bytes of garbage.
    dead: u64,
    /// Level and number of the oldest run that points into it.
    oldest: (u32, u64),
}

/// So many small value logs are worth writing their values once more.
const LEAST_JOINED_VALUE_LOGS: usize = 8;

/// What the runs of a version point at in a value log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pointing {
    /// Bytes of values.
    live: u64,
    /// Level and number of the oldest run that points into it.
    oldest: (u32, u64),
}

/// What the runs of a version point at, by number of the value log; added up when it is asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct ValueUse(OnceLock<Arc<BTreeMap<u64, Pointing>>>);

impl ValueUse {
    /// What is pointed at by these runs, newest first: those of the version.
    pub(super) fn of(&self, runs: &[Run]) -> &BTreeMap<u64, Pointing> {
        self.0.get_or_init(|| Arc::new(added_up(runs)))
    }
}

fn added_up(runs: &[Run]) -> BTreeMap<u64, Pointing> {
    let mut sums: BTreeMap<u64, Pointing> = BTreeMap::new();
    for run in runs {
        for (&file, &bytes) in &run.totals.value_references {
            let oldest = run.place();
            let sum = sums.entry(file).or_insert(Pointing { live: 0, oldest });
            *sum = Pointing { live: sum.live + bytes, oldest };
        }
        #[cfg(test)]
        REFERENCES.set(REFERENCES.get() + run.totals.value_references.len());
    }
    sums
}

#[cfg(test)]
thread_local! {
    /// References that were added up.
    pub(super) static REFERENCES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl Version {
    /// Value-log files of which more than half is garbage but not all, so that writing what is left
    /// elsewhere frees more than it costs.
    fn mostly_dead(&self) -> impl Iterator<Item = MostlyDead> {
        let used = self.value_use.of(&self.runs);
        self.value_logs.values().filter_map(move |file| {
            let Pointing { live, oldest } = *used.get(&file.number)?;
            let life = file.life();
            let values = life.bytes().saturating_sub(VLOG_HEADER_BYTES);
            let is_mostly_dead = life.is_settled() && !file.is_damaged() && live * 2 < values;
            let number = file.number;
            (live > 0 && is_mostly_dead).then(|| MostlyDead {
                live,
                number,
                dead: values - live,
                oldest,
            })
        })
    }

    /// Garbage in value-log files that are mostly garbage, by level and number of the oldest
    /// run that points into each.
    pub(crate) fn dead_value_bytes(&self) -> BTreeMap<(u32, u64), u64> {
        let mut bytes = BTreeMap::new();
        for file in self.mostly_dead() {
            *bytes.entry(file.oldest).or_default() += file.dead;
        }
        bytes
    }

    /// Value-log files of which at least an eighth is garbage but not all: the bytes that are left,
    /// and the number; what frees most for its cost comes first.
    pub(crate) fn value_logs_with_garbage(&self) -> Vec<(u64, u64)> {
        let used = self.value_use.of(&self.runs);
        let files = self.value_logs.values().filter(|f| f.life().is_settled() && !f.is_damaged());
        let with_garbage = files.filter_map(|file| {
            let live = used.get(&file.number)?.live;
            let values = file.life().bytes().saturating_sub(VLOG_HEADER_BYTES);
            (live > 0 && live < values - values / 8).then_some((live, file.number))
        });
        let mut files: Vec<_> = with_garbage.collect();
        files.sort_unstable();
        files
    }

    /// Numbers of the value-log files that are mostly garbage and into which only the newest so
    /// many runs point; the deadest of them, until some `most_bytes` are left in these. One is
    /// enough to free something.
    pub(crate) fn mostly_dead_value_logs(&self, runs: usize, most_bytes: u64) -> BTreeSet<u64> {
        let merged: BTreeSet<_> = self.runs.iter().take(runs).map(Run::place).collect();
        let within = self.mostly_dead().filter(|file| merged.contains(&file.oldest));
        let mut dead: Vec<_> = within.map(|file| (file.live, file.number)).collect();
        dead.sort_unstable();
        let mut before = 0;
        let chosen = dead.into_iter().take_while(|(live, _)| {
            before += live;
            before == *live || before <= most_bytes
        });
        chosen.map(|(_, file)| file).collect()
    }

    /// Numbers of the value-log files of at most so many bytes that these tables alone point into;
    /// none when they are few. A compaction of the tables may as well write their values to one
    /// file.
    pub(crate) fn small_value_logs<'a>(
        &self,
        tables: impl Iterator<Item = &'a Arc<TableFile>>,
        most_bytes: u64,
    ) -> BTreeSet<u64> {
        let mut pointed_at: BTreeMap<u64, u64> = BTreeMap::new();
        for &(file, bytes) in tables.flat_map(|table| &table.record.value_references) {
            *pointed_at.entry(file).or_default() += bytes;
        }
        let used = self.value_use.of(&self.runs);
        let by_others_too =
            |file: u64, bytes| used.get(&file).is_none_or(|pointing| pointing.live != bytes);
        let is_small = |file: &u64| {
            let file = self.value_logs.get(file).filter(|file| !file.is_damaged());
            let life = file.map(|file| file.life()).filter(|life| life.is_settled());
            life.is_some_and(|life| life.bytes() <= most_bytes)
        };
        pointed_at.retain(|&file, &mut bytes| is_small(&file) && !by_others_too(file, bytes));
        let few = pointed_at.len() < LEAST_JOINED_VALUE_LOGS;
        if few { BTreeSet::new() } else { pointed_at.into_keys().collect() }
    }

    /// Whether any value-log file is mostly garbage.
    pub(crate) fn has_mostly_dead_value_logs(&self) -> bool {
        self.mostly_dead().next().is_some()
    }

    /// Whether a table points into the value log of that number.
    pub(crate) fn points_into(&self, number: u64) -> bool {
        self.value_use.of(&self.runs).contains_key(&number)
    }

    /// Those that are appended to, as far as tables point into them: as they are now.
    pub(crate) fn growing_value_logs(&self) -> Vec<ValueLogRecord> {
        let used = self.value_logs.values().filter(|file| self.points_into(file.number));
        let growing = used.filter_map(|file| match file.life() {
            ValueLogLife::Appending { bytes } => {
                Some(ValueLogRecord { number: file.number, bytes })
            }
            _ => None,
        });
        growing.collect()
    }

    /// Numbers of the value-log files that no table points into and no commit may point into.
    pub(crate) fn dead_value_logs(&self) -> Vec<u64> {
        let used = self.value_use.of(&self.runs);
        self.value_logs
            .values()
            .filter(|file| !used.contains_key(&file.number) && file.life().is_settled())
            .map(|file| file.number)
            .collect()
    }
}
