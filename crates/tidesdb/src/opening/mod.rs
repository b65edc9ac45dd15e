//! Opening a database (`open`), step by step, with what an opening is given (`components`).
//!
//! | step | files |
//! |---|---|
//! | make the directory this opening's, look what is there | `directory`, `inventory`, `foreign` |
//! | begin none where a repair was killed | `killed_repair` |
//! | build the families that the manifest names | `known_families` |
//! | replay the log into them | `replay`, `piece`, `load`, `notes`, `family_load`, `workers` |
//! | decide whether the log may end there | `replayed`, `log_end` |
//! | make that durable; begin manifest and log | `durable`, `beginning` |
//! | replay and write out what memory had no room for | `unreplayed_log`, `retained_log` |
//!
//! What is left over in the directory is in `version/orphans.rs`.
//!
//! Opening changes nothing that a second opening would miss: it may be interrupted anywhere.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::cast_possible_truncation))]

mod beginning;
mod components;
mod directory;
mod durable;
mod family_load;
mod foreign;
mod inventory;
pub(crate) mod killed_repair;
mod known_families;
mod load;
mod log_end;
mod notes;
mod open;
mod piece;
mod replay;
mod replayed;
mod retained_log;
#[cfg(test)]
mod tests;
mod unreplayed_log;
mod workers;

pub use self::components::Components;
pub(crate) use self::directory::{locked_before, sync_parent};
pub(crate) use self::open::{memory_budget, open_core, open_in};
