//! What an open database reports by itself: rare lines for a log, never one per operation.
//!
//! The engine calls the [`EventListener`] of the database options from whichever thread notices: a
//! writer that was held up, a background job that failed. Of what may come up all the time (stalls,
//! failures, memory levels) one event of a kind is passed on in ten seconds; the counters in the
//! statistics miss nothing. Events may also be written to a file (`DbOptions::event_log`).

mod levels;
mod profile;

pub use self::levels::{LogLevel, MemoryLevel, StallReason};
pub use self::profile::OperationProfile;

use std::fmt;
use std::sync::Arc;

use crate::error::Error;
use crate::latency::TimedOperation;

/// Something worth a line in a log. [`fmt::Display`] gives that line.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// Writers of a family are being slowed down.
    WritesSlowed {
        /// The family.
        family: String,
        /// Why.
        reason: StallReason,
        /// What writers are held to, in bytes of keys and values a second.
        bytes_per_second: u64,
    },
    /// A writer had to wait for background work, and goes on now.
    WriterWaited {
        /// The family.
        family: String,
        /// Why.
        reason: StallReason,
        /// How long, in milliseconds.
        milliseconds: u64,
    },
    /// Memory in use crossed a bound of its budget.
    MemoryLevelChanged {
        /// The level reached.
        level: MemoryLevel,
        /// Bytes in use.
        used_bytes: u64,
        /// The budget in bytes.
        budget_bytes: u64,
    },
    /// A flush or a compaction failed. It is tried again when a writer needs it.
    BackgroundFailed {
        /// The family.
        family: String,
        /// Why.
        error: Error,
    },
    /// An opening left out commits of the log: a record in front of them is not whole. After a
    /// crash they are such that were never acknowledged; if the log is damaged they are lost.
    CommitsLeftOut {
        /// How many, as far as they are whole.
        commits: u64,
        /// Bytes of their records.
        bytes: u64,
        /// Log position behind which they lie.
        position: u64,
    },
    /// The database was opened.
    Opened {
        /// Its families.
        families: u64,
        /// How long it took, with the replay of the log, in milliseconds.
        milliseconds: u64,
    },
    /// The database was closed. Only the log of events has this event.
    Closed,
    /// A family was created or cloned.
    FamilyCreated {
        /// The family.
        family: String,
    },
    /// A family was dropped.
    FamilyDropped {
        /// The family.
        family: String,
    },
    /// A family was given another name.
    FamilyRenamed {
        /// Its name until now.
        old: String,
        /// Its name from now on.
        new: String,
    },
    /// A memtable was written out.
    Flushed {
        /// The family.
        family: String,
        /// Tables written.
        tables: u64,
        /// Bytes of tables and value logs written.
        bytes: u64,
        /// How long it took, in milliseconds.
        milliseconds: u64,
    },
    /// Runs of a family were compacted.
    Compacted {
        /// The family.
        family: String,
        /// Bytes of tables that were read.
        bytes: u64,
        /// How long it took, in milliseconds.
        milliseconds: u64,
    },
    /// An operation took at least `DbOptions::slow_operation_us`. Reported at most ten times a
    /// second.
    SlowOperation {
        /// What it was.
        operation: TimedOperation,
        /// The family, the first one of a commit to several.
        family: String,
        /// Bytes of keys and values of a commit, of the keys of a get, multi-get or seek.
        bytes: u64,
        /// Operations of a commit, keys of a multi-get, otherwise 1.
        operations: u64,
        /// How long it took, in microseconds.
        micros: u64,
        /// What it did and waited for.
        profile: OperationProfile,
        /// Slow operations that were not reported since the last that was.
        suppressed: u64,
    },
    /// A function of the application panicked, and the panic was caught. Reported the first time of
    /// each function; that of a listener is not passed on to the listener.
    FunctionPanicked {
        /// Which one: `the event listener`, or `the commit hook of 'NAME'`.
        function: String,
    },
}

