//! Opening databases and families the way commands want it.
//!
//! Reading commands open for reading only: they create nothing, not even a directory, and change
//! no byte. Writing commands create what is missing. Errors say what the user can do.

use std::ops::Bound;
use std::path::Path;

use tidesdb::{Db, Error, Family, KeyOrder, Scan, ScanOptions, prefix_end};

use crate::failure::{Failure, Result};
use crate::options_files;
use crate::progress;
use crate::resume;

/// Families named in a hint.
const NAMED_FAMILIES: usize = 10;

/// What a command does with a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Read; the database must exist.
    Read,
    /// Write; the database must exist.
    Change,
    /// Write; the database is created when it does not exist.
    Create,
}

/// Opens the database in `directory`.
///
/// # Errors
/// Those of the engine, with a hint.
pub(crate) fn open(directory: &Path, access: Access) -> Result<Db> {
    try_open(directory, access)?.map_err(|error| match error {
        Error::NotADatabase { .. } if access != Access::Create => Failure::from(error)
            .hint("check --db; `tidesdb put` and `tidesdb load` create a database"),
        Error::Locked(_) => Failure::from(error)
            .hint("commands that only read can run at the same time, but not while one writes"),
        error => Failure::from(error),
    })
}

/// As [`open`], for a caller that looks at the engine's error: the inner one.
///
/// # Errors
/// When there is no directory.
pub(crate) fn try_open(directory: &Path, access: Access) -> Result<tidesdb::Result<Db>> {
    let options = options_files::database()?
        .create_if_missing(access == Access::Create)
        .read_only(access == Access::Read);
    if access != Access::Create {
        must_exist(directory)?;
    }
    // It replays the log.
    let opened = progress::during("opening", String::new, || Db::open(directory, options));
    Ok(opened.and_then(|db| {
        for name in db.family_names() {
            if let Err(Error::KeyOrderNotRegistered { order, .. }) = db.family(&name) {
                know_order(&db, &KeyOrder::Custom(order))?;
            }
        }
        Ok(db)
    }))
}

/// Closes the database of a command, which writes what is only in the log to tables.
///
/// # Errors
/// Those of the engine.
pub(crate) fn close(db: Db) -> Result<()> {
    Ok(progress::during("closing", String::new, || db.close())?)
}

/// Makes sure that there is a directory.
///
/// # Errors
/// When there is none.
pub(crate) fn must_exist(directory: &Path) -> Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    if directory.exists() {
        let text = format!("{} is a file; a database is a directory", directory.display());
        return Err(Failure::new(text));
    }
    Err(Failure::new(format!("there is no database at {}", directory.display()))
        .hint("check --db; `tidesdb put` and `tidesdb load` create a database"))
}

