//! One atomic change of the set of files, and its encoding.

use std::sync::Arc;

use tidesdb_base::codec::{Decoder, Malformed, put_bytes, put_varint};
use tidesdb_base::key_ranges::is_range;
use tidesdb_base::range_tombstone::RangeTombstone;

use super::TableRecord;

/// What the manifest remembers of a value-log file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValueLogRecord {
    /// Number of the file.
    pub number: u64,
    /// Length of the file in bytes; zero until it is closed, since commits append to it.
    pub bytes: u64,
}

impl ValueLogRecord {
    /// Of a file that commits append to.
    #[must_use]
    pub const fn open(number: u64) -> Self {
        Self { number, bytes: 0 }
    }

    /// Whether the file was closed: all of it is whole, and its length is known.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.bytes != 0
    }
}

/// One part of an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A column family exists, with these options (text form).
    CreateFamily {
        /// Its number, never used twice.
        family: u32,
        /// Its name.
        name: String,
        /// Its options in text form.
        options: Arc<str>,
    },
    /// A column family is gone, with all of its files.
    DropFamily {
        /// Its number.
        family: u32,
    },
    /// A family has another name.
    RenameFamily {
        /// Its number.
        family: u32,
        /// Its new name.
        name: String,
    },
    /// A family exists that has the options, tables and range tombstones of another one, and the
    /// value logs that these tables point into: the files are named by both from now on.
    CopyFamily {
        /// Its number, never used twice.
        family: u32,
        /// Number of the family that it is a copy of.
        source: u32,
        /// Its name.
        name: String,
    },
    /// The options of a family changed.
    SetOptions {
        /// Its number.
        family: u32,
        /// The new options in text form.
        options: Arc<str>,
    },
    /// A table belongs to the family.
    AddTable {
        /// Number of the family.
        family: u32,
        /// The table.
        table: Arc<TableRecord>,
    },
    /// A table no longer belongs to the family; its file may be deleted.
    RemoveTable {
        /// Number of the family.
        family: u32,
        /// Number of the table.
        number: u64,
    },
    /// A value-log file belongs to the family.
    AddValueLog {
        /// Number of the family.
        family: u32,
        /// The file.
        file: ValueLogRecord,
    },
    /// A value-log file no longer belongs to the family; it may be deleted.
    RemoveValueLog {
        /// Number of the family.
        family: u32,
        /// Number of the file.
        number: u64,
    },
    /// Every commit of the family up to this sequence number is in tables.
    FlushedThrough {
        /// Number of the family.
        family: u32,
        /// The sequence number.
        sequence: u64,
    },
    /// A range of the family's keys was deleted; what is older is still in tables.
    AddRangeTombstone {
        /// Number of the family.
        family: u32,
        /// The deletion.
        tombstone: Arc<RangeTombstone>,
    },
    /// No table holds anything that the tombstone hides and that others do not hide as well.
    RemoveRangeTombstone {
        /// Number of the family.
        family: u32,
        /// The deletion.
        tombstone: Arc<RangeTombstone>,
    },
    /// Recovery starts reading the log in this segment; older ones are dead.
    LogStart {
        /// Number of the segment.
        segment: u64,
    },
    /// File numbers below this one may be in use.
    NextFile {
        /// The next free file number.
        number: u64,
    },
    /// Family numbers below this one were used.
    NextFamily {
        /// The next free family number.
        family: u32,
    },
    /// Sequence numbers up to this one may be in tables.
    LastSequence {
        /// The sequence number.
        sequence: u64,
    },
}

/// A set of changes that take effect together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// The changes, applied in order.
    pub changes: Vec<Change>,
}

