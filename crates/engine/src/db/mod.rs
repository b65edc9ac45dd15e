//! The handle of a database, and its life: opening, families, closing.

mod close;
mod control;
mod families;
mod handle;
mod open;

pub use self::handle::Db;
pub use self::open::Components;
