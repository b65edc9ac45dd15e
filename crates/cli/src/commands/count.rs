//! `tidesdb count`: the number of keys, found by reading them.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

use crate::args::CountArgs;
use crate::database::{self, Access};
use crate::failure::{Failure, Result};
use crate::progress;
use crate::table::count as human_count;

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
    let count = AtomicU64::new(0);
    // ORDERING: relaxed; the other thread only shows the number.
    let so_far = || human_count(count.load(Ordering::Relaxed));
    progress::during("counting", so_far, || -> Result<()> {
        while scan.valid() {
            count.fetch_add(1, Ordering::Relaxed);
            scan.next()?;
        }
        Ok(())
    })?;
    let count = count.into_inner();
    let text = if args.json { json!({ "count": count }).to_string() } else { count.to_string() };
    writeln!(io::stdout().lock(), "{text}").map_err(|error| Failure::output(&error))
}
