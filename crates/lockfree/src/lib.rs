//! Structures of the engine that many threads use at once: commit publishing, the commit gate, the
//! block cache, the registry of snapshots.
//!
//! This layer knows nothing of files, formats or families: it moves positions, bytes and handles
//! between threads. Everything here may be used from any thread, and every module names the loom
//! models that cover it. Synchronisation primitives come from [`sync`] only, so that the models
//! explore the very code that ships.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod arena;
pub mod cache;
pub mod gate;
pub mod group_sync;
pub mod ordered;
pub mod prefetch;
pub mod publish;
pub mod snapshot_registry;
pub mod stripe;
pub mod sync;

#[cfg(all(test, loom))]
mod dead_range_models;
#[cfg(all(test, loom))]
mod publication_models;
#[cfg(all(test, loom))]
mod transaction_models;
