//! Which versions a flush or a compaction may leave out.
//!
//! Live snapshots cut the sequence numbers into stripes: of all versions of a key within one
//! stripe only the newest can be seen. A deletion, or an expired version, can go as well when
//! nothing older of its key can lie below and no snapshot is older than it; until then it shadows
//! what is older. A range tombstone drops what it hides from all readers; it goes by other rules
//! (`version/range_tombstones.rs`).
//!
//! Sequence numbers that all readers see are replaced by zero, which compresses well; but not under
//! a range tombstone: it would take the version for an older one and hide it.

use tidesdb_base::entry::{SequenceNumber, ValueKind, is_expired};
use tidesdb_base::range_tombstone::RangeTombstoneSets;

/// What to do with a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No reader can see it, now or later.
    Drop,
    /// Keep it under this sequence number: its own, or zero when all readers see it.
    Keep(SequenceNumber),
}

/// Judges the versions of one key after the other, each key's newest first.
#[derive(Debug)]
pub(crate) struct DropRules {
    /// Live snapshots, oldest first, listed before the first version was read.
    snapshots: Vec<SequenceNumber>,
    /// Nothing older than the inputs lies below them.
    bottom: bool,
    now_unix_seconds: u64,
    /// Range deletions that are on disk when the outputs are, all visible to new snapshots.
    range_tombstones: RangeTombstoneSets,
    /// The present key, if there are range deletions.
    key: Vec<u8>,
    /// Stripe of the last judged version of the present key.
    stripe: Option<usize>,
}

impl DropRules {
    pub(crate) fn new(snapshots: Vec<SequenceNumber>, bottom: bool, now_unix_seconds: u64) -> Self {
        Self {
            snapshots,
            bottom,
            now_unix_seconds,
            range_tombstones: RangeTombstoneSets::default(),
            key: Vec::new(),
            stripe: None,
        }
    }

    /// Applies these range deletions, which are on disk, or will be with the outputs, and which
    /// every later snapshot sees.
    pub(crate) fn with_range_tombstones(mut self, tombstones: RangeTombstoneSets) -> Self {
        self.range_tombstones = tombstones;
        self
    }

    /// Sequence number up to which range deletions are wholly applied: the outputs hold nothing
    /// that they hide.
    pub(crate) fn range_deletes_applied_through(&self) -> SequenceNumber {
        let oldest = self.snapshots.first().copied().unwrap_or(SequenceNumber::MAX);
        self.range_tombstones.highest_sequence().min(oldest)
    }

    /// The versions judged next are of this key.
    pub(crate) fn next_key(&mut self, key: &[u8]) {
        self.stripe = None;
        if !self.range_tombstones.is_empty() {
            self.key.clear();
            self.key.extend_from_slice(key);
        }
    }

    /// Judges the next version of the present key as if it were the newest.
    pub(crate) const fn forget_newer(&mut self) {
        self.stripe = None;
    }

    /// True when a range deletion hides a version of the present key from all readers: from the
    /// oldest snapshot that could see it, and so from all later ones.
    fn is_range_deleted(&self, sequence: SequenceNumber, stripe: usize) -> bool {
        let first = self.snapshots.get(stripe).copied().unwrap_or(SequenceNumber::MAX);
        self.range_tombstones.hides(&self.key, sequence, first)
    }

    /// Whether every live snapshot sees the commit of this sequence number.
    pub(crate) fn is_seen_by_all(&self, sequence: SequenceNumber) -> bool {
        self.snapshots.first().is_none_or(|&oldest| oldest >= sequence)
    }

