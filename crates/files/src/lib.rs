//! Bytes on disk: sorted tables, filters, the value log, and the names of all files.
//!
//! It turns keys, versions and values into files and back, through the file
//! trait of `tidesdb_sys::vfs` alone. It knows nothing of databases, levels or snapshots'
//! lifetimes, starts no thread and holds no lock; every reader type is immutable and may be
//! shared, every writer type belongs to one thread at a time.
//!
//! Bytes read from a file are hostile: each read is bounded, each block is checked against a
//! checksum that is seeded with the file's identity and the block's offset, and damage is always
//! `Error::Corruption` naming file and offset, never a missing or wrong answer and never a panic.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::cast_possible_truncation))]
#![cfg_attr(not(test), deny(clippy::host_endian_bytes))]

mod decode_error;
pub mod file_numbers;
pub mod filter;
pub mod formats;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod hostile;
pub mod manifest;
pub mod naming;
mod sink;
pub mod sstable;
pub mod vlog;
pub mod wal;

#[cfg(test)]
mod testing;
