//! What a database says of itself: counters, times, events, and where they go. It is joined in
//! `core/telemetry.rs`.

pub(crate) mod counters;
pub(crate) mod event_log;
pub(crate) mod events;
pub(crate) mod latency;
pub(crate) mod latency_recorder;
pub(crate) mod spans;
