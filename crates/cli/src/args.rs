//! The command line: what can be asked, how it is explained, and which values make no sense.
//!
//! Clap parses and suggests; what needs two arguments to judge is checked by the commands. Keys
//! and values arrive as bytes, so that arguments that are not UTF-8 work where the system allows
//! them.

mod exit_codes;
mod records;
mod target;
mod what;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueHint};

use crate::commands::{
    CompletionsArgs, CopyArgs, DoctorArgs, InspectArgs, ManArgs, NamesArgs, OptionsArgs,
    RepairArgs, RestoreArgs, SalvageArgs, ShellArgs,
};
use crate::database::KeyRange;
use crate::failure::{Failure, Result};
use crate::options_files;
use crate::output::OutputArgs;

pub(crate) use self::records::{
    DEFAULT_MAX_RECORD_MIB, DeleteArgs, DeletedArgs, DumpArgs, GetArgs, LoadArgs, PutArgs,
    ScanArgs, ScanFormat, ShownArgs,
};
pub(crate) use self::target::{DatabaseArgs, EncodingArgs, RangeArgs, TargetArgs};
pub(crate) use self::what::{CopyProgress, CopyTarget, Counted, Names};

const EXAMPLES: &str = "\
Examples:
  tidesdb put --db ./data greeting 'hello, world'
  tidesdb get --db ./data greeting
  tidesdb load --db ./data packages.jsonl
  tidesdb scan --db ./data --prefix lib --limit 10
  tidesdb dump --db ./data backup.jsonl
  tidesdb load --db ./copy backup.jsonl

Keys and values on the command line are UTF-8 with the escapes \\t \\n \\r \\\\ and \\xNN, or
hexadecimal with --hex, or base64 with --base64; with --raw they are taken as they are.

TIDESDB_DB names the database where --db does not.

Exit codes: 0 success, 1 key not found, 2 error or wrong usage, 3 salvaged with losses,
130 interrupted.";

/// Read, write, load, dump and check TidesDB databases
#[derive(Debug, Parser)]
#[command(name = "tidesdb", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    /// Directory of the database
    #[arg(long, global = true, env = "TIDESDB_DB", value_name = "DIR",
          value_hint = ValueHint::DirPath)]
    db: Option<PathBuf>,
    /// File of options, TOML or INI: what it says of the database, and of families that the
    /// command creates
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    options: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    command: Command,
    /// Whether --db was given, and not only the variable of the environment.
    #[arg(skip)]
    db_is_given: bool,
}

impl Cli {
    /// The command line of this process.
    ///
    /// # Errors
    /// When it makes no sense to clap.
    pub(crate) fn of_process() -> Result<Self, clap::Error> {
        let matches = Self::command().try_get_matches()?;
        let db_is_given = matches.value_source("db") == Some(ValueSource::CommandLine);
        Ok(Self { db_is_given, ..Self::from_arg_matches(&matches)? })
    }

    /// The command, with the database that it is for.
    ///
    /// # Errors
    /// A usage failure when no database is named, one that the command does not take, or two; when
    /// the file of options is wrong.
    pub(crate) fn into_command(self) -> Result<Command> {
        let Self { db, options, mut command, db_is_given } = self;
        if let Some(path) = &options {
            options_files::give(path)?;
        }
        let own = command.own_directory();
        if db_is_given && own.is_some() {
            return Err(Failure::usage("the database is named twice: by --db and by its place"));
        }
        let database = command.database_mut();
        if db_is_given && database.is_none() {
            return Err(Failure::usage("this command works on no database: it takes no --db")
                .hint("its arguments name what it works on; TIDESDB_DB is passed over"));
        }
        if let Some(database) = database {
            database.db = own.or(db).ok_or_else(|| {
                Failure::usage("no database is named")
                    .hint("add --db DIR, or set TIDESDB_DB to the directory")
            })?;
        }
        Ok(command)
    }
}

/// The commands, each with its own arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print the value of a key, or of several
    #[command(after_help = exit_codes::GET)]
    Get(GetArgs),
    /// Store a value under a key; creates the database if need be
    Put(PutArgs),
    /// Remove a key, or with --prefix or --to a range of keys
    Delete(DeleteArgs),
    /// Print keys and values in order
    Scan(ScanArgs),
    /// Store the records of a file; goes on where an interrupted load stopped
    Load(LoadArgs),
    /// Write everything to a file that load turns into the same database
    Dump(DumpArgs),
    /// Show sizes, levels and counters
    Stats(StatsArgs),
    /// Check every checksum, order and count
    #[command(after_help = exit_codes::VERIFY)]
    Verify(ReportArgs),
    /// Count the keys of a family or of a range
    Count(CountArgs),
    /// Write what is only in the log to tables
    Flush(FlushArgs),
    /// Compact the tables of each family into one sorted run
    Compact(CompactArgs),
    /// Show the options of a family, or change some
    Options(OptionsArgs),
    /// List the column families
    Families(FamiliesArgs),
    /// Create a column family
    CreateFamily(CreateFamilyArgs),
    /// Drop a column family and all of its data
    DropFamily(DropFamilyArgs),
    /// Give a column family another name
    RenameFamily(NamesArgs),
    /// Copy a column family at once; the copy shares its files
    CloneFamily(NamesArgs),
    /// Copy the database to a directory at once; the copy shares its files
    Checkpoint(CopyArgs),
    /// Copy every byte of the database to a directory
    Backup(CopyArgs),
    /// Explain the state of the database, and what could be done about it
    Doctor(DoctorArgs),
    /// Run commands at a prompt, or from a script on standard input
    #[command(after_help = exit_codes::SHELL)]
    Shell(ShellArgs),
    /// Print the completions of this tool for a shell
    Completions(CompletionsArgs),
    /// Write the man pages of this tool to a directory
    Man(ManArgs),
    /// Copy a backup to a new place and check the copy
    #[command(after_help = exit_codes::RESTORE)]
    Restore(RestoreArgs),
    /// Write a new database of everything that can be read of a damaged one
    #[command(after_help = exit_codes::SALVAGE)]
    Salvage(SalvageArgs),
    /// Salvage a damaged database and put the new one in its place; the old one is kept
    #[command(after_help = exit_codes::SALVAGE)]
    Repair(RepairArgs),
    /// Show what is in a file of a database, part by part, damaged or not
    #[command(after_help = exit_codes::INSPECT)]
    Inspect(InspectArgs),
    /// Show the formats of the files, and what an upgrade would do
    #[command(after_help = exit_codes::UPGRADE)]
    Upgrade(ReportArgs),
}

