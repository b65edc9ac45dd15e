//! How far a load has come, kept in the database that it fills.
//!
//! With each batch the loader writes a checkpoint into a hidden column family, in the same atomic
//! write: whatever ends the process, the stored records and the checkpoint agree, so the next run
//! repeats nothing and misses nothing. The last batch removes the checkpoint, and the family goes
//! when no other load is unfinished.
//!
//! A checkpoint is found by what is loaded where: the family together with the absolute path of
//! the input or a name given by the user. It describes its input (size, time of change, a hash of
//! the first bytes that were consumed) and how it was read. If either differs, the load is
//! refused rather than continued at a place that means something else. Input behind the
//! checkpoint may change: that is how a bad line is repaired and how a growing file is followed.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::cast_possible_truncation))]

use serde::{Deserialize, Serialize};
use tidesdb::{Db, Error, Family, FamilyOptions, WriteBatch};

use crate::failure::{Failure, Result};
use crate::formats::{Columns, Position};
use crate::source::{HEAD_BYTES, Source, Tap};

/// Name of the family that holds checkpoints. It belongs to this tool and is not shown; every other
/// family is the user's, whatever its name.
pub(crate) const FAMILY: &str = "__load_progress";

/// Form of a stored checkpoint.
const VERSION: u32 = 1;

const WRITE_BUFFER_BYTES: usize = 1 << 20;

