//! Opening a database, step by step: what is there (`inventory`, `foreign`), what the log adds
//! (`replay`, with `piece`, `load`, `family_load` and `workers`), whether it may end there
//! (`log_end`), making that durable (`durable`), what is left over (`orphans`, `torn_manifest`).
//!
//! Opening changes nothing that a second opening would miss: it may be interrupted anywhere.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::cast_possible_truncation))]

mod durable;
mod family_load;
mod foreign;
mod inventory;
mod load;
mod log_end;
mod orphans;
mod piece;
mod replay;
#[cfg(test)]
mod tests;
mod torn_manifest;
mod workers;

pub(crate) use self::durable::{Recovered, Synced};
pub(crate) use self::inventory::{Inventory, take_inventory};
pub(crate) use self::log_end::LeftOut;
pub(crate) use self::orphans::{Orphans, has_orphans, remove_interrupted_creation};
pub(crate) use self::piece::{Target, Targets};
pub(crate) use self::replay::{NO_LOG, Replayed, replay_log, replay_rest};
pub(crate) use self::torn_manifest::TornManifest;
pub(crate) use self::workers::Workers;
