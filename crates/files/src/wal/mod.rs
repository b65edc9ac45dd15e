//! The write-ahead log: one for the whole database, in fixed-size segments.
//!
//! A *log position* is a byte count that only grows; the sequence number of a commit is the
//! position at which its record ends. A segment holds the positions from its `base` on, so the
//! record at position `p` lies at file offset `RECORDS_OFFSET + (p - base)`.
//!
//! Segments are recycled: a new one is full of old, correctly checksummed records. A record's
//! checksum is therefore seeded by the segment's number and the record's position, and a
//! segment is known by its header, never by its file name.
//!
//! Each record also carries how far the log was known to be on disk when it was written (the
//! *sync mark*). Recovery needs it to tell a legal end of the log from damage: a break below a
//! known sync mark is corruption, a break above every known mark is where the log ends.
//!
//! docs/formats/wal.md shows the bytes.

pub mod batch;
pub mod reader;
pub mod record;
pub mod segment;
pub mod surviving_operations;

pub use batch::{BatchReader, BatchWriter, Operation};
pub use reader::{BehindBreak, SegmentEnd, SegmentReader};
pub use record::{RECORD_HEADER_BYTES, RecordKind, RecordView};
pub use segment::{RECORDS_OFFSET, SYNC_MARK_OFFSET, SegmentHeader};
pub use surviving_operations::SurvivingOperations;
