//! `tidesdb rename-family`, `clone-family`, `checkpoint` and `backup`.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use tidesdb::CheckpointOptions;

use crate::args::DatabaseArgs;
use crate::database::{self, Access};
use crate::failure::Result;
use crate::progress;
use crate::table::bytes;
use crate::told::ToldArgs;

/// Arguments of `rename-family` and `clone-family`.
#[derive(Debug, Args)]
pub(crate) struct NamesArgs {
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    /// The family
    pub(crate) from: String,
    /// The new name, or the name of the copy
    pub(crate) to: String,
    #[command(flatten)]
    pub(crate) told: ToldArgs,
}

/// Arguments of `checkpoint` and `backup`.
#[derive(Debug, Args)]
pub(crate) struct CopyArgs {
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    /// An empty directory, or one to be created
    pub(crate) to: PathBuf,
    /// Read the copy back and check it
    #[arg(long)]
    pub(crate) verify: bool,
    #[command(flatten)]
    pub(crate) told: ToldArgs,
}

/// Gives a family another name.
///
/// # Errors
/// Those of the engine.
pub(crate) fn rename(args: &NamesArgs) -> Result<()> {
    database::refuse_hidden(&args.to)?;
    let db = database::open(&args.database.db, Access::Change)?;
    database::family(&db, &args.from)?;
    db.rename_family(&args.from, &args.to)?;
    db.close()?;
    args.told.tell(&json!({ "renamed": args.from, "to": args.to }))
}

/// Copies a family.
///
/// # Errors
/// Those of the engine.
pub(crate) fn clone(args: &NamesArgs) -> Result<()> {
    database::refuse_hidden(&args.to)?;
    let db = database::open(&args.database.db, Access::Change)?;
    database::family(&db, &args.from)?;
    drop(db.clone_family(&args.from, &args.to)?);
    db.close()?;
    args.told.tell(&json!({ "cloned": args.from, "to": args.to }))
}

/// Makes a copy that shares files.
///
/// # Errors
/// Those of the engine.
pub(crate) fn checkpoint(args: &CopyArgs) -> Result<()> {
    let db = database::open(&args.database.db, Access::Change)?;
    let options = CheckpointOptions::default().verify_copy(args.verify);
    let so_far = || bytes_in(&args.to);
    progress::during("copying", so_far, || db.checkpoint_with(&args.to, options))?;
    db.close()?;
    let (to, verified) = (args.to.display().to_string(), args.verify);
    args.told.tell(&json!({ "checkpoint": to, "verified": verified }))
}

/// Makes a copy that shares nothing.
///
/// # Errors
/// Those of the engine.
pub(crate) fn backup(args: &CopyArgs) -> Result<()> {
    let db = database::open(&args.database.db, Access::Change)?;
    let options = CheckpointOptions::default().verify_copy(args.verify);
    let so_far = || bytes_in(&args.to);
    progress::during("copying", so_far, || db.backup_with(&args.to, options))?;
    db.close()?;
    let (to, verified) = (args.to.display().to_string(), args.verify);
    args.told.tell(&json!({ "backup": to, "verified": verified }))
}

/// How much lies in a directory by now.
fn bytes_in(directory: &Path) -> String {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    bytes(entries.filter_map(|entry| entry.metadata().ok()).map(|file| file.len()).sum())
}
