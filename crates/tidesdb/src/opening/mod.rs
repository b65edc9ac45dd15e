//! Opening a database (`open`), step by step, with what an opening is given (`components`).
//!
//! | step | files |
//! |---|---|
//! | make the directory this opening's, look what is there | `directory`, `inventory`, `foreign_files` |
//! | begin none where a repair was killed | `killed_repair` |
//! | build the families that the manifest names | `manifest_families` |
//! | read the log, chunk by chunk | `replay`, `log_chunk`, `workers` |
//! | make memtables of it | `replayed_families`, `log_to_memtables`, `decoded_versions`, `build_memtable` |
//! | decide whether the log may end there | `replay_result`, `log_end` |
//! | sync what was recovered; start manifest and log | `sync_recovered`, `manifest_and_log_start` |
//! | replay and flush what memory had no room for | `unreplayed_log` |
//! | flush at once when old segments pile up | `leftover_segments` |
//!
//! What is left over in the directory is in `version/orphans.rs`.
//!
//! Opening changes nothing that a second opening would miss: it may be interrupted anywhere.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::cast_possible_truncation))]

mod build_memtable;
mod components;
mod decoded_versions;
mod directory;
mod foreign_files;
mod inventory;
pub(crate) mod killed_repair;
mod leftover_segments;
mod log_chunk;
mod log_end;
mod log_to_memtables;
mod manifest_and_log_start;
mod manifest_families;
mod open;
mod replay;
mod replay_result;
mod replayed_families;
mod sync_recovered;
#[cfg(test)]
mod tests;
mod unreplayed_log;
mod workers;

pub use self::components::Components;
pub(crate) use self::directory::{locked_before, sync_parent};
pub(crate) use self::open::{memory_budget, open_core, open_in};
