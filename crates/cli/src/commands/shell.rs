//! `tidesdb shell`: commands at a prompt, or from a script on standard input.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::args::DatabaseArgs;
use crate::database::{self, Access};
use crate::failure::Result;
use crate::shell::{self, Session};

/// Arguments of `shell`.
#[derive(Debug, Args)]
pub(crate) struct ShellArgs {
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    /// Directory of the database, in place of --db
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) directory: Option<PathBuf>,
    /// Change nothing; other processes may read at the same time
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Create the database if there is none
    #[arg(long, conflicts_with = "read_only")]
    pub(crate) create: bool,
}

/// Runs the command.
///
/// # Errors
/// Those of the engine, of the terminal, and that of a line of a script.
pub(crate) fn run(args: &ShellArgs) -> Result<()> {
    let access = match (args.read_only, args.create) {
        (true, _) => Access::Read,
        (false, true) => Access::Create,
        (false, false) => Access::Change,
    };
    let db = database::open(&args.database.db, access)?;
    shell::run(Session::new(db, args.read_only))
}
