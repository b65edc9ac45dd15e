//! Opening a database, step by step: what is there (`inventory`), what the log adds (`replay`),
//! what is left over (`orphans`).
//!
//! Opening changes nothing that a second opening would miss: it may be interrupted anywhere.

mod inventory;
mod orphans;
mod replay;
#[cfg(test)]
mod tests;

pub(crate) use self::inventory::{Inventory, take_inventory};
pub(crate) use self::orphans::{Leftovers, remove_interrupted_creation, tidy};
pub(crate) use self::replay::{NO_LOG, Replayed, make_durable, replay_log};
