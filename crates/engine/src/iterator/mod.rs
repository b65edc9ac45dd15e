//! Iterators: from many sources of versions to what a user sees.
//!
//! | file | what |
//! |---|---|
//! | `memtable_source`, `run_source` | one memtable or sorted run as a snapshot sees it |
//! | `merge` | merges sources by key; of equal keys the newest source wins |
//! | `scan` | hides deletions and expired entries, keeps bounds |
//! | `scanned_values` | fetches large values, those of one value log in pieces |
//! | `key_range` | ranges of keys as Rust writes them |
//! | `whole` | a scan as a Rust iterator, also backwards |

mod key_range;
mod memtable_source;
mod merge;
mod options;
mod run_source;
mod scan;
mod scanned_values;
mod source;
mod whole;

pub use self::key_range::KeyRange;
pub use self::options::ScanOptions;
pub use self::scan::{Scan, ScanEntries};
pub use self::whole::ScanEntriesRev;
