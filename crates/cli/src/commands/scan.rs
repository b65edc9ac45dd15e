//! `tidesdb scan`: prints the records of a range, in either direction.
//!
//! The scan sees the database as it was when the command began.

use std::io::{self, BufWriter, IsTerminal, Write};

use crate::args::{ScanArgs, ScanFormat};
use crate::database::{self, Access};
use crate::failure::{Failure, Result};
use crate::formats::{self, Row};

/// Runs the command.
///
/// # Errors
/// Those of the engine and of standard output.
pub(crate) fn run(args: &ScanArgs) -> Result<()> {
    let range = args.range.range(&args.encoding)?;
    if args.expiry && matches!(args.format(), ScanFormat::Tsv | ScanFormat::Csv) {
        return Err(Failure::usage("TSV and CSV have no place for --expiry")
            .hint("use --format text or --format jsonl"));
    }
    let db = database::open(&args.target.database.db, Access::Read)?;
    let family = database::family(&db, &args.target.family)?;
    let mut scan = range.scan(&family)?;
    if args.shown.reverse {
        scan.seek_to_last()?
    } else {
        scan.seek_to_first()?
    }

    let stdout = io::stdout().lock();
    let encoding = args.encoding.encoding();
    let mut writer = match args.format().file_format() {
        Some(format) => formats::writer(format, encoding),
        None => formats::text_writer(encoding, stdout.is_terminal()),
    };
    let mut output = BufWriter::new(stdout);
    let failed = |error: io::Error| Failure::output(&error);
    writer.begin(&mut output, !args.shown.keys_only).map_err(failed)?;
    let mut remaining = args.shown.limit.unwrap_or(u64::MAX);
    while remaining > 0 && scan.valid() {
        remaining -= 1;
        let value = if args.shown.keys_only { None } else { Some(scan.value()?) };
        let expires_at = if args.expiry { scan.expires_at_unix_seconds() } else { None };
        let row = Row { key: scan.key(), value, expires_at, ..Row::default() };
        writer.write(&mut output, row).map_err(failed)?;
        if args.shown.reverse { scan.prev()? } else { scan.next()? }
    }
    output.flush().map_err(failed)
}
