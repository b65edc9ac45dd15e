//! Time: the only place that asks what time it is.
//!
//! Two clocks with two jobs. Wall-clock seconds decide when a value with a time to live expires and
//! may jump either way when an operator sets the machine's clock. Monotonic nanoseconds measure
//! durations, never go back, and mean nothing outside this process. [`SteadyClock`] keeps the jumps
//! of the former from its users. [`ManualClock`] serves tests: it moves only when told to,
//! and its wall clock may jump.

mod steady;

use std::fmt::Debug;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
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

    #[test]
    fn system_clock_is_after_2020_and_monotonic() {
        let clock = SystemClock;
        assert!(clock.unix_seconds() > 1_577_836_800);
        let first = clock.monotonic_nanos();
        assert!(clock.monotonic_nanos() >= first);
    }
}
