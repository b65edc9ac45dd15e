//! The command line: what can be asked, how it is explained, and which values make no sense.
//!
//! Clap parses and suggests; what needs two arguments to judge is checked by the commands. Keys
//! and values arrive as bytes, so that arguments that are not UTF-8 work where the system allows
//! them.
//!
//! Longer than 600 lines because the arguments of commands on records lie together.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum, ValueHint, value_parser};

use crate::commands::{
    CompletionsArgs, CopyArgs, DoctorArgs, InspectArgs, ManArgs, NamesArgs, OptionsArgs,
    RepairArgs, RestoreArgs, SalvageArgs, ShellArgs,
};
use crate::database::KeyRange;
use crate::encoding::Encoding;
use crate::failure::{Failure, Result};
use crate::formats::Format;
use crate::options_files;
use crate::progress::ProgressMode;
use crate::told::ToldArgs;

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
}

impl Cli {
    /// The command, with the database that it is for.
    ///
    /// # Errors
    /// A usage failure when no database is named; when the file of options is wrong.
    pub(crate) fn into_command(self) -> Result<Command> {
        let Self { db, options, mut command } = self;
        if let Some(path) = &options {
            options_files::give(path)?;
        }
        let own = command.own_directory();
        if let Some(database) = command.database_mut() {
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
    Stats(ReportArgs),
    /// Check every checksum, order and count
    Verify(ReportArgs),
    /// Count the keys of a family or of a range
    Count(CountArgs),
    /// Write what is only in the log to tables
    Flush(FlushArgs),
    /// Merge the tables of each family into one sorted run
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
    Shell(ShellArgs),
    /// Print the completions of this tool for a shell
    Completions(CompletionsArgs),
    /// Write the man pages of this tool to a directory
    Man(ManArgs),
    /// Copy a backup to a new place and check the copy
    Restore(RestoreArgs),
    /// Write a new database of everything that can be read of a damaged one
    Salvage(SalvageArgs),
    /// Salvage a damaged database and put the new one in its place; the old one is kept
    Repair(RepairArgs),
    /// Show what is in a file of a database, part by part, damaged or not
    Inspect(InspectArgs),
    /// Show the formats of the files, and what an upgrade would do
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
            Self::Stats(args) | Self::Verify(args) | Self::Upgrade(args) => &mut args.database,
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

/// Which database.
#[derive(Debug, Args)]
pub(crate) struct DatabaseArgs {
    /// Its directory, from the argument that all commands share.
    #[arg(skip)]
    pub(crate) db: PathBuf,
}

/// Arguments of `count`.
#[derive(Debug, Args)]
pub(crate) struct CountArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) encoding: EncodingArgs,
}

/// Arguments of `flush`.
#[derive(Debug, Args)]
pub(crate) struct FlushArgs {
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    #[command(flatten)]
    pub(crate) told: ToldArgs,
}

/// Arguments of `compact`.
#[derive(Debug, Args)]
pub(crate) struct CompactArgs {
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    /// Only this column family
    #[arg(long, short, value_name = "NAME")]
    pub(crate) family: Option<String>,
    #[command(flatten)]
    pub(crate) told: ToldArgs,
}

/// Which column family of which database.
#[derive(Debug, Args)]
pub(crate) struct TargetArgs {
    /// The database.
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    /// Column family
    #[arg(long, short, value_name = "NAME", default_value = "default")]
    pub(crate) family: String,
}

/// How bytes are written as text.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct EncodingArgs {
    /// Keys and values are hexadecimal
    #[arg(long)]
    hex: bool,
    /// Keys and values are base64
    #[arg(long)]
    base64: bool,
    /// Keys and values on the command line are taken as they are, without escapes
    #[arg(long)]
    raw: bool,
}

impl EncodingArgs {
    /// The encoding asked for.
    pub(crate) fn encoding(&self) -> Encoding {
        match (self.hex, self.base64) {
            (true, _) => Encoding::Hex,
            (false, true) => Encoding::Base64,
            (false, false) => Encoding::Text,
        }
    }

    /// Whether a backslash begins an escape.
    pub(crate) fn takes_escapes(&self) -> bool {
        !self.raw && self.encoding() == Encoding::Text
    }

    /// The bytes that an argument stands for. `what` names it in messages.
    ///
    /// # Errors
    /// A usage failure when it is not of the form asked for.
    pub(crate) fn decode(&self, what: &str, argument: &OsString) -> Result<Vec<u8>> {
        self.decode_bytes(what, argument.as_encoded_bytes())
    }

