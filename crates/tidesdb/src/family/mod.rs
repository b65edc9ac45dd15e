//! Column families: the state of each, and what is under way in it.
//!
//! | file | what |
//! |---|---|
//! | `state`, `view` | a family, and what a reader of it loads |
//! | `settings`, `shared_options`, `keys` | its options, and its order of keys |
//! | `background`, `running_work` | what is done for it in the background, and why that failed |
//! | `claims`, `compactions` | which runs are being compacted, and the right to compact some |
//! | `hook`, `hook_operations` | its commit hook |
//! | `dead_ranges`, `watched_deletions` | keys that are deleted: for scans, and for flushes |
//! | `forgotten_deletions` | range deletions that only transactions may still have to meet |
//! | `read_activity`, `space` | whether it is read, and how much of it is garbage |
//! | `expiry_outlook` | when how much of it will have expired |
//! | `list`, `database_id` | families of a batch or a transaction, and the database that they are of |

mod background;
mod claims;
mod compactions;
mod database_id;
pub(crate) mod dead_ranges;
mod expiry_outlook;
mod forgotten_deletions;
mod hook;
mod hook_operations;
mod keys;
mod list;
mod read_activity;
mod running_work;
mod settings;
mod shared_options;
mod space;
mod state;
mod view;
mod watched_deletions;

pub(crate) use self::background::{Failure, FamilyCompactions, FamilyFlushes, SliceBounds};
pub(crate) use self::claims::{RunPlace, RunningClaims};
pub(crate) use self::compactions::{RunClaim, RunningCompactions, interrupting};
pub(crate) use self::database_id::DatabaseId;
pub(crate) use self::expiry_outlook::{ExpiringGroup, ExpiryOutlook, ExpiryOutlooks};
pub use self::hook::{CommitHook, CommittedBatch, CommittedKind, CommittedOperation};
pub(crate) use self::hook::{CommitHookSlot, RetiredHook};
pub(crate) use self::keys::not_registered;
pub(crate) use self::list::FamilyList;
pub(crate) use self::read_activity::ReadActivity;
pub(crate) use self::shared_options::{SharedOptions, StoredOptions};
pub(crate) use self::state::FamilyState;
pub(crate) use self::view::View;
pub(crate) use self::watched_deletions::WatchedDeletions;
