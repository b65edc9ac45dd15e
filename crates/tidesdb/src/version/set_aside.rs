//! Why compactions leave a file alone.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// Whether a file of the database was set aside since it was opened; nothing takes that back. As
/// long as none was, this says so without a look at each.
#[derive(Clone, Debug, Default)]
pub(crate) struct EverSetAside(Arc<AtomicBool>);

impl EverSetAside {
    /// True once one was.
    #[inline]
    pub(crate) fn was_any(&self) -> bool {
        // ORDERING: acquire pairs with the release in `set`: who sees it finds the file.
        self.0.load(Ordering::Acquire)
    }
}

/// Why compactions leave a table or a value log alone, which still returns what can be read of it;
/// empty while they do not.
#[derive(Debug)]
pub(crate) struct SetAside {
    why: ArcSwapOption<Error>,
    ever: EverSetAside,
}

impl SetAside {
    /// Of a file that is not set aside; `ever` is its database's.
    pub(super) fn new(ever: &EverSetAside) -> Self {
        Self { why: ArcSwapOption::empty(), ever: ever.clone() }
    }

    /// Has compactions leave the file alone. What was found first stays.
    pub(crate) fn set(&self, why: &Error) {
        if !self.is_set() {
            self.why.store(Some(Arc::new(why.clone())));
        }
        // ORDERING: release, behind the store; see `was_any`.
        self.ever.0.store(true, Ordering::Release);
    }

    /// True once a compaction could not read the file.
    pub(crate) fn is_set(&self) -> bool {
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
        }
    }
}