    /// As [`EncodingArgs::decode`], of text that is no argument.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn decode_bytes(&self, what: &str, text: &[u8]) -> Result<Vec<u8>> {
        if self.raw {
            return Ok(text.to_vec());
        }
        let (encoding, mut bytes) = (self.encoding(), Vec::new());
        encoding.decode(text, &mut bytes).map_err(|error| {
            let form = encoding.name();
            Failure::usage(format!("the {what} is no valid {form}: {error}"))
        })?;
        Ok(bytes)
    }
}

/// Which keys.
#[derive(Debug, Args)]
pub(crate) struct RangeArgs {
    /// Only keys that begin with this
    #[arg(long, short, value_name = "PREFIX")]
    prefix: Option<OsString>,
    /// The smallest key, included
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// The key to stop at, excluded
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
}

impl RangeArgs {
    /// The range asked for.
    ///
    /// # Errors
    /// A usage failure when a bound is not of the form asked for.
    pub(crate) fn range(&self, encoding: &EncodingArgs) -> Result<KeyRange> {
        let decode = |what, bound: &Option<OsString>| {
            bound.as_ref().map(|argument| encoding.decode(what, argument)).transpose()
        };
        // An empty prefix or lower bound bounds nothing, in whatever order of keys.
        let some = |bound: Option<Vec<u8>>| bound.filter(|key| !key.is_empty());
        let to = decode("upper bound", &self.to)?;
        if to.as_ref().is_some_and(Vec::is_empty) {
            return Err(Failure::usage("the upper bound is empty")
                .hint("without --to the range goes to the last key"));
        }
        Ok(KeyRange {
            prefix: some(decode("prefix", &self.prefix)?),
            from: some(decode("lower bound", &self.from)?),
            to,
        })
    }
}

/// Arguments of `get`.
#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// The keys; of several each is printed as a line with its value
    #[arg(value_name = "KEY")]
    pub(crate) keys: Vec<OsString>,
    /// Also the keys in this file, one a line, or of standard input if it is -
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) keys_from: Option<PathBuf>,
    /// Print one JSON object for each key, without a value where there is none
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) encoding: EncodingArgs,
}

/// Arguments of `put`.
#[derive(Debug, Args)]
pub(crate) struct PutArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// The key; \t \n \r \\ and \xNN are escapes, here and in the value, unless --raw is given
    pub(crate) key: OsString,
    /// The value, or - for standard input, whose bytes are stored as they are
    #[arg(required_unless_present = "value_file", allow_negative_numbers = true)]
    pub(crate) value: Option<OsString>,
    /// Store the bytes of this file
    #[arg(long, value_name = "FILE", conflicts_with = "value", value_hint = ValueHint::FilePath)]
    pub(crate) value_file: Option<PathBuf>,
    /// Let the key expire after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = value_parser!(u64).range(1..))]
    pub(crate) ttl: Option<u64>,
    /// Create the column family if it is missing; 'default' is created without it
    #[arg(long)]
    pub(crate) create: bool,
    /// Accepted; put always waits for the disk
    #[arg(long)]
    pub(crate) sync: bool,
    #[command(flatten)]
    pub(crate) told: ToldArgs,
    #[command(flatten)]
    pub(crate) encoding: EncodingArgs,
}

/// Arguments of `delete`.
#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// The key; removing one that is not there is no error
    pub(crate) key: OsString,
    /// Remove every key that starts with KEY
    #[arg(long, conflicts_with = "to")]
    pub(crate) prefix: bool,
    /// Remove every key from KEY on that comes before this one
    #[arg(long, value_name = "END")]
    pub(crate) to: Option<OsString>,
    #[command(flatten)]
    pub(crate) told: ToldArgs,
    #[command(flatten)]
    pub(crate) encoding: EncodingArgs,
}

/// Formats of `scan`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScanFormat {
    /// Key, two spaces, value; long values are cut at a terminal
    Text,
    /// One JSON object a line
    Jsonl,
    /// Key, tab, value, with escapes
    Tsv,
    /// Comma-separated with quotes
    Csv,
}

impl ScanFormat {
    /// The same as a file format; text is none.
    pub(crate) fn file_format(self) -> Option<Format> {
        match self {
            Self::Text => None,
            Self::Jsonl => Some(Format::Jsonl),
            Self::Tsv => Some(Format::Tsv),
            Self::Csv => Some(Format::Csv),
        }
    }
}

