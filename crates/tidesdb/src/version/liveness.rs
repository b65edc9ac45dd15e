//! How many versions tables hold, and how many of them a compaction of these tables would keep.
//!
//! What is garbage is decided here alone: the planner of compactions, the choice of slices,
//! compactions of families at rest and the pace of writers all go by a [`Liveness`]. A compaction
//! leaves out
//!
//! - versions that newer ones of the same stripe hide. Live snapshots cut the sequence numbers into
//!   stripes, as in `output/drop_rules.rs`; what lies in one is estimated by the sketches of
//!   the keys;
//! - deletions, and versions that have expired, where nothing older lies below and no snapshot is
//!   older;
//! - versions that range tombstones hide from all readers, as far as that was measured
//!   (`range_deleted`);
//! - versions that a run holds beside a newer one of their key since a snapshot needed them that is
//!   gone.
//!
//! A table that reaches over the border of a stripe counts as needed, but for what range tombstones
//! hide. So what counts as garbage is dropped by the compaction that it starts, and counts no more
//! (I-95).
#![expect(clippy::cast_possible_truncation, reason = "estimates: what is too large is cut")]

use std::collections::BTreeMap;
use std::sync::Arc;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::liveness::Liveness;
use tidesdb_files::manifest::TableRecord;
use tidesdb_files::sstable::KeySketch;

use super::{KeyCounts, Run, TableFile};

/// Parts of a table by which its record says when they have expired.
const EIGHTHS: u64 = 8;

/// What garbage is estimated by.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LivenessRules<'a> {
    /// Live snapshots, oldest first.
    pub snapshots: &'a [SequenceNumber],
    /// In Unix seconds; 0 when expired versions count as alive.
    pub now: u64,
    /// There are range tombstones.
    pub range_deletions: bool,
}

/// Versions of several runs within one stripe.
#[derive(Debug, Default)]
struct Stripe {
    keys: KeySketch,
    /// Keys of each run, added up.
    versions: u64,
    tombstones: u64,
    range_deleted: u64,
    expired: u64,
    /// What the sketches of the runs say, added up, and what they say together. Sketches of the
    /// same keys are wrong by the same part, so only what one says beside the other counts.
    estimates: u64,
    estimate: u64,
}

impl Stripe {
    /// Versions that a compaction keeps; `goes`: so do not deletions and what has expired.
    fn needed(&self, goes: bool) -> u64 {
        let once = self.estimate as f64 / self.estimates.max(1) as f64;
        let distinct = (self.versions as f64 * once.min(1.0)).ceil() as u64;
        let of_versions = |part: u64| {
            let share = part.min(self.versions) as f64 / self.versions.max(1) as f64;
            (distinct as f64 * share) as u64
        };
        let gone = if goes { self.tombstones + of_versions(self.expired) } else { 0 };
        distinct.saturating_sub(of_versions(self.range_deleted)).saturating_sub(gone)
    }
}

/// Adds up the liveness of runs, in any order.
#[derive(Debug)]
pub(crate) struct LivenessCount<'a> {
    rules: LivenessRules<'a>,
    /// By the number of snapshots that are older.
    stripes: BTreeMap<usize, Stripe>,
    /// Of tables that lie in several stripes.
    held: Liveness,
    /// Versions beyond the first of their key in one run.
    released: u64,
}

impl<'a> LivenessCount<'a> {
    pub(crate) fn new(rules: LivenessRules<'a>) -> Self {
        Self { rules, stripes: BTreeMap::new(), held: Liveness::default(), released: 0 }
    }

    /// Counts a run.
    pub(crate) fn add_run(&mut self, run: &Run) {
        // Snapshots split runs, and are in the way of what hides a table.
        let known = self.rules.snapshots.is_empty().then(|| run.totals.range_deleted());
        self.add_tables(&run.tables, &run.totals.counts, known);
    }

    /// Counts tables of one run; `counts` are those of all of them.
    pub(crate) fn add(&mut self, tables: &[Arc<TableFile>], counts: &KeyCounts) {
        self.add_tables(tables, counts, None);
    }

