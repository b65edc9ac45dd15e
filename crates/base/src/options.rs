//! Settings of a database and of a column family: plain data with documented defaults, one
//! `validate` that reports every problem at once, and a text form that is stored with the data.

use crate::error::{Error, Result};

mod database;
mod database_text;
mod family;
mod setters;
mod text;

pub use database::{DbOptions, RuntimeOptions};
pub use family::FamilyOptions;

/// When a commit's log record is forced to disk.
///
/// In every mode an acknowledged commit survives the death of the process, because the log is
/// memory shared with the kernel. The modes differ in what a power cut may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncMode {
    /// The kernel decides when; a power cut may take the most recent commits.
    #[default]
    None,
    /// A background sync at most every `interval_us` microseconds; a power cut takes at most what
    /// was committed since the last one.
    Interval {
        /// Microseconds between syncs; at least 1.
        interval_us: u64,
    },
    /// A commit returns after its record is on disk; commits that wait together share one sync.
    Full,
}

fn refuse(problems: Vec<String>) -> Result<()> {
    if problems.is_empty() { Ok(()) } else { Err(Error::InvalidOptions(problems)) }
}