/// Arguments of `scan`.
#[derive(Debug, Args)]
pub(crate) struct ScanArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    /// Stop after this many records
    #[arg(long, short = 'n', value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// From the largest key down
    #[arg(long, short)]
    pub(crate) reverse: bool,
    /// Print no values
    #[arg(long, short)]
    pub(crate) keys_only: bool,
    /// Show when keys expire, as Unix seconds; in the formats text and jsonl
    #[arg(long)]
    pub(crate) expiry: bool,
    /// Form of the output
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text")]
    format: ScanFormat,
    /// The same as --format jsonl
    #[arg(long, conflicts_with = "format")]
    json: bool,
    #[command(flatten)]
    pub(crate) encoding: EncodingArgs,
}

impl ScanArgs {
    /// The form of the output that was asked for.
    pub(crate) const fn format(&self) -> ScanFormat {
        if self.json { ScanFormat::Jsonl } else { self.format }
    }
}

/// Arguments of `load`.
// More than a dozen fields: one for each flag of the command line.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    /// Column family; by default those that a dump names, otherwise 'default'
    #[arg(long, short, value_name = "NAME")]
    pub(crate) family: Option<String>,
    /// The file, or - for standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Form of the input; by default the file's extension tells
    #[arg(long, value_name = "FORMAT", value_enum)]
    format: Option<Format>,
    /// The same as --format jsonl
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Records of one atomic batch, which also ends at 8 MiB
    #[arg(long, value_name = "N", default_value = "1000",
          value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub(crate) batch: u64,
    /// JSON field or CSV column that holds the key
    #[arg(long, value_name = "NAME", default_value = "key")]
    pub(crate) key_field: String,
    /// JSON field or CSV column that holds the value
    #[arg(long, value_name = "NAME", default_value = "value")]
    pub(crate) value_field: String,
    /// The CSV file has no first row with names; its columns are key and value
    #[arg(long, conflicts_with_all = ["key_field", "value_field"])]
    pub(crate) no_header: bool,
    /// Leave out records that make no sense instead of stopping at the first one
    #[arg(long)]
    pub(crate) skip_bad: bool,
    /// Remember the progress under this name; standard input resumes only with a name
    #[arg(long, value_name = "NAME")]
    pub(crate) resume_key: Option<String>,
    /// Load from the beginning even if an earlier load was interrupted
    #[arg(long)]
    pub(crate) restart: bool,
    /// Wait for the disk after each batch; otherwise once, at the end
    #[arg(long)]
    pub(crate) sync: bool,
    /// Refuse records longer than this
    #[arg(long, value_name = "N", default_value = "256",
          value_parser = value_parser!(u64).range(1..=65_536))]
    pub(crate) max_record_mib: u64,
    #[command(flatten)]
    pub(crate) encoding: EncodingArgs,
    /// Show progress on standard error
    #[arg(long, value_name = "WHEN", value_enum, default_value = "auto")]
    pub(crate) progress: ProgressMode,
}

impl LoadArgs {
    /// The form of the input, if it was given or the file's extension tells.
    pub(crate) fn format(&self) -> Option<Format> {
        of_flags(self.json, self.format, &self.file)
    }
}

fn of_flags(json: bool, format: Option<Format>, file: &Path) -> Option<Format> {
    let given = if json { Some(Format::Jsonl) } else { format };
    given.or_else(|| Format::of_path(file))
}

/// Arguments of `dump`.
#[derive(Debug, Args)]
pub(crate) struct DumpArgs {
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,
    /// Only this column family; by default all of them, or 'default' in TSV and CSV
    #[arg(long, short, value_name = "NAME")]
    pub(crate) family: Option<String>,
    /// The file, or - for standard output; it appears under its name when it is complete
    #[arg(default_value = "-", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Form of the output; by default the file's extension tells, otherwise jsonl
    #[arg(long, value_name = "FORMAT", value_enum)]
    format: Option<Format>,
    /// The same as --format jsonl
    #[arg(long, conflicts_with = "format")]
    json: bool,
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    #[command(flatten)]
    pub(crate) encoding: EncodingArgs,
    /// Show progress on standard error
    #[arg(long, value_name = "WHEN", value_enum, default_value = "auto")]
    pub(crate) progress: ProgressMode,
}

impl DumpArgs {
    /// The form of the output.
    pub(crate) fn format(&self) -> Format {
        of_flags(self.json, self.format, &self.file).unwrap_or(Format::Jsonl)
    }
}

/// Arguments of `stats` and `verify`.
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
    pub(crate) told: ToldArgs,
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
    pub(crate) told: ToldArgs,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
