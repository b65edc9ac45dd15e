//! What every index must do, run against the skip list and the B+tree of several fanouts.
//!
//! `MIRIFLAGS=-Zmiri-tree-borrows cargo +nightly miri test -p tidesdb-lockfree --lib -- arena ordered`
//! runs them, made smaller, under Miri (which stacked borrows would make several times slower).

#[cfg(not(loom))]
mod differential;
#[cfg(not(loom))]
mod loads;
#[cfg(loom)]
mod models;
#[cfg(not(loom))]
mod rows;
#[cfg(not(loom))]
mod stress;
