//! Renaming and copying column families: one edit of the manifest each, whatever their size.

use std::sync::Arc;

use tidesdb_base::error::Result;
use tidesdb_files::manifest::Change;
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::sync_points::sync_point;

use crate::core::{Core, check_number_of_families};
use crate::family::{FamilyState, View};
use crate::memtable::Memtable;

impl Core {
    /// Gives a family another name.
    ///
    /// # Errors
    /// See [`crate::Db::rename_family`].
    pub(crate) fn rename_family(&self, old: &str, new: &str) -> Result<()> {
        self.check_changeable()?;
        let _at_work = self.work.callers.enter()?;
        let _changing = lock(&self.families.changing);
        let catalog = lock(&self.storage.catalog);
        let family = self.families.find(old)?;
        if old == new {
            return Ok(());
        }
        self.families.check_new_name(new)?;
        let change = Change::RenameFamily { family: family.id, name: new.to_owned() };
        let mut catalog = self.change_family(catalog, &family, change)?;
        sync_point("rename in the manifest");
        self.restate_manifest_later(&mut catalog);
        self.families.rename(old, new);
        Ok(())
    }

    /// Makes a copy of a family that shares its files.
    ///
    /// # Errors
    /// See [`crate::Db::clone_family`].
    pub(crate) fn clone_family(&self, source: &str, name: &str) -> Result<Arc<FamilyState>> {
        self.check_changeable()?;
        let source = self.families.usable(source)?;
        self.families.check_new_name(name)?;
        // What is committed by now is in tables then. Flushes that come in between only move the
        // cut: each ends where a memtable was frozen, which is one point of the commit order.
        self.flush_family(&source)?;
        let _at_work = self.work.callers.enter()?;
        let _changing = lock(&self.families.changing);
        if source.is_dropped() {
            return Err(source.dropped_error());
        }
        self.families.check_new_name(name)?;
        check_number_of_families(lock(&self.storage.catalog).state.families.len() + 1)?;
        // The manifest says of a file that is appended to how long it is once it is closed, and for
        // the family that appends alone. So no commit appends to one that the copy has, and those
        // that flushes and compactions append to end here for the copy.
        let mut writer = lock(&source.writes.direct_values);
        let closed = self.storage.close_locked(&source, &mut writer);
        let mut catalog = lock(&self.storage.catalog);
        let id = catalog.state.next_family;
        let mut changes = catalog.still_listed(closed);
        changes.push(Change::CopyFamily { family: id, source: source.id, name: name.to_owned() });
        let growing = source.current_version().growing_value_logs().into_iter();
        changes.extend(growing.map(|file| Change::AddValueLog { family: id, file }));
        changes.extend([
            // No commit of the copy lies before this.
            Change::FlushedThrough { family: id, sequence: self.storage.log.published() },
            Change::NextFamily { family: id + 1 },
        ]);
        catalog.change_families(changes)?;
        sync_point("copy in the manifest");
        self.restate_manifest_later(&mut catalog);
        // Those of the manifest: the view may have some still that a compaction lets go of.
        let known = catalog.state.families.get(&id).map(|copy| &copy.range_tombstones);
        let tombstones = known.into_iter().flatten().cloned().collect();
        let view = View {
            active: Arc::new(Memtable::new(&self.memory.pool)),
            frozen: Vec::new(),
            version: Arc::new(source.current_version().for_another_family(tombstones)),
        };
        let options = source.options.load_full();
        let (database, budget) = (self.env.identity, &self.memory.budget);
        let copy = Arc::new(FamilyState::new(database, id, name, options, view, budget));
        copy.keys.take_order_of(&source.keys);
        self.limit_memtables(std::slice::from_ref(&copy));
        *lock(&copy.compactions.slice_bounds) = lock(&source.compactions.slice_bounds).clone();
        self.families.insert(Arc::clone(&copy));
        drop(catalog);
        drop(writer);
        // Timers of what expires, and compactions that are due.
        self.schedule_compaction(&copy);
        Ok(copy)
    }
}
