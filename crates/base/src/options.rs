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

/// How the filter of a table is made, which spares gets the tables that do not hold their key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FilterKind {
    /// Bloom filter, about 10.2 bits for each key at a rate of 1 %; built and asked fastest.
    #[default]
    Bloom,
    /// Ribbon filter, about 7.1 bits for each key at a rate of 1 %: takes less memory, and several
    /// times as long to build and to ask. Tables of few keys get a Bloom filter, which is smaller
    /// there.
    Ribbon,
}

impl FilterKind {
    /// Name in the text form of options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bloom => "bloom",
            Self::Ribbon => "ribbon",
        }
    }

    /// The kind of this [`FilterKind::name`].
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Bloom, Self::Ribbon].into_iter().find(|kind| kind.name() == name)
    }
}

fn refuse(problems: Vec<String>) -> Result<()> {
    if problems.is_empty() { Ok(()) } else { Err(Error::InvalidOptions(problems)) }
}
