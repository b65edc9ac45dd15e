//! Time: the only place that asks what time it is.
//!
//! Two clocks with two jobs. Wall-clock seconds decide when a value with a time to live expires and
//! may jump either way when an operator sets the machine's clock. Monotonic nanoseconds measure
//! durations, never go back, and mean nothing outside this process. [`SteadyClock`] keeps the jumps
//! of the former from its users.
#![expect(clippy::disallowed_methods, reason = "the door to the clocks of the machine")]

mod steady;

use std::fmt::Debug;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub use self::steady::SteadyClock;

/// A source of time. Any thread may call any method.
pub trait Clock: Send + Sync + Debug {
    /// Wall-clock seconds since 1970-01-01 UTC; 0 for a clock set before that.
    fn unix_seconds(&self) -> u64;

    /// The same in milliseconds.
    fn unix_millis(&self) -> u64;

    /// Nanoseconds since an arbitrary start in this process; never goes back.
    fn monotonic_nanos(&self) -> u64;

    /// Holds the calling thread back for `duration` (used by graduated write delays).
    fn sleep(&self, duration: Duration);
}

/// The operating system's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

const NANOS_PER_SECOND: u64 = 1_000_000_000;
const MILLIS_PER_SECOND: u64 = 1_000;

static PROCESS_START: OnceLock<Instant> = OnceLock::new();

impl Clock for SystemClock {
    fn unix_seconds(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
    }

    fn unix_millis(&self) -> u64 {
        let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // 584 million years fit in 64 bits of milliseconds.
        elapsed.as_millis() as u64
    }

    fn monotonic_nanos(&self) -> u64 {
        let start = PROCESS_START.get_or_init(Instant::now);
        // 584 years fit in 64 bits of nanoseconds.
        start.elapsed().as_nanos() as u64
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_clock_is_after_2020_and_monotonic() {
        let clock = SystemClock;
        assert!(clock.unix_seconds() > 1_577_836_800);
        let first = clock.monotonic_nanos();
        assert!(clock.monotonic_nanos() >= first);
    }
}
