//! What can be done with a database that does not open, and with single files of one.
//!
//! | function | what |
//! |---|---|
//! | [`salvage()`] | writes a new database of everything that can be read of a damaged one |
//! | [`salvage_with()`] | does so with options |
//! | [`repair()`] | does so, and puts the new one in the place of the old one, which is kept |
//! | [`repair_in_steps()`] | does that in steps that its caller takes part in |
//! | [`finish_repair()`] | ends a repair that was killed where nothing has the old name |
//! | [`find_damage`] | lists everything that is damaged, with or without a manifest |
//! | [`means_damage`] | says whether an error means that there is damage to be listed |
//! | [`inspect()`] | shows what is in a file, part by part, as far as it can be read |
//! | [`restore()`] | makes a verified copy of a backup |
//! | [`formats_of`] | lists the formats of a database's files |
//!
//! Nothing here opens the database that it looks at: the files are read as they lie, each part is
//! believed when its checksum matches, and a place that the disk can't read counts as damaged. The
//! source is never written to. What [`salvage()`] writes it writes through [`crate::Db`], so its
//! result is a database like any other. To read the code, begin with `salvager.rs`.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::cast_possible_truncation))]

mod catalog;
mod damage;
mod destination;
mod family;
mod findings;
mod formats;
mod inspect;
mod lenient;
mod log;
mod merge;
mod names;
mod open_files;
mod place;
mod repair;
mod report;
mod restore;
mod salvager;
mod source;
mod tables;
#[cfg(test)]
mod tests;
mod values;

pub use tidesdb_base::progress::Progress;

pub use self::damage::{DamageReport, find_damage};
pub use self::formats::{FormatReport, FoundFormat, formats_of};
pub use self::inspect::{Field, InspectOptions, Item, inspect};
pub use self::lenient::means_damage;
pub use self::names::finish_repair;
pub use self::repair::{RepairStep, Repaired, repair, repair_in_steps};
pub use self::report::{Loss, SalvageReport, SalvagedFamily};
pub use self::restore::{Restored, restore};
pub use self::salvager::{salvage, salvage_with};
