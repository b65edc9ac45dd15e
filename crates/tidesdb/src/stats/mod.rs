//! Statistics about a database and its families. All are snapshots of counters that move on; sums
//! may be off by what happens while they are read.
//!
//! What each of them means is in `docs/statistics.md`.

mod approximate;
mod cache;
mod database;
mod display;
mod estimates;
mod family;
mod latency;
mod prometheus;
mod reads;
mod space;
mod tree;
mod work;

pub(crate) use self::approximate::{approximate_count, bytes_between};
pub use self::cache::CacheStats;
pub use self::database::{DbStats, MemoryStats, StallStats};
pub(crate) use self::display::{Bytes, line, some};
pub(crate) use self::estimates::memtable_keys;
pub use self::family::{FamilyStats, LevelStats, TombstoneDensity};
pub use self::latency::LatencyStats;
pub(crate) use self::prometheus::page as prometheus_page;
pub use self::reads::ReadStats;
pub use self::space::FamilySpace;
pub use self::tree::{TreeLevelStats, TreeStats};
pub use self::work::WorkStats;

/// A part of a whole, 0 of nothing.
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
