//! The handle of a database: its families, copies of it, closing. Opening is in `opening`.

mod close;
mod control;
mod copies;
mod copy_directory;
mod database;
mod families;
mod family;
mod family_changes;
#[cfg(test)]
mod tests;
mod transactions;

pub use self::copies::CopyOptions;
pub use self::database::Db;
pub use crate::opening::Components;
