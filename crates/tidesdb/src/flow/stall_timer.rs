//! How long callers wait for background work that gets nowhere.
//!
//! Writers that wait for a flush and callers of an explicit flush or compaction give up by the same
//! rule: when nothing has moved for `stall_timeout_ms`. Work that is slow but moves is waited for.
//! Time passes only as far as the waiting thread looks on: of a process that is stopped, or a
//! machine that sleeps or gives its processor to others, nothing can be expected, and both come to
//! no more than a step of [`LONGEST_STEP_NANOS`].
//!
//! Plain data of the waiting thread; progress is a number that changes whenever work gets on.

use tidesdb_base::error::{Error, Result};
use tidesdb_base::event::StallReason;

/// The most that passes between two looks. A caller that waits looks ten times a second, so a step
/// that is longer is time in which the thread did not run.
const LONGEST_STEP_NANOS: u64 = 200_000_000;

/// One wait.
#[derive(Debug)]
pub(crate) struct StallTimer {
    limit_ms: u64,
    /// Progress that was seen last.
    progress: u64,
    /// How long it was looked at without a change.
    waited_nanos: u64,
    /// When it was looked at last.
    looked_nanos: u64,
}

impl StallTimer {
    /// A wait that begins now. `limit_ms` is `stall_timeout_ms`; 0 means without limit.
    pub(crate) const fn new(limit_ms: u64, progress: u64, now_nanos: u64) -> Self {
        Self { limit_ms, progress, waited_nanos: 0, looked_nanos: now_nanos }
    }

    /// Looks at the progress made.
    ///
    /// # Errors
    /// [`Error::Stalled`] when there was none for too long.
    pub(crate) fn check(
        &mut self,
        progress: u64,
        now_nanos: u64,
        reason: StallReason,
    ) -> Result<()> {
        let step = now_nanos.saturating_sub(self.looked_nanos).min(LONGEST_STEP_NANOS);
        self.looked_nanos = now_nanos;
        if progress != self.progress {
            (self.progress, self.waited_nanos) = (progress, 0);
            return Ok(());
        }
        self.waited_nanos += step;
        let milliseconds = self.waited_nanos / 1_000_000;
        if self.limit_ms == 0 || milliseconds < self.limit_ms {
            return Ok(());
        }
        Err(Error::Stalled { reason, milliseconds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: u64 = 1_000_000;

    #[test]
    fn the_wait_ends_when_nothing_moves_and_not_when_it_moves_slowly() {
        let reason = StallReason::FlushQueue;
        let mut stall_timer = StallTimer::new(100, 7, 0);
        for step in 1..100 {
            let (progress, now) = (7 + step / 2, step * 60 * MILLISECOND);
            assert!(stall_timer.check(progress, now, reason).is_ok(), "{step}");
        }
        let (progress, now) = (1000, 7000 * MILLISECOND);
        assert!(stall_timer.check(progress, now, reason).is_ok());
        assert!(stall_timer.check(progress, now + 99 * MILLISECOND, reason).is_ok());
        let error = stall_timer.check(progress, now + 101 * MILLISECOND, reason).unwrap_err();
        assert!(matches!(error, Error::Stalled { milliseconds: 101, .. }), "{error}");
    }

    #[test]
    fn time_without_a_look_does_not_count() {
        let reason = StallReason::FlushQueue;
        let mut stall_timer = StallTimer::new(1_000, 7, 0);
        let stopped = 161_000 * MILLISECOND;
        for times in 1..5 {
            assert!(stall_timer.check(7, times * stopped, reason).is_ok(), "{times}");
        }
        let error = stall_timer.check(7, 5 * stopped, reason).unwrap_err();
        assert!(matches!(error, Error::Stalled { milliseconds: 1_000, .. }), "{error}");
    }

    #[test]
    fn no_limit_means_no_end() {
        let mut stall_timer = StallTimer::new(0, 7, 0);
        assert!(stall_timer.check(7, u64::MAX, StallReason::FlushQueue).is_ok());
    }
}
