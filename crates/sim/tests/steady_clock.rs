//! What `SteadyClock` believes of a wall clock that jumps.

use std::sync::Arc;
use std::time::Duration;

use tidesdb_sim::ManualClock;
use tidesdb_sys::clock::{Clock, SteadyClock};

/// Seconds that a wall may be ahead to be believed, and after which it is believed anyway.
const BELIEVED_AT_ONCE: u64 = 60;
const BELIEVED_LATER: u64 = 3600;

fn both(seconds: u64) -> (Arc<ManualClock>, SteadyClock) {
    let manual = Arc::new(ManualClock::new(seconds));
    let steady = SteadyClock::new(Arc::clone(&manual) as _);
    (manual, steady)
}

#[test]
fn time_passes_and_small_steps_ahead_are_followed() {
    let (manual, steady) = both(1_000);
    assert_eq!(steady.unix_seconds(), 1_000);
    manual.advance(Duration::from_secs(5));
    assert_eq!(steady.unix_seconds(), 1_005);
    manual.set_unix_seconds(1_005 + BELIEVED_AT_ONCE);
    assert_eq!(steady.unix_seconds(), 1_005 + BELIEVED_AT_ONCE);
    manual.set_unix_seconds(1_005);
    assert_eq!(steady.unix_seconds(), 1_005 + BELIEVED_AT_ONCE, "and not taken back");
}

#[test]
fn a_wall_that_is_set_back_goes_on() {
    let (manual, steady) = both(1_000_000);
    manual.set_unix_seconds(10);
    assert_eq!(steady.unix_seconds(), 1_000_000);
    manual.advance(Duration::from_secs(7_200));
    assert_eq!(steady.unix_seconds(), 1_007_200);
}

#[test]
fn a_wall_far_ahead_is_believed_when_it_stays_there() {
    let (manual, steady) = both(1_000);
    manual.set_unix_seconds(u64::MAX - 10_000);
    assert_eq!(steady.unix_seconds(), 1_000);
    manual.advance(Duration::from_secs(BELIEVED_LATER - 1));
    assert_eq!(steady.unix_seconds(), 1_000 + BELIEVED_LATER - 1);
    // Back in time: it begins to count anew.
    manual.set_unix_seconds(1_000 + BELIEVED_LATER);
    steady.unix_seconds();
    manual.set_unix_seconds(10_000_000);
    steady.unix_seconds();
    manual.advance(Duration::from_secs(BELIEVED_LATER - 1));
    assert!(steady.unix_seconds() < 10_000);
    manual.advance(Duration::from_secs(1));
    assert_eq!(steady.unix_seconds(), 10_000_000 + BELIEVED_LATER);
    manual.advance(Duration::from_secs(10));
    assert_eq!(steady.unix_seconds(), 10_000_010 + BELIEVED_LATER, "from there on");
    manual.set_unix_seconds(0);
    assert_eq!(steady.unix_seconds(), 10_000_010 + BELIEVED_LATER);
}

#[test]
fn the_ends_of_time_are_times() {
    for seconds in [0, u64::MAX] {
        let (manual, steady) = both(seconds);
        assert_eq!(steady.unix_seconds(), seconds);
        manual.advance(Duration::from_secs(1));
        manual.set_unix_seconds(u64::MAX);
        assert!(steady.unix_seconds() >= seconds);
    }
}
