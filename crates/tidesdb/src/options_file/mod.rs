//! Options as files: TOML, and the INI keys of TidesDB.
//!
//! A file names some settings of the database and of families; what it does not name stays as it
//! is. Names are those of the fields of [`DbOptions`] and [`FamilyOptions`], and sizes may have a
//! unit of 1024 each (`"64MB"`, `"64MiB"`, `"64M"`).
//!
//! ```toml
//! [database]
//! block_cache_bytes = "256MB"
//! sync_mode = "interval:100000"
//!
//! [family.orders]
//! compression = "zstd"
//! bloom_fpr = 0.001
//!
//! [family.orders.properties]
//! owner = "billing"
//! ```
//!
//! Reading checks every name and value; the error lists all problems, each with its line and what
//! would be accepted. The INI form has one section for each family, with the keys that C programs
//! know; see [`OptionsFile::from_ini`].
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::cast_possible_truncation))]

mod accepted;
pub mod ini;
mod ini_keys;
mod setting;
#[cfg(feature = "toml")]
mod toml;

use std::collections::BTreeMap;

use crate::{DbOptions, Error, FamilyOptions, Result};

use self::setting::{Scope, Setting};

/// Settings of a database and of families by name. See the [module](self) for their files.
///
/// ```
/// # #[cfg(feature = "toml")] {
/// # let directory = tempfile::tempdir()?;
/// use tidesdb::{Compression, Db, DbOptions, FamilyOptions};
/// use tidesdb::options_file::OptionsFile;
///
/// let file = OptionsFile::from_toml(
///     "[database]\n\
///      block_cache_bytes = \"16MB\"\n\
///      [family.orders]\n\
///      compression = \"zstd\"\n",
/// )?;
/// let db = Db::open(directory.path(), file.database_options(DbOptions::default())?)?;
/// for name in file.families() {
///     db.ensure_family(name, file.family_options(name, FamilyOptions::default())?)?;
/// }
/// assert_eq!(db.family("orders")?.options().compression, Compression::Zstd);
///
/// let wrong = OptionsFile::from_toml("[family.orders]\ncompresion = \"zstd\"").unwrap_err();
/// assert!(wrong.to_string().contains("line 2: there is no setting 'compresion'"));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionsFile {
    database: Vec<Setting>,
    families: BTreeMap<String, Vec<Setting>>,
}

impl OptionsFile {
    /// A file that names nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The file with all settings of a database in place of those that it had.
    #[must_use]
    pub fn with_database(mut self, options: &DbOptions) -> Self {
        self.database = setting::of_text(&options.to_text());
        self
    }

    /// The file with all settings of a family in place of those that it had.
    #[must_use]
    pub fn with_family(mut self, name: &str, options: &FamilyOptions) -> Self {
        self.families.insert(name.to_owned(), setting::of_text(&options.to_text()));
        self
    }

    /// Adds a setting of the database.
    ///
    /// # Errors
    /// `Invalid` for an unknown name or a value that is not taken; it says what is.
    pub fn set_in_database(&mut self, name: &str, value: &str) -> Result<()> {
        let setting = Setting::checked(Scope::Database, name, value).map_err(one)?;
        self.database.push(setting);
        Ok(())
    }

    /// Adds a setting of a family.
    ///
    /// # Errors
    /// As [`OptionsFile::set_in_database`].
    pub fn set_in_family(&mut self, family: &str, name: &str, value: &str) -> Result<()> {
        let setting = Setting::checked(Scope::Family, name, value).map_err(one)?;
        self.families.entry(family.to_owned()).or_default().push(setting);
        Ok(())
    }

    /// Whether the file names settings of the database.
    #[must_use]
    pub const fn names_database(&self) -> bool {
        !self.database.is_empty()
    }

    /// The families that the file names, in order.
    pub fn families(&self) -> impl Iterator<Item = &str> {
        self.families.keys().map(String::as_str)
    }

    /// These options of a database with what the file says.
    ///
    /// # Errors
    /// `Invalid` when the settings do not go together.
    pub fn database_options(&self, options: DbOptions) -> Result<DbOptions> {
        options.with_text(&setting::text(&self.database))
    }

    /// These options of a family with what the file says of the family of that name.
    ///
    /// # Errors
    /// `Invalid` when the settings do not go together.
    pub fn family_options(&self, name: &str, options: FamilyOptions) -> Result<FamilyOptions> {
        match self.families.get(name) {
            // Of two lines with one name the later counts.
            Some(settings) => {
                FamilyOptions::from_text(&(options.to_text() + "\n" + &setting::text(settings)))
            }
            None => Ok(options),
        }
    }

    /// Reads TOML: a table `database`, and a table `family.NAME` for each family.
    ///
    /// # Errors
    /// `Invalid`, listing every problem with its line.
    #[cfg(feature = "toml")]
    pub fn from_toml(text: &str) -> Result<Self> {
        toml::read(text)
    }

    /// The file as TOML.
    #[cfg(feature = "toml")]
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::write(self)
    }

    /// Reads INI: a section for each family, with the keys of TidesDB's files.
    ///
    /// They are the names of the settings but for `value_threshold`, which is
    /// `klog_value_threshold`; `compression_algorithm`, with names in capitals; and `sync_mode`,
    /// which is 0, 1 or 2 and has its interval in `sync_interval_us`. Switches are 0 or 1. Keys
    /// that have no meaning here (such as `skip_list_max_level`) are passed over. A number of
    /// TidesDB's beyond a limit stands for the limit: C programs save what they were given.
    ///
    /// # Errors
    /// `Invalid`, listing every problem with its line.
    pub fn from_ini(text: &str) -> Result<Self> {
        ini_keys::read(text)
    }

    /// The families of the file as INI, which has no place for settings of the database. Settings
    /// that TidesDB's files do not have keep their names, which C programs pass over.
    #[must_use]
    pub fn to_ini(&self) -> String {
        ini_keys::write(self)
    }
}

fn one(problem: String) -> Error {
    Error::InvalidOptions(vec![problem])
}

/// Settings that are read, with what is wrong with some of them.
#[derive(Debug, Default)]
struct Reading {
    file: OptionsFile,
    problems: Vec<(usize, String)>,
}

impl Reading {
    fn problem(&mut self, line: usize, problem: impl Into<String>) {
        self.problems.push((line, problem.into()));
    }

    /// Takes a setting of the database, or of a family.
    fn take(&mut self, line: usize, family: Option<&str>, name: &str, value: &str) {
        let scope = if family.is_some() { Scope::Family } else { Scope::Database };
        match Setting::checked(scope, name, value) {
            Ok(setting) => match family {
                Some(family) => {
                    self.file.families.entry(family.to_owned()).or_default().push(setting);
                }
                None => self.file.database.push(setting),
            },
            Err(problem) => self.problem(line, problem),
        }
    }

    fn finish(mut self) -> Result<OptionsFile> {
        if self.problems.is_empty() {
            return Ok(self.file);
        }
        self.problems.sort();
        let lines = self.problems.into_iter();
        let lines = lines.map(|(line, problem)| format!("line {line}: {problem}"));
        Err(Error::InvalidOptions(lines.collect()))
    }
}
