//! Arguments that a command of the tool has in common with that of the shell: what it is about.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use tidesdb::{CopyOptions, Db, Progress};

use super::{EncodingArgs, RangeArgs};
use crate::database;
use crate::failure::{Result, note};

/// What is counted.
#[derive(Debug, Args)]
pub(crate) struct Counted {
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    /// Estimate the number without reading the records, and say what reading a range from --from to
    /// --to costs, in a unit of its own
    #[arg(long)]
    pub(crate) estimate: bool,
    #[command(flatten)]
    pub(crate) encoding: EncodingArgs,
}

/// A family, and a name for it or for its copy.
#[derive(Debug, Args)]
pub(crate) struct Names {
    /// The family
    pub(crate) from: String,
    /// The new name, or the name of the copy
    pub(crate) to: String,
}

impl Names {
    /// Renames the family.
    ///
    /// # Errors
    /// When the name belongs to the tool, and those of the engine.
    pub(crate) fn rename(&self, db: &Db) -> Result<()> {
        self.check(db)?;
        Ok(db.rename_family(&self.from, &self.to)?)
    }

    /// Copies the family.
    ///
    /// # Errors
    /// As [`Names::rename`].
    pub(crate) fn clone_in(&self, db: &Db) -> Result<()> {
        self.check(db)?;
        Ok(db.clone_family(&self.from, &self.to).map(drop)?)
    }

    fn check(&self, db: &Db) -> Result<()> {
        database::refuse_hidden(&self.to)?;
        database::family(db, &self.from).map(drop)
    }
}

/// What is told how far a copy is, and may end it.
pub(crate) type CopyProgress<'a> = dyn FnMut(Progress) -> tidesdb::Result<()> + 'a;

/// Where a copy of the database goes.
#[derive(Debug, Args)]
pub(crate) struct CopyTarget {
    /// An empty directory, or one to be created
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) to: PathBuf,
    /// Read the copy back and check it
    #[arg(long)]
    pub(crate) verify: bool,
}

impl CopyTarget {
    /// Makes a copy that shares files.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn checkpoint(&self, db: &Db, report: &mut CopyProgress<'_>) -> tidesdb::Result<()> {
        db.checkpoint_with_progress(&self.to, self.options(), report)?;
        let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
        if device(&self.to) != device(db.path()) {
            let to = self.to.display();
            note(format_args!("{to} lies on another file system: files were copied, not linked"));
        }
        Ok(())
    }

    /// Makes a copy that shares nothing.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn backup(&self, db: &Db, report: &mut CopyProgress<'_>) -> tidesdb::Result<()> {
        db.backup_with_progress(&self.to, self.options(), report)
    }

    fn options(&self) -> CopyOptions {
        CopyOptions::default().verify_copy(self.verify)
    }
}