    /// As [`LivenessCount::add`]. `range_deleted` is what range tombstones hide of all of them, if
    /// that is known.
    fn add_tables(
        &mut self,
        tables: &[Arc<TableFile>],
        counts: &KeyCounts,
        range_deleted: Option<u64>,
    ) {
        if tables.is_empty() {
            return;
        }
        if let Some(stripe) = self.stripe_of(counts.oldest, counts.newest) {
            return self.add_to(stripe, tables.iter(), counts, range_deleted);
        }
        let mut stripes: BTreeMap<usize, Vec<&Arc<TableFile>>> = BTreeMap::new();
        for table in tables {
            let record = &table.record;
            if let Some(stripe) = self.stripe_of(record.lowest_sequence, record.highest_sequence) {
                stripes.entry(stripe).or_default().push(table);
            } else {
                let range_deleted = self.range_deleted(table).min(record.entries);
                self.held.versions += record.entries;
                self.held.needed += record.entries - range_deleted;
            }
        }
        for (stripe, tables) in stripes {
            let counts = KeyCounts::of(tables.iter().map(|table| &table.record));
            self.add_to(stripe, tables.into_iter(), &counts, None);
        }
    }

    /// Counts versions that a run holds beside newer ones of their keys, and no snapshot needs.
    pub(crate) const fn add_released(&mut self, versions: u64) {
        self.released += versions;
    }

    /// What was counted. `bottom`: nothing older lies below.
    pub(crate) fn liveness(&self, bottom: bool) -> Liveness {
        let mut sum = self.held;
        sum.versions += self.released;
        for (&number, stripe) in &self.stripes {
            sum.versions += stripe.versions;
            sum.needed += stripe.needed(bottom && number == 0);
        }
        sum
    }

    /// The stripe in which versions with these sequence numbers and all between lie.
    fn stripe_of(&self, oldest: SequenceNumber, newest: SequenceNumber) -> Option<usize> {
        let older = |sequence| self.rules.snapshots.partition_point(|&older| older < sequence);
        let stripe = older(oldest);
        (stripe == older(newest)).then_some(stripe)
    }

    fn add_to<'t>(
        &mut self,
        number: usize,
        tables: impl Iterator<Item = &'t Arc<TableFile>> + Clone,
        counts: &KeyCounts,
        range_deleted: Option<u64>,
    ) {
        let expires = counts.first_expiry.is_some_and(|first| first <= self.rules.now);
        let expired = match expires {
            true => tables.clone().map(|table| expired(&table.record, self.rules.now)).sum(),
            false => 0,
        };
        let range_deleted = match (self.rules.range_deletions, range_deleted) {
            (false, _) => 0,
            (true, Some(known)) => known,
            (true, None) => tables.map(|table| self.range_deleted(table)).sum(),
        };
        let stripe = self.stripes.entry(number).or_default();
        stripe.keys.merge(&counts.keys);
        stripe.estimates += counts.estimate;
        stripe.estimate = stripe.keys.estimate();
        stripe.versions += counts.distinct;
        stripe.tombstones += counts.tombstones;
        // Of the keys, as many in proportion as of the versions.
        let of_keys = |part: u64| {
            let share = counts.distinct as f64 / counts.entries.max(1) as f64;
            (part as f64 * share) as u64
        };
        stripe.expired += of_keys(expired);
        stripe.range_deleted += of_keys(range_deleted);
    }

    fn range_deleted(&self, table: &TableFile) -> u64 {
        if !self.rules.range_deletions {
            return 0;
        }
        table.range_deleted(self.rules.snapshots)
    }
}

/// Versions of the table that have expired, about.
fn expired(record: &TableRecord, now: u64) -> u64 {
    let eighths = record.expiry.times().iter().filter(|&&time| time <= now).count() as u64;
    record.entries / EIGHTHS * eighths
}

#[cfg(test)]
mod tests;