impl Event {
    /// How much it matters.
    #[must_use]
    pub const fn level(&self) -> LogLevel {
        match self {
            Self::BackgroundFailed { .. } | Self::FunctionPanicked { .. } => LogLevel::Error,
            Self::WritesSlowed { .. }
            | Self::CommitsLeftOut { .. }
            | Self::WriterWaited { .. }
            | Self::MemoryLevelChanged { .. }
            | Self::SlowOperation { .. } => LogLevel::Warn,
            Self::Opened { .. }
            | Self::Closed
            | Self::FamilyCreated { .. }
            | Self::FamilyDropped { .. }
            | Self::FamilyRenamed { .. }
            | Self::Flushed { .. }
            | Self::Compacted { .. } => LogLevel::Info,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WritesSlowed { family, reason, bytes_per_second } => {
                write!(f, "writes to '{family}' are held to {bytes_per_second} B/s: {reason}")
            }
            Self::WriterWaited { family, reason, milliseconds } => {
                write!(f, "a writer of '{family}' waited {milliseconds} ms: {reason}")
            }
            Self::MemoryLevelChanged { level, used_bytes, budget_bytes } => {
                let level = level.name();
                write!(f, "memory is {level}: {used_bytes} of {budget_bytes} bytes in use")
            }
            Self::BackgroundFailed { family, error } => {
                write!(f, "background work on '{family}' failed: {error}")
            }
            Self::CommitsLeftOut { commits, bytes, position } => {
                write!(f, "commits of the log behind position {position} were left out: ")?;
                write!(f, "{commits} with {bytes} bytes, since a record in front is not whole")
            }
            Self::Opened { families, milliseconds } => {
                write!(f, "opened with {families} families in {milliseconds} ms")
            }
            Self::Closed => f.write_str("closed"),
            Self::FunctionPanicked { function } => {
                write!(f, "{function} panicked; this is reported once")
            }
            Self::FamilyCreated { family } => write!(f, "family '{family}' was created"),
            Self::FamilyDropped { family } => write!(f, "family '{family}' was dropped"),
            Self::FamilyRenamed { old, new } => {
                write!(f, "family '{old}' is now called '{new}'")
            }
            Self::Flushed { family, tables, bytes, milliseconds } => {
                write!(f, "memtable of '{family}' was written out: ")?;
                write!(f, "{bytes} bytes in {tables} tables in {milliseconds} ms")
            }
            Self::Compacted { family, bytes, milliseconds } => {
                write!(f, "runs of '{family}' were compacted: {bytes} bytes in {milliseconds} ms")
            }
            Self::SlowOperation {
                operation,
                family,
                bytes,
                operations,
                micros,
                profile,
                suppressed,
            } => {
                write!(f, "slow {operation} of '{family}': {micros} us, {bytes} bytes")?;
                if *operations > 1 {
                    write!(f, " in {operations} operations")?;
                }
                if *profile != OperationProfile::default() {
                    write!(f, "; {profile}")?;
                }
                if *suppressed > 0 {
                    write!(f, "; {suppressed} more since the last line")
                } else {
                    Ok(())
                }
            }
        }
    }
}

/// A function that is called with each [`Event`]. Listeners are equal when they are the same one.
///
/// It is called by the thread that notices, with no lock of the engine held, and should return
/// soon: writers and background work go on only then. It may read the database that it listens to,
/// scan it and ask for statistics. It may write too, but must not do anything that waits for
/// background work (flushes, compactions, closing, writes to a family that is at its limits): its
/// thread may be the one that is waited for. Such a call ends with an error of kind `Stalled` after
/// `stall_timeout_ms`; closing, on the thread that reports the event, does so at once with one of
/// kind `Invalid`, and the database stays open. Events that a listener causes itself are not passed
/// on to it.
///
/// A panic of the listener is caught: it is reported by the process's panic hook, the first one by
/// [`Event::FunctionPanicked`] as well, and has no other effect.
#[derive(Clone)]
pub struct EventListener(Arc<dyn Fn(&Event) + Send + Sync>);

impl EventListener {
    /// Wraps a function.
    pub fn new(listen: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        Self(Arc::new(listen))
    }

    /// Calls the function.
    pub fn call(&self, event: &Event) {
        (self.0)(event);
    }
}

impl fmt::Debug for EventListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventListener")
    }
}

impl PartialEq for EventListener {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_numbered_as_listed() {
        for (number, reason) in StallReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, number);
        }
    }

    #[test]
    fn an_event_reads_as_one_line() {
        let event = Event::WriterWaited {
            family: "orders".to_owned(),
            reason: StallReason::FlushQueue,
            milliseconds: 12,
        };
        assert_eq!(event.to_string(), "a writer of 'orders' waited 12 ms: flush queue");
    }
}
