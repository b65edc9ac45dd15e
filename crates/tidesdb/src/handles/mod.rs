//! What users hold of an open database and all of its parts may take: a family, a snapshot. The
//! handle of the database itself is in `db`.

mod family;
mod snapshot;

pub use self::family::Family;
pub use self::snapshot::Snapshot;
