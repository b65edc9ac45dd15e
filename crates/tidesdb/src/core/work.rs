//! Work on the files of a database that is not a commit.

use super::{BackgroundRequests, Callers, Control, Jobs, ProgressSignal};

/// Work on the files of a database: what users have asked for, what is queued or runs, on threads
/// of the scheduler and of callers, and how far it has got.
#[derive(Debug)]
pub(crate) struct FileWork {
    /// Where lower layers ask for work of higher ones.
    pub background: BackgroundRequests,
    pub control: Control,
    pub jobs: Jobs,
    pub callers: Callers,
    pub progress: ProgressSignal,
}

impl FileWork {
    pub(crate) fn done_by(background: BackgroundRequests) -> Self {
        Self {
            background,
            control: Control::default(),
            jobs: Jobs::default(),
            callers: Callers::default(),
            progress: ProgressSignal::default(),
        }
    }
}
