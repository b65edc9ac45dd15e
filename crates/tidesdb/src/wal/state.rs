//! Whether the log takes commits, and if not why.
//!
//! A commit asks once, inside the gate, with one load. A commit that was let in is under way: it is
//! acknowledged as soon as everything in front of it is published, whatever becomes of the log
//! meanwhile, and never if a hole lies in front of it. So the state decides who is let in, and the
//! sequencer who is acknowledged; neither asks the other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tidesdb_base::error::{Error, ErrorKind, Result};
use tidesdb_lockfree::sync::lock;

/// What went wrong. The later one rules out more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// A record is missing or broken. What lies in front of it is sound, and may be synced.
    Hole,
    /// A sync failed, which is final: what the kernel did not write is gone although a second
    /// sync would succeed.
    Sync,
    /// There is no segment, for want of space.
    NoSegment,
}

#[derive(Debug)]
struct Failure {
    fault: Fault,
    /// The first one.
    cause: Error,
}

#[derive(Debug)]
enum State {
    /// There is no segment, since no commit needed one yet. Nothing is wrong.
    NotBegun,
    /// The log takes commits.
    Open,
    /// It takes none until a repair has worked.
    Failed(Failure),
    /// As `Failed`, and a repair is under way.
    UnderRepair(Failure),
    /// It takes none any more. What had failed before stays so.
    Sealed(Option<Failure>),
}

impl State {
    const fn failure(&self) -> Option<&Failure> {
        match self {
            Self::NotBegun | Self::Open => None,
            Self::Failed(failure) | Self::UnderRepair(failure) => Some(failure),
            Self::Sealed(failure) => failure.as_ref(),
        }
    }

    fn refusal(&self) -> Option<Error> {
        match self {
            Self::NotBegun => Some(Error::Internal("the log has not begun".to_owned())),
            Self::Open => None,
            Self::Sealed(_) => Some(Error::Closed),
            Self::Failed(failure) | Self::UnderRepair(failure) => {
                let cause = failure.cause.clone();
                // Once there is room again the same call succeeds: nothing else is wrong.
                let passes = cause.kind() == ErrorKind::Full;
                Some(if passes { cause } else { Error::LogFailed(Arc::new(cause)) })
            }
        }
    }
}

/// The state of a log, as all threads share it.
#[derive(Debug)]
pub(super) struct Condition {
    /// The state is not `Open`.
    refuses: AtomicBool,
    state: Mutex<State>,
}

impl Condition {
    pub(super) const fn open() -> Self {
        Self { refuses: AtomicBool::new(false), state: Mutex::new(State::Open) }
    }

    /// Of a log that begins when the first commit comes.
    pub(super) const fn not_begun() -> Self {
        Self { refuses: AtomicBool::new(true), state: Mutex::new(State::NotBegun) }
    }

    /// Whether the log has begun, whatever became of it.
    #[inline]
    pub(super) fn is_begun(&self) -> bool {
        // ORDERING: as in `check`.
        !self.refuses.load(Ordering::Acquire) || self.refuses_since_begun()
    }

    #[cold]
    fn refuses_since_begun(&self) -> bool {
        !matches!(*lock(&self.state), State::NotBegun)
    }

    /// Lets commits in for the first time, unless the log is sealed.
    pub(super) fn begin(&self) {
        self.change(|state| match state {
            State::NotBegun => State::Open,
            other => other,
        });
    }

    /// Refuses commits, if the log takes none.
    ///
    /// # Errors
    /// [`Error::Closed`]; why the log failed: as it is when there was no space, otherwise within
    /// [`Error::LogFailed`].
    #[inline]
    pub(super) fn check(&self) -> Result<()> {
        // ORDERING: acquire pairs with the release in `change`: a commit that is let in after a
        // repair sees the segment that the repair began.
        if self.refuses.load(Ordering::Acquire) { self.check_slowly() } else { Ok(()) }
    }

    #[cold]
    fn check_slowly(&self) -> Result<()> {
        lock(&self.state).refusal().map_or(Ok(()), Err)
    }

    /// Refuses syncs, if none may be tried.
    ///
    /// # Errors
    /// As [`Condition::check`].
    pub(super) fn check_sync(&self) -> Result<()> {
        let state = lock(&self.state);
        let sound = state.failure().is_none_or(|failure| failure.fault == Fault::Hole);
        match *state {
            State::Sealed(_) => Err(Error::Closed),
            _ if sound => Ok(()),
            _ => state.refusal().map_or(Ok(()), Err),
        }
    }

