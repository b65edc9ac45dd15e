//! `tidesdb completions` and `tidesdb man`: what is generated from the description of the command
//! line, so that it says what the tool does.

use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::{Args, Command, CommandFactory, ValueHint};
use clap_complete::Shell;
use clap_mangen::Man;

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
    let mut tool = Cli::command().disable_help_subcommand(true);
    tool.build();
    write_pages(&tool, directory)
        .map_err(|error| Failure::file("write pages to", directory, &error))
}

/// Writes the pages of a command and of those below it. Each says of which build it is.
fn write_pages(command: &Command, directory: &Path) -> io::Result<()> {
    let source = format!("{NAME} {}", env!("CARGO_PKG_VERSION"));
    Man::new(command.clone()).source(source).generate_to(directory)?;
    command.get_subcommands().try_for_each(|below| write_pages(below, directory))
}
