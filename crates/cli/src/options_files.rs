//! Files of options: reading them with errors that name the file, and what `--options` gave.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use tidesdb::options_file::OptionsFile;
use tidesdb::{DbOptions, Error, FamilyOptions};

use crate::failure::{Failure, Result};

/// What `--options` names. A process has one command line and opens one database.
static GIVEN: OnceLock<OptionsFile> = OnceLock::new();

/// Reads a file: INI if its name ends so, otherwise TOML.
///
/// # Errors
/// When it cannot be read, or names what there is not; all mistakes are listed.
pub(crate) fn read(path: &Path) -> Result<OptionsFile> {
    let text = fs::read_to_string(path).map_err(|error| Failure::file("read", path, &error))?;
    let ini = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("ini"));
    let read = if ini { OptionsFile::from_ini(&text) } else { OptionsFile::from_toml(&text) };
    read.map_err(|error| match error {
        Error::InvalidOptions(problems) => {
            let file = path.display();
            let lines: Vec<String> =
                problems.iter().map(|problem| format!("{file}: {problem}")).collect();
            Failure::new(lines.join("\n"))
        }
        error => Failure::from(error),
    })
}

/// Takes the file that the command line names for this process.
///
/// # Errors
/// As [`read`].
pub(crate) fn give(path: &Path) -> Result<()> {
    let file = read(path)?;
    file.database_options(DbOptions::default())?;
    // There is no second command line.
    let _ = GIVEN.set(file);
    Ok(())
}

/// What a database is opened with.
///
/// # Errors
/// When the given settings do not go together.
pub(crate) fn database() -> Result<DbOptions> {
    let options = DbOptions::default();
    Ok(match GIVEN.get() {
        Some(file) => file.database_options(options)?,
        None => options,
    })
}

/// What a family of that name is created with.
///
/// # Errors
/// When the given settings do not go together.
pub(crate) fn family(name: &str) -> Result<FamilyOptions> {
    let options = FamilyOptions::default();
    Ok(match GIVEN.get() {
        Some(file) => file.family_options(name, options)?,
        None => options,
    })
}

/// These options with those changed that are given as `NAME=VALUE`.
///
/// # Errors
/// A usage failure for an unknown name or a value that is not taken; it says what is.
pub(crate) fn changed(options: FamilyOptions, settings: &[String]) -> Result<FamilyOptions> {
    let mut file = OptionsFile::new();
    for setting in settings {
        let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
        file.set_in_family("", name.trim(), value.trim()).map_err(usage)?;
    }
    file.family_options("", options).map_err(usage)
}

fn usage(error: Error) -> Failure {
    match error {
        Error::InvalidOptions(problems) => Failure::usage(problems.join("\n")),
        error => error.into(),
    }
}