    /// Judges the next older version of the present key.
    pub(crate) fn judge(
        &mut self,
        sequence: SequenceNumber,
        kind: ValueKind,
        expires_at: u64,
    ) -> Verdict {
        // Number of snapshots that are too old to see the version.
        let stripe = self.snapshots.partition_point(|&snapshot| snapshot < sequence);
        if self.stripe == Some(stripe) {
            return Verdict::Drop;
        }
        self.stripe = Some(stripe);
        if self.is_range_deleted(sequence, stripe) {
            return Verdict::Drop;
        }
        let expired = is_expired(expires_at, self.now_unix_seconds);
        let dead = kind.is_tombstone() || expired;
        if !self.bottom || stripe != 0 {
            return Verdict::Keep(sequence);
        }
        if dead {
            return Verdict::Drop;
        }
        let under_a_range = self.range_tombstones.hides(&self.key, 0, SequenceNumber::MAX);
        Verdict::Keep(if under_a_range { sequence } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidesdb_base::range_tombstone::{RangeTombstone, RangeTombstones};

    use super::*;
    use ValueKind::{Tombstone, Value};

    fn judge_all(
        snapshots: &[u64],
        bottom: bool,
        versions: &[(u64, ValueKind, u64)],
    ) -> Vec<Verdict> {
        let mut rules = DropRules::new(snapshots.to_vec(), bottom, 1000);
        rules.next_key(b"key");
        versions.iter().map(|&(s, k, e)| rules.judge(s, k, e)).collect()
    }

    #[test]
    fn without_snapshots_only_the_newest_version_stays() {
        let versions = [(9, Value, 0), (5, Value, 0), (5, Value, 0), (1, Tombstone, 0)];
        assert_eq!(
            judge_all(&[], false, &versions),
            [Verdict::Keep(9), Verdict::Drop, Verdict::Drop, Verdict::Drop]
        );
        assert_eq!(judge_all(&[], true, &versions)[0], Verdict::Keep(0));
    }

    #[test]
    fn each_snapshot_keeps_the_version_that_it_sees() {
        let versions = [(9, Value, 0), (7, Value, 0), (5, Value, 0), (3, Value, 0)];
        assert_eq!(
            judge_all(&[4, 7], true, &versions),
            [Verdict::Keep(9), Verdict::Keep(7), Verdict::Drop, Verdict::Keep(0)]
        );
    }

    #[test]
    fn a_tombstone_goes_only_at_the_bottom_and_under_every_snapshot() {
        let versions = [(9, Tombstone, 0), (5, Value, 0)];
        assert_eq!(judge_all(&[], false, &versions), [Verdict::Keep(9), Verdict::Drop]);
        assert_eq!(judge_all(&[], true, &versions), [Verdict::Drop, Verdict::Drop]);
        assert_eq!(judge_all(&[6], true, &versions), [Verdict::Keep(9), Verdict::Keep(0)]);
        assert_eq!(judge_all(&[9], true, &versions), [Verdict::Drop, Verdict::Drop]);
    }

    #[test]
    fn an_expired_version_shadows_until_it_may_go() {
        let versions = [(9, Value, 1000), (5, Value, 0)];
        assert_eq!(judge_all(&[], false, &versions), [Verdict::Keep(9), Verdict::Drop]);
        assert_eq!(judge_all(&[], true, &versions), [Verdict::Drop, Verdict::Drop]);
        assert_eq!(judge_all(&[], true, &[(9, Value, 1001)]), [Verdict::Keep(0)]);
    }

    fn judge_under(
        tombstones: &[u64],
        snapshots: &[u64],
        bottom: bool,
        versions: &[u64],
    ) -> (Vec<Verdict>, u64) {
        let range = |&sequence| {
            let (start, end) = (b"k".as_slice().into(), b"l".as_slice().into());
            Arc::new(RangeTombstone { start, end, sequence })
        };
        let set = RangeTombstones::new(tombstones.iter().map(range).collect());
        let mut rules = DropRules::new(snapshots.to_vec(), bottom, 1000)
            .with_range_tombstones([Arc::new(set)].into_iter().collect());
        rules.next_key(b"key");
        let verdicts = versions.iter().map(|&sequence| rules.judge(sequence, Value, 0)).collect();
        (verdicts, rules.range_deletes_applied_through())
    }

    #[test]
    fn a_range_deletion_drops_what_it_hides_from_all_readers() {
        use Verdict::{Drop, Keep};
        assert_eq!(judge_under(&[7], &[], false, &[9, 5, 3]), (vec![Keep(9), Drop, Drop], 7));
        assert_eq!(judge_under(&[7], &[], false, &[5, 3]), (vec![Drop, Drop], 7));
        assert_eq!(judge_under(&[7], &[], false, &[7]), (vec![Keep(7)], 7), "the same commit");
        assert_eq!(judge_under(&[7], &[6], false, &[5, 3]), (vec![Keep(5), Drop], 6));
        assert_eq!(judge_under(&[7], &[7], false, &[5, 3]), (vec![Drop, Drop], 7));
        assert_eq!(judge_under(&[7], &[4], false, &[6, 3]), (vec![Drop, Keep(3)], 4));
        assert_eq!(judge_under(&[5, 7], &[6], false, &[4]), (vec![Drop], 6));
    }

    #[test]
    fn a_sequence_number_stays_while_a_range_deletion_covers_the_key() {
        assert_eq!(judge_under(&[7], &[], true, &[9]).0, [Verdict::Keep(9)]);
        assert_eq!(judge_under(&[7], &[6], true, &[5]).0, [Verdict::Keep(5)]);
        let mut rules = DropRules::new(Vec::new(), true, 1000);
        rules.next_key(b"key");
        assert_eq!(rules.judge(9, Value, 0), Verdict::Keep(0));
    }
}
