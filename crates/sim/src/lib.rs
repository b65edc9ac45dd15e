//! The outside world as tests need it: a disk that loses power, calls that fail, jobs that run
//! when they are told to, a clock that stands.
//!
//! | door | production | here |
//! |---|---|---|
//! | [`tidesdb_sys::vfs::Vfs`] | `RealVfs` | [`SimVfs`], [`FaultVfs`] around either |
//! | [`tidesdb_sys::sched::Scheduler`] | `ThreadPool` | [`ManualScheduler`] |
//! | [`tidesdb_sys::clock::Clock`] | `SystemClock`, `SteadyClock` | [`ManualClock`] |
//!
//! [`Stepper`] has several threads run one at a time, from one named place to the next.
//!
//! With all three a whole database runs on one thread, and the same seed gives the same run, byte
//! for byte. Only tests and the test kit depend on this crate.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod clock;
mod fault_vfs;
pub mod rng;
mod scheduler;
mod sim_vfs;
mod stepper;

pub use self::clock::ManualClock;
pub use self::fault_vfs::{CallHook, CallRecord, FaultError, FaultKind, FaultVfs, Op, OpSet};
pub use self::scheduler::ManualScheduler;
pub use self::sim_vfs::{
    Corruption, CrashProfile, LogForm, Mutation, MutationHook, MutationKind, Phase, SECTOR_BYTES,
    SEGMENT_PIECE_BYTES, SimVfs,
};
pub use self::stepper::Stepper;
