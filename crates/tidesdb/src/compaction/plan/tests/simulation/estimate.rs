//! What the planner and the pace of writers are told of garbage.
//!
//! As `state`, `version/liveness.rs` and `version/space.rs` have it, but counted on each so-many-th
//! key where the engine has sketches of the keys. Made anew when a two-thousandth of the data has
//! changed.

use std::collections::BTreeMap;

use super::tables::{Entry, Run};
use crate::compaction::plan::RunSummary;
use tidesdb_base::liveness::Liveness;

/// Keys that are watched, about.
pub(super) const WATCHED: f64 = 16_384.0;
/// The part of the data that changes between two counts.
const CHANGED_PART: f64 = 2_000.0;

/// What is known of some entries' garbage.
#[derive(Debug, Default)]
struct Count {
    versions: u64,
    distinct: u64,
    deletions: u64,
    expired: u64,
}

impl Count {
    /// As the engine's `Stripe::needed` and `LivenessCount::liveness`.
    fn liveness(&self, bottom: bool) -> Liveness {
        let share = self.expired as f64 / self.versions.max(1) as f64;
        let gone = self.deletions + (self.distinct as f64 * share) as u64;
        let needed = self.distinct.saturating_sub(if bottom { gone } else { 0 });
        Liveness { versions: self.versions, needed }
    }
}

/// Counts entries, and which keys of them are different.
#[derive(Debug, Default)]
struct Counter {
    /// Of each watched key, beside a snapshot: the count in which it was seen last.
    seen: Vec<[u32; 2]>,
    counts: u32,
}

/// By what entries are counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub snapshot: Option<u32>,
    pub now: f64,
    /// Of so many keys one is watched.
    pub every: u32,
}

impl Counter {
    fn begin(&mut self) -> Count {
        self.counts += 1;
        Count::default()
    }

    fn add(&mut self, count: &mut Count, entries: &[Entry], rules: &Rules) {
        for entry in entries {
            let stripe = rules.snapshot.is_some_and(|snapshot| entry.sequence > snapshot);
            let at = (entry.id / rules.every) as usize;
            if self.seen.len() <= at {
                self.seen.resize(at + 1, [0; 2]);
            }
            let Some([older, newer]) = self.seen.get_mut(at) else { continue };
            let seen = if stripe { newer } else { older };
            count.versions += 1;
            count.distinct += u64::from(*seen != self.counts);
            *seen = self.counts;
            if !stripe {
                let has_expired = entry.expires != 0 && f64::from(entry.expires) <= rules.now;
                count.deletions += u64::from(entry.is_deletion);
                count.expired += u64::from(has_expired);
            }
        }
    }
}

/// Estimates of garbage, and what they were counted from.
#[derive(Debug, Default)]
pub(super) struct Estimate {
    counter: Counter,
    /// Bytes that have changed since it was made.
    changed: f64,
    /// It was made when it was asked for last.
    pub is_new: bool,
    /// By number of the run: of it alone, and of it and all newer ones.
    alone: BTreeMap<u64, Liveness>,
    through: BTreeMap<u64, Liveness>,
    /// The part of all bytes that is no growth.
    settled: f64,
}

impl Estimate {
    pub(super) fn change(&mut self, bytes: f64) {
        self.changed += bytes;
    }

    /// Counts anew if much has changed.
    pub(super) fn renew(&mut self, runs: &[Run], rules: &Rules) {
        let bytes: u64 = runs.iter().map(|run| run.bytes + run.value_bytes).sum();
        self.is_new = self.changed * CHANGED_PART >= bytes as f64;
        if !self.is_new {
            return;
        }
        self.changed = 0.0;
        (self.alone, self.through) = Default::default();
        for (at, run) in runs.iter().enumerate() {
            let mut count = self.counter.begin();
            self.counter.add(&mut count, &run.watched, rules);
            self.alone.insert(run.id, count.liveness(at + 1 == runs.len()));
        }
        let mut through = self.counter.begin();
        for (at, run) in runs.iter().enumerate() {
            self.counter.add(&mut through, &run.watched, rules);
            self.through.insert(run.id, through.liveness(at + 1 == runs.len()));
        }
        self.settled = self.settled(runs, bytes as f64, rules);
    }

    /// The most that was alive at a time that the runs still show.
    fn settled(&mut self, runs: &[Run], all_bytes: f64, rules: &Rules) -> f64 {
        let mut count = self.counter.begin();
        let (mut bytes, mut settled) = (0.0, 0.0_f64);
        let unexpired = Rules { now: 0.0, ..*rules };
        for run in runs.iter().rev() {
            self.counter.add(&mut count, &run.watched, &unexpired);
            let is_oldest = bytes == 0.0;
            bytes += (run.bytes + run.value_bytes) as f64;
            let Liveness { versions, needed } = count.liveness(!is_oldest);
            settled = settled.max(bytes * needed as f64 / versions.max(1) as f64);
        }
        settled / all_bytes.max(1.0)
    }

    /// Bytes of tables and values, and how many of them are no growth.
    pub(super) fn space(&self, runs: &[Run]) -> (u64, u64) {
        let bytes: u64 = runs.iter().map(|run| run.bytes + run.value_bytes).sum();
        (bytes, (bytes as f64 * self.settled) as u64)
    }

    /// What the planner sees of the runs.
    pub(super) fn summaries(&self, runs: &[Run]) -> Vec<RunSummary> {
        let (mut versions, mut garbage) = (0, 0);
        let summary = |run: &Run| {
            let own = run.watched.len() as u64;
            versions += own;
            // What came since it was counted is no garbage yet.
            garbage = self.through.get(&run.id).map_or(garbage, Liveness::garbage);
            let waste = self.alone.get(&run.id).map_or(0, Liveness::garbage);
            let of = |versions: u64, garbage: u64| Liveness {
                versions,
                needed: versions.saturating_sub(garbage),
            };
            RunSummary {
                level: run.level,
                id: run.id,
                bytes: run.bytes.max(1),
                value_bytes: run.value_bytes,
                alone: of(own, waste),
                through: of(versions, garbage),
                ..RunSummary::default()
            }
        };
        runs.iter().map(summary).collect()
    }

    /// The part of the entries between two keys that is garbage.
    pub(super) fn garbage_share(&mut self, runs: &[Run], slice: (u64, u64), rules: &Rules) -> f64 {
        let mut count = self.counter.begin();
        for run in runs {
            let before = |key: u64| run.watched.partition_point(|entry| entry.key < key);
            let entries = run.watched.get(before(slice.0)..before(slice.1));
            self.counter.add(&mut count, entries.unwrap_or_default(), rules);
        }
        count.liveness(true).garbage_share()
    }
}
