//! Which versions a flush or a merge may leave out.
//!
//! Live snapshots cut the sequence numbers into stripes: of all versions of a key within one
//! stripe only the newest can be seen. A deletion, or an expired version, can go as well when
//! nothing older of its key can lie below and no snapshot is older than it; until then it shadows
//! what is older.

use tidesdb_base::entry::{SequenceNumber, ValueKind, is_expired};

/// What to do with a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nobody can see it, now or later.
    Drop,
    /// Keep it under this sequence number: its own, or zero when everybody sees it.
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
    /// Stripe of the last judged version of the present key.
    stripe: Option<usize>,
}

impl DropRules {
    pub(crate) const fn new(
        snapshots: Vec<SequenceNumber>,
        bottom: bool,
        now_unix_seconds: u64,
    ) -> Self {
        Self { snapshots, bottom, now_unix_seconds, stripe: None }
    }

    /// The versions judged next are of another key.
    pub(crate) const fn next_key(&mut self) {
        self.stripe = None;
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
        let mut stripe = self.snapshots.partition_point(|&snapshot| snapshot < sequence);
        if cfg!(planted_bug = "version_dropped_under_a_snapshot") {
            stripe = 0;
        }
        if self.stripe == Some(stripe) {
            return Verdict::Drop;
        }
        self.stripe = Some(stripe);
        let dead = kind.is_tombstone() || is_expired(expires_at, self.now_unix_seconds);
        if cfg!(planted_bug = "tombstone_dropped_too_early") && dead {
            return Verdict::Drop;
        }
        if !self.bottom || stripe != 0 {
            return Verdict::Keep(sequence);
        }
        if dead { Verdict::Drop } else { Verdict::Keep(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ValueKind::{Tombstone, Value};

    fn judge_all(
        snapshots: &[u64],
        bottom: bool,
        versions: &[(u64, ValueKind, u64)],
    ) -> Vec<Verdict> {
        let mut rules = DropRules::new(snapshots.to_vec(), bottom, 1000);
        rules.next_key();
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
}
