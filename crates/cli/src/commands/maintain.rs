//! `tidesdb flush` and `tidesdb compact`: work that the engine else does by itself.

use std::ops::Bound;

use serde_json::json;

use crate::args::{CompactArgs, FlushArgs};
use crate::database::{self, Access};
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::progress;
use crate::table::bytes;

/// Writes what is only in the log to tables, of one family or of all. After all, the next open has
/// nothing to replay.
///
/// # Errors
/// When the family does not exist, when interrupted, and those of the engine.
pub(crate) fn flush(args: &FlushArgs) -> Result<()> {
    let db = database::open(&args.database.db, Access::Change)?;
    let one = args.family.as_deref().map(|name| database::family(&db, name)).transpose()?;
    interrupt::ending(&db, "what was not flushed is in the log", || {
        progress::during("flushing", String::new, || match &one {
            Some(family) => family.flush(),
            None => db.flush(),
        })
    })?;
    let all = || database::visible_families(&db);
    let flushed = args.family.clone().map_or_else(all, |name| vec![name]);
    match one {
        // A close would write the other families to tables too.
        Some(family) => drop((family, db)),
        None => database::close(db)?,
    }
    args.output.report(&json!({ "flushed": flushed }))
}

/// Compacts a range of a family, one family or all.
///
/// # Errors
/// When the family does not exist, when interrupted, and those of the engine.
pub(crate) fn compact(args: &CompactArgs) -> Result<()> {
    let range = args.range()?;
    let db = database::open(&args.database.db, Access::Change)?;
    let so_far = || format!("{} read", bytes(db.stats().work.compaction_bytes_read));
    let one = args.family.as_deref().map(|name| {
        let family = database::family(&db, name)?;
        let bounds = range.bounds(&family)?;
        Ok::<_, Failure>((family, bounds))
    });
    let one = one.transpose()?;
    interrupt::ending(&db, "compactions that were done are kept", || {
        progress::during("compacting", so_far, || match &one {
            Some((family, (Bound::Unbounded, Bound::Unbounded))) => family.compact(),
            Some((family, bounds)) => family.compact_range(bounds.clone()),
            None => db.compact(),
        })
    })?;
    let all = || database::visible_families(&db);
    let compacted = args.family.clone().map_or_else(all, |name| vec![name]);
    database::close(db)?;
    args.output.report(&json!({ "compacted": compacted }))
}
