//! `tidesdb flush` and `tidesdb compact`: work that the engine else does by itself.

use serde_json::json;

use crate::args::{CompactArgs, FlushArgs};
use crate::database::{self, Access};
use crate::failure::Result;
use crate::interrupt;
use crate::progress;
use crate::table::bytes;

/// Writes what is only in the log to tables, so that the next open has nothing to replay.
///
/// # Errors
/// Those of the engine; when interrupted.
pub(crate) fn flush(args: &FlushArgs) -> Result<()> {
    let db = database::open(&args.database.db, Access::Change)?;
    interrupt::ending(&db, "what was not flushed is in the log", || {
        progress::during("flushing", String::new, || db.flush())
    })?;
    let flushed = database::visible_families(&db);
    database::close(db)?;
    args.output.report(&json!({ "flushed": flushed }))
}

/// Compacts one family or all.
///
/// # Errors
/// When the family does not exist, when interrupted, and those of the engine.
pub(crate) fn compact(args: &CompactArgs) -> Result<()> {
    let db = database::open(&args.database.db, Access::Change)?;
    let so_far = || format!("{} read", bytes(db.stats().work.compaction_bytes_read));
    let one = args.family.as_deref().map(|name| database::family(&db, name)).transpose()?;
    interrupt::ending(&db, "compactions that were done are kept", || {
        progress::during("compacting", so_far, || match &one {
            Some(family) => family.compact(),
            None => db.compact(),
        })
    })?;
    let all = || database::visible_families(&db);
    let compacted = args.family.clone().map_or_else(all, |name| vec![name]);
    database::close(db)?;
    args.output.report(&json!({ "compacted": compacted }))
}