/// Drops the family once no load is unfinished: the database is the user's.
///
/// # Errors
/// Those of the engine.
pub(crate) fn drop_if_empty(db: &Db) -> tidesdb::Result<()> {
    match db.family(FAMILY) {
        Ok(family) if family.is_empty()? => db.drop_family(FAMILY),
        Ok(_) | Err(Error::FamilyNotFound(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// How far a load has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    version: u32,
    /// Where the next record begins.
    pub(crate) position: Position,
    /// Records stored so far, over all runs.
    pub(crate) records: u64,
    /// Bad records skipped so far, over all runs.
    pub(crate) skipped: u64,
    /// Columns in use, so that the first row need not be read again.
    pub(crate) columns: Option<Columns>,
    /// How the input is read, in words.
    settings: String,
    head_hash: u64,
    size: Option<u64>,
    modified: Option<u64>,
}

impl Checkpoint {
    /// The checkpoint of a load that begins.
    pub(crate) fn start(source: &Source, settings: String) -> Self {
        Self {
            version: VERSION,
            position: Position::START,
            records: 0,
            skipped: 0,
            columns: None,
            settings,
            head_hash: 0,
            size: source.size(),
            modified: source.modified(),
        }
    }

    /// A checkpoint as it was stored.
    ///
    /// # Errors
    /// What is wrong with it. One that can't be of a load (more lines or records than bytes, a
    /// column that is not there) would let the load go on at a place that means something else.
    pub(crate) fn read(stored: &[u8]) -> std::result::Result<Self, String> {
        let checkpoint: Self = serde_json::from_slice(stored).map_err(|error| error.to_string())?;
        let Position { offset, line } = checkpoint.position;
        let records = checkpoint.records.checked_add(checkpoint.skipped);
        if line == 0 || line - 1 > offset || records.is_none_or(|records| records > offset) {
            return Err(format!(
                "line {line} after {} records and {} bad ones cannot begin at byte {offset}",
                checkpoint.records, checkpoint.skipped
            ));
        }
        if let Some(Columns { key, value, count }) = checkpoint.columns
            && (key >= count || value >= count)
        {
            return Err(format!("columns {key} and {value} are not among {count}"));
        }
        Ok(checkpoint)
    }

    /// The form in which it is stored.
    ///
    /// # Errors
    /// Those of the serializer.
    pub(crate) fn to_stored(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(self)
    }

    /// Takes note that everything before `position` is dealt with.
    pub(crate) fn advance(&mut self, position: Position, tap: &Tap) {
        let head_is_complete = self.head_bytes() == HEAD_BYTES;
        self.position = position;
        if !head_is_complete {
            self.head_hash = tap.head_hash(self.head_bytes());
        }
    }

    /// The same place, in the input as it is now.
    pub(crate) fn continued_with(self, now: &Self) -> Self {
        Self { size: now.size, modified: now.modified, ..self }
    }

    fn head_bytes(&self) -> usize {
        usize::try_from(self.position.offset).unwrap_or(HEAD_BYTES).min(HEAD_BYTES)
    }

    /// Moves `source` to where this checkpoint left it. `now` is the checkpoint of a load that
    /// begins with the same input. Returns whether the input was changed meanwhile.
    ///
    /// # Errors
    /// When the input is not the one that was being loaded, is read in another way or is too short.
    pub(crate) fn resume(&self, source: &mut Source, now: &Self) -> Result<bool> {
        let refuse = |what: String| {
            Err(Failure::new(what).hint(format!(
                "an earlier load stopped at line {}; --restart loads from the beginning",
                self.position.line
            )))
        };
        if self.version != VERSION {
            return refuse("the interrupted load was written by another version".to_owned());
        }
        if self.settings != now.settings {
            return refuse(format!(
                "the interrupted load read {} otherwise: {} then, {} now",
                source.name(),
                self.settings,
                now.settings
            ));
        }
        if !source.skip_to(self.position.offset)? {
            return refuse(format!("{} is shorter than it was", source.name()));
        }
        if source.tap().head_hash(self.head_bytes()) != self.head_hash {
            return refuse(format!("{} is not what was being loaded", source.name()));
        }
        Ok((self.size, self.modified) != (now.size, now.modified))
    }
}

/// The place of one load's checkpoint.
pub(crate) struct Bookmark {
    family: Family,
    key: Vec<u8>,
}

impl Bookmark {
    /// The bookmark of loading into the family `target` from `source`, or from what the user calls
    /// `name`; `target` is empty when the input names the families. Streams without a name have
    /// none.
    ///
    /// # Errors
    /// When the hidden family cannot be opened.
    pub(crate) fn open(
        db: &Db,
        target: &str,
        source: &Source,
        name: Option<&str>,
    ) -> Result<Option<Self>> {
        let what = match (name, source.path()) {
            (Some(name), _) => [b"name:", name.as_bytes()].concat(),
            (None, Some(path)) => [b"path:", path.as_os_str().as_encoded_bytes()].concat(),
            (None, None) => return Ok(None),
        };
        let options = FamilyOptions::default().write_buffer_size(WRITE_BUFFER_BYTES);
        let family = db.open_family(FAMILY, options)?;
        Ok(Some(Self { family, key: [target.as_bytes(), b"\0", &what].concat() }))
    }

    /// The checkpoint that an earlier run left.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn read(&self) -> Result<Option<Checkpoint>> {
        let Some(text) = self.family.get(&self.key)? else { return Ok(None) };
        let checkpoint = Checkpoint::read(&text).map_err(|error| {
            Failure::new(format!("the checkpoint of the interrupted load is unreadable: {error}"))
                .hint("--restart loads from the beginning")
        })?;
        Ok(Some(checkpoint))
    }

    /// Adds the checkpoint to the batch that takes the load there.
    ///
    /// # Errors
    /// When the batch refuses it.
    pub(crate) fn put(&self, batch: &mut WriteBatch, checkpoint: &Checkpoint) -> Result<()> {
        let text = checkpoint
            .to_stored()
            .map_err(|error| Failure::new(format!("cannot write the checkpoint: {error}")))?;
        Ok(batch.put(&self.family, &self.key, &text)?)
    }

    /// Adds the removal of the checkpoint to the batch that completes the load.
    ///
    /// # Errors
    /// When the batch refuses it.
    pub(crate) fn remove(&self, batch: &mut WriteBatch) -> Result<()> {
        Ok(batch.delete(&self.family, &self.key)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Line 2^64 - 1 ended the process by an overflow, and a column that is not there gave each
    /// record an empty key.
    #[test]
    fn a_checkpoint_that_no_load_has_written_is_refused() {
        let stored = |position: &str, records: &str, columns: &str| {
            format!(
                r#"{{"version":1,"position":{position},"records":{records},"skipped":1,
                "columns":{columns},"settings":"csv","head_hash":1,"size":null,"modified":7}}"#
            )
        };
        let columns = r#"{"key":0,"value":2,"count":3}"#;
        let good = stored(r#"{"offset":9,"line":3}"#, "2", columns);
        let checkpoint = Checkpoint::read(good.as_bytes()).unwrap();
        let again = Checkpoint::read(&checkpoint.to_stored().unwrap()).unwrap();
        assert_eq!((checkpoint.records, &again), (2, &checkpoint));
        for (position, records, columns) in [
            (r#"{"offset":9,"line":0}"#, "2", columns),
            (r#"{"offset":9,"line":18446744073709551615}"#, "2", columns),
            (r#"{"offset":9,"line":11}"#, "2", columns),
            (r#"{"offset":9,"line":3}"#, "9", columns),
            (r#"{"offset":9,"line":3}"#, "18446744073709551615", columns),
            (r#"{"offset":9,"line":3}"#, "2", r#"{"key":3,"value":2,"count":3}"#),
            (r#"{"offset":9,"line":3}"#, "2", r#"{"key":0,"value":3,"count":3}"#),
        ] {
            let stored = stored(position, records, columns);
            assert!(Checkpoint::read(stored.as_bytes()).is_err(), "{stored}");
        }
    }
}
