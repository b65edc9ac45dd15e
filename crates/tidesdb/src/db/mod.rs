//! The handle of a database, and its life: opening, families, closing.

mod beginning;
mod close;
mod components;
mod control;
mod copies;
mod directory;
mod families;
mod family;
mod family_changes;
mod handle;
mod known_families;
mod open;
mod retained_log;
mod target;
#[cfg(test)]
mod tests;
mod transactions;
mod unreplayed_log;

pub use self::components::Components;
pub use self::copies::CopyOptions;
pub use self::handle::Db;
