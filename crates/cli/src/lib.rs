//! The `tidesdb` command-line tool, as a library for its program, for fuzzing, and for programs
//! that want its report on their own database: opens a database directory to read, write, load,
//! dump and check it.
//!
//! One file per command under `commands`; everything they share sits next to it: `args` (the
//! command line), `database` (opening, friendly errors), `encoding` and `formats` (bytes as
//! text), `source` and `resume` (interruptible loads), `progress` and `interrupt`.
//!
//! The tool sees the engine through its public API only. It runs on one thread, apart from the
//! signal handler, the redrawing of a progress bar, and work of the shell that cannot be given up.
//!
//! Exit codes: 0 success, 1 key not found, 2 error or wrong usage, 3 salvaged with losses,
//! 130 interrupted.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod database;
mod doctor;
mod encoding;
mod failure;
mod formats;
#[cfg(feature = "testing")]
pub mod hostile;
mod interrupt;
mod options_files;
mod output;
mod output_file;
mod progress;
mod resume;
mod shell;
mod source;
mod table;
mod targets;

use std::process::ExitCode;

use clap::error::{ContextKind, ErrorKind};

/// The command line; ends the process when it makes no sense.
fn parse() -> args::Cli {
    args::Cli::of_process().unwrap_or_else(|error| {
        let _unreportable = error.print();
        // A flag that is not known is no directory.
        let unknown = error.get(ContextKind::InvalidArg).map(ToString::to_string);
        let is_word = unknown.is_some_and(|argument| !argument.starts_with('-'));
        if error.kind() == ErrorKind::UnknownArgument && is_word {
            failure::note(
                "hint: the database is named by --db DIR or TIDESDB_DB, not by its place",
            );
        }
        std::process::exit(error.exit_code())
    })
}

/// What `tidesdb doctor` says of a database that this process has open: in words, or as JSON. A
/// database is open in one process for writing, so the command can't look at it from outside; and
/// counters of work, reads and stalls are those of the whole time since the open.
///
/// # Errors
/// Those of [`tidesdb::Db::check_files`]; `Closed`.
pub fn doctor_report(db: &tidesdb::Db, json: bool) -> tidesdb::Result<String> {
    doctor::examine(db, doctor::Viewer::User, json)
}

/// Runs the command line of this process and returns its exit code.
#[must_use]
pub fn run() -> ExitCode {
    match parse().into_command().and_then(commands::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
