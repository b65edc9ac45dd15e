//! Savepoints of a transaction.

use tidesdb_base::error::Result;

use super::Transaction;

impl Transaction {
    /// Marks the present state of the writes under a name, to roll back to. A name that is there
    /// already moves to the present state and keeps its place in the order of creation.
    ///
    /// # Errors
    /// `Invalid` for a finished transaction; `Forked`.
    pub fn savepoint(&mut self, name: &str) -> Result<()> {
        self.check_active_not_forked()?;
        self.writes.get_or_insert_default().savepoint(name);
        Ok(())
    }

    /// True when there is a savepoint that could be rolled back to.
    #[must_use]
    pub fn has_savepoints(&self) -> bool {
        self.writes.as_ref().is_some_and(|writes| writes.has_savepoints())
    }

    /// Takes back what was written since the savepoint, and removes it and all that were created
    /// after it. Reads stay tracked.
    ///
    /// # Errors
    /// `NotFound`, `Invalid` for a finished transaction, `Forked`; nothing has changed then.
    #[doc(alias = "rollback_to")]
    pub fn rollback_to_savepoint(&mut self, name: &str) -> Result<()> {
        self.check_active_not_forked()?;
        let budget = &self.owner.core().memory.budget;
        self.writes.get_or_insert_default().rollback_to(name, budget)
    }

    /// Forgets a savepoint and nothing else.
    ///
    /// # Errors
    /// `NotFound`, `Invalid` for a finished transaction, `Forked`.
    #[doc(alias = "release")]
    #[doc(alias = "pop_savepoint")]
    pub fn release_savepoint(&mut self, name: &str) -> Result<()> {
        self.check_active_not_forked()?;
        self.writes.get_or_insert_default().release(name)
    }
}
