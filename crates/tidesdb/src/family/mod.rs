//! Column families: their state, and the handle that users hold.

mod background;
mod handle;
mod hook;
mod keys;
mod merges;
mod reads;
mod settings;
mod state;

pub(crate) use self::background::{Failure, FamilyFlushes, FamilyMerges};
pub use self::handle::Family;
pub(crate) use self::hook::CommitHookSlot;
pub use self::hook::{CommitHook, CommittedBatch, CommittedKind, CommittedOperation};
pub(crate) use self::keys::not_registered;
pub(crate) use self::merges::{MergeClaim, MergesUnderWay, RunPlace, RunningMerges, interrupting};
pub(crate) use self::reads::ReadWatch;
pub(crate) use self::state::{FamilyState, SliceBounds, View};
