//! Iterators: from many sources of versions to what a user sees.
//!
//! | file | what |
//! |---|---|
//! | `memtable_source`, `run_source` | the keys of one memtable or one sorted run as a snapshot sees them, one version a key |
//! | `merge` | merges sources by key; of equal keys the newest source wins |
//! | `scan` | hides deletions and expired entries, keeps bounds, fetches large values |

mod memtable_source;
mod merge;
mod options;
mod run_source;
mod scan;
mod source;

pub use self::options::ScanOptions;
pub use self::scan::{Scan, ScanEntries};
