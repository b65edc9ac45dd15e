//! What a crash may take.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tidesdb::{Family, FamilyOptions, SyncMode};

use crate::Verdict;
use crate::oracle::FamilyId;
use crate::settings::SLOTS;

/// What a crash at this moment may and may not take.
#[derive(Clone, Debug, Default)]
pub struct Promises {
    /// The last transaction that was acknowledged: a process kill must leave it.
    pub acknowledged: u64,
    /// The last transaction that was begun: nothing later may appear.
    pub started: u64,
    /// The last transaction that a power cut must leave.
    pub durable: u64,
    /// What will be durable when the log sync under way is done.
    pub syncing: u64,
    /// Per slot, the family that is known to be there.
    pub families: [Option<FamilyId>; SLOTS],
    /// Per slot, a family that may be there, or not, since a creation or a removal is under way.
    pub undecided: [Option<Option<FamilyId>>; SLOTS],
    /// The family of the first slot may have the name of the second.
    pub moving: Option<(usize, usize)>,
    /// What was asked for, per family: several options where a change may or may not be stored.
    pub options: BTreeMap<FamilyId, Vec<FamilyOptions>>,
}

impl Promises {
    /// Whether every commit to the family is synced, whatever became of a change of its options.
    pub(super) fn syncs_commits(&self, family: FamilyId) -> bool {
        let is_full = |options: &FamilyOptions| options.sync_mode == SyncMode::Full;
        self.options.get(&family).is_some_and(|options| options.iter().all(is_full))
    }

    /// Compares what a family has with what was asked for.
    pub(super) fn check_options(&self, id: FamilyId, family: &Family) -> Verdict {
        let (wanted, found) = (self.options.get(&id), family.options());
        if wanted.is_some_and(|wanted| wanted.contains(&found)) {
            return Ok(());
        }
        Err(format!("{} has {found:?}, wanted one of {wanted:?}", family.name()))
    }
}

/// Promises shared with the hooks of the disk.
pub type SharedPromises = Arc<Mutex<Promises>>;
