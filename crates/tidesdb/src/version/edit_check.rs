//! Whether an edit fits the state that it changes, asked before the edit is written.
//!
//! The same rules as [`PersistedState::apply`], without a copy of the state: what the edit itself
//! makes or removes is kept beside it. A pure function.

use std::collections::BTreeMap;

use tidesdb_files::manifest::{Change, Edit};

use super::persisted_state::{NO_LOG, PersistedState};

#[cfg(test)]
mod tests;

/// What the edit has made (true) or removed (false) so far.
#[derive(Default)]
struct Changed {
    families: BTreeMap<u32, bool>,
    tables: BTreeMap<(u32, u64), bool>,
    value_logs: BTreeMap<(u32, u64), bool>,
}

/// True when the edit contradicts nothing.
pub(super) fn admits(state: &PersistedState, edit: &Edit) -> bool {
    let mut changed = Changed::default();
    edit.changes.iter().all(|change| changed.admits(state, change))
}

/// Whether neither the start of the log nor what is flushed of a family goes back. An edit of which
/// that is not true can be read, and says that commits are in the log which may have left it.
pub(super) fn goes_forward(state: &PersistedState, edit: &Edit) -> bool {
    edit.changes.iter().all(|change| match change {
        Change::LogStart { segment } => state.log_start == NO_LOG || *segment >= state.log_start,
        Change::FlushedThrough { family, sequence } => {
            state.families.get(family).is_none_or(|known| *sequence >= known.flushed_through)
        }
        _ => true,
    })
}

impl Changed {
    fn admits(&mut self, state: &PersistedState, change: &Change) -> bool {
        match change {
            Change::CreateFamily { family, .. } => {
                !self.has_family(state, *family) && self.families.insert(*family, true).is_none()
            }
            Change::CopyFamily { family, source, .. } => {
                let known = self.has_family(state, *source);
                let new = !self.has_family(state, *family);
                self.families.insert(*family, true);
                known && new
            }
            Change::DropFamily { family } => {
                let known = self.has_family(state, *family);
                self.families.insert(*family, false);
                known
            }
            Change::AddTable { family, table } => {
                let place = (*family, table.number);
                let new = !self.has_table(state, place);
                self.tables.insert(place, true);
                new && self.has_family(state, *family)
            }
            Change::RemoveTable { family, number } => {
                let known = self.has_table(state, (*family, *number));
                self.tables.insert((*family, *number), false);
                known
            }
            Change::AddValueLog { family, file } => {
                self.value_logs.insert((*family, file.number), true);
                self.has_family(state, *family)
            }
            Change::RemoveValueLog { family, number } => {
                let place = (*family, *number);
                let in_state = || {
                    state.families.get(family).is_some_and(|f| f.value_logs.contains_key(number))
                };
                let known = self.value_logs.get(&place).copied().unwrap_or_else(in_state);
                self.value_logs.insert(place, false);
                known && self.has_family(state, *family)
            }
            Change::RenameFamily { family, .. }
            | Change::SetOptions { family, .. }
            | Change::FlushedThrough { family, .. }
            | Change::AddRangeTombstone { family, .. } => self.has_family(state, *family),
            Change::RemoveRangeTombstone { family, tombstone } => {
                state.families.get(family).is_some_and(|f| f.range_tombstones.contains(tombstone))
            }
            _ => true,
        }
    }

    fn has_family(&self, state: &PersistedState, family: u32) -> bool {
        let in_state = || state.families.contains_key(&family);
        self.families.get(&family).copied().unwrap_or_else(in_state)
    }

    fn has_table(&self, state: &PersistedState, (family, number): (u32, u64)) -> bool {
        let in_state =
            || state.families.get(&family).is_some_and(|f| f.tables.contains_key(&number));
        self.tables.get(&(family, number)).copied().unwrap_or_else(in_state)
    }
}
