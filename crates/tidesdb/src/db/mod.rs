//! The handle of a database: its families, copies of it, closing. Opening is in `opening`.

mod close;
mod control;
mod copies;
mod families;
mod family;
mod family_changes;
mod handle;
mod target;
#[cfg(test)]
mod tests;
mod transactions;

pub use self::copies::CopyOptions;
pub use self::handle::Db;
pub use crate::opening::Components;
