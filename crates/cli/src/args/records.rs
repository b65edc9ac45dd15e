//! The arguments of commands on records.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum, ValueHint, value_parser};

use super::{DatabaseArgs, EncodingArgs, RangeArgs, TargetArgs};
use crate::formats::Format;
use crate::output::OutputArgs;
use crate::progress::ProgressMode;

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
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) encoding: EncodingArgs,
}

/// What `delete` removes, if not the key alone.
#[derive(Debug, Args)]
pub(crate) struct DeletedArgs {
    /// Remove every key that starts with KEY
    #[arg(long, conflicts_with = "to")]
    pub(crate) prefix: bool,
    /// Remove every key from KEY on that comes before this one
    #[arg(long, value_name = "END")]
    pub(crate) to: Option<OsString>,
}

/// Arguments of `delete`.
#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// The key; removing one that is not there is no error
    pub(crate) key: OsString,
    #[command(flatten)]
    pub(crate) deleted: DeletedArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
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

/// Which records of its range `scan` shows, and what of them.
#[derive(Debug, Args)]
pub(crate) struct ShownArgs {
    /// Stop after this many records
    #[arg(long, short = 'n', value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// From the largest key down
    #[arg(long, short)]
    pub(crate) reverse: bool,
    /// Print no values
    #[arg(long, short)]
    pub(crate) keys_only: bool,
}

/// Arguments of `scan`.
#[derive(Debug, Args)]
pub(crate) struct ScanArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    pub(crate) range: RangeArgs,
    #[command(flatten)]
    pub(crate) shown: ShownArgs,
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

/// What a load takes as one record unless it is told otherwise.
pub(crate) const DEFAULT_MAX_RECORD_MIB: u64 = 256;

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
    /// Form of the input; by default what the file's extension says
    #[arg(long, value_name = "FORMAT", value_enum)]
    format: Option<Format>,
    /// The same as --format jsonl
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Say what was done as JSON, also of a load that ended early
    #[arg(long)]
    pub(crate) json_report: bool,
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
    #[arg(long, value_name = "N", default_value_t = DEFAULT_MAX_RECORD_MIB,
          value_parser = value_parser!(u64).range(1..=65_536))]
    pub(crate) max_record_mib: u64,
    #[command(flatten)]
    pub(crate) encoding: EncodingArgs,
    /// Show progress on standard error
    #[arg(long, value_name = "WHEN", value_enum, default_value = "auto")]
    pub(crate) progress: ProgressMode,
}

impl LoadArgs {
    /// The form of the input, if it was given or follows from the file's extension.
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
    /// Form of the output; by default what the file's extension says, otherwise jsonl
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
