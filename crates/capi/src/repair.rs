//! A database whose manifest is destroyed is repaired when it is opened: the interface has recovery
//! work without an operator.
//!
//! A new database of everything that can be read takes the place of the old one, which is kept
//! beside it (`tidesdb::salvage`). Everything that is lost or uncertain is written to the log of
//! the new one before it takes that place. Where the repair fails, for want of space or of the
//! permission to write beside the directory, the opening returns the damage.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tidesdb::salvage::{self, RepairStep, Repaired};
use tidesdb::{Db, DbOptions, Error};

use crate::boundary::Outcome;
use crate::engine_log::{EngineLog, Level};

/// Ends a repair that was killed when nothing had the directory's name: an opening would begin an
/// empty database there.
pub fn finish_interrupted(directory: &Path, log: &EngineLog) -> Outcome {
    match salvage::finish_repair(directory) {
        Ok(None) => {}
        Ok(Some(from)) => {
            let (from, to) = (from.display(), directory.display());
            let text = format_args!("{from} is {to} now: a repair of it was killed before that");
            log.write(Level::Error, text);
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Opens the database, and repairs it before if its manifest is destroyed.
pub fn open(directory: &Path, options: DbOptions, log: &EngineLog) -> Outcome<Db> {
    match Db::open(directory, options.clone()) {
        Err(error) if is_of_manifest(&error) && has_data(directory) => {}
        other => return Ok(other?),
    }
    // What the second opening finds is damage of what is looked at here.
    let seen = Seen::of(directory);
    let damage = match Db::open(directory, options.clone()) {
        Err(error) if is_of_manifest(&error) => error,
        other => return Ok(other?),
    };
    if is_worked_in(directory) {
        let text = "the process works in that directory, which keeps it from being repaired";
        log.write(Level::Error, format_args!("{text}"));
        return Err(damage.into());
    }
    match repair(directory, (&options, &seen, &damage), log) {
        Ok(()) => Ok(Db::open(directory, options)?),
        // By another opening, perhaps, which repairs it.
        Err(error @ Error::Locked(_)) => Err(error.into()),
        Err(error) => {
            let state = match Seen::of(directory) == seen {
                true => "all is as before",
                false => "look at what lies beside it, which is all that there is",
            };
            log.write(Level::Error, format_args!("the repair failed, and {state}: {error}"));
            Err(damage.into())
        }
    }
}

fn repair(
    directory: &Path,
    (options, seen, damage): (&DbOptions, &Seen, &Error),
    log: &EngineLog,
) -> tidesdb::Result<()> {
    let mut told = None;
    let save =
        |place: &Path| log.save_held(place).map_err(|e| Error::io("write", place.join("LOG"), e));
    let repaired = salvage::repair_in_steps(directory, options, &mut |step| match step {
        // Another process may have repaired it since.
        RepairStep::Locked { .. } if Seen::of(directory) != *seen => {
            Err(Error::Locked(directory.to_path_buf()))
        }
        RepairStep::Locked { foreign } if !foreign.is_empty() => {
            let names = foreign.join(", ");
            Err(Error::InvalidArgument(format!(
                "it holds what is not the engine's and would not be in the new one: {names}"
            )))
        }
        RepairStep::Begun(place) => {
            let text = format_args!("{damage}; {} is being repaired", directory.display());
            log.write(Level::Error, text);
            save(place)
        }
        RepairStep::Whole(place, repaired) => {
            report(repaired, log);
            told = Some((repaired.kept.clone(), repaired.report.warnings.len()));
            save(place)
        }
        _ => Ok(()),
    })?;
    log.forget_held();
    // What was not as it was to be at last.
    let (kept, warnings) = told.unwrap_or_default();
    for warning in repaired.report.warnings.iter().skip(warnings) {
        log.write(Level::Error, format_args!("uncertain: {warning}"));
    }
    if repaired.kept != kept {
        let text = format_args!("it is kept at {} instead", repaired.kept.display());
        log.write(Level::Error, text);
    }
    Ok(())
}

/// Which directory and which manifest there are.
#[derive(PartialEq, Eq)]
struct Seen {
    directory: Option<(u64, u64)>,
    /// Of the manifests and the file that names one: name, number, length, and time of change.
    files: Vec<(String, u64, u64, i64, i64)>,
}

impl Seen {
    fn of(directory: &Path) -> Self {
        let entries = std::fs::read_dir(directory).ok().into_iter().flatten().flatten();
        let files = entries.filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let data = entry.metadata().ok().filter(|_| is_manifest(&name))?;
            Some((name, data.ino(), data.len(), data.mtime(), data.mtime_nsec()))
        });
        let mut files: Vec<_> = files.collect();
        files.sort();
        let data = std::fs::metadata(directory).ok();
        Self { directory: data.map(|data| (data.dev(), data.ino())), files }
    }
}

fn is_manifest(name: &str) -> bool {
    name == "CURRENT" || name.starts_with("MANIFEST-")
}

/// Whether it is the manifest that can't be read or that contradicts what is there, or the file
/// that names it. A torn end is what a power cut leaves, and explains no damage of other files. Not
/// so of a database in another format, or of another engine: those are no damage.
fn is_of_manifest(error: &Error) -> bool {
    let Error::Corruption { file, .. } = error else { return false };
    is_manifest(&file.file_name().unwrap_or_default().to_string_lossy())
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
