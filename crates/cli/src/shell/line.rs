//! The commands of the shell, with the arguments that those of the tool have.

use std::ffi::OsString;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum, value_parser};
use tidesdb::IsolationLevel;

use crate::args::{CopyTarget, Counted, DeletedArgs, EncodingArgs, Names, RangeArgs, ShownArgs};
use crate::commands::OptionsFormat;

/// A line.
#[derive(Debug, Parser)]
#[command(
    name = "",
    no_binary_name = true,
    disable_help_flag = true,
    help_template = "{subcommands}",
    max_term_width = 100
)]
pub(crate) struct Line {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print the value of a key, or of several
    Get(GetArgs),
    /// Store a value under a key
    Put(PutArgs),
    /// Remove a key, or with --prefix or --to a range of keys
    Delete(DeleteArgs),
    /// Print keys and values in order
    Scan(ScanArgs),
    /// Count the keys of the family or of a range
    Count(CountArgs),
    /// List the column families
    Families(JsonArgs),
    /// Use another column family from now on
    Use(UseArgs),
    /// Create a column family
    CreateFamily(CreateArgs),
    /// Drop a column family and all of its data
    DropFamily(DropArgs),
    /// Give a column family another name
    RenameFamily(Names),
    /// Copy a column family at once; the copy shares its files
    CloneFamily(Names),
    /// Begin a transaction
    Begin(BeginArgs),
    /// Commit the transaction
    Commit,
    /// Roll the transaction back, or to a savepoint
    Rollback(RollbackArgs),
    /// Set a savepoint in the transaction
    Savepoint(NameArgs),
    /// Read as of now from here on, until --drop
    Snapshot(SnapshotArgs),
    /// Show sizes, levels and counters
    Stats(StatsArgs),
    /// Explain the state of the database, and what could be done about it
    Doctor(JsonArgs),
    /// Check every checksum, order and count
    Verify(JsonArgs),
    /// Copy the database to a directory at once; the copy shares its files
    Checkpoint(CopyTarget),
    /// Copy every byte of the database to a directory
    Backup(CopyTarget),
    /// Write what is only in the log to tables
    Flush,
    /// Compact the tables of the family into one sorted run
    Compact(CompactArgs),
    /// Wait until everything so far is on the disk
    Sync,
    /// Show the options of the family, or change some
    Options(OptionsArgs),
    /// Leave; a transaction that is not committed is rolled back
    #[command(visible_alias = "quit")]
    Exit,
}

impl Command {
    /// Whether its words are keys and values with escapes, and no names or bytes as they are.
    pub(crate) fn takes_escapes(&self) -> bool {
        let encoding = match self {
            Self::Get(args) => &args.encoding,
            Self::Put(args) => &args.encoding,
            Self::Delete(args) => &args.encoding,
            Self::Scan(args) => &args.encoding,
            Self::Count(args) => &args.what.encoding,
            _ => return false,
        };
        encoding.takes_escapes()
    }
}

/// Arguments of `get`.
#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// The keys; of several each is printed as a line with its value
    #[arg(value_name = "KEY", required = true)]
    pub(crate) keys: Vec<OsString>,
    /// Print one JSON object for each key, without a value where there is none
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) encoding: EncodingArgs,
}

/// Arguments of `put`.
#[derive(Debug, Args)]
pub(crate) struct PutArgs {
    /// The key
    pub(crate) key: OsString,
    /// The value
    #[arg(allow_negative_numbers = true)]
    pub(crate) value: OsString,
    /// Let the key expire after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = value_parser!(u64).range(1..))]
    pub(crate) ttl: Option<u64>,
    /// Wait until it is on the disk
    #[arg(long)]
    pub(crate) sync: bool,
    #[command(flatten)]
    pub(crate) encoding: EncodingArgs,
}

/// Arguments of `delete`.
#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// The key
    pub(crate) key: OsString,
    #[command(flatten)]
    pub(crate) deleted: DeletedArgs,
    /// Wait until it is on the disk
    #[arg(long)]
    pub(crate) sync: bool,
    #[command(flatten)]
    pub(crate) encoding: EncodingArgs,
}

