//! Column families: the state of each, and what is under way in it.

mod background;
mod hook;
mod keys;
mod merges;
mod read_activity;
mod settings;
mod state;
mod view;

pub(crate) use self::background::{Failure, FamilyFlushes, FamilyMerges, SliceBounds};
pub use self::hook::{CommitHook, CommittedBatch, CommittedKind, CommittedOperation};
pub(crate) use self::hook::{CommitHookSlot, RetiredHook};
pub(crate) use self::keys::not_registered;
pub(crate) use self::merges::{MergeClaim, MergesUnderWay, RunPlace, RunningMerges, interrupting};
pub(crate) use self::read_activity::ReadActivity;
pub(crate) use self::state::FamilyState;
pub(crate) use self::view::View;
