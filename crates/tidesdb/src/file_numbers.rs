//! Numbers that are given once: those of files, one counter for tables, value logs, log segments
//! and manifests; and those of databases that a process has opened.

use std::sync::atomic::{AtomicU64, Ordering};

/// No file of a database has this number or a higher one: a process that hands out a million a
/// second reaches it after two thousand years. A higher one that is found is damage, or a file of
/// that name was put there; the numbers after it would begin at 0 again (I-306).
pub(crate) const FILE_NUMBERS_END: u64 = 1 << 56;

/// Hands out file numbers; none is given twice in the life of a database.
#[derive(Debug)]
pub(crate) struct FileNumbers(AtomicU64);

impl FileNumbers {
    /// The next number given will be `next`.
    pub(crate) const fn starting_at(next: u64) -> Self {
        Self(AtomicU64::new(next))
    }

    /// A number that was never given before.
    pub(crate) fn next(&self) -> u64 {
        // ORDERING: relaxed; only the addition's atomicity matters.
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// The number that would be given next; every number in use is below it.
    pub(crate) fn peek(&self) -> u64 {
        // ORDERING: relaxed; a lower bound on the future is all that is asked.
        self.0.load(Ordering::Relaxed)
    }
}

/// Tells the databases that a process has opened apart: no two have had the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DatabaseId(u64);

impl DatabaseId {
    /// An identity that no database has had before.
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // ORDERING: relaxed; only that numbers differ matters.
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}
