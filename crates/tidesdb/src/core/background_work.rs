//! Work on the files of a database that is not a commit: what was asked of it, and how far it is.

use super::{BackgroundControl, BackgroundRequests, Callers, Jobs, ProgressSignal};

/// Work on the files of a database: what users have asked for, what is queued or runs, on threads
/// of the scheduler and of callers, and how far it has got.
#[derive(Debug)]
pub(crate) struct BackgroundWork {
    /// Where lower layers ask for work of higher ones.
    pub background: BackgroundRequests,
    pub control: BackgroundControl,
    pub jobs: Jobs,
    pub callers: Callers,
    pub progress: ProgressSignal,
}

impl BackgroundWork {
    pub(crate) fn done_by(background: BackgroundRequests) -> Self {
        Self {
            background,
            control: BackgroundControl::default(),
            jobs: Jobs::default(),
            callers: Callers::default(),
            progress: ProgressSignal::default(),
        }
    }
}
