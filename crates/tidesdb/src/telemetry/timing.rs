//! Timing of operations: takes the times of what `latency_recorder` says is timed, and reports slow
//! ones.
//!
//! Background work is always timed. Of what users call one in so many is, or all of it when slow
//! operations are to be reported; when neither is asked for, a call pays one load and one branch.

use std::fmt::Debug;
use std::sync::Arc;

use tidesdb_base::event::{Event, OperationProfile};
use tidesdb_base::latency::TimedOperation;

use super::Telemetry;
use super::latency_recorder::{forget_waits, waits};

/// An operation that is timed.
#[derive(Clone, Copy, Debug)]
#[must_use = "what begins ends"]
pub(crate) struct Started(u64);

/// What has a name to be reported by.
pub(crate) trait Named: Debug {
    fn name(&self) -> Arc<str>;
}

/// What a slow operation is reported with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimedCall<'a> {
    pub operation: TimedOperation,
    pub family: Option<&'a dyn Named>,
    /// Of keys and values that are written, or of the key that is looked for.
    pub bytes: u64,
    pub operations: u64,
}

impl Telemetry {
    /// Begins to time an operation for which
    /// [`crate::telemetry::latency_recorder::LatencyRecorder::is_due`] is true.
    pub(crate) fn start_timing(&self) -> Started {
        forget_waits();
        Started(self.clock.monotonic_nanos())
    }

    /// Ends it. `profile` is called when the operation was slow.
    pub(crate) fn end_timing(
        &self,
        started: Started,
        call: TimedCall<'_>,
        profile: impl FnOnce() -> OperationProfile,
    ) {
        let now = self.clock.monotonic_nanos();
        let nanos = now.saturating_sub(started.0);
        self.latencies.record(call.operation, nanos);
        if self.latencies.is_slow(nanos) {
            self.report_slow(call, (now, nanos), profile());
        }
    }

    /// Times a commit, of which [`super::latency_recorder::LatencyRecorder::is_due`]
    /// said that it is to be timed.
    #[inline(never)]
    pub(crate) fn timed_commit<R>(
        &self,
        family: Option<&dyn Named>,
        (bytes, operations): (u64, u64),
        commit: impl FnOnce() -> R,
    ) -> R {
        let started = self.start_timing();
        let result = commit();
        let call = TimedCall { operation: TimedOperation::Commit, family, bytes, operations };
        self.end_timing(started, call, OperationProfile::default);
        result
    }

    #[cold]
    fn report_slow(
        &self,
        call: TimedCall<'_>,
        (now, nanos): (u64, u64),
        mut profile: OperationProfile,
    ) {
        let Some(suppressed) = self.latencies.count_slow(now) else { return };
        let waits = waits();
        profile.stall_micros = waits.stall_nanos / 1000;
        profile.stall_reason = waits.stall_reason;
        profile.sync_micros = waits.sync_nanos / 1000;
        self.events.report(&Event::SlowOperation {
            operation: call.operation,
            family: call.family.map(|family| family.name().to_string()).unwrap_or_default(),
            bytes: call.bytes,
            operations: call.operations,
            micros: nanos / 1000,
            profile,
            suppressed,
        });
    }
}

#[cfg(test)]
mod tests;
