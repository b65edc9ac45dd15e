//! Creating and dropping column families.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidesdb_base::error::{Error, Result};
use tidesdb_base::limits::{MAX_FAMILIES, MAX_FAMILY_NAME_BYTES};
use tidesdb_base::options::{FamilyOptions, SyncMode};
use tidesdb_files::manifest::Change;
use tidesdb_lockfree::sync::lock;

use crate::core::Core;
use crate::family::{FamilyState, View};
use crate::memtable::Memtable;
use crate::version::Version;

impl Core {
    /// Creates a family.
    ///
    /// # Errors
    /// See [`crate::Db::create_family`].
    pub(crate) fn create_family(
        &self,
        name: &str,
        options: &FamilyOptions,
    ) -> Result<Arc<FamilyState>> {
        self.check_changeable()?;
        check_name(name)?;
        options.validate()?;
        let mut catalog = lock(&self.catalog);
        if self.families.by_name(name).is_some() {
            return Err(Error::FamilyExists(name.to_owned()));
        }
        if catalog.state.families.len() >= MAX_FAMILIES {
            return Err(Error::TooLarge {
                what: "number of column families",
                size: catalog.state.families.len() as u64 + 1,
                limit: MAX_FAMILIES as u64,
            });
        }
        let id = catalog.state.next_family;
        let boundary = self.log.published();
        catalog.commit(vec![
            Change::CreateFamily { family: id, name: name.to_owned(), options: options.to_text() },
            Change::FlushedThrough { family: id, sequence: boundary },
            Change::NextFamily { family: id + 1 },
        ])?;
        let view = View {
            active: Arc::new(Memtable::new(&self.memory)),
            frozen: Vec::new(),
            version: Arc::new(Version::default()),
        };
        let name = name.to_owned();
        let family = FamilyState::new(self.identity(), id, name, options.clone(), view);
        let family = Arc::new(family);
        self.families.insert(Arc::clone(&family));
        drop(catalog);
        if matches!(options.sync_mode, SyncMode::Interval { .. }) {
            self.start_interval_sync();
        }
        Ok(family)
    }

    /// Drops a family.
    ///
    /// # Errors
    /// See [`crate::Db::drop_family`].
    pub(crate) fn drop_family(&self, name: &str) -> Result<()> {
        self.check_changeable()?;
        let mut catalog = lock(&self.catalog);
        let not_found = || Error::FamilyNotFound(name.to_owned());
        let family = self.families.by_name(name).ok_or_else(not_found)?;
        catalog.commit(vec![Change::DropFamily { family: family.id }])?;
        // ORDERING: release pairs with the load in `is_dropped`.
        family.dropped.store(true, Ordering::Release);
        self.families.remove(name);
        let view = family.view.load_full();
        for table in view.version.tables() {
            table.mark_obsolete();
        }
        for file in view.version.value_logs.values() {
            file.mark_obsolete();
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
        self.files.garbage.sweep();
        Ok(())
    }

    fn check_changeable(&self) -> Result<()> {
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
