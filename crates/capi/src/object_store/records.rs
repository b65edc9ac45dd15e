//! Entity tags and epochs of objects.
//!
//! They lie in a small file under the object's key, each with the identity of the file that it
//! belongs to, which a rename leaves as it is. A put records those of the new object while the old
//! one is still there, and its own stay beside them: whichever of both a crash leaves, or a reader
//! meets, has its own tag. An object that came by other means has none.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;

/// What a file is known by for as long as nothing is written to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity(String);

impl Identity {
    pub(super) fn of(file: &Metadata) -> Self {
        let (seconds, nanoseconds) = (file.mtime(), file.mtime_nsec());
        Self(format!("{:x}-{seconds:x}.{nanoseconds:x}-{:x}", file.ino(), file.size()))
    }
}

/// Tag and epoch of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub of: Identity,
    pub tag: String,
    pub epoch: u64,
}

/// The records in a file; what is no record is passed over.
pub(super) fn parse(text: &str) -> Vec<Record> {
    let record = |line: &str| {
        let mut parts = line.split(' ');
        let (of, tag, epoch) = (parts.next()?, parts.next()?, parts.next()?);
        let (of, epoch) = (Identity(of.to_owned()), epoch.parse().ok()?);
        Some(Record { of, tag: tag.to_owned(), epoch })
    };
    text.lines().filter_map(record).collect()
}

/// The text of a file with these records.
pub(super) fn text(records: &[Record]) -> String {
    let line = |record: &Record| format!("{} {} {}\n", record.of.0, record.tag, record.epoch);
    records.iter().map(line).collect()
}

/// Reads what may be no records at all; see [`crate::hostile`].
#[cfg(feature = "testing")]
pub fn read_hostile(text: &str) {
    let records = parse(text);
    let written = self::text(&records);
    assert!(parse(&written) == records, "{text:?} became {written:?}");
}

/// `None` where nothing is, or a folder on the way there is a file.
pub(super) fn if_there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(e) => Err(e),
    }
}
