//! Statistics of a database.

use super::Db;
use crate::stats::{CacheStats, DbStats, LatencyStats, prometheus_page};
use crate::transaction::TransactionStats;

impl Db {
    /// Statistics of the block cache alone, which cost next to nothing.
    #[must_use]
    pub fn cache_stats(&self) -> CacheStats {
        CacheStats::of(&self.core().storage.files.blocks)
    }

    /// How long operations took since the open or the last [`Db::reset_latencies`].
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// use tidesdb::{Db, DbOptions, FamilyOptions, TimedOperation};
    /// let options = DbOptions::default().latency_sampling(1);
    /// let db = Db::open(directory.path(), options)?;
    /// let family = db.create_family("default", FamilyOptions::default())?;
    /// family.put(b"key", b"value")?;
    /// let latencies = db.latencies();
    /// let commits = latencies.of_operation(TimedOperation::Commit);
    /// assert_eq!(commits.count(), 1);
    /// println!("half of all commits take at most {} ns", commits.percentile(50.0));
    /// println!("{latencies}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn latencies(&self) -> LatencyStats {
        LatencyStats::of(self.core())
    }

    /// All metrics in the text format of Prometheus (version 0.0.4, `text/plain; version=0.0.4`),
    /// for an application to serve. Statistics of each family carry its name, so the page grows
    /// with the number of families.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// use tidesdb::{Db, DbOptions, FamilyOptions};
    /// let db = Db::open(directory.path(), DbOptions::default())?;
    /// db.create_family("orders", FamilyOptions::default())?.put(b"key", b"value")?;
    /// let page = db.metrics_prometheus();
    /// assert!(page.contains("tidesdb_operations_written_total{family=\"orders\"} 1\n"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn metrics_prometheus(&self) -> String {
        prometheus_page(self.core())
    }

    /// Has [`Db::latencies`] begin anew. Counters stay.
    pub fn reset_latencies(&self) {
        self.core().reset_latencies();
    }

    /// Statistics of the whole database, which a person reads with [`std::fmt::Display`].
    #[must_use]
    pub fn stats(&self) -> DbStats {
        DbStats::of(self.core())
    }

    /// Statistics of the transactions.
    #[must_use]
    pub fn transaction_stats(&self) -> TransactionStats {
        TransactionStats::of(self.core())
    }
}
