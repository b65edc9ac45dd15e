//! A clock that moves only when it is told to, and whose wall side may jump.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidesdb_sys::clock::Clock;

/// A clock that a test moves by hand. Sleeping advances it at once.
#[derive(Debug, Default)]
pub struct ManualClock {
    unix_seconds: AtomicU64,
    // Wall time advances with the monotonic clock; this is what `set_unix_seconds` rebased on.
    monotonic_nanos: AtomicU64,
    wall_base_nanos: AtomicU64,
}

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const NANOS_PER_MILLI: u64 = 1_000_000;
const MILLIS_PER_SECOND: u64 = 1_000;

impl ManualClock {
    /// A clock whose wall reads `unix_seconds` and whose monotonic side reads 0.
    #[must_use]
    pub fn new(unix_seconds: u64) -> Self {
        Self { unix_seconds: AtomicU64::new(unix_seconds), ..Self::default() }
    }

    /// Makes the wall clock jump to `unix_seconds`, forwards or backwards; the monotonic clock
    /// does not move.
    pub fn set_unix_seconds(&self, unix_seconds: u64) {
        self.wall_base_nanos.store(self.monotonic_nanos(), Ordering::SeqCst);
        self.unix_seconds.store(unix_seconds, Ordering::SeqCst);
    }

    /// Lets `duration` pass on both clocks.
    pub fn advance(&self, duration: Duration) {
        self.monotonic_nanos.fetch_add(duration.as_nanos() as u64, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn unix_seconds(&self) -> u64 {
        let base = self.wall_base_nanos.load(Ordering::SeqCst);
        let passed = self.monotonic_nanos().saturating_sub(base) / NANOS_PER_SECOND;
        self.unix_seconds.load(Ordering::SeqCst).saturating_add(passed)
    }

    fn unix_millis(&self) -> u64 {
        let base = self.wall_base_nanos.load(Ordering::SeqCst);
        let passed = self.monotonic_nanos().saturating_sub(base) / NANOS_PER_MILLI;
        let set = self.unix_seconds.load(Ordering::SeqCst).saturating_mul(MILLIS_PER_SECOND);
        set.saturating_add(passed)
    }

    fn monotonic_nanos(&self) -> u64 {
        // ORDERING: SeqCst throughout, so that a test which sets the clock and then starts work
        // on another thread never sees that thread read the old time; speed does not matter here.
        self.monotonic_nanos.load(Ordering::SeqCst)
    }

    fn sleep(&self, duration: Duration) {
        self.advance(duration);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_clock_moves_only_when_told() {
        let clock = ManualClock::new(1_000);
        assert_eq!((clock.unix_seconds(), clock.monotonic_nanos()), (1_000, 0));
        clock.advance(Duration::from_millis(2_500));
        assert_eq!((clock.unix_seconds(), clock.monotonic_nanos()), (1_002, 2_500_000_000));
        clock.sleep(Duration::from_millis(500));
        assert_eq!(clock.unix_seconds(), 1_003);
    }

    #[test]
    fn wall_clock_may_jump_back_while_monotonic_stands() {
        let clock = ManualClock::new(1_000);
        clock.advance(Duration::from_secs(50));
        clock.set_unix_seconds(10);
        assert_eq!((clock.unix_seconds(), clock.monotonic_nanos()), (10, 50 * NANOS_PER_SECOND));
        clock.advance(Duration::from_secs(1));
        assert_eq!(clock.unix_seconds(), 11);
    }
}
