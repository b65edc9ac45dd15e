//! `tidesdb completions` and `tidesdb man`: what is generated from the description of the command
//! line, so that it says what the tool does.

use std::fs;
use std::path::PathBuf;

use clap::{Args, CommandFactory, ValueHint};
use clap_complete::Shell;

use crate::args::Cli;
use crate::failure::{Failure, Result};
use crate::output::print;

const NAME: &str = "tidesdb";

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The directory, which is created if need be: one page for the tool, one for each command
    #[arg(value_hint = ValueHint::DirPath)]
    directory: PathBuf,
}

/// Prints a script of completions.
///
/// # Errors
/// Those of standard output.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), NAME, &mut script);
    print(script)
}

/// Writes the man pages.
///
/// # Errors
/// When the directory or a page cannot be written.
pub(crate) fn man(args: &ManArgs) -> Result<()> {
    let directory = &args.directory;
    fs::create_dir_all(directory).map_err(|error| Failure::file("create", directory, &error))?;
    // The page of each command says of which build it is.
    let with_version = |command: clap::Command| {
        command.version(env!("CARGO_PKG_VERSION")).disable_version_flag(true)
    };
    clap_mangen::generate_to(Cli::command().mut_subcommands(with_version), directory)
        .map_err(|error| Failure::file("write pages to", directory, &error))
}
