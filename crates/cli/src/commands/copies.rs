//! `tidesdb rename-family`, `clone-family`, `checkpoint` and `backup`.

use clap::Args;
use serde_json::json;
use tidesdb::Db;

use crate::args::{CopyProgress, CopyTarget, DatabaseArgs, Names};
use crate::database::{self, Access};
use crate::failure::Result;
use crate::interrupt;
use crate::output::OutputArgs;
use crate::progress::{self, WorkBar};

/// Arguments of `rename-family` and `clone-family`.
#[derive(Debug, Args)]
pub(crate) struct NamesArgs {
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    #[command(flatten)]
    pub(crate) names: Names,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Arguments of `checkpoint` and `backup`.
#[derive(Debug, Args)]
pub(crate) struct CopyArgs {
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    #[command(flatten)]
    pub(crate) target: CopyTarget,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Gives a family another name.
///
/// # Errors
/// Those of the engine.
pub(crate) fn rename(args: &NamesArgs) -> Result<()> {
    let names = &args.names;
    let db = database::open(&args.database.db, Access::Change)?;
    names.rename(&db)?;
    database::close(db)?;
    args.output.report(&json!({ "renamed": names.from, "to": names.to }))
}

/// Copies a family.
///
/// # Errors
/// Those of the engine.
pub(crate) fn clone(args: &NamesArgs) -> Result<()> {
    let names = &args.names;
    let db = database::open(&args.database.db, Access::Change)?;
    names.clone_in(&db)?;
    database::close(db)?;
    args.output.report(&json!({ "cloned": names.from, "to": names.to }))
}

/// Makes a copy that shares files.
///
/// # Errors
/// Those of the engine; when interrupted.
pub(crate) fn checkpoint(args: &CopyArgs) -> Result<()> {
    copy(args, "checkpoint", CopyTarget::checkpoint)
}

/// Makes a copy that shares nothing.
///
/// # Errors
/// As [`checkpoint`].
pub(crate) fn backup(args: &CopyArgs) -> Result<()> {
    copy(args, "backup", CopyTarget::backup)
}

type Make = fn(&CopyTarget, &Db, &mut CopyProgress<'_>) -> tidesdb::Result<()>;

fn copy(args: &CopyArgs, what: &str, make: Make) -> Result<()> {
    let db = database::open(&args.database.db, Access::Change)?;
    interrupt::ending(&db, "nothing was kept of the copy", || {
        // A copy begins with this, and tells nothing of it.
        progress::during("flushing", String::new, || db.flush())?;
        let mut bar = WorkBar::new();
        make(&args.target, &db, &mut |progress| {
            bar.update(progress);
            Ok(())
        })
    })?;
    database::close(db)?;
    let (to, verified) = (args.target.to.display().to_string(), args.target.verify);
    args.output.report(&json!({ what: to, "verified": verified }))
}
