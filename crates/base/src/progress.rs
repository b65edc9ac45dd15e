//! How far work has come that takes long, for a caller who waits for it and may end it.

use crate::error::{Error, Result};

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
    /// For the engine: so much is done of a step.
    #[doc(hidden)]
    #[must_use]
    pub const fn at(what: &'static str, done: u64, total: u64) -> Self {
        Self { what, done, total }
    }
}

/// A step of work that reports how far it is.
pub struct Step<'t> {
    at: Progress,
    report: &'t mut dyn FnMut(Progress) -> Result<()>,
    ended: Option<Error>,
}

impl<'t> Step<'t> {
    /// A step of so many bytes, which calls `report`.
    pub fn new(
        what: &'static str,
        total: u64,
        report: &'t mut dyn FnMut(Progress) -> Result<()>,
    ) -> Self {
        Self { at: Progress::at(what, 0, total), report, ended: None }
    }

    /// Reports that so many bytes more are done.
    ///
    /// # Errors
    /// What the caller returns, who wants the work to end.
    pub fn add(&mut self, bytes: u64) -> Result<()> {
        self.at.done = self.at.done.saturating_add(bytes).min(self.at.total);
        (self.report)(self.at).inspect_err(|error| self.ended = Some(error.clone()))
    }

    /// The error with which the caller has ended the work: it says nothing of what was worked on.
    pub const fn ended(&self) -> Option<&Error> {
        self.ended.as_ref()
    }
}
