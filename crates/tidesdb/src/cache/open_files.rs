//! The budget of descriptors, which the files of tables and value logs share.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Weak};

use tidesdb_lockfree::sync::lock;
use tidesdb_sys::descriptors;

/// So many entries are not worth a look for those that point at nothing any more.
const LEAST_LOOKED_THROUGH: usize = 64;

/// Of the descriptors that the process may have, the database keeps at most one in so many for
/// tables and value logs: compactions and scans hold on to what was closed, and the application has
/// files too.
const LARGEST_SHARE: u64 = 2;

/// What a file of the budget is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenKind {
    Table,
    ValueLog,
}

/// A file that is opened when it is needed.
pub(crate) trait OpenFile: Debug + Send + Sync {
    /// What the file is.
    fn kind(&self) -> OpenKind;

    /// Closes the file unless it was used since the last call; true when it is closed now.
    fn close_if_idle(&self) -> bool;
}

/// Keeps the number of open files within a bound by closing those not used lately (the CLOCK
/// rule: one more round for a file that was used since the hand passed).
#[derive(Debug)]
pub(crate) struct OpenFiles {
    most: AtomicUsize,
    open: AtomicUsize,
    /// How many of the open ones are tables.
    tables: AtomicUsize,
    ring: Mutex<VecDeque<Weak<dyn OpenFile>>>,
}

/// The bound for a setting of `max_open_files`, 0 of which means none, on a process that may have
/// so many descriptors.
fn bound(setting: usize, limit: Option<u64>) -> usize {
    let wanted = if setting == 0 { usize::MAX } else { setting };
    let share = limit.map(|limit| usize::try_from(limit / LARGEST_SHARE).unwrap_or(usize::MAX));
    share.map_or(wanted, |share| wanted.min(share.max(1)))
}

impl OpenFiles {
    /// The bound is given as for [`OpenFiles::set_most`].
    pub(crate) fn new(setting: usize) -> Self {
        Self {
            most: AtomicUsize::new(bound(setting, descriptors::limit())),
            open: AtomicUsize::new(0),
            tables: AtomicUsize::new(0),
            ring: Mutex::new(VecDeque::new()),
        }
    }

    /// Changes the bound to a setting of `max_open_files`; it holds from the next file that is
    /// opened on.
    pub(crate) fn set_most(&self, setting: usize) {
        // ORDERING: relaxed; a setting.
        self.most.store(bound(setting, descriptors::limit()), Ordering::Relaxed);
    }

    /// Number of open files.
    pub(crate) fn count(&self) -> usize {
        // ORDERING: a statistic and a soft bound.
        self.open.load(Ordering::Relaxed)
    }

    /// Number of open files that are tables.
    pub(crate) fn tables(&self) -> usize {
        // ORDERING: a statistic.
        self.tables.load(Ordering::Relaxed)
    }

    /// Notes that `file` was opened, and closes others that are over the bound.
    pub(crate) fn opened(&self, file: Weak<dyn OpenFile>, kind: OpenKind) {
        if kind == OpenKind::Table {
            // ORDERING: a statistic.
            self.tables.fetch_add(1, Ordering::Relaxed);
        }
        let mut ring = lock(&self.ring);
        let opened = file.as_ptr();
        ring.push_back(file);
        // ORDERING: relaxed; changed with the lock held or by drops, a soft bound either way.
        let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
        if ring.len() > 2 * open + LEAST_LOOKED_THROUGH {
            // A file that is gone leaves its memory to holders that still point at it.
            ring.retain(|file| file.strong_count() > 0);
        }
        // ORDERING: relaxed; a setting.
        let most = self.most.load(Ordering::Relaxed);
        let mut passes = 2 * ring.len();
        while self.count() > most && passes > 0 {
            passes -= 1;
            let Some(weak) = ring.pop_front() else { break };
            let Some(candidate) = weak.upgrade() else { continue };
            if !std::ptr::addr_eq(weak.as_ptr(), opened) && candidate.close_if_idle() {
                self.closed(candidate.kind());
            } else {
                ring.push_back(weak);
            }
        }
    }

    /// Notes that an open file was closed.
    pub(crate) fn closed(&self, kind: OpenKind) {
        if kind == OpenKind::Table {
            // ORDERING: a statistic.
            self.tables.fetch_sub(1, Ordering::Relaxed);
        }
        // ORDERING: as in `opened`.
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[derive(Debug)]
    struct Idle;

    impl OpenFile for Idle {
        fn kind(&self) -> OpenKind {
            OpenKind::ValueLog
        }

        fn close_if_idle(&self) -> bool {
            true
        }
    }

    fn opened(files: &OpenFiles, file: &Arc<Idle>) {
        let weak: Weak<Idle> = Arc::downgrade(file);
        files.opened(weak, OpenKind::ValueLog);
    }

    /// Each left its memory behind, without end when no bound was reached.
    #[test]
    fn files_that_are_gone_are_forgotten() {
        let files = OpenFiles::new(0);
        files.most.store(usize::MAX, Ordering::Relaxed);
        let kept: Vec<_> = (0..10).map(|_| Arc::new(Idle)).collect();
        kept.iter().for_each(|kept| opened(&files, kept));
        for _ in 10..10_000 {
            let passing = Arc::new(Idle);
            opened(&files, &passing);
            files.closed(OpenKind::ValueLog);
        }
        let ring = lock(&files.ring);
        assert!(ring.len() <= 2 * kept.len() + LEAST_LOOKED_THROUGH + 2, "{}", ring.len());
        let found = |wanted: &Arc<Idle>| {
            ring.iter().any(|weak| std::ptr::addr_eq(weak.as_ptr(), Arc::as_ptr(wanted)))
        };
        assert!(kept.iter().all(found));
    }

    #[test]
    fn the_bound_leaves_descriptors_to_others() {
        let cases = [
            ((256, Some(1024)), 256),
            ((256, Some(256)), 128),
            ((0, Some(256)), 128),
            ((0, None), usize::MAX),
            ((7, None), 7),
            ((7, Some(1)), 1),
        ];
        for ((setting, limit), wanted) in cases {
            assert_eq!(bound(setting, limit), wanted, "{setting}, {limit:?}");
        }
    }
}
