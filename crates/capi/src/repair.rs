//! A database whose manifest is destroyed is repaired when it is opened: the interface has recovery
//! work without an operator.
//!
//! A new database of everything that can be read takes the place of the old one, which is kept
//! beside it (`tidesdb::salvage`). Everything that is lost or uncertain is written to the log. Where
//! the repair fails, for want of space or of the permission to write beside the directory, all is
//! as before and the opening returns the damage.

use std::path::Path;

use tidesdb::salvage::{self, Repaired};
use tidesdb::{Db, DbOptions, Error};

use crate::boundary::Outcome;
use crate::engine_log::{EngineLog, Level};

/// Ends a repair that was killed when nothing had the directory's name: an opening would begin an
/// empty database there.
pub fn finish_interrupted(directory: &Path, log: &EngineLog) {
    match salvage::finish_repair(directory) {
        Ok(None) => {}
        Ok(Some(from)) => {
            let (from, to) = (from.display(), directory.display());
            let text = format_args!("{from} is {to} now: a repair of it was killed before that");
            log.write(Level::Error, text);
        }
        // What keeps it from being looked at keeps it from being opened, and is told of then.
        Err(error) => log.write(Level::Debug, format_args!("{error}")),
    }
}

/// Opens the database, and repairs it before if its manifest is destroyed.
pub fn open(directory: &Path, options: DbOptions, log: &EngineLog) -> Outcome<Db> {
    let damage = match Db::open(directory, options.clone()) {
        Err(error) if is_of_manifest(&error, directory) && has_data(directory) => error,
        other => return Ok(other?),
    };
    if is_worked_in(directory) {
        let text = "the process works in that directory, which keeps it from being repaired";
        log.write(Level::Error, format_args!("{text}"));
        return Err(damage.into());
    }
    let text = format_args!("{damage}; {} is being repaired", directory.display());
    log.write(Level::Error, text);
    match salvage::repair(directory, &mut |_| Ok(())) {
        Ok(repaired) => report(&repaired, log),
        // By another opening, perhaps, which repairs it.
        Err(error @ Error::Locked(_)) => return Err(error.into()),
        Err(error) => {
            let text = format_args!("the repair failed, and all is as before: {error}");
            log.write(Level::Error, text);
            return Err(damage.into());
        }
    }
    Ok(Db::open(directory, options)?)
}

/// Whether it is the manifest that can't be read, or the file that names it. One that was cut off
/// shows by what other files lack. Not so of a database in another format, or of another engine:
/// those are no damage.
fn is_of_manifest(error: &Error, directory: &Path) -> bool {
    let Error::Corruption { file, .. } = error else { return false };
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name == "CURRENT"
        || name.starts_with("MANIFEST-")
        || salvage::manifest_is_whole(directory).is_ok_and(|is_whole| !is_whole)
}

/// Whether there are tables or a log. What has neither would be empty when it was repaired, and may
/// be no database.
fn has_data(directory: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(directory) else { return false };
    entries.flatten().any(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.ends_with(".klog") || (name.starts_with("wal-") && name.ends_with(".log"))
    })
}

/// Whether the process's own directory is this one or lies in it: that would be the damaged one
/// afterwards, for every relative path of the program.
fn is_worked_in(directory: &Path) -> bool {
    let here = std::env::current_dir();
    let whole = std::fs::canonicalize(directory);
    here.is_ok_and(|here| whole.is_ok_and(|whole| here.starts_with(whole)))
}

fn report(repaired: &Repaired, log: &EngineLog) {
    let report = &repaired.report;
    for family in &report.families {
        let (name, entries) = (&family.name, family.entries);
        log.write(Level::Error, format_args!("repaired: family '{name}' has {entries} keys"));
    }
    for loss in &report.losses {
        log.write(Level::Error, format_args!("lost: {loss}"));
    }
    for warning in &report.warnings {
        log.write(Level::Error, format_args!("uncertain: {warning}"));
    }
    for (file, reason) in &report.unused {
        log.write(Level::Warn, format_args!("not used: {}: {reason}", file.display()));
    }
    let kept = repaired.kept.display();
    let text =
        format_args!("the database before the repair is kept at {kept}, until it is removed");
    log.write(Level::Error, text);
}
