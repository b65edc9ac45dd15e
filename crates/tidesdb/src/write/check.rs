//! What is asked of a commit before it is written.

use tidesdb_base::entry::SequenceNumber;
use tidesdb_base::error::Result;

/// A last look before a commit is written.
pub(crate) trait CommitCheck {
    /// Called without the gate, right before the commit takes its place in the log.
    fn before_reserving(&mut self);

    /// Called without the gate when the commit got no place: what was taken before is given back.
    /// It may be that another place is taken then.
    #[inline]
    fn without_place(&mut self) {}

    /// Called inside the gate with the place that the commit has: whatever ends at or before
    /// `start` precedes it, everything else follows it. `end` is its sequence number. An error
    /// calls the commit off.
    fn check(&mut self, start: u64, end: SequenceNumber) -> Result<()>;

    /// Called without the gate when the commit was called off: whether it is to take another place
    /// because the check has looked again. It may be called off for another reason meanwhile.
    ///
    /// # Errors
    /// What that look has found.
    #[inline]
    fn looks_again(&mut self) -> Result<bool> {
        Ok(false)
    }
}

/// Commits whatever has happened meanwhile.
#[derive(Debug)]
pub(crate) struct Unchecked;

impl CommitCheck for Unchecked {
    #[inline]
    fn before_reserving(&mut self) {}

    #[inline]
    fn check(&mut self, _start: u64, _end: SequenceNumber) -> Result<()> {
        Ok(())
    }
}
