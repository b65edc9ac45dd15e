//! What every index must do, run against the skip list and the B+tree of several fanouts.

#[cfg(not(loom))]
mod differential;
#[cfg(loom)]
mod models;
#[cfg(not(loom))]
mod stress;
