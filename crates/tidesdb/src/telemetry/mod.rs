//! What a database says of itself: counters, times, events, and where they go. `database` joins
//! them, `timing` takes the times.

pub(crate) mod counters;
mod database;
pub(crate) mod event_log;
pub(crate) mod events;
pub(crate) mod latency;
pub(crate) mod latency_recorder;
pub(crate) mod spans;
pub(crate) mod timing;

pub(crate) use self::database::{CoreCounters, Telemetry};
