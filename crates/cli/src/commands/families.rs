//! `tidesdb families`, `create-family` and `drop-family`.

use serde_json::json;
use tidesdb::Db;

use super::options::options_json;
use crate::args::{CreateFamilyArgs, DropFamilyArgs, FamiliesArgs};
use crate::database::{self, Access};
use crate::failure::{Failure, Result};
use crate::options_files;
use crate::output::{pretty, print};

/// Prints the names, one a line, or names and options as JSON.
///
/// # Errors
/// Those of the engine and of standard output.
pub(crate) fn list(args: &FamiliesArgs) -> Result<()> {
    let db = database::open(&args.database.db, Access::Read)?;
    let names = if args.all { db.family_names() } else { database::visible_families(&db) };
    print(listed(&db, names, args.json)?)
}

/// Names of families, one a line, or names and options as JSON.
///
/// # Errors
/// When one does not exist.
pub(crate) fn listed(db: &Db, names: Vec<String>, json: bool) -> Result<String> {
    if !json {
        return Ok(names.into_iter().map(|name| name + "\n").collect());
    }
    let families = names.iter().map(|name| {
        let family = db.family(name)?;
        Ok(json!({ "name": name, "options": options_json(&family.options()) }))
    });
    pretty(&families.collect::<Result<Vec<_>>>()?)
}

/// Creates a family with the given settings; creates the database if need be.
///
/// # Errors
/// When a setting is unknown or out of range, and those of the engine.
pub(crate) fn create(args: &CreateFamilyArgs) -> Result<()> {
    database::refuse_hidden(&args.name)?;
    let options = options_files::changed(options_files::family(&args.name)?, &args.set)?;
    let db = database::open(&args.database.db, Access::Create)?;
    database::know_order(&db, &options.key_order)?;
    db.create_family(&args.name, options)?;
    database::close(db)?;
    args.output.report(&json!({ "created": args.name }))
}

/// Drops a family with its data.
///
/// # Errors
/// When it was not confirmed, and those of the engine.
pub(crate) fn drop(args: &DropFamilyArgs) -> Result<()> {
    let name = &args.name;
    if !args.yes {
        // What is not there needs no word of confirmation.
        database::family(&database::open(&args.database.db, Access::Read)?, name)?;
    }
    confirm_drop(name, args.yes)?;
    let db = database::open(&args.database.db, Access::Change)?;
    database::family(&db, name)?;
    db.drop_family(name)?;
    database::close(db)?;
    args.output.report(&json!({ "dropped": name }))
}

/// Refuses to drop a family without a word of confirmation.
///
/// # Errors
/// When it was not given.
pub(crate) fn confirm_drop(name: &str, yes: bool) -> Result<()> {
    if yes {
        return Ok(());
    }
    Err(Failure::usage(format!("this removes the family '{name}' and all of its data"))
        .hint("add --yes to do so"))
}
