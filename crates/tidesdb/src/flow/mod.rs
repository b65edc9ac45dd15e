//! Flow control: how fast writers may go. What the database may hold in memory is in `memory/`.
//!
//! | file | what |
//! |---|---|
//! | `pace` | decides from the state of a family how fast it may be written; pure |
//! | `run_bounds` | how many runs slow writers, by the size of the family; pure |
//! | `shared_buffer` | how much the memtables of all families may take together |
//! | `stall_timer` | how long callers wait for work that gets nowhere |
//! | `pacer` | hands out bytes at a given rate, so that most commits pass with one addition |
//! | `disk` | space on the disk that is kept for deletions |
//! | `stalls` | counters of waits by reason, and the measured rate of flushes |
//!
//! `write/admission.rs` calls all of it before each commit; flushes and compactions report their
//! progress. Nothing here knows the database: it is plain data and atomics.
//!
//! Any thread may call anything. A commit that is not held up reads one flag and one bound.

pub(crate) mod disk;
mod pace;
mod pacer;
mod run_bounds;
mod shared_buffer;
mod stall_timer;
mod stalls;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};

pub(crate) use self::disk::{DiskFlow, PromisedSpace};
pub(crate) use self::pace::flush_parts;
pub(crate) use self::pace::{
    FamilySignals, Pace, family_pace, has_many_runs, is_held, is_slowed_by_garbage, memory_pace,
};
pub(crate) use self::pacer::Pacer;
pub(crate) use self::run_bounds::RunBounds;
pub(crate) use self::shared_buffer::SharedBuffer;
pub(crate) use self::stall_timer::StallTimer;
pub(crate) use self::stalls::{FlushMeter, Stalls, Throttle};

/// What an entry takes in a memtable beyond its key and value, about.
pub(crate) const ENTRY_OVERHEAD_BYTES: u64 = 40;

/// Flow control of the whole database.
#[derive(Debug, Default)]
pub(crate) struct DatabaseFlow {
    pub stalls: Stalls,
    pub flushes: FlushMeter,
    /// Versions that compactions have read, about: any change is progress.
    pub merged: AtomicU64,
    /// Paces all writers while memory is scarce.
    pub pacer: Pacer,
    /// The memory budget asks for `pacer` to be used.
    pub held: AtomicBool,
    /// Level of memory use that was last reported.
    pub reported_level: AtomicU64,
    pub level_reports: Throttle,
    pub failure_reports: Throttle,
    /// Held while memtables are chosen that are written out for the sake of memory.
    pub choosing_memtables: Mutex<()>,
    /// What `shared_write_buffer_bytes` allows.
    pub shared_buffer: SharedBuffer,
    /// A flush has failed, and no writer has looked since which one.
    pub flush_failed: AtomicBool,
    /// Space on the disk.
    pub disk: DiskFlow,
}

/// Flow control of one family.
#[derive(Debug, Default)]
pub(crate) struct FamilyFlow {
    /// Commits go through `pacer`. Follows from the view.
    pub held: AtomicBool,
    pub pacer: Pacer,
    /// Bytes of the memtable being flushed that are written already.
    pub flushed_bytes: AtomicU64,
    /// Flushed runs that compactions of older ones have taken along: they wait for nothing.
    pub young_runs_taken_along: AtomicU64,
    /// Runs that were there when the family began to be read, as far as they are not merged since.
    pub runs_before_reads: AtomicU64,
    /// Writers had to make room last for a flush, and have not left one half of its time since.
    pub paced: AtomicBool,
    /// When a memtable was last frozen, in nanoseconds of the monotonic clock; 0 for never.
    pub frozen_nanos: AtomicU64,
    /// From when on writers may look for a compaction again, on the same clock.
    pub next_look_nanos: AtomicU64,
}
