//! What the tests of transactions share.

use std::time::{SystemTime, UNIX_EPOCH};

use tidesdb::{Db, DbOptions, Error, ErrorKind, Family, FamilyOptions};
use tidesdb_sim::rng::SplitMix64;

pub(crate) const LEVELS: [tidesdb::IsolationLevel; 5] = [
    tidesdb::IsolationLevel::ReadUncommitted,
    tidesdb::IsolationLevel::ReadCommitted,
    tidesdb::IsolationLevel::RepeatableRead,
    tidesdb::IsolationLevel::Snapshot,
    tidesdb::IsolationLevel::Serializable,
];

pub(crate) fn small() -> FamilyOptions {
    FamilyOptions::default()
        .write_buffer_size(32 << 10)
        .block_size(512)
        .target_table_bytes(16 << 10)
        .klog_value_threshold(300)
        .min_disk_space(0)
}

pub(crate) fn options() -> DbOptions {
    DbOptions::default().log_segment_bytes(64 << 10)
}

pub(crate) struct Place {
    pub db: Db,
    pub family: Family,
    pub directory: tempfile::TempDir,
}

pub(crate) fn place() -> Place {
    let directory = tempfile::tempdir().expect("a directory");
    let db = Db::open(directory.path(), options()).expect("open");
    let family = db.create_family("default", small()).expect("family");
    Place { db, family, directory }
}

pub(crate) fn is_conflict<T: std::fmt::Debug>(result: Result<T, Error>) -> bool {
    match result {
        Ok(_) => false,
        Err(e) => {
            assert_eq!(e.kind(), ErrorKind::Conflict, "{e}");
            true
        }
    }
}

/// A reproducible stream of numbers.
pub(crate) struct Numbers(SplitMix64);

impl Numbers {
    /// Seeded by `TIDESDB_SEED` or the clock, and printed.
    pub(crate) fn seeded() -> Self {
        let given = std::env::var("TIDESDB_SEED").ok().and_then(|text| text.parse().ok());
        let seed = given.unwrap_or_else(|| {
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64 >> 8)
        });
        println!("TIDESDB_SEED={seed}");
        Self(SplitMix64::new(seed))
    }

    pub(crate) const fn from(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.below(end)
    }
}