    /// Notes a failure: no commit is let in from now on.
    #[cold]
    pub(super) fn fail(&self, fault: Fault, cause: Error) {
        self.change(|state| {
            let failed = |before: Option<Failure>| match before {
                Some(before) => Failure { fault: before.fault.max(fault), ..before },
                None => Failure { fault, cause },
            };
            match state {
                State::NotBegun | State::Open => State::Failed(failed(None)),
                State::Failed(failure) => State::Failed(failed(Some(failure))),
                State::UnderRepair(failure) => State::UnderRepair(failed(Some(failure))),
                State::Sealed(failure) => State::Sealed(Some(failed(failure))),
            }
        });
    }

    /// Lets no commit in any more, for good.
    pub(super) fn seal(&self) {
        self.change(|state| match state {
            State::NotBegun | State::Open => State::Sealed(None),
            State::Failed(failure) | State::UnderRepair(failure) => State::Sealed(Some(failure)),
            sealed @ State::Sealed(_) => sealed,
        });
    }

    /// The failure that stopped the log, if one did.
    pub(super) fn failure(&self) -> Option<Error> {
        lock(&self.state).failure().map(|failure| failure.cause.clone())
    }

    /// Whether a thread has taken the right to repair the log.
    pub(super) fn is_under_repair(&self) -> bool {
        matches!(*lock(&self.state), State::UnderRepair(_))
    }

    /// Takes the right to repair a log that failed; false when it is in order, sealed or under
    /// repair.
    pub(super) fn begin_repair(&self) -> bool {
        let mut began = false;
        self.change(|state| match state {
            State::Failed(failure) => {
                began = true;
                State::UnderRepair(failure)
            }
            other => other,
        });
        began
    }

    /// Ends a repair.
    pub(super) fn end_repair(&self, healed: bool) {
        self.change(|state| match state {
            State::UnderRepair(_) if healed => State::Open,
            State::UnderRepair(failure) => State::Failed(failure),
            other => other,
        });
    }

    fn change(&self, change: impl FnOnce(State) -> State) {
        let mut state = lock(&self.state);
        // Whatever `change` is given it gives back; nothing in between can panic.
        *state = change(std::mem::replace(&mut *state, State::Open));
        // ORDERING: release; see `check`.
        self.refuses.store(!matches!(*state, State::Open), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause() -> Error {
        Error::io("write", "wal", std::io::Error::other("boom"))
    }

    #[test]
    fn what_lies_in_front_of_a_hole_may_be_synced_and_nothing_after_a_failed_sync() {
        let condition = Condition::open();
        condition.fail(Fault::Hole, cause());
        assert_eq!(condition.check().unwrap_err().kind(), ErrorKind::LogFailed);
        condition.check_sync().unwrap();
        condition.fail(Fault::Sync, cause());
        assert!(condition.check_sync().is_err());
        assert!(condition.begin_repair() && !condition.begin_repair());
        condition.end_repair(false);
        assert!(condition.begin_repair());
        condition.end_repair(true);
        condition.check().and_then(|()| condition.check_sync()).unwrap();
    }

    #[test]
    fn a_sealed_log_stays_sealed_whatever_is_repaired() {
        let condition = Condition::open();
        condition.fail(Fault::Hole, cause());
        assert!(condition.begin_repair());
        condition.seal();
        condition.end_repair(true);
        assert!(matches!(condition.check(), Err(Error::Closed)));
        assert!(matches!(condition.check_sync(), Err(Error::Closed)));
        assert!(condition.failure().is_some() && !condition.begin_repair());
    }

    #[test]
    fn a_log_that_has_not_begun_has_not_failed() {
        let condition = Condition::not_begun();
        assert!(!condition.is_begun() && condition.failure().is_none());
        assert!(condition.check().is_err() && !condition.begin_repair());
        condition.check_sync().unwrap();
        condition.begin();
        assert!(condition.is_begun());
        condition.check().unwrap();
        let sealed = Condition::not_begun();
        sealed.seal();
        sealed.begin();
        assert!(sealed.is_begun());
        assert!(matches!(sealed.check(), Err(Error::Closed)));
    }

    #[test]
    fn a_full_disk_is_told_as_such() {
        let condition = Condition::open();
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        condition.fail(Fault::NoSegment, Error::io("create", "wal", full));
        assert_eq!(condition.check().unwrap_err().kind(), ErrorKind::Full);
    }
}
