//! The outside world: files, background jobs, time, memory limits and random numbers.
//!
//! Everything above this crate reaches the operating system only through the traits here, so
//! that a whole database can run on a simulated disk, with a hand-stepped scheduler and a clock
//! that a test sets. Each trait has a production implementation and at least one for tests:
//!
//! | door | production | tests |
//! |---|---|---|
//! | [`vfs::Vfs`] | [`vfs::RealVfs`] | [`vfs::SimVfs`], [`vfs::FaultVfs`] around either |
//! | [`sched::Scheduler`] | [`sched::ThreadPool`] | [`sched::ManualScheduler`] |
//! | [`clock::Clock`] | [`clock::SystemClock`] | [`clock::ManualClock`] |
//!
//! Nothing in this crate knows what a key, a log record or a table is.

pub mod clock;
pub mod descriptors;
pub mod forks;
pub mod large_vec;
pub mod memory;
mod os_calls;
pub mod rng;
pub mod sched;
mod sync;
pub mod vfs;
