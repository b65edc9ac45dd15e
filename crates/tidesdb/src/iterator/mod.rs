//! Iterators: from many sources of versions to what a user sees.
//!
//! | file | what |
//! |---|---|
//! | `memtable_source`, `run_source` | one memtable or sorted run as a snapshot sees it |
//! | `own_writes` | what the transaction that scans has written |
//! | `merge` | merges sources by key; of equal keys the newest source wins |
//! | `heap` | the heap of that merge, and of the one of compactions |
//! | `scan` | hides deletions and expired entries, keeps bounds, reports to the transaction what it read |
//! | `family_order`, `handle` | from stored keys to keys in the family's order; what users hold |
//! | `scanned_values` | fetches large values, those of one value log in pieces |
//! | `key_range` | ranges of keys as Rust writes them |
//! | `entries` | a scan as a Rust iterator, also backwards |

mod entries;
mod family_order;
mod handle;
mod heap;
mod key_range;
mod memtable_source;
mod merge;
mod options;
mod own_writes;
mod run_source;
mod scan;
mod scanned_values;
mod source;

pub use self::entries::{ScanEntries, ScanKeys};
pub use self::handle::Scan;
pub(crate) use self::heap::NumberHeap;
pub use self::key_range::KeyRange;
pub use self::options::ScanOptions;
pub(crate) use self::own_writes::OwnWrites;
pub(crate) use self::scan::{OfTransaction, RangesRead};
