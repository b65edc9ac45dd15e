//! Creating, changing and dropping column families.

use std::sync::{Arc, MutexGuard};

use tidesdb_base::error::{Error, Result};
use tidesdb_base::options::{FamilyOptions, SyncMode};
use tidesdb_files::manifest::Change;
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::sync_points::sync_point;

use crate::core::Core;
use crate::family::{FamilyState, View};
use crate::memtable::Memtable;
use crate::version::{Catalog, Version};

/// For how long changed options of a family are in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OptionsLifetime {
    /// They are what an opening finds.
    Stored,
    /// An opening finds those that were stored last.
    UntilClose,
}

/// Whether the log is synced at intervals for the sake of the family.
const fn has_timer(options: &FamilyOptions) -> bool {
    matches!(options.sync_mode, SyncMode::Interval { .. })
}

impl Core {
    /// Creates families in one step: all of them or none.
    ///
    /// # Errors
    /// See [`crate::Db::create_family`].
    pub(crate) fn create_families(
        &self,
        wanted: &[(&str, FamilyOptions)],
    ) -> Result<Vec<Arc<FamilyState>>> {
        self.check_changeable()?;
        let _at_work = self.work.callers.enter()?;
        let _changing = lock(&self.families.changing);
        let mut catalog = lock(&self.storage.catalog);
        self.families.check_new(wanted, catalog.state.families.len())?;
        let first = catalog.state.next_family;
        let boundary = self.storage.log.published();
        let stored = wanted.iter().map(|(_, options)| self.families.shared_options.of(options));
        let stored: Vec<_> = stored.collect();
        let mut changes = Vec::new();
        for ((family, (name, _)), stored) in (first..).zip(wanted).zip(&stored) {
            let (name, options) = ((*name).to_owned(), Arc::clone(&stored.text));
            changes.push(Change::CreateFamily { family, name, options });
            changes.push(Change::FlushedThrough { family, sequence: boundary });
        }
        changes.push(Change::NextFamily { family: first + wanted.len() as u32 });
        catalog.change_families(changes)?;
        sync_point("families in the manifest");
        self.restate_manifest_later(&mut catalog);
        let mut created = Vec::with_capacity(wanted.len());
        for ((id, (name, _)), stored) in (first..).zip(wanted).zip(stored) {
            let view = View {
                active: Arc::new(Memtable::new(&self.memory.pool)),
                frozen: Vec::new(),
                version: Arc::new(Version::default()),
            };
            let (database, budget) = (self.env.identity, &self.memory.budget);
            let family = FamilyState::new(database, id, name, stored.options, view, budget);
            let family = Arc::new(family);
            // Looked at above, and nothing that is registered goes away.
            self.families.find_key_order(&family)?;
            created.push(family);
        }
        self.limit_memtables(&created);
        for family in &created {
            self.families.insert(Arc::clone(family));
        }
        drop(catalog);
        if wanted.iter().any(|(_, options)| has_timer(options)) {
            self.set_interval_sync();
        }
        Ok(created)
    }

    /// Changes a family's options, and stores them or not.
    ///
    /// # Errors
    /// See [`crate::Family::set_options`].
    pub(crate) fn set_family_options(
        &self,
        family: &Arc<FamilyState>,
        options: FamilyOptions,
        kept: OptionsLifetime,
    ) -> Result<()> {
        self.check_writable(family)?;
        options.validate()?;
        if options.key_order != family.keys.order {
            let (wanted, present) = (&options.key_order, &family.keys.order);
            return Err(Error::InvalidOptions(vec![format!(
                "key_order is {wanted}, but stays {present}: that of a family can't be changed"
            )]));
        }
        let at_work = self.work.callers.enter()?;
        let mut catalog = lock(&self.storage.catalog);
        if family.is_dropped() {
            return Err(family.dropped_error());
        }
        let before = family.options.load().sync_mode;
        let (timed, stored) =
            (options.sync_mode != before, self.families.shared_options.of(&options));
        if kept == OptionsLifetime::Stored {
            let change = Change::SetOptions { family: family.id, options: stored.text };
            catalog = self.change_family(catalog, family, change)?;
            self.restate_manifest_later(&mut catalog);
        }
        family.apply_options(stored.options);
        drop(catalog);
        drop(at_work);
        if timed {
            self.set_interval_sync();
        }
        self.freeze_if_full(family);
        self.schedule_compaction(family);
        Ok(())
    }

    /// Whether an opening finds these options of a family.
    pub(super) fn are_stored(&self, family: &FamilyState, options: &FamilyOptions) -> bool {
        let catalog = lock(&self.storage.catalog);
        let stored = catalog.state.families.get(&family.id);
        let stored = stored.map(|stored| FamilyOptions::from_text(&stored.options));
        stored.is_some_and(|stored| stored.is_ok_and(|stored| stored == *options))
    }

    /// Makes an edit that drops a family, or gives it another name or other options. When it fails
    /// and an opening may find it all the same, commits to the family are refused until that is
    /// settled: they would be acknowledged for a family that is gone then, or is called otherwise.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::ChangeUncertain`]: there is no such change as long as the database
    /// is open.
    pub(super) fn change_family<'c>(
        &self,
        mut catalog: MutexGuard<'c, Catalog>,
        family: &Arc<FamilyState>,
        change: Change,
    ) -> Result<MutexGuard<'c, Catalog>> {
        match catalog.change_or_doubt(vec![change], Arc::clone(family) as _) {
            Ok(()) => Ok(catalog),
            Err(error) => {
                drop(catalog);
                if matches!(error, Error::ChangeUncertain(_)) {
                    // Commits that were let in before end here; no others are let in.
                    drop(self.storage.log.close_gate());
                }
                Err(error)
            }
        }
    }

    /// Drops a family.
    ///
    /// # Errors
    /// See [`crate::Db::drop_family`].
    pub(crate) fn drop_family(&self, name: &str) -> Result<()> {
        self.check_changeable()?;
        let at_work = self.work.callers.enter()?;
        let changing = lock(&self.families.changing);
        let catalog = lock(&self.storage.catalog);
        let family = self.families.find(name)?;
        let mut catalog =
            self.change_family(catalog, &family, Change::DropFamily { family: family.id })?;
        sync_point("drop in the manifest");
        self.restate_manifest_later(&mut catalog);
        family.set_dropped();
        // At once, so that sums over all families never fall.
        let mut dropped = lock(&self.telemetry.counters.dropped);
        dropped.add(&family.counters.counted());
        self.families.remove(name);
        drop(dropped);
        let view = family.view.load_full();
        for table in view.version.tables() {
            table.let_go();
        }
        for file in view.version.value_logs.values() {
            file.let_go();
        }
        family.change_view(|_| View {
            active: Arc::new(Memtable::new(&self.memory.pool)),
            frozen: Vec::new(),
            version: Arc::new(Version::default()),
        });
        drop(view);
        drop(catalog);
        // Not with the catalog held: a commit that starts a value-log file takes them the other
        // way round.
        *lock(&family.writes.direct_values) = None;
        family.growing_value_logs.end();
        self.storage.files.obsolete.sweep();
        drop(changing);
        drop(at_work);
        if has_timer(&family.options.load()) {
            self.set_interval_sync();
        }
        // It may hold a handle of this family, which would never be freed.
        family.writes.commit_hook.exchange(None).let_go();
        Ok(())
    }
}
