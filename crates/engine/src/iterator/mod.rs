//! Iterators: from many sources of versions to what a user sees.
//!
//! | file | what |
//! |---|---|
//! | `memtable_source`, `run_source` | one memtable or sorted run as a snapshot sees it |
//! | `merge` | merges sources by key; of equal keys the newest source wins |
//! | `scan` | hides deletions and expired entries, keeps bounds |
//! | `scanned_values` | fetches large values, those of one value log in pieces |

mod memtable_source;
mod merge;
mod options;
mod run_source;
mod scan;
mod scanned_values;
mod source;

pub use self::options::ScanOptions;
pub use self::scan::{Scan, ScanEntries};
