//! Vocabulary shared by every layer of the engine: errors, options, limits, sequence numbers,
//! value kinds, bounded byte codecs, checksums and compression.
//!
//! This is the lowest crate. It does no I/O, starts no thread, holds no lock and contains no
//! `unsafe` code; every other crate of the workspace may import it and it imports none of them.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::cast_possible_truncation))]
#![cfg_attr(not(test), deny(clippy::host_endian_bytes))]

pub mod checksum;
pub mod codec;
pub mod compress;
pub mod entry;
pub mod error;
pub mod event;
pub mod key_order;
pub mod key_ranges;
pub mod latency;
pub mod limits;
pub mod live_sequences;
pub mod liveness;
pub mod options;
pub mod progress;
pub mod range_tombstone;
pub mod thread_buffer;
pub mod user_code;
pub mod utc;

pub use compress::Compression;
pub use entry::{SequenceNumber, ValueKind};
pub use error::{Error, ErrorKind, Result};
