//! Whether a family is read, so that compactions which only help readers are left out where it is
//! not.
//!
//! Gets that come to the tables and scans that begin note it, from any thread; it is asked by the
//! planner of compactions.

use std::sync::atomic::{AtomicBool, Ordering};

/// Remembers whether reads of a family's tables began since the flush before the last one.
#[derive(Debug, Default)]
pub(crate) struct ReadActivity {
    since_last_flush: AtomicBool,
    before_it: AtomicBool,
}

// ORDERING: relaxed throughout; what the flags say is an estimate, and goes with no other data.
impl ReadActivity {
    /// A read of tables begins.
    #[inline]
    pub(crate) fn note(&self) {
        // A load first: the flag is nearly always set, and a store would bounce its line.
        if !self.since_last_flush.load(Ordering::Relaxed) {
            self.since_last_flush.store(true, Ordering::Relaxed);
        }
    }

    /// A flush has ended.
    pub(crate) fn note_flush(&self) {
        let read = self.since_last_flush.swap(false, Ordering::Relaxed);
        self.before_it.store(read, Ordering::Relaxed);
    }

    /// Whether tables were read lately.
    pub(crate) fn is_read(&self) -> bool {
        self.since_last_flush.load(Ordering::Relaxed) || self.before_it.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_counts_until_the_second_flush_after_it() {
        let activity = ReadActivity::default();
        assert!(!activity.is_read());
        activity.note();
        assert!(activity.is_read());
        activity.note_flush();
        assert!(activity.is_read());
        activity.note_flush();
        assert!(!activity.is_read());
    }
}
