//! `tidesdb doctor`: explains the state of a database, and what could be done about it.
//!
//! Nothing is changed. Counters (cache hits, stalls) begin with the open, so they say something in
//! a shell that has been in use. This command has counted nothing, says so, and reads what the file
//! `LOG` has of writers that were held up.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::args::DatabaseArgs;
use crate::database::{self, Access};
use crate::doctor::{Viewer, examine};
use crate::failure::Result;
use crate::output::print;
use crate::progress;

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    /// Directory of the database, in place of --db
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) directory: Option<PathBuf>,
    /// Print JSON instead of words
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs the command.
///
/// # Errors
/// Those of the engine and of standard output.
pub(crate) fn run(args: &DoctorArgs) -> Result<()> {
    let db = database::open(&args.database.db, Access::Read)?;
    let examined = || examine(&db, Viewer::Visitor, args.json);
    print(progress::during("examining", String::new, examined)?)
}
