//! What the records of some tables say together of their versions and keys.

use std::sync::Arc;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_files::manifest::TableRecord;
use tidesdb_files::sstable::KeySketch;

/// Sums over some tables of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyCounts {
    /// Versions, tombstones included.
    pub entries: u64,
    pub tombstones: u64,
    /// All keys.
    pub keys: KeySketch,
    /// About how many keys there are, at most as many as versions.
    pub distinct: u64,
    /// What the sketch says of that, which may be more than there are versions.
    pub(super) estimate: u64,
    /// Sequence numbers of the oldest and the newest version.
    pub oldest: SequenceNumber,
    pub newest: SequenceNumber,
    /// When an eighth of some table has expired, in Unix seconds; `None` when that never comes.
    pub first_expiry: Option<u64>,
}

impl KeyCounts {
    pub(crate) fn of<'a>(records: impl IntoIterator<Item = &'a Arc<TableRecord>>) -> Self {
        let mut counts = Self { oldest: SequenceNumber::MAX, ..Self::default() };
        for record in records {
            counts.entries += record.entries;
            counts.tombstones += record.tombstones;
            counts.keys.merge(&record.keys);
            counts.oldest = counts.oldest.min(record.lowest_sequence);
            counts.newest = counts.newest.max(record.highest_sequence);
            let first = record.expiry.times().first().copied();
            counts.first_expiry = counts.first_expiry.into_iter().chain(first).min();
        }
        counts.estimate = counts.keys.estimate();
        counts.distinct = counts.estimate.min(counts.entries);
        counts
    }
}
