//! `tidesdb count`: the number of keys, found by reading them, or estimated.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use tidesdb::{Family, Scan};

use crate::args::{CountArgs, Counted};
use crate::database::{self, Access};
use crate::failure::{Failure, Result, note};
use crate::interrupt;
use crate::output::print;
use crate::progress;
use crate::table::count as human_count;

/// Which state of the family is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountedState {
    /// The newest.
    Newest,
    /// That of a snapshot or a transaction.
    Earlier,
}

/// Runs the command.
///
/// # Errors
/// Those of the engine and of standard output.
pub(crate) fn run(args: &CountArgs) -> Result<()> {
    let range = args.what.range.range(&args.what.encoding)?;
    let db = database::open(&args.target.database.db, Access::Read)?;
    let family = database::family(&db, &args.target.family)?;
    let open = || range.scan(&family);
    print(counted(&args.what, (&family, CountedState::Newest), open, args.json)?)
}

/// The number of keys as text or JSON: of an estimate with what reading the range costs, which
/// without JSON is written to standard error. `open` opens a scan of the range in that state.
///
/// # Errors
/// A usage failure for an estimate of an earlier state, of which tables know nothing; when
/// interrupted, and those of the engine.
pub(crate) fn counted(
    what: &Counted,
    (family, state): (&Family, CountedState),
    open: impl FnOnce() -> Result<Scan>,
    json: bool,
) -> Result<String> {
    if !what.estimate {
        let count = count_all(open()?)?;
        let text = if json { json!({ "count": count }).to_string() } else { count.to_string() };
        return Ok(text + "\n");
    }
    if state == CountedState::Earlier {
        return Err(Failure::usage(
            "an estimate is of the newest state, not of a snapshot or a transaction",
        )
        .hint("leave out --estimate, which reads the keys"));
    }
    let range = what.range.range(&what.encoding)?;
    let (estimate, cost) = (range.estimate(family)?, range.cost(family));
    if json {
        return Ok(json!({ "estimate": estimate, "cost": cost }).to_string() + "\n");
    }
    if let Some(cost) = cost {
        note(format_args!("reading the range costs {cost:.1}, in a unit of its own"));
    }
    Ok(format!("{estimate}\n"))
}

fn count_all(mut scan: Scan) -> Result<u64> {
    let count = AtomicU64::new(0);
    // ORDERING: relaxed; the other thread only shows the number.
    let so_far = || human_count(count.load(Ordering::Relaxed));
    progress::during("counting", so_far, || -> Result<()> {
        scan.seek_to_first()?;
        while scan.valid() {
            if interrupt::requested() {
                return Err(Failure::interrupted("the command was given up"));
            }
            count.fetch_add(1, Ordering::Relaxed);
            scan.next()?;
        }
        Ok(())
    })?;
    Ok(count.into_inner())
}
