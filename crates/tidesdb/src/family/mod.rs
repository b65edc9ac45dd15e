//! Column families: the state of each, and what is under way in it.

mod background;
mod hook;
mod keys;
mod merges;
mod reads;
mod settings;
mod state;

pub(crate) use self::background::{Failure, FamilyFlushes, FamilyMerges};
pub(crate) use self::hook::CommitHookSlot;
pub use self::hook::{CommitHook, CommittedBatch, CommittedKind, CommittedOperation};
pub(crate) use self::keys::not_registered;
pub(crate) use self::merges::{MergeClaim, MergesUnderWay, RunPlace, RunningMerges, interrupting};
pub(crate) use self::reads::ReadWatch;
pub(crate) use self::state::{FamilyState, SliceBounds, View};
