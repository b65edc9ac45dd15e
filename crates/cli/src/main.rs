//! The `tidesdb` command-line tool: opens a database directory to read, write, load, dump and
//! check it.
//!
//! One file per command under `commands`; everything they share sits beside it: `args` (the
//! command line), `database` (opening, friendly errors), `encoding` and `formats` (bytes as
//! text), `source` and `resume` (interruptible loads), `progress` and `interrupt`.
//!
//! The tool sees the engine through its public API only. It runs on one thread, apart from the
//! signal handler and the redrawing of a progress bar.
//!
//! Exit codes: 0 success, 1 error, 2 wrong usage, 130 interrupted.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod database;
mod encoding;
mod failure;
mod formats;
mod interrupt;
mod output_file;
mod progress;
mod resume;
mod source;
mod table;
mod targets;

use std::process::ExitCode;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match commands::run(args::Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
