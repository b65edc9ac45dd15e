//! TidesDB: an embeddable, transactional, ordered key-value store on a log-structured merge tree.
//!
//! ```
//! # let directory = tempfile::tempdir()?;
//! use tidesdb::{Db, DbOptions, FamilyOptions, ScanOptions};
//!
//! let db = Db::open(directory.path(), DbOptions::default())?;
//! let fruit = db.open_family("fruit", FamilyOptions::default())?;
//! fruit.put(b"apple", b"red")?;
//! fruit.put(b"banana", b"yellow")?;
//! assert_eq!(fruit.get(b"apple")?, Some(b"red".to_vec()));
//! for entry in fruit.scan(ScanOptions::new())?.entries() {
//!     let (key, value) = entry?;
//!     println!("{} is {}", String::from_utf8_lossy(&key), String::from_utf8_lossy(&value));
//! }
//! db.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | to | see |
//! |---|---|
//! | open, copy, measure a database | [`Db`], [`DbOptions`] |
//! | read and write keys | [`Family`], [`WriteBatch`], [`WriteOptions`] |
//! | walk keys in order | [`Scan`], [`ScanOptions`] |
//! | group reads and writes | [`Transaction`], [`IsolationLevel`], [`Db::transaction`] |
//! | know what to do about an error | [`ErrorKind`], whose names the sections *Errors* use |
//! | repair a damaged database | [`salvage`] |
//!
//! Features: `toml` (default) reads options from TOML files; `tracing` emits spans and events.
//!
//! To read the code, start with `ARCHITECTURE.md`; in short:
//!
//! * what users call is in `db/` (a database, a family) and `handles/`;
//! * the write path is `write/`, then `wal/`, then `memtable`;
//! * the read path is `read/`, and `iterator/` for scans;
//! * `flush/` turns memtables into tables, `compaction/` merges tables, `output/` is what both use;
//! * `background/` says when they run, `flow/` how fast writers may go meanwhile;
//! * `version/` is the set of files and the manifest behind it;
//! * `opening/` opens a directory: it reads the manifest and replays the log;
//! * `salvage/` works on databases that do not open.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod background;
mod cache;
mod compaction;
mod core;
mod db;
mod family;
mod flow;
mod flush;
#[cfg(doctest)]
mod guide;
mod handles;
mod isolation;
mod iterator;
mod memory;
mod memtable;
mod opening;
pub mod options_file;
mod output;
mod read;
pub mod salvage;
mod stats;
mod telemetry;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod testing;
mod transaction;
mod verify;
mod version;
mod wal;
mod write;

pub use tidesdb_base::compress::Compression;
pub use tidesdb_base::error::{Error, ErrorKind, Result};
pub use tidesdb_base::event::{
    Event, EventListener, LogLevel, MemoryLevel, OperationProfile, StallReason,
};
pub use tidesdb_base::key_order::{CompareKeys, KeyOrder, KeyOrders};
pub use tidesdb_base::key_ranges::prefix_end;
pub use tidesdb_base::latency::{LatencyHistogram, TimedOperation};
pub use tidesdb_base::limits;
pub use tidesdb_base::options::{DbOptions, FamilyOptions, FilterKind, RuntimeOptions, SyncMode};
pub use tidesdb_base::progress::Progress;
pub use tidesdb_sys::clock::Clock;
pub use tidesdb_sys::sched::{Job, Lane, Scheduler};
pub use tidesdb_sys::vfs::{
    DirEntry, File, FileStamp, LockGuard, LockMode, LogSegment, OpenMode, SegmentMode, Vfs,
};

pub use crate::db::{Components, CopyOptions, Db};
pub use crate::family::{CommitHook, CommittedBatch, CommittedKind, CommittedOperation};
pub use crate::handles::{Family, Snapshot};
pub use crate::isolation::IsolationLevel;
pub use crate::iterator::{KeyRange, Scan, ScanEntries, ScanKeys, ScanOptions};
pub use crate::read::{Expiry, PinnedValue};
pub use crate::stats::{
    CacheStats, DbStats, FamilySpace, FamilyStats, LatencyStats, LevelStats, MemoryStats,
    ReadStats, StallStats, TombstoneDensity, TreeLevelStats, TreeStats, WorkStats,
};
pub use crate::transaction::{Transaction, TransactionStats};
pub use crate::verify::VerifyReport;
pub use crate::write::{WriteBatch, WriteOptions};
