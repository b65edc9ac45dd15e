//! `tidesdb count`: the number of keys, found by reading them.

use std::io::{self, Write};

use crate::args::CountArgs;
use crate::database::{self, Access};
use crate::failure::{Failure, Result};

/// Runs the command.
///
/// # Errors
/// Those of the engine and of standard output.
pub(crate) fn run(args: &CountArgs) -> Result<()> {
    let range = args.range.range(&args.encoding)?;
    let db = database::open(&args.target.database.db, Access::Read)?;
    let family = database::family(&db, &args.target.family)?;
    let mut scan = range.scan(&family)?;
    scan.seek_to_first()?;
    let mut count = 0u64;
    while scan.valid() {
        count += 1;
        scan.next()?;
    }
    writeln!(io::stdout().lock(), "{count}").map_err(|error| Failure::output(&error))
}
