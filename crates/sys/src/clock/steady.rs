//! A wall clock that does not jump with the machine's.
//!
//! What expired by a clock that runs ahead is dropped by the next compaction, and is lost when the
//! clock is put right; what expired by a clock that is then put back would be there again. So the
//! wall is read once, and from then on the monotonic clock says how far it has got:
//!
//! - A wall that is ahead by no more than a minute is believed, so that small corrections are
//!   followed. One further ahead is believed after an hour, so that a clock which was set late, or
//!   a machine that slept, does not keep values from expiring.
//! - A wall that is behind is not believed. Time never goes back.
//!
//! With each opening it begins anew with what the wall shows then.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Clock, MILLIS_PER_SECOND, NANOS_PER_SECOND};

/// Seconds that the wall may be ahead of what is expected.
const BELIEVED_AT_ONCE: u64 = 60;

/// Seconds after which a wall that is further ahead is believed.
const BELIEVED_LATER: u64 = 3600;

/// A wall clock that does not jump. Any thread may use it; no call waits for another.
#[derive(Debug)]
pub struct SteadyClock {
    clock: Arc<dyn Clock>,
    began_nanos: u64,
    /// What the wall shows when no time has passed since the beginning.
    base_seconds: AtomicU64,
    /// Since when the wall has been too far ahead; 0 when it is not.
    ahead_since_nanos: AtomicU64,
    /// The latest answer.
    latest_seconds: AtomicU64,
}

impl SteadyClock {
    /// Goes on from what `clock` shows now.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let began_nanos = clock.monotonic_nanos();
        let base_seconds = AtomicU64::new(clock.unix_seconds());
        let (ahead_since_nanos, latest_seconds) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { clock, began_nanos, base_seconds, ahead_since_nanos, latest_seconds }
    }

    /// Whether a wall that is too far ahead now has been so for long enough; the first time it
    /// begins to count.
    fn stays_ahead(&self, now_nanos: u64) -> bool {
        // ORDERING: relaxed throughout. Each value stands for itself, and threads that disagree for
        // a moment answer with times that were right a moment ago.
        let since = self.ahead_since_nanos.load(Ordering::Relaxed);
        if since == 0 {
            self.ahead_since_nanos.store(now_nanos.max(1), Ordering::Relaxed);
        }
        since != 0 && now_nanos.saturating_sub(since) >= BELIEVED_LATER * NANOS_PER_SECOND
    }
}

impl Clock for SteadyClock {
    fn unix_seconds(&self) -> u64 {
        let now_nanos = self.clock.monotonic_nanos();
        let passed = now_nanos.saturating_sub(self.began_nanos) / NANOS_PER_SECOND;
        let wall = self.clock.unix_seconds();
        // ORDERING: as above.
        let expected = self.base_seconds.load(Ordering::Relaxed).saturating_add(passed);
        let is_near = wall <= expected.saturating_add(BELIEVED_AT_ONCE);
        let believed = if is_near {
            if self.ahead_since_nanos.load(Ordering::Relaxed) != 0 {
                self.ahead_since_nanos.store(0, Ordering::Relaxed);
            }
            wall.max(expected)
        } else if self.stays_ahead(now_nanos) {
            // Twice the same, when two threads get here.
            self.base_seconds.fetch_max(wall.saturating_sub(passed), Ordering::Relaxed);
            wall
        } else {
            expected
        };
        // Written once a second at most, so that readers share the line.
        let latest = self.latest_seconds.load(Ordering::Relaxed);
        if believed > latest {
            self.latest_seconds.fetch_max(believed, Ordering::Relaxed);
        }
        believed.max(latest)
    }

    fn unix_millis(&self) -> u64 {
        let seconds = self.unix_seconds();
        let wall = self.clock.unix_millis();
        if wall / MILLIS_PER_SECOND == seconds {
            return wall;
        }
        // The wall is not believed, so how far the second has gone is not known; what is to live
        // for some time must not end early.
        seconds.saturating_mul(MILLIS_PER_SECOND).saturating_add(MILLIS_PER_SECOND - 1)
    }

    fn monotonic_nanos(&self) -> u64 {
        self.clock.monotonic_nanos()
    }

    fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration);
    }
}
