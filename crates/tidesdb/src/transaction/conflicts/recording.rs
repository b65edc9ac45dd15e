//! Recording what serializable transactions have read, and the lock that this takes.
//!
//! A transaction that begins, and one that is judged, waits for the lock of the dependencies. So
//! many reads are recorded in parts, with the lock given back in between: those of a transaction
//! that only read before it looks, those of one that wrote after it is visible. Until they are all
//! recorded the latter counts as one that has read everything.

use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;

use tidesdb_base::entry::SequenceNumber;
use tidesdb_lockfree::sync::lock;

use crate::core::Core;
use crate::isolation::Dependencies;
use crate::transaction::read_set::ReadSet;
#[cfg(test)]
use crate::transaction::tests::steps;

/// Points or ranges recorded with the lock of the dependencies taken once.
const RECORDED_AT_ONCE: usize = 256;

/// What is remembered of finished serializable transactions takes this part of the memory budget at
/// most.
const DEPENDENCIES_PART: u64 = 64;

/// The dependencies, locked. When the lock is given back the memory budget is set to what they
/// take.
pub(super) struct LockedDependencies<'t> {
    core: &'t Core,
    dependencies: MutexGuard<'t, Dependencies>,
}

impl<'t> LockedDependencies<'t> {
    pub(super) fn lock(core: &'t Core) -> Self {
        let mut dependencies = lock(&core.isolation.dependencies);
        dependencies.set_most_bytes(core.memory.budget.bytes() / DEPENDENCIES_PART);
        Self { core, dependencies }
    }
}

impl Deref for LockedDependencies<'_> {
    type Target = Dependencies;

    fn deref(&self) -> &Dependencies {
        &self.dependencies
    }
}

impl DerefMut for LockedDependencies<'_> {
    fn deref_mut(&mut self) -> &mut Dependencies {
        &mut self.dependencies
    }
}

impl Drop for LockedDependencies<'_> {
    fn drop(&mut self) {
        self.core.memory.budget.set_dependencies(self.dependencies.memory_bytes());
    }
}

/// Whether there are more reads than are recorded at once.
pub(super) fn is_long(reads: &ReadSet) -> bool {
    reads.points().nth(RECORDED_AT_ONCE).is_some() || reads.ranges().nth(RECORDED_AT_ONCE).is_some()
}

/// Records all reads, which are few.
pub(super) fn record_at_once(
    dependencies: &mut Dependencies,
    reads: &ReadSet,
    limit: SequenceNumber,
) {
    for (family, key) in reads.points() {
        dependencies.record_point(family, key, limit);
    }
    for range in reads.ranges() {
        let end = range.end.exclusive();
        dependencies.record_range(range.family, &range.start, end.as_deref(), limit);
    }
}

/// Records all reads, with the lock given back every now and then.
pub(super) fn record_in_parts(core: &Core, reads: &ReadSet, limit: SequenceNumber) {
    let mut points = reads.points().peekable();
    while points.peek().is_some() {
        #[cfg(test)]
        steps::take(&steps::BEFORE_A_PART);
        let mut dependencies = LockedDependencies::lock(core);
        for (family, key) in points.by_ref().take(RECORDED_AT_ONCE) {
            dependencies.record_point(family, key, limit);
        }
    }
    for range in reads.ranges() {
        let end = range.end.exclusive();
        let mut dependencies = LockedDependencies::lock(core);
        dependencies.record_range(range.family, &range.start, end.as_deref(), limit);
    }
}
