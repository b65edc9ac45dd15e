//! `tidesdb delete`: removes a key, or all keys with a prefix or in a range.
//!
//! Removing a key that is not there succeeds. When the command succeeds, the removal is on disk.

use serde_json::json;
use tidesdb::{WriteBatch, WriteOptions};

use crate::args::DeleteArgs;
use crate::database::{self, Access};
use crate::failure::Result;

/// Runs the command.
///
/// # Errors
/// When the database or the family does not exist, and those of the engine.
pub(crate) fn run(args: &DeleteArgs) -> Result<()> {
    let key = args.encoding.decode("key", &args.key)?;
    let end = args
        .deleted
        .to
        .as_ref()
        .map(|end| args.encoding.decode("end of the range", end))
        .transpose()?;
    let db = database::open(&args.target.database.db, Access::Change)?;
    let family = database::family(&db, &args.target.family)?;
    let mut batch = WriteBatch::new();
    let removed = match end {
        Some(end) => batch.delete_range(&family, &key, &end).map(|()| "range")?,
        None if args.deleted.prefix => batch.delete_prefix(&family, &key).map(|()| "prefix")?,
        None => batch.delete(&family, &key).map(|()| "key")?,
    };
    db.write_with(&batch, WriteOptions::new().sync(true))?;
    drop(family);
    database::close(db)?;
    args.output.report(&json!({ "removed": removed, "family": args.target.family }))
}
