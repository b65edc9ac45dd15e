//! Transactions that are tried again when they conflict, and up to which commits readers see.

use std::time::Duration;

use tidesdb_base::error::{ErrorKind, Result};

use super::Db;
use crate::isolation::IsolationLevel;
use crate::transaction::Transaction;
use crate::write::WriteOptions;

/// Attempts before a conflict is the caller's.
const MOST_ATTEMPTS: u32 = 100;

/// The longest time that an attempt waits for is this, doubled with each attempt so many times.
const FIRST_WAIT_MICROS: u64 = 20;
const MOST_DOUBLINGS: u32 = 8;

impl Db {
    /// Everything committed up to this sequence number is visible, and nothing behind it; see
    /// [`crate::Snapshot::sequence`].
    #[must_use]
    #[doc(alias = "latest_sequence_number")]
    pub fn sequence(&self) -> u64 {
        self.core().storage.log.published()
    }

    /// The sequence numbers at which snapshots, transactions and scans read that are not gone yet,
    /// oldest first. A snapshot that is taken later has none below [`Db::sequence`] as it was
    /// before this call.
    #[must_use]
    pub fn live_snapshots(&self) -> Vec<u64> {
        self.core().isolation.snapshots.list()
    }

    /// Runs `work` in a transaction and commits it. When the commit conflicts, everything begins
    /// anew after a short while of random length, so `work` may be called several times and should
    /// have no effect but on the transaction.
    ///
    /// An error of `work` rolls back. Work that rolls back itself and returns no error is done
    /// without a commit, which is how it ends for reasons of its own.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// use tidesdb::{Db, DbOptions, FamilyOptions, IsolationLevel};
    /// let db = Db::open(directory.path(), DbOptions::default())?;
    /// let family = db.open_family("default", FamilyOptions::default())?;
    /// let visits = db.transaction(IsolationLevel::Snapshot, |transaction| {
    ///     let visits = transaction.get(&family, b"visits")?.map_or(0, |value| value[0]) + 1;
    ///     transaction.put(&family, b"visits", &[visits])?;
    ///     Ok(visits)
    /// })?;
    /// assert_eq!(visits, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of `work`, of [`Db::begin`] and of [`Transaction::commit`]; `Conflict` after a hundred
    /// attempts.
    pub fn transaction<T>(
        &self,
        level: IsolationLevel,
        work: impl FnMut(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        self.transaction_with(level, WriteOptions::default(), work)
    }

    /// As [`Db::transaction`], and commits with a durability of its own.
    ///
    /// # Errors
    /// As [`Db::transaction`]; `Invalid` for options with a time to live, without a call of `work`.
    pub fn transaction_with<T>(
        &self,
        level: IsolationLevel,
        options: WriteOptions,
        mut work: impl FnMut(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        let options = options.without_ttl()?;
        let mut transaction = self.begin(level)?;
        let mut attempt = 1;
        loop {
            let done = work(&mut transaction)?;
            if !transaction.is_active() {
                return Ok(done);
            }
            match transaction.commit_with(options) {
                Ok(_) => return Ok(done),
                Err(e) if e.kind() == ErrorKind::Conflict && attempt < MOST_ATTEMPTS => {
                    transaction.rollback()?;
                    self.wait_after(attempt);
                    transaction.reset(level)?;
                    attempt += 1;
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Waits for a time that differs between threads, so that those who met do not meet again.
    fn wait_after(&self, attempt: u32) {
        let clock = &self.core().env.clock;
        let most = FIRST_WAIT_MICROS << attempt.min(MOST_DOUBLINGS);
        // Nanoseconds differ enough, once their low bits are spread.
        let spread = clock.monotonic_nanos().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        clock.sleep(Duration::from_micros(spread % most));
    }
}