/// Sorts keys of an application's order by bytes, the order in which this tool shows its families:
/// it does not have the application's function, and nothing that is stored depends on that.
///
/// # Errors
/// When the name is not one of an order.
pub(crate) fn know_order(db: &Db, order: &KeyOrder) -> Result<(), Error> {
    if let KeyOrder::Custom(name) = order {
        // One that is known already is that of bytes.
        match db.register_key_order(name, <[u8]>::cmp) {
            Err(error) if order.problem().is_some() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The family of that name, which must exist.
///
/// # Errors
/// When it does not exist; the hint names those that do.
pub(crate) fn family(db: &Db, name: &str) -> Result<Family> {
    db.family(name).map_err(|error| match error {
        Error::FamilyNotFound(_) => {
            let names = visible_families(db);
            let hint = match names.len() {
                0 => {
                    "there are no families yet; `tidesdb put` and `tidesdb load` create one".into()
                }
                count if count > NAMED_FAMILIES => "`tidesdb families` lists them".into(),
                _ => format!("there are: {}", names.join(", ")),
            };
            Failure::from(error).hint(hint)
        }
        error => Failure::from(error),
    })
}

/// The family of that name, created with the default options when it does not exist.
///
/// # Errors
/// When the name belongs to the tool, and those of the engine.
pub(crate) fn family_or_new(db: &Db, name: &str) -> Result<Family> {
    refuse_hidden(name)?;
    Ok(db.open_family(name, options_files::family(name)?)?)
}

/// Refuses the name of the family that belongs to this tool.
///
/// # Errors
/// When it is that one.
pub(crate) fn refuse_hidden(name: &str) -> Result<()> {
    if name == resume::FAMILY {
        let text = format!("'{name}' is where this tool keeps how far a load has come");
        return Err(Failure::usage(text));
    }
    Ok(())
}

/// The names of the families that belong to the user, in order.
pub(crate) fn visible_families(db: &Db) -> Vec<String> {
    let mut names = db.family_names();
    names.retain(|name| name != resume::FAMILY);
    names.sort_unstable();
    names
}

/// Names in one line; of very many only the first.
pub(crate) fn shortened(names: &[&str]) -> String {
    if names.len() <= NAMED_FAMILIES {
        return names.join(", ");
    }
    let (shown, others) = names.split_at(NAMED_FAMILIES);
    format!("{} and {} others", shown.join(", "), others.len())
}

/// Two bounds of keys, as the engine takes them.
pub(crate) type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A range of keys; an absent bound bounds nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyRange {
    /// Only keys that begin with these bytes.
    pub(crate) prefix: Option<Vec<u8>>,
    /// The smallest key, included.
    pub(crate) from: Option<Vec<u8>>,
    /// The key at which the range ends, excluded.
    pub(crate) to: Option<Vec<u8>>,
}

impl KeyRange {
    /// The range added to the options of a scan of a family.
    ///
    /// # Errors
    /// A usage failure for bounds in an order of an application: this tool does not know which keys
    /// come in front of a bound in it.
    pub(crate) fn options(&self, family: &Family, mut options: ScanOptions) -> Result<ScanOptions> {
        let bounded = self.from.is_some() || self.to.is_some();
        if let (true, KeyOrder::Custom(order)) = (bounded, family.options().key_order) {
            let text = format!(
                "family '{}' has the order of keys '{order}', which its application knows and this \
                 tool does not: --from and --to mean nothing in it",
                family.name()
            );
            return Err(Failure::usage(text).hint("--prefix works in such families"));
        }
        if let Some(prefix) = &self.prefix {
            options = options.prefix(prefix);
        }
        if let Some(from) = &self.from {
            options = options.lower(from);
        }
        if let Some(to) = &self.to {
            options = options.upper(to);
        }
        Ok(options)
    }

    /// About how many keys of a family lie in the range.
    ///
    /// # Errors
    /// A usage failure for bounds in an order of an application, and for a prefix in other orders
    /// than that of bytes, where what begins with it may lie apart; those of the engine.
    pub(crate) fn estimate(&self, family: &Family) -> Result<u64> {
        let order = family.options().key_order;
        if self.prefix.is_some() && order != KeyOrder::Bytewise {
            let text = format!("--estimate takes no --prefix in the order of keys {order}");
            return Err(Failure::usage(text).hint("leave out --estimate, or use --from and --to"));
        }
        Ok(family.approximate_count(self.bounds(family)?)?)
    }

    /// The bounds of the range; those of a prefix in the order of bytes.
    ///
    /// # Errors
    /// As [`KeyRange::options`].
    pub(crate) fn bounds(&self, family: &Family) -> Result<Bounds> {
        self.options(family, ScanOptions::new())?;
        let end = self.prefix.as_deref().map(prefix_end);
        let from = self.prefix.iter().chain(&self.from).max();
        let to = self.to.iter().chain(end.iter().flatten()).min();
        let lower = from.map_or(Bound::Unbounded, |from| Bound::Included(from.clone()));
        let upper = to.map_or(Bound::Unbounded, |to| Bound::Excluded(to.clone()));
        Ok((lower, upper))
    }

    /// What reading the keys between two bounds costs, where both are given.
    pub(crate) fn cost(&self, family: &Family) -> Option<f64> {
        Some(family.range_cost(self.from.as_ref()?, self.to.as_ref()?))
    }

    /// A scan over the range, not yet positioned.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn scan(&self, family: &Family) -> Result<Scan> {
        Ok(family.scan(self.options(family, ScanOptions::new())?)?)
    }
}
