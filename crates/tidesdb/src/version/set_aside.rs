//! Why compactions leave a file alone.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use tidesdb_base::error::Error;
use tidesdb_sys::vfs::means_shortage;

/// The file that can't be read, if the error says so of one. Most disks tell of damage by an error
/// of the system, be it that of a read or that of an opening.
pub(crate) fn unreadable_file(why: &Error) -> Option<&Path> {
    match why {
        Error::Corruption { file, .. } => Some(file),
        Error::Io { operation: "open" | "read" | "read length", path, source } => {
            (!means_shortage(source)).then_some(path)
        }
        _ => None,
    }
}

/// How often a file of the database was set aside, or was no more, since it was opened. As long as
/// that is the same, what was found by a look at many files holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct SetAsideChanges(Arc<Changes>);

#[derive(Debug, Default)]
struct Changes {
    count: AtomicU64,
    /// Looks at single files.
    #[cfg(test)]
    looks: AtomicU64,
}

impl SetAsideChanges {
    /// How many there were.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        // ORDERING: acquire pairs with the release in `note`: who sees the change finds the file as
        // it is since.
        self.0.count.load(Ordering::Acquire)
    }

    fn note(&self) {
        // ORDERING: release, behind the change; see `count`.
        self.0.count.fetch_add(1, Ordering::Release);
    }

    /// Looks at single files so far.
    #[cfg(test)]
    pub(super) fn looks(&self) -> u64 {
        // ORDERING: relaxed; a count.
        self.0.looks.load(Ordering::Relaxed)
    }
}

/// Why compactions leave a table or a value log alone, which still returns what can be read of it;
/// empty while they do not.
#[derive(Debug)]
pub(crate) struct SetAside {
    why: ArcSwapOption<Error>,
    changes: SetAsideChanges,
}

impl SetAside {
    /// Of a file that is not set aside; `changes` are its database's.
    pub(super) fn new(changes: &SetAsideChanges) -> Self {
        Self { why: ArcSwapOption::empty(), changes: changes.clone() }
    }

    /// Has compactions leave the file alone. What was found first stays.
    pub(crate) fn set(&self, why: &Error) {
        if !self.is_set() {
            self.why.store(Some(Arc::new(why.clone())));
        }
        // Also when it was set: who finds it so must not go by what was known before.
        self.changes.note();
    }

    /// True once a compaction could not read the file.
    pub(crate) fn is_set(&self) -> bool {
        // ORDERING: relaxed; a count.
        #[cfg(test)]
        self.changes.0.looks.fetch_add(1, Ordering::Relaxed);
        self.why.load().is_some()
    }

    /// The error of the compaction that could not read the file.
    pub(crate) fn why(&self) -> Option<Error> {
        self.why.load().as_deref().cloned()
    }

    /// Whether the system could not read the file, which may pass. What was read and is wrong stays
    /// so.
    pub(crate) fn is_failed_read(&self) -> bool {
        self.why.load().as_deref().is_some_and(|why| !why.is_corruption())
    }

    /// Lets compactions read the file again if the system could not.
    pub(crate) fn forget_failed_read(&self) {
        if self.is_failed_read() {
            self.why.store(None);
            self.changes.note();
        }
    }
}
