//! The end of a manifest that can't be read.

use std::fmt;

/// How many bytes at the end of the manifest in force are no edit. Prints what that may mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TornManifest(pub u64);

impl fmt::Display for TornManifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the last {} bytes of the manifest can't be read: a crash cut an edit short, which \
             costs nothing, or edits are lost, and families, their options and deleted ranges of \
             keys are as they were before",
            self.0
        )
    }
}
