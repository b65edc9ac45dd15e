//! Calls that change files on the thread of the caller.

use std::cell::RefCell;
use std::marker::PhantomData;
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
        Ok(CallerAtWork { callers: self, _noted: self.note_thread() })
    }

    /// Notes that closing waits for this thread, until the guard is dropped: of a thread of the
    /// scheduler too, which ends its job before the scheduler is shut down.
    pub(crate) fn note_thread(&self) -> NotedThread<'_> {
        let _ = OWN.try_with(|own| own.borrow_mut().push(self));
        NotedThread { callers: self, stays_in_its_thread: PhantomData }
    }

    /// Refuses what would wait for the calling thread, which is at work itself: it closes the
    /// database from a function that the work calls, a listener of events for one.
    ///
    /// # Errors
    /// [`Error::CloseFromCallback`].
    pub(crate) fn refuse_own(&self) -> Result<()> {
        let is_own = OWN.try_with(|own| {
            let own = own.borrow();
            own.iter().any(|&callers| std::ptr::eq(callers, self))
        });
        if is_own.unwrap_or(false) { Err(Error::CloseFromCallback) } else { Ok(()) }
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

thread_local! {
    /// As what the thread is at work, an entry for each guard.
    static OWN: RefCell<Vec<*const Callers>> = const { RefCell::new(Vec::new()) };
}

/// A caller who is at work.
#[derive(Debug)]
#[must_use = "dropping it ends the work"]
pub(crate) struct CallerAtWork<'a> {
    callers: &'a Callers,
    _noted: NotedThread<'a>,
}

impl Drop for CallerAtWork<'_> {
    fn drop(&mut self) {
        lock(&self.callers.at_work).count -= 1;
        self.callers.left.notify_all();
    }
}

/// A thread that closing waits for.
#[derive(Debug)]
#[must_use = "dropping it forgets the thread"]
pub(crate) struct NotedThread<'a> {
    callers: &'a Callers,
    stays_in_its_thread: PhantomData<*const ()>,
}

impl Drop for NotedThread<'_> {
    fn drop(&mut self) {
        // It is not there any more in destructors of a thread that ends.
        let _ = OWN.try_with(|own| {
            let mut own = own.borrow_mut();
            let mine = own.iter().rposition(|&callers| std::ptr::eq(callers, self.callers));
            if let Some(at) = mine {
                own.swap_remove(at);
            }
        });
    }
}
