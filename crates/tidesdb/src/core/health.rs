//! Whether a database serves, and why not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tidesdb_base::error::{Error, Result};
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::forks::ProcessMark;

use crate::family::FamilyState;

/// Whether the database still serves.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// The process that opened the database. In a forked child of it every call is refused.
    opened_in: ProcessMark,
    closed: AtomicBool,
    failed: AtomicBool,
    cause: Mutex<Option<Error>>,
    /// Held during a close.
    pub closing: Mutex<()>,
}

impl Health {
    /// Refuses all writes from now on.
    pub(crate) fn fail(&self, cause: Error) {
        lock(&self.cause).get_or_insert(cause);
        // ORDERING: release publishes the cause.
        self.failed.store(true, Ordering::Release);
    }

    /// Why writes are refused, if they are.
    ///
    /// # Errors
    /// [`Error::Broken`] with the first failure.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        // ORDERING: acquire pairs with the release in `fail`.
        if self.failed.load(Ordering::Acquire) { self.cause() } else { Ok(()) }
    }

    #[cold]
    fn cause(&self) -> Result<()> {
        match lock(&self.cause).clone() {
            Some(cause) => Err(Error::Broken(Arc::new(cause))),
            None => Ok(()),
        }
    }

    /// Marks the database closed; false when it was already.
    pub(crate) fn close(&self) -> bool {
        // ORDERING: what happened before closing is visible to a thread that sees it closed.
        !self.closed.swap(true, Ordering::AcqRel)
    }

    /// The process that opened the database.
    pub(crate) const fn opened_in(&self) -> ProcessMark {
        self.opened_in
    }

    /// Refuses calls of a process that did not open the database.
    ///
    /// # Errors
    /// [`Error::Forked`].
    #[inline]
    pub(crate) fn check_not_forked(&self) -> Result<()> {
        if self.is_opening_process() { Ok(()) } else { Err(Error::Forked) }
    }

    /// Whether this is the process that opened the database, and not a fork of it.
    #[inline]
    pub(crate) fn is_opening_process(&self) -> bool {
        self.opened_in.is_here()
    }

    /// Refuses calls of a closed database, and of a process that did not open it.
    ///
    /// # Errors
    /// [`Error::Forked`], [`Error::Closed`].
    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        self.check_not_forked()?;
        if self.is_closed() { Err(Error::Closed) } else { Ok(()) }
    }

    /// Refuses reads of a closed database or a dropped family.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::FamilyDropped`].
    #[inline]
    pub(crate) fn check_readable(&self, family: &FamilyState) -> Result<()> {
        family.check_view()?;
        self.check_open()
    }

    /// True once the database was closed.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        // ORDERING: acquire pairs with the swap in `close`.
        self.closed.load(Ordering::Acquire)
    }
}
