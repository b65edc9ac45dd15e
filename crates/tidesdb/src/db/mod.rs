//! The handle of a database: its families, copies of it, closing. Opening is in `opening`.
//!
//! | file | what |
//! |---|---|
//! | `database` | `Db`, by subject: families, maintenance, copies, statistics |
//! | `family` | what `Family` does: one key, many keys, the whole family |
//! | `families`, `family_changes` | families are created, dropped, renamed and copied |
//! | `transactions` | transactions that are tried again |
//! | `copies`, `copy_directory` | checkpoints and backups |
//! | `control`, `close` | background work is steered, and everything ends |

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
