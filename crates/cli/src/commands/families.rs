//! `tidesdb families`, `create-family` and `drop-family`.

use std::io::{self, Write};

use tidesdb::FamilyOptions;

use crate::args::{CreateFamilyArgs, DropFamilyArgs, FamiliesArgs};
use crate::database::{self, Access};
use crate::failure::{Failure, Result};

/// Prints the names, one a line.
///
/// # Errors
/// Those of the engine and of standard output.
pub(crate) fn list(args: &FamiliesArgs) -> Result<()> {
    let db = database::open(&args.database.db, Access::Read)?;
    let names = if args.all { db.family_names() } else { database::visible_families(&db) };
    let text: String = names.into_iter().map(|name| name + "\n").collect();
    let mut output = io::stdout().lock();
    output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
        .map_err(|error| Failure::output(&error))
}

/// Creates a family with the given settings; creates the database if need be.
///
/// # Errors
/// When a setting is unknown or out of range, and those of the engine.
pub(crate) fn create(args: &CreateFamilyArgs) -> Result<()> {
    database::refuse_hidden(&args.name)?;
    let options = options(&args.set)?;
    let db = database::open(&args.database.db, Access::Create)?;
    db.create_family(&args.name, options)?;
    Ok(db.close()?)
}

fn options(settings: &[String]) -> Result<FamilyOptions> {
    let defaults = FamilyOptions::default().to_text();
    let known: Vec<&str> = defaults
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name.trim())
        .collect();
    for setting in settings {
        // The engine ignores unknown names, which a later version may have stored.
        let name = setting.split_once('=').map_or(setting.as_str(), |(name, _)| name).trim();
        if !known.contains(&name) {
            return Err(Failure::usage(format!("there is no setting '{name}'"))
                .hint(format!("settings are: {}", known.join(", "))));
        }
    }
    FamilyOptions::from_text(&settings.join("\n"))
        .map_err(|error| Failure::usage(error.to_string()))
}

/// Drops a family with its data.
///
/// # Errors
/// When it was not confirmed, and those of the engine.
pub(crate) fn drop(args: &DropFamilyArgs) -> Result<()> {
    let name = &args.name;
    if !args.yes {
        return Err(Failure::usage(format!(
            "this removes the family '{name}' and all of its data"
        ))
        .hint("add --yes to do so"));
    }
    let db = database::open(&args.database.db, Access::Change)?;
    database::family(&db, name)?;
    db.drop_family(name)?;
    Ok(db.close()?)
}
