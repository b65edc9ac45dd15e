//! Commits behind a break of the log.

use std::fmt;
use std::path::PathBuf;

/// Commits of the log that an opening does not replay, although their records are whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// The segment in which the records end that are replayed.
    pub path: PathBuf,
    /// Log position at which they end.
    pub position: u64,
    /// How many are left out.
    pub commits: u64,
    /// Bytes of their records.
    pub bytes: u64,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, position, commits, bytes } = self;
        write!(
            f,
            "{}: {commits} commits ({bytes} bytes) behind log position {position} were left out, \
             since the record there is not whole: after a crash such commits were never \
             acknowledged, after damage to the log they are lost",
            path.display()
        )
    }
}
