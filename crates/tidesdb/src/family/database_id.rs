//! Which open database of the process something belongs to.

use std::sync::atomic::{AtomicU64, Ordering};

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
