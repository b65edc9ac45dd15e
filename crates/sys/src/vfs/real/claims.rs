//! A check of the contract of [`crate::vfs::LogSegment`]: no two threads write the same bytes at
//! once.
//!
//! Copies into a mapping that overlapped would be a data race, which no test would notice. So with
//! debug assertions, as in all tests, each write claims its range for as long as it lasts. Without
//! them nothing is left of it.

/// The ranges of one segment that are being written.
#[derive(Debug, Default)]
pub(super) struct Claims {
    /// Where each ends, by where it begins.
    #[cfg(debug_assertions)]
    ranges: std::sync::Mutex<std::collections::BTreeMap<u64, u64>>,
}

/// One of them, given up when it is dropped.
#[must_use = "dropping it ends the claim"]
pub(super) struct Claim<'a> {
    #[cfg(debug_assertions)]
    claims: (&'a Claims, u64),
    #[cfg(not(debug_assertions))]
    _claims: std::marker::PhantomData<&'a Claims>,
}

#[cfg(debug_assertions)]
impl Claims {
    /// Claims `count` bytes at `at`.
    pub(super) fn enter(&self, at: u64, count: usize) -> Claim<'_> {
        let end = at + count as u64;
        let mut ranges = self.ranges();
        let before = ranges.range(..end.max(at + 1)).next_back();
        let free = before.is_none_or(|(_, &before)| before <= at);
        debug_assert!(free, "{at}..{end} is written while {before:?} is");
        ranges.insert(at, end);
        Claim { claims: (self, at) }
    }

    fn ranges(&self) -> std::sync::MutexGuard<'_, std::collections::BTreeMap<u64, u64>> {
        self.ranges.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(debug_assertions)]
impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let (claims, at) = self.claims;
        claims.ranges().remove(&at);
    }
}

#[cfg(not(debug_assertions))]
impl Claims {
    #[inline(always)]
    #[expect(clippy::unused_self, reason = "nothing is claimed without debug assertions")]
    pub(super) fn enter(&self, _at: u64, _count: usize) -> Claim<'_> {
        Claim { _claims: std::marker::PhantomData }
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_may_be_written_at_once() {
        let claims = Claims::default();
        let (_before, behind) = (claims.enter(0, 8), claims.enter(16, 8));
        let _between = claims.enter(8, 8);
        drop(behind);
        let _again = claims.enter(16, 100);
    }

    #[test]
    #[should_panic = "is written while"]
    fn of_two_that_overlap_the_second_is_found() {
        let claims = Claims::default();
        let _long = claims.enter(8, 100);
        let _within = claims.enter(50, 8);
    }

    #[test]
    #[should_panic = "is written while"]
    fn one_that_begins_in_front_and_reaches_into_another_is_found() {
        let claims = Claims::default();
        let _behind = claims.enter(50, 8);
        let _reaches = claims.enter(8, 43);
    }
}