const TAG_CREATE_FAMILY: u64 = 1;
const TAG_DROP_FAMILY: u64 = 2;
const TAG_SET_OPTIONS: u64 = 3;
/// A table as version 2 wrote it, without its expiry; read, but not written any more.
const TAG_ADD_TABLE_WITHOUT_EXPIRY: u64 = 4;
const TAG_REMOVE_TABLE: u64 = 5;
const TAG_ADD_VALUE_LOG: u64 = 6;
const TAG_REMOVE_VALUE_LOG: u64 = 7;
const TAG_FLUSHED_THROUGH: u64 = 8;
const TAG_LOG_START: u64 = 9;
const TAG_NEXT_FILE: u64 = 10;
const TAG_NEXT_FAMILY: u64 = 11;
const TAG_LAST_SEQUENCE: u64 = 12;
const TAG_ADD_RANGE_TOMBSTONE: u64 = 13;
const TAG_REMOVE_RANGE_TOMBSTONE: u64 = 14;
const TAG_ADD_TABLE: u64 = 15;
const TAG_RENAME_FAMILY: u64 = 16;
const TAG_COPY_FAMILY: u64 = 17;

impl Edit {
    /// An edit of these changes.
    #[must_use]
    pub const fn new(changes: Vec<Change>) -> Self {
        Self { changes }
    }

    /// The stored form.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode_into(&mut out);
        out
    }

    /// Appends the stored form.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        for change in &self.changes {
            change.encode(out);
        }
    }

    /// Appends the stored form of the first of these changes, until `out` has so many bytes. True
    /// when that was all of them.
    pub(super) fn encode_some(
        changes: &mut std::slice::Iter<'_, Change>,
        bytes: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        for change in changes.by_ref() {
            change.encode(out);
            if out.len() >= bytes {
                break;
            }
        }
        changes.len() == 0
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are not a sequence of changes that this version knows.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes);
        let mut changes = Vec::new();
        while !decoder.is_empty() {
            changes.push(Change::decode(&mut decoder)?);
        }
        Ok(Self { changes })
    }
}

