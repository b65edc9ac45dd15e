//! The handle of a database, and its life: opening, families, closing.

mod close;
mod control;
mod directory;
mod families;
mod family_changes;
mod handle;
mod open;
#[cfg(test)]
mod tests;
mod transactions;

pub use self::handle::Db;
pub use self::open::Components;
