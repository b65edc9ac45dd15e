//! When how much of a family's tables will have expired, kept for the version that was asked about
//! last.
//!
//! All tables are ordered by key for it, and each look for a compaction asks several times. None of
//! it depends on the time: so it is made once for a version and the oldest snapshot within it.

use std::sync::{Arc, Mutex, Weak};

use tidesdb_base::entry::SequenceNumber;
use tidesdb_lockfree::sync::lock;

use crate::version::Version;

/// Tables that are merged together because of what has expired in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExpiringGroup {
    /// Which run has the table with the lowest key, and at which place.
    pub first: (usize, usize),
    /// When enough of them has expired; `None` when that never comes, or they can't be merged.
    pub due_at: Option<u64>,
}

/// What follows from the records of all tables. Times are in Unix seconds.
#[derive(Debug, Default)]
pub(crate) struct ExpiryOutlook {
    /// By key; they have no key in common.
    pub groups: Vec<ExpiringGroup>,
    /// When all of a table has expired, ascending.
    pub all_expired: Vec<u64>,
    /// When all of the first table has expired of those that no snapshot keeps.
    pub first_unkept: Option<u64>,
}

/// What an outlook is made for.
#[derive(Debug)]
struct MadeFor {
    version: Weak<Version>,
    /// Files that were set aside, see [`Version::set_aside_changes`].
    set_aside_changes: u64,
    /// The oldest snapshot that does not see all of the version.
    oldest: Option<SequenceNumber>,
    /// The share of the bytes of a group from which it is merged.
    share: f64,
}

/// The last outlook. Any thread may ask; one makes it and others wait for it. It keeps no table
/// alive.
#[derive(Debug, Default)]
pub(crate) struct ExpiryOutlooks(Mutex<Outlooks>);

#[derive(Debug, Default)]
struct Outlooks {
    known: Option<Box<(MadeFor, Arc<ExpiryOutlook>)>>,
    #[cfg(test)]
    made: usize,
}

impl ExpiryOutlooks {
    /// What is known for the version, with this oldest snapshot and that share, or what `make`
    /// says.
    pub(crate) fn of(
        &self,
        version: &Arc<Version>,
        oldest: Option<SequenceNumber>,
        share: f64,
        make: impl FnOnce() -> ExpiryOutlook,
    ) -> Arc<ExpiryOutlook> {
        let newest = version.runs.iter().map(|run| run.totals.counts.newest).max();
        let oldest = oldest.filter(|oldest| newest.is_some_and(|newest| *oldest < newest));
        // Before the tables are looked at: what is set aside meanwhile has the next one look again.
        let set_aside_changes = version.set_aside_changes();
        let mut outlooks = lock(&self.0);
        // A version that is known keeps its place in memory, so no other has its address.
        let is_for = |(of, _): &(MadeFor, Arc<ExpiryOutlook>)| {
            of.version.as_ptr() == Arc::as_ptr(version)
                && of.set_aside_changes == set_aside_changes
                && of.oldest == oldest
                && of.share.to_bits() == share.to_bits()
        };
        if let Some((_, outlook)) = outlooks.known.as_deref().filter(|known| is_for(known)) {
            return Arc::clone(outlook);
        }
        let outlook = Arc::new(make());
        let version = Arc::downgrade(version);
        let made_for = MadeFor { version, set_aside_changes, oldest, share };
        outlooks.known = Some(Box::new((made_for, Arc::clone(&outlook))));
        #[cfg(test)]
        {
            outlooks.made += 1;
        }
        outlook
    }

    /// How many were made.
    #[cfg(test)]
    pub(crate) fn made(&self) -> usize {
        lock(&self.0).made
    }
}
