//! Hands out bytes at a rate that another module decides.
//!
//! Bytes are granted in lumps worth about two milliseconds. Most commits take theirs from the lump
//! with one addition; the writer that finds it used up asks for the next and gets back how long to
//! wait for it. A schedule in absolute time keeps many writers at the rate together, and lets a
//! writer that overslept catch up a little.
//!
//! Threads: any. The mutex is held for a few instructions.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use tidesdb_lockfree::sync::lock;

/// A lump lasts this long at the given rate.
const LUMP_NANOS: u64 = 2_000_000;
/// Smallest lump, so that slow rates do not mean a clock reading per commit, and the largest, so
/// that what is decided once does not hold for long.
const LEAST_LUMP_BYTES: u64 = 4 << 10;
const MOST_LUMP_BYTES: u64 = 1 << 20;
/// How far the schedule may lie in the past when a writer comes late.
const CATCH_UP_NANOS: u64 = 1_000_000;
/// Shorter waits are left to add up: sleeping is not that precise.
const LEAST_WAIT_NANOS: u64 = 100_000;
/// A single wait is never longer; the rate is decided anew after it.
const LONGEST_WAIT_NANOS: u64 = 25_000_000;

/// Bytes that are granted and not used yet, and the rate at which they are granted.
#[derive(Debug, Default)]
pub(crate) struct Pacer {
    granted_bytes: AtomicI64,
    /// When the next lump may be used, on the monotonic clock.
    next_nanos: Mutex<u64>,
}

impl Pacer {
    /// Takes bytes from the present lump; false when it is used up. They count as taken either
    /// way.
    #[inline]
    pub(crate) fn take(&self, bytes: u64) -> bool {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX / 2);
        // ORDERING: relaxed; a budget that orders nothing.
        self.granted_bytes.fetch_sub(bytes, Ordering::Relaxed) >= bytes
    }

    /// Gives back what was taken for a commit that was refused.
    pub(crate) fn give_back(&self, bytes: u64) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX / 2);
        // ORDERING: relaxed, as in `take`.
        self.granted_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that are granted and not used yet; negative when more was taken.
    #[cfg(test)]
    pub(crate) fn granted_bytes(&self) -> i64 {
        // ORDERING: relaxed, as in `take`.
        self.granted_bytes.load(Ordering::Relaxed)
    }

    /// Whether the next lump has to be waited for.
    pub(crate) fn has_wait(&self, now_nanos: u64) -> bool {
        lock(&self.next_nanos).saturating_sub(now_nanos) >= LEAST_WAIT_NANOS
    }

    /// Grants the next lump at `bytes_per_second` from `now_nanos` on, a small part of
    /// `scale_bytes` at most, and pays what was taken without. Returns for how many nanoseconds the
    /// caller should wait.
    pub(crate) fn refill(&self, bytes_per_second: u64, scale_bytes: u64, now_nanos: u64) -> u64 {
        let rate = u128::from(bytes_per_second.max(1));
        let lump = rate * u128::from(LUMP_NANOS) / 1_000_000_000;
        let lump = u64::try_from(lump).unwrap_or(u64::MAX);
        let most = (scale_bytes / 16).clamp(LEAST_LUMP_BYTES, MOST_LUMP_BYTES);
        let lump = lump.clamp(LEAST_LUMP_BYTES, most);
        let mut next = lock(&self.next_nanos);
        // ORDERING: relaxed, as in `take`; the lock makes one lump at a time.
        let owed = self.granted_bytes.load(Ordering::Relaxed).min(0).unsigned_abs();
        let cost = u128::from(lump + owed) * 1_000_000_000 / rate;
        let start = (*next).max(now_nanos.saturating_sub(CATCH_UP_NANOS));
        let wait = start.saturating_sub(now_nanos);
        let end = start.saturating_add(u64::try_from(cost).unwrap_or(u64::MAX));
        // No writer waits longer than that, so the schedule must not run away either.
        *next = end.min(now_nanos.saturating_add(2 * LONGEST_WAIT_NANOS));
        self.granted_bytes.fetch_add((lump + owed) as i64, Ordering::Relaxed);
        if wait < LEAST_WAIT_NANOS { 0 } else { wait.min(LONGEST_WAIT_NANOS) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes `commits` commits of `bytes` and returns the time it took in nanoseconds.
    fn run(pacer: &Pacer, rate: u64, commits: u64, bytes: u64, overslept: u64) -> (u64, u64) {
        let (mut now, mut longest) = (1 << 40, 0);
        let start = now;
        for _ in 0..commits {
            now += 100;
            if !pacer.take(bytes) {
                let wait = pacer.refill(rate, 64 << 20, now);
                longest = longest.max(wait);
                now += wait + if wait > 0 { overslept } else { 0 };
            }
        }
        (now - start, longest)
    }

    #[test]
    fn a_writer_is_held_to_the_rate_in_small_steps() {
        for (rate, bytes, overslept) in
            [(10 << 20, 100, 0), (100 << 20, 100, 60_000), (1 << 20, 1000, 0)]
        {
            let commits = rate / bytes;
            let (took, longest) = run(&Pacer::default(), rate, commits, bytes, overslept);
            assert!((900_000_000..1_100_000_000).contains(&took), "{rate}: {took}");
            assert!(longest < 10_000_000, "{rate}: {longest}");
        }
    }

    #[test]
    fn a_commit_that_was_refused_costs_no_other_a_wait() {
        let pacer = Pacer::default();
        let now = 1 << 40;
        assert!(!pacer.has_wait(now));
        pacer.refill(1 << 20, 64 << 20, now);
        assert!(pacer.has_wait(now), "the next lump is not due yet");
        for _ in 0..1000 {
            assert!(!pacer.take(1 << 20));
            pacer.give_back(1 << 20);
        }
        assert!(pacer.take(1000) && !pacer.has_wait(now + LONGEST_WAIT_NANOS));
    }

    #[test]
    fn a_rate_that_no_writer_reaches_costs_no_wait() {
        let (_, longest) = run(&Pacer::default(), 10 << 30, 100_000, 100, 0);
        assert_eq!(longest, 0);
    }

    #[test]
    fn no_wait_is_long_however_large_the_commit() {
        let (_, longest) = run(&Pacer::default(), 1 << 10, 50, 64 << 20, 0);
        assert_eq!(longest, LONGEST_WAIT_NANOS);
        assert_eq!(Pacer::default().refill(0, 0, 0), 0);
    }

    #[test]
    fn one_decision_does_not_hold_for_long_whatever_the_rate() {
        for (scale, most) in [(64 << 20, MOST_LUMP_BYTES), (1 << 20, 64 << 10), (0, 4 << 10)] {
            let pacer = Pacer::default();
            pacer.refill(u64::MAX, scale, 0);
            assert!(pacer.take(most) && !pacer.take(1), "{scale}");
        }
    }
}
