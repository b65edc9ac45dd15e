//! What a database reports about itself.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use tidesdb_sys::clock::Clock;

use super::counters::Counted;
use super::events::Events;
use super::latency_recorder::LatencyRecorder;

/// Counters, times and events.
#[derive(Debug)]
pub(crate) struct Telemetry {
    /// By which operations are timed.
    pub clock: Arc<dyn Clock>,
    pub counters: CoreCounters,
    pub latencies: LatencyRecorder,
    pub events: Events,
}

/// Counters of the database, for statistics.
#[derive(Debug, Default)]
pub(crate) struct CoreCounters {
    /// What families did that are dropped. Held while what all have done is added up.
    pub dropped: Mutex<Counted>,
    pub transaction_conflicts: AtomicU64,
    pub serialization_conflicts: AtomicU64,
}
