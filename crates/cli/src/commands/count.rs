//! `tidesdb count`: the number of keys, found by reading them, or estimated.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use tidesdb::Family;

use crate::args::CountArgs;
use crate::database::{self, Access, KeyRange};
use crate::failure::Result;
use crate::output::print;
use crate::progress;
use crate::table::count as human_count;

/// Runs the command.
///
/// # Errors
/// Those of the engine and of standard output.
pub(crate) fn run(args: &CountArgs) -> Result<()> {
    let range = args.what.range.range(&args.what.encoding)?;
    let db = database::open(&args.target.database.db, Access::Read)?;
    let family = database::family(&db, &args.target.family)?;
    let text = match (args.what.estimate, args.json) {
        (true, false) => range.estimate(&family)?.to_string(),
        (true, true) => {
            let (estimate, cost) = (range.estimate(&family)?, range.cost(&family));
            json!({ "estimate": estimate, "cost": cost }).to_string()
        }
        (false, false) => counted(&range, &family)?.to_string(),
        (false, true) => json!({ "count": counted(&range, &family)? }).to_string(),
    };
    print(text + "\n")
}

fn counted(range: &KeyRange, family: &Family) -> Result<u64> {
    let mut scan = range.scan(family)?;
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
    Ok(count.into_inner())
}
