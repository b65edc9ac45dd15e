//! Iterators: from many sources of versions to what a user sees.
//!
//! | file | what |
//! |---|---|
//! | `memtable_source`, `run_source` | one memtable or sorted run as a snapshot sees it |
//! | `merge` | merges sources by key; of equal keys the newest source wins |
//! | `scan` | hides deletions and expired entries, keeps bounds |
//! | `in_order`, `handle` | from stored keys to keys in the family's order; what users hold |
//! | `scanned_values` | fetches large values, those of one value log in pieces |
//! | `key_range` | ranges of keys as Rust writes them |
//! | `whole` | a scan as a Rust iterator, also backwards |

mod handle;
mod in_order;
mod key_range;
mod memtable_source;
mod merge;
mod options;
mod run_source;
mod scan;
mod scanned_values;
mod source;
mod whole;

pub use self::handle::{Scan, ScanEntries};
pub(crate) use self::in_order::{InOrder, Movement, Walk};
pub use self::key_range::KeyRange;
pub use self::options::ScanOptions;
pub(crate) use self::scan::StoredScan;
pub use self::whole::ScanEntriesRev;