impl Change {
    fn encode(&self, out: &mut Vec<u8>) {
        let put = |out: &mut Vec<u8>, numbers: &[u64]| {
            for &number in numbers {
                put_varint(out, number);
            }
        };
        match self {
            Self::CreateFamily { family, name, options } => {
                put(out, &[TAG_CREATE_FAMILY, u64::from(*family)]);
                put_bytes(out, name.as_bytes());
                put_bytes(out, options.as_bytes());
            }
            Self::DropFamily { family } => put(out, &[TAG_DROP_FAMILY, u64::from(*family)]),
            Self::RenameFamily { family, name } => {
                put(out, &[TAG_RENAME_FAMILY, u64::from(*family)]);
                put_bytes(out, name.as_bytes());
            }
            Self::CopyFamily { family, source, name } => {
                put(out, &[TAG_COPY_FAMILY, u64::from(*family), u64::from(*source)]);
                put_bytes(out, name.as_bytes());
            }
            Self::SetOptions { family, options } => {
                put(out, &[TAG_SET_OPTIONS, u64::from(*family)]);
                put_bytes(out, options.as_bytes());
            }
            Self::AddTable { family, table } => {
                put(out, &[TAG_ADD_TABLE, u64::from(*family)]);
                table.encode(out);
            }
            Self::RemoveTable { family, number } => {
                put(out, &[TAG_REMOVE_TABLE, u64::from(*family), *number]);
            }
            Self::AddValueLog { family, file } => {
                put(out, &[TAG_ADD_VALUE_LOG, u64::from(*family), file.number, file.bytes]);
            }
            Self::RemoveValueLog { family, number } => {
                put(out, &[TAG_REMOVE_VALUE_LOG, u64::from(*family), *number]);
            }
            Self::FlushedThrough { family, sequence } => {
                put(out, &[TAG_FLUSHED_THROUGH, u64::from(*family), *sequence]);
            }
            Self::AddRangeTombstone { family, tombstone } => {
                put(out, &[TAG_ADD_RANGE_TOMBSTONE, u64::from(*family)]);
                encode_tombstone(tombstone, out);
            }
            Self::RemoveRangeTombstone { family, tombstone } => {
                put(out, &[TAG_REMOVE_RANGE_TOMBSTONE, u64::from(*family)]);
                encode_tombstone(tombstone, out);
            }
            Self::LogStart { segment } => put(out, &[TAG_LOG_START, *segment]),
            Self::NextFile { number } => put(out, &[TAG_NEXT_FILE, *number]),
            Self::NextFamily { family } => put(out, &[TAG_NEXT_FAMILY, u64::from(*family)]),
            Self::LastSequence { sequence } => put(out, &[TAG_LAST_SEQUENCE, *sequence]),
        }
    }

    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let tag = decoder.varint()?;
        match tag {
            TAG_LOG_START => return Ok(Self::LogStart { segment: decoder.varint()? }),
            TAG_NEXT_FILE => return Ok(Self::NextFile { number: decoder.varint()? }),
            TAG_LAST_SEQUENCE => return Ok(Self::LastSequence { sequence: decoder.varint()? }),
            _ => {}
        }
        let family = u32::try_from(decoder.varint()?).map_err(|_| Malformed)?;
        Ok(match tag {
            TAG_CREATE_FAMILY => Self::CreateFamily {
                family,
                name: decoder.text()?.to_owned(),
                options: decoder.text()?.into(),
            },
            TAG_DROP_FAMILY => Self::DropFamily { family },
            TAG_RENAME_FAMILY => Self::RenameFamily { family, name: decoder.text()?.to_owned() },
            TAG_COPY_FAMILY => Self::CopyFamily {
                family,
                source: u32::try_from(decoder.varint()?).map_err(|_| Malformed)?,
                name: decoder.text()?.to_owned(),
            },
            TAG_SET_OPTIONS => Self::SetOptions { family, options: decoder.text()?.into() },
            TAG_ADD_TABLE_WITHOUT_EXPIRY => Self::AddTable {
                family,
                table: Arc::new(TableRecord::decode_without_expiry(decoder)?),
            },
            TAG_ADD_TABLE => {
                Self::AddTable { family, table: Arc::new(TableRecord::decode(decoder)?) }
            }
            TAG_REMOVE_TABLE => Self::RemoveTable { family, number: decoder.varint()? },
            TAG_ADD_VALUE_LOG => Self::AddValueLog {
                family,
                file: ValueLogRecord { number: decoder.varint()?, bytes: decoder.varint()? },
            },
            TAG_REMOVE_VALUE_LOG => Self::RemoveValueLog { family, number: decoder.varint()? },
            TAG_FLUSHED_THROUGH => Self::FlushedThrough { family, sequence: decoder.varint()? },
            TAG_NEXT_FAMILY => Self::NextFamily { family },
            TAG_ADD_RANGE_TOMBSTONE => {
                Self::AddRangeTombstone { family, tombstone: decode_tombstone(decoder)? }
            }
            TAG_REMOVE_RANGE_TOMBSTONE => {
                Self::RemoveRangeTombstone { family, tombstone: decode_tombstone(decoder)? }
            }
            _ => return Err(Malformed),
        })
    }
}

fn encode_tombstone(tombstone: &RangeTombstone, out: &mut Vec<u8>) {
    put_varint(out, tombstone.sequence);
    put_bytes(out, &tombstone.start);
    put_bytes(out, &tombstone.end);
}

fn decode_tombstone(decoder: &mut Decoder<'_>) -> Result<Arc<RangeTombstone>, Malformed> {
    let sequence = decoder.varint()?;
    let (start, end) = (decoder.bytes()?, decoder.bytes()?);
    if !is_range(start, end) {
        return Err(Malformed);
    }
    Ok(Arc::new(RangeTombstone { start: start.into(), end: end.into(), sequence }))
}

#[cfg(test)]
mod tests;
