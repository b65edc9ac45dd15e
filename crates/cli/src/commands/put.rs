//! `tidesdb put`: stores a value under a key.
//!
//! The value comes from the command line, from standard input or from a file. When the command
//! succeeds, the record is on disk: its commit is synced, and the database is closed, which writes
//! it into a table and leaves no log behind for the next command to read.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;
use tidesdb::limits::MAX_KEY_BYTES;
use tidesdb::{WriteBatch, WriteOptions};

use crate::args::PutArgs;
use crate::database::{self, Access};
use crate::failure::{Failure, Result};

/// The family that need not be created.
const DEFAULT_FAMILY: &str = "default";

/// Longest value of the engine.
const MAX_VALUE_BYTES: u64 = u32::MAX as u64;

/// Runs the command.
///
/// # Errors
/// When the value cannot be read or is too long, and those of the engine.
pub(crate) fn run(args: &PutArgs) -> Result<()> {
    let key = args.encoding.decode("key", &args.key)?;
    // Before anything is created for it.
    check_length(&key)?;
    let value = value(args)?;
    let name = &args.target.family;
    let creates = args.create || name == DEFAULT_FAMILY;
    // Where there is none, the family is not there either.
    let access = if creates { Access::Create } else { Access::Change };
    let db = database::open(&args.target.database.db, access)?;
    let family = if creates {
        database::family_or_new(&db, name)?
    } else {
        database::family(&db, name).map_err(|failure| failure.and("; --create creates it"))?
    };
    let mut batch = WriteBatch::new();
    match args.ttl {
        None => batch.put(&family, &key, &value)?,
        Some(seconds) => batch.put_expiring_at(&family, &key, &value, expiry(seconds)?)?,
    }
    db.write_with(&batch, WriteOptions::new().sync(true))?;
    drop(family);
    database::close(db)?;
    args.output.report(&json!({ "stored": 1, "family": name, "value_bytes": value.len() }))
}

fn check_length(key: &[u8]) -> Result<()> {
    match key.len() {
        0 => Err(Failure::usage("the key is empty")),
        1..=MAX_KEY_BYTES => Ok(()),
        bytes => Err(Failure::usage(format!(
            "the key has {bytes} bytes, and at most {MAX_KEY_BYTES} are allowed"
        ))),
    }
}

fn value(args: &PutArgs) -> Result<Vec<u8>> {
    if let Some(path) = &args.value_file {
        let file = File::open(path).map_err(|error| Failure::file("open", path, &error))?;
        return read_all(file, path);
    }
    match &args.value {
        Some(value) if value == "-" => read_all(io::stdin().lock(), Path::new("standard input")),
        Some(value) => args.encoding.decode("value", value),
        None => Err(Failure::usage("there is no value")),
    }
}

fn read_all(input: impl Read, name: &Path) -> Result<Vec<u8>> {
    let mut value = Vec::new();
    input
        .take(MAX_VALUE_BYTES + 1)
        .read_to_end(&mut value)
        .map_err(|error| Failure::file("read", name, &error))?;
    if value.len() as u64 > MAX_VALUE_BYTES {
        return Err(Failure::new(format!("{} is longer than a value may be", name.display()))
            .hint("a value has 4 GiB - 1 bytes at most"));
    }
    Ok(value)
}

/// The second at which a record expires that lives for `seconds` from now.
fn expiry(seconds: u64) -> Result<u64> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_err(|_| Failure::new("the clock of this machine is before 1970"))?;
    // Rounded up, so that nothing expires early.
    let now_seconds = now.as_secs() + u64::from(now.subsec_nanos() > 0);
    Ok(now_seconds.saturating_add(seconds))
}
