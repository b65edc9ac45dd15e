//! How far work has come that takes long, for a caller who waits for it and may end it.

use tidesdb_base::error::{Error, Result};

/// How far work has come that takes long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// What is being done.
    pub what: &'static str,
    /// Bytes done of this step.
    pub done: u64,
    /// Bytes of this step in all.
    pub total: u64,
}

impl Progress {
    /// A step of work that begins.
    pub(crate) const fn of(what: &'static str, total: u64) -> Self {
        Self { what, done: 0, total }
    }
}

/// A step of work that reports how far it is.
pub(crate) struct Step<'t> {
    at: Progress,
    report: &'t mut dyn FnMut(Progress) -> Result<()>,
    ended: Option<Error>,
}

impl<'t> Step<'t> {
    /// A step that calls `report`.
    pub(crate) fn new(at: Progress, report: &'t mut dyn FnMut(Progress) -> Result<()>) -> Self {
        Self { at, report, ended: None }
    }

    /// Reports that so many bytes more are done.
    ///
    /// # Errors
    /// What the caller returns, who wants the work to end.
    pub(crate) fn add(&mut self, bytes: u64) -> Result<()> {
        self.at.done = self.at.done.saturating_add(bytes).min(self.at.total);
        (self.report)(self.at).inspect_err(|error| self.ended = Some(error.clone()))
    }

    /// The error with which the caller has ended the work: it says nothing of what was worked on.
    pub(crate) const fn ended(&self) -> Option<&Error> {
        self.ended.as_ref()
    }
}
