//! By how much garbage has grown a family, for the snapshots that there are.
//!
//! Writers who are slowed by garbage ask every two milliseconds. A snapshot that splits runs has
//! the estimate look at each of their tables, and mostly nothing has changed since the last time.

use std::sync::{Arc, Mutex, Weak};

use tidesdb_base::entry::SequenceNumber;
use tidesdb_lockfree::sync::lock;

use crate::version::{SpaceEstimate, Version};

#[derive(Debug)]
struct Known {
    version: Weak<Version>,
    /// Those that do not see all of the version.
    snapshots: Vec<SequenceNumber>,
    space: SpaceEstimate,
}

/// The last estimate. Any thread may ask; one makes it and others wait for it.
#[derive(Debug, Default)]
pub(crate) struct SpaceForSnapshots(Mutex<Option<Box<Known>>>);

impl SpaceForSnapshots {
    /// The estimate for a version with these snapshots, oldest first.
    pub(crate) fn of(&self, version: &Arc<Version>, snapshots: &[SequenceNumber]) -> SpaceEstimate {
        let newest = version.runs.iter().map(|run| run.totals.counts.newest).max().unwrap_or(0);
        let older = snapshots.partition_point(|&snapshot| snapshot < newest);
        let snapshots = snapshots.get(..older).unwrap_or_default();
        let mut known = lock(&self.0);
        // A version that is known keeps its place in memory, so no other has its address.
        let is_known = |known: &&Known| {
            known.version.as_ptr() == Arc::as_ptr(version) && known.snapshots == snapshots
        };
        if let Some(known) = known.as_deref().filter(is_known) {
            return known.space;
        }
        let space = version.space_for(snapshots);
        let version = Arc::downgrade(version);
        *known = Some(Box::new(Known { version, snapshots: snapshots.to_vec(), space }));
        space
    }

    /// What range tombstones hide in the tables was measured: the next estimate is made anew.
    pub(crate) fn forget(&self) {
        *lock(&self.0) = None;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::version::test_tables::{context, table};

    /// Each look of a slowed writer went through all tables of the runs that the snapshot splits.
    #[test]
    fn the_estimate_is_made_once_for_a_version_and_the_snapshots_within_it() {
        let context = context();
        let version = |newest: u64| {
            let tables = [(1, 2), (2, 1)].map(|place| {
                let like = table(&context, place, place.1, 0);
                let record = tidesdb_files::manifest::TableRecord {
                    lowest_sequence: place.1 * 10,
                    highest_sequence: place.1 * newest,
                    ..(*like.record).clone()
                };
                crate::version::TableFile::new(&context, record)
            });
            Arc::new(Version::of_tables(tables, BTreeMap::new()))
        };
        let (first, second) = (version(50), version(60));
        let space = SpaceForSnapshots::default();
        let made = || lock(&space.0).as_ref().map(|known| known.snapshots.as_ptr());
        assert_eq!(space.of(&first, &[15]), first.space_for(&[15]));
        let once = made();
        assert_eq!(space.of(&first, &[15, 100, 200]), first.space_for(&[15]));
        assert_eq!(made(), once, "these see all of it");
        assert_eq!(space.of(&first, &[5]), first.space_for(&[5]));
        assert_ne!(first.space_for(&[5]), first.space_for(&[15]));
        assert_eq!(space.of(&second, &[5]), second.space_for(&[5]));
        space.forget();
        assert!(made().is_none());
    }
}
