//! The numbers in the names of files: one counter for tables, value logs, log segments and
//! manifests.

use std::sync::atomic::{AtomicU64, Ordering};

/// No file of a database has this number or a higher one: a process that hands out a million a
/// second reaches it after two thousand years. A higher one that is found is damage, or a file of
/// that name was put there; the numbers after it would begin at 0 again (I-306).
pub const FILE_NUMBERS_END: u64 = 1 << 56;

/// Hands out file numbers; none is given twice in the life of a database.
#[derive(Debug)]
pub struct FileNumbers(AtomicU64);

impl FileNumbers {
    /// The next number given will be `next`.
    pub const fn starting_at(next: u64) -> Self {
        Self(AtomicU64::new(next))
    }

    /// A number that was never given before.
    pub fn next(&self) -> u64 {
        // ORDERING: relaxed; only the addition's atomicity matters.
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// The number that would be given next; every number in use is below it.
    pub fn peek(&self) -> u64 {
        // ORDERING: relaxed; a lower bound on the future is all that is asked.
        self.0.load(Ordering::Relaxed)
    }
}
