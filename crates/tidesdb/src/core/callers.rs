//! Calls that change files on the thread of the caller.

use std::sync::{Condvar, Mutex};

use tidesdb_base::error::{Error, Result};
use tidesdb_lockfree::sync::{lock, wait};

/// Callers who change files of the directory on their own threads: a compaction that was asked for,
/// a family that is made or dropped. Closing waits for them, since another handle may own the
/// directory from then on.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    at_work: Mutex<AtWork>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct AtWork {
    count: usize,
    refused: bool,
}

impl Callers {
    /// Counts the caller until the guard is dropped.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub(crate) fn enter(&self) -> Result<CallerAtWork<'_>> {
        let mut at_work = lock(&self.at_work);
        if at_work.refused {
            return Err(Error::Closed);
        }
        at_work.count += 1;
        Ok(CallerAtWork(self))
    }

    /// Lets no caller enter any more, and waits until all have left.
    pub(crate) fn refuse(&self) {
        let mut at_work = lock(&self.at_work);
        at_work.refused = true;
        while at_work.count > 0 {
            at_work = wait(&self.left, at_work);
        }
    }
}

/// A caller who is at work.
#[derive(Debug)]
#[must_use = "dropping it ends the work"]
pub(crate) struct CallerAtWork<'a>(&'a Callers);

impl Drop for CallerAtWork<'_> {
    fn drop(&mut self) {
        lock(&self.0.at_work).count -= 1;
        self.0.left.notify_all();
    }
}
