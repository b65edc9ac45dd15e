//! `tidesdb salvage`, `repair` and `restore`: a new database of what is left of a damaged one, and
//! a verified copy of a backup.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use serde_json::{Value, json};
use tidesdb::salvage::{self, Loss, RepairStep, SalvageReport};

use crate::args::DatabaseArgs;
use crate::database;
use crate::encoding::Encoding;
use crate::failure::{Failure, Result, judged, note};
use crate::options_files;
use crate::output::{pretty, print};
use crate::progress::with_bar;
use crate::resume;
use crate::table::{bytes, count, printable, render};

/// What is told of work that was interrupted.
const NOTHING_KEPT: &str = "nothing was kept of what was written";

/// Arguments of `salvage`.
#[derive(Debug, Args)]
pub(crate) struct SalvageArgs {
    /// Directory of the damaged database, which is not changed
    #[arg(value_hint = ValueHint::DirPath)]
    source: PathBuf,
    /// Where the new database goes: an empty directory, or one to be created
    #[arg(value_hint = ValueHint::DirPath)]
    to: PathBuf,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `repair`.
#[derive(Debug, Args)]
pub(crate) struct RepairArgs {
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// Directory of the backup, checkpoint or closed database, or of one that was killed, whose log
    /// comes along; it is not changed
    #[arg(value_hint = ValueHint::DirPath)]
    backup: PathBuf,
    /// Where the database goes: an empty directory, or one to be created
    #[arg(value_hint = ValueHint::DirPath)]
    to: PathBuf,
    /// Say what was done as JSON
    #[arg(long)]
    json: bool,
}

/// Salvages a database.
///
/// # Errors
/// Those of the engine; exit code 3 when something was lost.
pub(crate) fn salvage(args: &SalvageArgs) -> Result<()> {
    source_must_exist(&args.source)?;
    let options = options_files::database()?;
    let report = with_bar(NOTHING_KEPT, |progress| {
        salvage::salvage_with(&args.source, &args.to, &options, progress)
    })?;
    print_report(&report, &args.to, None, args.json)
}

/// Salvages a database and puts the new one in its place.
///
/// # Errors
/// As [`salvage`].
pub(crate) fn repair(args: &RepairArgs) -> Result<()> {
    if let Some(from) = salvage::finish_repair(&args.database.db)? {
        return print_finished(&from, &args.database.db, args.json);
    }
    database::must_exist(&args.database.db)?;
    // By its own path, which is another's once the new one has its name.
    let db = &std::fs::canonicalize(&args.database.db).unwrap_or_else(|_| args.database.db.clone());
    let options = options_files::database()?;
    let repaired = with_bar(NOTHING_KEPT, |progress| {
        salvage::repair_in_steps(db, &options, &mut |step| match step {
            RepairStep::Progress(at) => progress(at),
            _ => Ok(()),
        })
    })?;
    let done = print_report(&repaired.report, db, Some(&repaired.kept), args.json);
    let here = std::env::current_dir();
    if here.is_ok_and(|here| here.starts_with(&repaired.kept)) {
        let to = db.display();
        note(format_args!("this shell is in the old directory: `cd {to}` goes to the new one"));
    }
    done
}

/// Says that all that was left of a repair was the name.
fn print_finished(from: &Path, db: &Path, json: bool) -> Result<()> {
    let (from, db) = (from.display().to_string(), db.display().to_string());
    if json {
        return pretty(&json!({ "repaired": db, "from": from })).and_then(print);
    }
    print(format!("{from} is {db} now: a repair of it was killed before that\n"))
}

/// Copies a backup to a new place and reads the copy back.
///
/// # Errors
/// Those of the engine.
pub(crate) fn restore(args: &RestoreArgs) -> Result<()> {
    source_must_exist(&args.backup)?;
    let done =
        with_bar(NOTHING_KEPT, |progress| salvage::restore(&args.backup, &args.to, progress))?;
    let text = if args.json {
        let to = args.to.display().to_string();
        let (files, bytes, entries) = (done.files, done.bytes, done.entries);
        format!(
            "{}\n",
            json!({ "restored": to, "files": files, "bytes": bytes, "entries": entries })
        )
    } else {
        let files = if done.files == 1 { "file" } else { "files" };
        let entries = if done.entries == 1 { "entry" } else { "entries" };
        format!(
            "Restored {} {files}, {}, and read {} {entries} back\n",
            count(done.files),
            bytes(done.bytes),
            count(done.entries)
        )
    };
    print(text)
}

/// As [`database::must_exist`], of a directory that is no database to be created.
fn source_must_exist(directory: &Path) -> Result<()> {
    database::must_exist(directory).map_err(|failure| failure.hint("check the first argument"))
}

fn print_report(report: &SalvageReport, to: &Path, kept: Option<&Path>, json: bool) -> Result<()> {
    let printed = if json {
        pretty(&as_json(report, to, kept)).and_then(print)
    } else {
        print(as_text(report, to, kept))
    };
    let verdict = match report.losses.len() {
        0 => Ok(()),
        1 => Err(Failure::lossy("1 part of the database was lost")),
        losses => Err(Failure::lossy(format!("{losses} parts of the database were lost"))),
    };
    judged(printed, verdict)
}

fn text_of(key: &[u8]) -> String {
    let mut out = Vec::new();
    Encoding::Text.encode(key, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn as_text(report: &SalvageReport, to: &Path, kept: Option<&Path>) -> String {
    let of_users = report.families.iter().filter(|family| family.name != resume::FAMILY);
    let rows: Vec<Vec<String>> = of_users
        .map(|family| {
            let (lost, deleted) = (count(family.values_lost), count(family.deleted));
            vec![printable(&family.name), count(family.entries), bytes(family.bytes), deleted, lost]
        })
        .collect();
    let header = ["family", "keys", "bytes", "deleted", "values lost"];
    let mut text = format!("Salvaged to {}\n{}", to.display(), render(&header, &rows));
    if let Some(kept) = kept {
        text.push_str(&format!("\nThe old database is kept at {}\n", kept.display()));
    }
    let mut list = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            text.push_str(&format!("\n{title}\n"));
            for line in lines {
                text.push_str(&format!("  {}\n", printable(&line)));
            }
        }
    };
    list("Lost", report.losses.iter().map(loss_text).collect());
    list("Uncertain", report.warnings.clone());
    list("Damage that cost nothing", report.harmless.iter().map(ToString::to_string).collect());
    let unused = |(path, reason): &(PathBuf, String)| format!("{}: {reason}", path.display());
    list("Files not used", report.unused.iter().map(unused).collect());
    if report.losses.is_empty() {
        let sure = report.warnings.is_empty();
        text.push_str(if sure {
            "\nNothing was lost\n"
        } else {
            "\nNothing is known to be lost\n"
        });
    }
    text
}

fn loss_text(loss: &Loss) -> String {
    let mut text = format!("{} at {}: {} bytes", loss.file.display(), loss.offset, loss.bytes);
    if let Some(entries) = loss.entries {
        text.push_str(&format!(", {} entries", count(entries)));
    }
    if !loss.families.is_empty() {
        let names = loss.families.iter().map(|name| match name.as_str() {
            resume::FAMILY => "the progress of loads",
            name => name,
        });
        text.push_str(&format!(" of {}", names.collect::<Vec<_>>().join(", ")));
    }
    if let (Some(first), Some(last)) = (&loss.first_key, &loss.last_key) {
        text.push_str(&format!(", keys from '{}' to '{}'", text_of(first), text_of(last)));
    }
    format!("{text}: {}", loss.reason)
}

fn as_json(report: &SalvageReport, to: &Path, kept: Option<&Path>) -> Value {
    let path = |path: &Path| path.display().to_string();
    let families: Vec<Value> = report
        .families
        .iter()
        .map(|family| {
            json!({
                "name": family.name,
                "number": family.number,
                "of_the_tool": family.name == resume::FAMILY,
                "name_is_known": family.name_is_known,
                "options_are_known": family.options_are_known,
                "keys": family.entries,
                "bytes": family.bytes,
                "deleted": family.deleted,
                "values_lost": family.values_lost,
            })
        })
        .collect();
    let losses: Vec<Value> = report
        .losses
        .iter()
        .map(|loss| {
            json!({
                "file": path(&loss.file),
                "offset": loss.offset,
                "bytes": loss.bytes,
                "families": loss.families,
                "first_key": loss.first_key.as_deref().map(text_of),
                "last_key": loss.last_key.as_deref().map(text_of),
                "entries": loss.entries,
                "reason": loss.reason,
            })
        })
        .collect();
    let harmless: Vec<String> = report.harmless.iter().map(ToString::to_string).collect();
    let unused =
        |(file, reason): &(PathBuf, String)| json!({ "file": path(file), "reason": reason });
    json!({
        "salvaged": path(to),
        "kept": kept.map(path),
        "complete": report.is_complete(),
        "keys": report.entries(),
        "families": families,
        "losses": losses,
        "warnings": report.warnings,
        "harmless": harmless,
        "unused": report.unused.iter().map(unused).collect::<Vec<_>>(),
        "tables": report.tables,
        "log_segments": report.log_segments,
        "bytes_read": report.bytes_read,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_uncertain_is_not_called_whole() {
        let mut report = SalvageReport::default();
        let last = |report: &SalvageReport| {
            let text = as_text(report, Path::new("new"), None);
            text.lines().last().unwrap_or_default().to_owned()
        };
        assert_eq!(last(&report), "Nothing was lost");
        report.warnings.push("a table that the manifest does not name was used".to_owned());
        assert_eq!(last(&report), "Nothing is known to be lost");
    }
}
