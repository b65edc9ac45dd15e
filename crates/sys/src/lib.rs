//! The outside world: files, background jobs, time and memory.
//!
//! Everything above this crate reaches the operating system only through the traits here, so
//! that a whole database can run on a simulated disk, with a hand-stepped scheduler and a clock
//! that a test sets: those are in `crates/sim`, here is what production uses.
//!
//! | door | implementation |
//! |---|---|
//! | [`vfs::Vfs`] | [`vfs::RealVfs`] |
//! | [`sched::Scheduler`] | [`sched::ThreadPool`]; [`sched::NoThreads`] for work that has none |
//! | [`clock::Clock`] | [`clock::SystemClock`], [`clock::SteadyClock`] around it |
//!
//! Nothing in this crate knows what a key, a log record or a table is.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod clock;
pub mod descriptors;
pub mod forks;
pub mod large_vec;
pub mod memory;
mod os_calls;
pub mod sched;
pub mod sync;
pub mod sync_points;
pub mod vfs;
