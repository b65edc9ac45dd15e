//! Creating and dropping column families.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidesdb_base::error::{Error, Result};
use tidesdb_base::key_order::KeyOrder;
use tidesdb_base::limits::{MAX_FAMILIES, MAX_FAMILY_NAME_BYTES};
use tidesdb_base::options::{FamilyOptions, SyncMode};
use tidesdb_files::manifest::Change;
use tidesdb_lockfree::sync::lock;

use crate::core::Core;
use crate::family::{FamilyState, View, not_registered};
use crate::memtable::Memtable;
use crate::version::{Outcome, Version};

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
        let _at_work = self.callers.enter()?;
        let _changing = lock(&self.families.changing);
        let mut catalog = lock(&self.catalog);
        self.check_new_families(wanted, catalog.state.families.len())?;
        let first = catalog.state.next_family;
        let boundary = self.log.published();
        let mut changes = Vec::new();
        for (family, (name, options)) in (first..).zip(wanted) {
            let (name, options) = ((*name).to_owned(), options.to_text());
            changes.push(Change::CreateFamily { family, name, options });
            changes.push(Change::FlushedThrough { family, sequence: boundary });
        }
        changes.push(Change::NextFamily { family: first + wanted.len() as u32 });
        catalog.commit(changes)?;
        let mut created = Vec::with_capacity(wanted.len());
        for (id, (name, options)) in (first..).zip(wanted) {
            let view = View {
                active: Arc::new(Memtable::new(&self.memory)),
                frozen: Vec::new(),
                version: Arc::new(Version::default()),
            };
            let family = FamilyState::new(self.identity, id, name, options.clone(), view);
            let family = Arc::new(family);
            // Looked at above, and nothing that is registered goes away.
            family.find_key_order(|order| lock(&self.families.key_orders).get(order).cloned())?;
            self.families.insert(Arc::clone(&family));
            created.push(family);
        }
        drop(catalog);
        let timed =
            |options: &FamilyOptions| matches!(options.sync_mode, SyncMode::Interval { .. });
        if wanted.iter().any(|(_, options)| timed(options)) {
            self.start_interval_sync();
        }
        Ok(created)
    }

    fn check_new_families(&self, wanted: &[(&str, FamilyOptions)], present: usize) -> Result<()> {
        let mut names = BTreeSet::new();
        for (name, options) in wanted {
            self.check_new_name(name)?;
            options.validate()?;
            self.check_key_order(name, &options.key_order)?;
            if !names.insert(*name) {
                return Err(Error::FamilyExists((*name).to_owned()));
            }
        }
        check_number_of_families(present + wanted.len())
    }

    /// Refuses an order of the application's that is not registered.
    ///
    /// # Errors
    /// [`Error::KeyOrderNotRegistered`].
    fn check_key_order(&self, family: &str, order: &KeyOrder) -> Result<()> {
        match order {
            KeyOrder::Custom(name) if lock(&self.families.key_orders).get(name).is_none() => {
                Err(not_registered(family, name))
            }
            _ => Ok(()),
        }
    }

    /// The family of that name, if the order of its keys is known.
    ///
    /// # Errors
    /// [`Error::FamilyNotFound`], [`Error::KeyOrderNotRegistered`].
    pub(crate) fn usable_family(&self, name: &str) -> Result<Arc<FamilyState>> {
        let family = self.find_family(name)?;
        family.find_key_order(|order| lock(&self.families.key_orders).get(order).cloned())?;
        Ok(family)
    }

    /// The family of that name, whether its keys can be put in order or not.
    ///
    /// # Errors
    /// [`Error::FamilyNotFound`].
    pub(crate) fn find_family(&self, name: &str) -> Result<Arc<FamilyState>> {
        self.families.by_name(name).ok_or_else(|| Error::FamilyNotFound(name.to_owned()))
    }

    /// Whether a family may be called that.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a bad name, [`Error::FamilyExists`].
    pub(super) fn check_new_name(&self, name: &str) -> Result<()> {
        check_name(name)?;
        match self.families.by_name(name) {
            Some(_) => Err(Error::FamilyExists(name.to_owned())),
            None => Ok(()),
        }
    }

    /// Changes a family's options and stores them.
    ///
    /// # Errors
    /// See [`crate::Family::set_options`].
    pub(crate) fn set_family_options(
        &self,
        family: &Arc<FamilyState>,
        options: FamilyOptions,
    ) -> Result<()> {
        self.check_writable(family)?;
        options.validate()?;
        if options.key_order != family.key_order {
            let (wanted, present) = (&options.key_order, &family.key_order);
            return Err(Error::InvalidOptions(vec![format!(
                "key_order is {wanted}, but stays {present}: that of a family can't be changed"
            )]));
        }
        let at_work = self.callers.enter()?;
        let mut catalog = lock(&self.catalog);
        if family.is_dropped() {
            return Err(family.dropped_error());
        }
        let before = family.options.load().sync_mode;
        let (timed, text) = (options.sync_mode != before, options.to_text());
        catalog.commit(vec![Change::SetOptions { family: family.id, options: text }])?;
        family.apply_options(options);
        drop(catalog);
        drop(at_work);
        if timed {
            self.start_interval_sync();
        }
        self.rotate_if_full(family);
        self.schedule_compaction(family);
        Ok(())
    }

    /// Drops a family.
    ///
    /// # Errors
    /// See [`crate::Db::drop_family`].
    pub(crate) fn drop_family(&self, name: &str) -> Result<()> {
        self.check_changeable()?;
        let _at_work = self.callers.enter()?;
        let _changing = lock(&self.families.changing);
        let mut catalog = lock(&self.catalog);
        let family = self.find_family(name)?;
        let changes = vec![Change::DropFamily { family: family.id }];
        match catalog.commit_or_doubt(changes, Arc::clone(&family) as _) {
            Outcome::Applied => {}
            Outcome::Refused(cause) => return Err(cause),
            Outcome::Doubtful(cause) => {
                drop(catalog);
                // Commits that were let in before end here; no others are let in.
                drop(self.log.close_gate());
                return Err(cause);
            }
        }
        family.set_dropped();
        // At once, so that sums over all families never fall.
        let mut dropped = lock(&self.counters.dropped);
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
            active: Arc::new(Memtable::new(&self.memory)),
            frozen: Vec::new(),
            version: Arc::new(Version::default()),
        });
        drop(view);
        drop(catalog);
        // Not with the catalog held: a commit that starts a value-log file takes them the other
        // way round.
        *lock(&family.direct_values) = None;
        // It may hold a handle of this family, which would never be freed.
        family.commit_hook.replace(None);
        self.files.garbage.sweep();
        Ok(())
    }

    /// Whether files of the directory may be changed at all.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::OpenedReadOnly`], [`Error::ReadOnly`].
    pub(super) fn check_changeable(&self) -> Result<()> {
        self.check_open()?;
        if self.options.read_only {
            return Err(Error::OpenedReadOnly);
        }
        self.health.check()
    }
}

/// Family names are stored and printed, and other tools make files of them.
fn check_name(name: &str) -> Result<()> {
    let problem = if name.is_empty() {
        "is empty"
    } else if name.len() > MAX_FAMILY_NAME_BYTES {
        "is longer than 127 bytes"
    } else if name == "." || name == ".." || name.contains(['/', '\\']) {
        "could be taken for a path"
    } else if name.chars().any(char::is_control) {
        "contains a control character"
    } else {
        return Ok(());
    };
    Err(Error::InvalidArgument(format!("the family name {name:?} {problem}")))
}

/// Whether there may be so many families.
///
/// # Errors
/// [`Error::TooLarge`].
pub(super) fn check_number_of_families(count: usize) -> Result<()> {
    if count > MAX_FAMILIES {
        return Err(Error::TooLarge {
            what: "number of column families",
            size: count as u64,
            limit: MAX_FAMILIES as u64,
        });
    }
    Ok(())
}