impl Command {
    /// Which database the command is for, if it is for one.
    const fn database_mut(&mut self) -> Option<&mut DatabaseArgs> {
        Some(match self {
            Self::Completions(_)
            | Self::Man(_)
            | Self::Salvage(_)
            | Self::Restore(_)
            | Self::Inspect(_) => return None,
            Self::Repair(args) => &mut args.database,
            Self::Doctor(args) => &mut args.database,
            Self::Shell(args) => &mut args.database,
            Self::Get(args) => &mut args.target.database,
            Self::Put(args) => &mut args.target.database,
            Self::Delete(args) => &mut args.target.database,
            Self::Scan(args) => &mut args.target.database,
            Self::Count(args) => &mut args.target.database,
            Self::Options(args) => &mut args.database,
            Self::Load(args) => &mut args.database,
            Self::Dump(args) => &mut args.database,
            Self::Stats(args) => &mut args.database,
            Self::Verify(args) | Self::Upgrade(args) => &mut args.database,
            Self::Flush(args) => &mut args.database,
            Self::Compact(args) => &mut args.database,
            Self::Families(args) => &mut args.database,
            Self::CreateFamily(args) => &mut args.database,
            Self::DropFamily(args) => &mut args.database,
            Self::RenameFamily(args) | Self::CloneFamily(args) => &mut args.database,
            Self::Checkpoint(args) | Self::Backup(args) => &mut args.database,
        })
    }

    /// The database, for commands that take it as an argument of their own.
    fn own_directory(&mut self) -> Option<PathBuf> {
        match self {
            Self::Doctor(args) => args.directory.take(),
            Self::Shell(args) => args.directory.take(),
            _ => None,
        }
    }
}

/// Arguments of `count`.
#[derive(Debug, Args)]
pub(crate) struct CountArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    pub(crate) what: Counted,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `flush`.
#[derive(Debug, Args)]
pub(crate) struct FlushArgs {
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    /// Only this column family
    #[arg(long, short, value_name = "NAME")]
    pub(crate) family: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Arguments of `compact`.
#[derive(Debug, Args)]
pub(crate) struct CompactArgs {
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    /// Only this column family
    #[arg(long, short, value_name = "NAME")]
    pub(crate) family: Option<String>,
    /// Only runs that hold keys from this one on, and newer runs
    #[arg(long, value_name = "KEY", requires = "family")]
    from: Option<OsString>,
    /// Only runs that hold keys before this one, and newer runs
    #[arg(long, value_name = "KEY", requires = "family")]
    to: Option<OsString>,
    #[command(flatten)]
    encoding: EncodingArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl CompactArgs {
    /// The range asked for.
    ///
    /// # Errors
    /// A usage failure when a bound is not of the form asked for.
    pub(crate) fn range(&self) -> Result<KeyRange> {
        RangeArgs::between(&self.from, &self.to).range(&self.encoding)
    }
}

/// Arguments of `stats`.
#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    /// Print JSON instead of tables
    #[arg(long, conflicts_with = "prometheus")]
    pub(crate) json: bool,
    /// Print the text format of Prometheus
    #[arg(long)]
    pub(crate) prometheus: bool,
}

/// Arguments of `verify` and `upgrade`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    /// Print JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `families`.
#[derive(Debug, Args)]
pub(crate) struct FamiliesArgs {
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    /// Also those of the tool itself
    #[arg(long)]
    pub(crate) all: bool,
    /// Print JSON, with the options of each
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `create-family`.
#[derive(Debug, Args)]
pub(crate) struct CreateFamilyArgs {
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    /// Its name
    pub(crate) name: String,
    /// A setting, such as compression=zstd or block_size=16384; may be repeated
    #[arg(long, value_name = "NAME=VALUE", action = ArgAction::Append)]
    pub(crate) set: Vec<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Arguments of `drop-family`.
#[derive(Debug, Args)]
pub(crate) struct DropFamilyArgs {
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    /// Its name
    pub(crate) name: String,
    /// Confirm that its data is to be removed
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
