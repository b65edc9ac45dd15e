//! Work on the files of a database that is not a commit.

use super::{Callers, Control, Jobs, Progress};

/// Work on the files of a database: what users have asked for, what is queued or runs, on threads
/// of the scheduler and of callers, and how far it has got.
#[derive(Debug, Default)]
pub(crate) struct FileWork {
    pub control: Control,
    pub jobs: Jobs,
    pub callers: Callers,
    pub progress: Progress,
}