/// Arguments of `scan`.
#[derive(Debug, Args)]
pub(crate) struct ScanArgs {
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
    /// Print when records expire
    #[arg(long)]
    pub(crate) expiry: bool,
    /// Print one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) encoding: EncodingArgs,
}

/// Arguments of `count`.
#[derive(Debug, Args)]
pub(crate) struct CountArgs {
    #[command(flatten)]
    pub(crate) what: Counted,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `use`.
#[derive(Debug, Args)]
pub(crate) struct UseArgs {
    /// The family
    pub(crate) name: String,
}

/// A name.
#[derive(Debug, Args)]
pub(crate) struct NameArgs {
    /// Its name
    pub(crate) name: String,
}

/// Arguments of `create-family`.
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Its name
    pub(crate) name: String,
    /// A setting, such as compression=zstd; may be repeated
    #[arg(long, value_name = "NAME=VALUE", action = ArgAction::Append)]
    pub(crate) set: Vec<String>,
}

/// Arguments of `drop-family`.
#[derive(Debug, Args)]
pub(crate) struct DropArgs {
    /// Its name
    pub(crate) name: String,
    /// Confirm that its data is to be removed
    #[arg(long)]
    pub(crate) yes: bool,
}

/// Arguments of `begin`.
#[derive(Debug, Args)]
pub(crate) struct BeginArgs {
    /// What it is protected from
    #[arg(value_enum, default_value = "snapshot")]
    pub(crate) level: Level,
}

/// The isolation levels by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    /// Each read sees the newest committed state
    ReadUncommitted,
    /// The same; an iterator reads one snapshot
    ReadCommitted,
    /// Reads of one snapshot; conflicts if a key that was read has changed
    RepeatableRead,
    /// Reads of one snapshot; conflicts if a key that was written has changed
    Snapshot,
    /// As if transactions ran one after the other
    Serializable,
}

impl Level {
    /// The engine's.
    pub(crate) const fn isolation(self) -> IsolationLevel {
        match self {
            Self::ReadUncommitted => IsolationLevel::ReadUncommitted,
            Self::ReadCommitted => IsolationLevel::ReadCommitted,
            Self::RepeatableRead => IsolationLevel::RepeatableRead,
            Self::Snapshot => IsolationLevel::Snapshot,
            Self::Serializable => IsolationLevel::Serializable,
        }
    }
}

/// Arguments of `rollback`.
#[derive(Debug, Args)]
pub(crate) struct RollbackArgs {
    /// Only what came after this savepoint
    pub(crate) savepoint: Option<String>,
}

/// Arguments of `snapshot`.
#[derive(Debug, Args)]
pub(crate) struct SnapshotArgs {
    /// Read what is newest again
    #[arg(long)]
    pub(crate) drop: bool,
}

/// Words or JSON.
#[derive(Debug, Args)]
pub(crate) struct JsonArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `stats`.
#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    /// Print JSON
    #[arg(long, conflicts_with = "prometheus")]
    pub(crate) json: bool,
    /// Print the text format of Prometheus
    #[arg(long)]
    pub(crate) prometheus: bool,
}

/// Arguments of `compact`.
#[derive(Debug, Args)]
pub(crate) struct CompactArgs {
    /// Each family of the database
    #[arg(long)]
    pub(crate) all: bool,
}

/// Arguments of `options`.
#[derive(Debug, Args)]
pub(crate) struct OptionsArgs {
    /// Change a setting, such as compression=zstd; may be repeated
    #[arg(long, value_name = "NAME=VALUE", action = ArgAction::Append)]
    pub(crate) set: Vec<String>,
    /// Form of the output
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "lines")]
    pub(crate) format: OptionsFormat,
    /// Print JSON instead of lines
    #[arg(long, conflicts_with = "format")]
    pub(crate) json: bool,
}
