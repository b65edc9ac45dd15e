//! The read path of single keys: memtables newest first, then sorted runs newest first.
//!
//! A read takes no lock while its tables are open and its blocks cached (it may wait for a change
//! of a memtable's node), and allocates nothing: it borrows the family's view, asks each memtable,
//! then each run whose key range and filter admit the key, and hands the value to the caller where
//! it lies.
//!
//! | file | what |
//! |---|---|
//! | `get` | one key |
//! | `multi_get` | many keys: filters first, then each block once |
//! | `pinned`, `shared_block` | values that a caller reads where they lie |
//! | `copied` | values that a caller gets a copy of |
//! | `expiry`, `freed_by_deletion` | when a value expires, and what its deletion would free |
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::cast_possible_truncation))]

mod copied;
mod expiry;
mod freed_by_deletion;
mod get;
mod multi_get;
mod pinned;
mod shared_block;

pub(crate) use self::copied::{copied, copy_into};
pub use self::expiry::Expiry;
pub(crate) use self::multi_get::{Collect, Pins};
pub use self::pinned::PinnedValue;
