//! Why compactions leave a file alone.

use std::path::Path;
use std::sync::Arc;

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

/// Why compactions leave a table or a value log alone, which still returns what can be read of it;
/// empty while they do not.
#[derive(Debug, Default)]
pub(crate) struct SetAside(ArcSwapOption<Error>);

impl SetAside {
    /// Has compactions leave the file alone. What was found first stays.
    pub(crate) fn set(&self, why: &Error) {
        if !self.is_set() {
            self.0.store(Some(Arc::new(why.clone())));
        }
    }

    /// True once a compaction could not read the file.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load().is_some()
    }

    /// The error of the compaction that could not read the file.
    pub(crate) fn why(&self) -> Option<Error> {
        self.0.load().as_deref().cloned()
    }

    /// Whether the system could not read the file, which may pass. What was read and is wrong stays
    /// so.
    pub(crate) fn is_failed_read(&self) -> bool {
        self.0.load().as_deref().is_some_and(|why| !why.is_corruption())
    }

    /// Lets compactions read the file again if the system could not.
    pub(crate) fn forget_failed_read(&self) {
        if self.is_failed_read() {
            self.0.store(None);
        }
    }
}
