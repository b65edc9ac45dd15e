//! Our own engine behind the engine trait: one column family of crate `tidesdb`.
//!
//! A single operation uses the family directly, more go through a write batch that the session
//! reuses. Gets lend the value without a copy; a read-only session keeps one scan and re-seeks it,
//! a read-write session refreshes it first so that it sees the latest commit.
//!
//! Parity: one flush thread and the rest of the background threads for merges, as many waiting
//! memtables as RocksDB gets, a filter with the same bits per key.

use bench_compare::EngineInfo;
use bench_compare::engine::{
    self, Capabilities, Commit, Direction, Engine, EngineError, EngineOptions, EngineStats, Op,
    Result, RowVisitor, ScanRequest, Session, SessionMode, ValueVisitor,
};
use tidesdb::{
    Compression, Db, DbOptions, ErrorKind, Family, FamilyOptions, IsolationLevel, Scan,
    ScanOptions, SyncMode, Transaction, WriteBatch,
};

/// Name on the command line.
pub(crate) const NAME: &str = "tidesdb";

/// Entry of the catalogue.
pub(crate) fn info() -> EngineInfo {
    EngineInfo {
        name: NAME,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        available: Ok(()),
        unequal: "statically linked with the benchmark and its allocator (mimalloc)".to_owned(),
    }
}

/// Values from this size on live in value logs unless a test says otherwise: the engine's default.
const DEFAULT_SEPARATION: u64 = 512;

fn failed(call: &str) -> impl FnOnce(tidesdb::Error) -> EngineError + '_ {
    move |error| EngineError::from_call(call, error)
}

struct Ours {
    database: Db,
    family: Family,
    family_options: FamilyOptions,
}

/// Name of a numbered family; 0 is the one that every database has.
fn family_name(number: u32) -> String {
    if number == 0 { "default".to_owned() } else { format!("f{number}") }
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Opens or creates a database.
pub(crate) fn open(options: &EngineOptions) -> Result<Box<dyn Engine>> {
    let sync_mode = match options.sync {
        engine::SyncMode::None => SyncMode::None,
        engine::SyncMode::Full => SyncMode::Full,
        engine::SyncMode::Interval(period) => SyncMode::Interval {
            interval_us: period.as_micros().try_into().map_err(|_| too_long())?,
        },
    };
    let threads = options.background_threads as usize;
    let database_options = DbOptions::default()
        .block_cache_bytes(size(options.cache_bytes))
        .max_open_files(0)
        .flush_threads(1)
        .compaction_threads(threads.saturating_sub(1).max(1))
        .sync_mode(sync_mode);
    let bits = f64::from(options.bloom_bits);
    let family_options = FamilyOptions::default()
        .write_buffer_size(size(options.memtable_bytes))
        .compression(match options.compression {
            engine::Compression::None => Compression::None,
            engine::Compression::Lz4 => Compression::Lz4,
            engine::Compression::Zstd => Compression::Zstd,
            engine::Compression::Snappy => Compression::Snappy,
        })
        .block_size(size(options.block_bytes))
        .enable_bloom_filter(options.bloom_bits > 0)
        // The rate that an ideal Bloom filter has at this many bits per key.
        .bloom_fpr((-bits * std::f64::consts::LN_2.powi(2)).exp().clamp(1e-6, 0.999))
        // A memtable is frozen before it is full, so one waiting and one in the making take what
        // the others take for an active one and a flush.
        .l0_queue_stall_threshold(options.memtable_count.saturating_sub(1).clamp(1, 2) as usize)
        .target_table_bytes(options.memtable_bytes)
        .use_btree(options.tree_tables)
        .klog_value_threshold(size(options.value_separation.unwrap_or(DEFAULT_SEPARATION)));
    let database = Db::open(&options.directory, database_options).map_err(failed("open"))?;
    for number in 1..=options.families {
        let opened = database.open_family(&family_name(number), family_options.clone());
        drop(opened.map_err(failed("open_family"))?);
    }
    let family = database.open_family(&family_name(0), family_options.clone());
    let family = family.map_err(failed("open_family"))?;
    Ok(Box::new(Ours { database, family, family_options }))
}

fn too_long() -> EngineError {
    EngineError::new("the sync interval is too long")
}

impl Engine for Ours {
    fn session<'a>(&'a self, mode: SessionMode) -> Result<Box<dyn Session + 'a>> {
        Ok(Box::new(OurSession {
            engine: self,
            family: self.family.clone(),
            families: Vec::new(),
            batch: WriteBatch::new(),
            scan: None,
            transaction: None,
            mode,
        }))
    }

    fn flush(&self) -> Result<()> {
        self.database.flush().map_err(failed("flush"))
    }

    fn compact(&self) -> Result<()> {
        self.database.compact().map_err(failed("compact"))
    }

    fn create_family(&self, number: u32) -> Result<()> {
        let name = family_name(number);
        let made = self.database.create_family(&name, self.family_options.clone());
        made.map(drop).map_err(failed("create_family"))
    }

    fn drop_family(&self, number: u32) -> Result<()> {
        self.database.drop_family(&family_name(number)).map_err(failed("drop_family"))
    }

    fn settle(&self) -> Result<()> {
        self.database.flush().map_err(failed("flush"))?;
        self.database.wait_idle().map_err(failed("wait_idle"))
    }

    fn sync_now(&self) -> Result<()> {
        self.database.sync_log().map_err(failed("sync_log"))
    }

    fn stats(&self) -> Result<EngineStats> {
        let stats = self.database.stats();
        Ok(EngineStats {
            log_bytes: Some(stats.work.log_bytes_written),
            flush_bytes: Some(stats.work.flush_bytes_written),
            compaction_bytes: Some(stats.work.compaction_bytes_written),
            log_syncs: Some(stats.log_syncs),
            resolution_bytes: 1,
            sorted_runs: Some(self.family.stats().levels.iter().map(|level| level.runs).sum()),
            cache: Some((stats.cache.hits, stats.cache.misses)),
        })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            native_interval_sync: true,
            expiry: true,
            transactions: true,
            families: true,
            compact: true,
            range_delete: true,
            tree_tables: true,
            ..Capabilities::PLAIN
        }
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Ours { database, family, .. } = *self;
        drop(family);
        database.close().map_err(failed("close"))
    }
}

struct OurSession<'a> {
    engine: &'a Ours,
    /// The family in use.
    family: Family,
    /// Families that were used before, by number.
    families: Vec<Option<Family>>,
    batch: WriteBatch,
    scan: Option<Scan>,
    /// The transaction of the user, kept to be used again.
    transaction: Option<Transaction>,
    mode: SessionMode,
}

fn no_transaction() -> EngineError {
    EngineError::new("no transaction was begun")
}

impl OurSession<'_> {
    fn transaction(&mut self) -> Result<&mut Transaction> {
        self.transaction.as_mut().ok_or_else(no_transaction)
    }

    fn positioned(&mut self, request: ScanRequest<'_>) -> Result<&mut Scan> {
        let scan = match self.scan.take() {
            Some(mut scan) => {
                if self.mode == SessionMode::ReadWrite {
                    scan.refresh().map_err(failed("refresh"))?;
                }
                scan
            }
            None => self.family.scan(ScanOptions::new()).map_err(failed("scan"))?,
        };
        let scan = self.scan.insert(scan);
        match (request.start, request.direction) {
            (Some(key), Direction::Forward) => scan.seek(key),
            (Some(key), Direction::Reverse) => scan.seek_for_prev(key),
            (None, Direction::Forward) => scan.seek_to_first(),
            (None, Direction::Reverse) => scan.seek_to_last(),
        }
        .map_err(failed("seek"))?;
        Ok(scan)
    }
}

impl Session for OurSession<'_> {
    fn write_batch(&mut self, ops: &[Op<'_>]) -> Result<()> {
        let family = &self.family;
        if let [op] = ops {
            return match *op {
                Op::Put { key, value } => family.put(key, value),
                Op::Delete { key } => family.delete(key),
                Op::PutExpiring { key, value, at } => family.put_expiring_at(key, value, at),
                Op::DeleteRange { start, end } => family.delete_range(start, end),
            }
            .map_err(failed("write"));
        }
        self.batch.clear();
        for op in ops {
            match *op {
                Op::Put { key, value } => self.batch.put(family, key, value),
                Op::Delete { key } => self.batch.delete(family, key),
                Op::PutExpiring { key, value, at } => {
                    self.batch.put_expiring_at(family, key, value, at)
                }
                Op::DeleteRange { start, end } => self.batch.delete_range(family, start, end),
            }
            .map_err(failed("batch"))?;
        }
        self.engine.database.write(&self.batch).map_err(failed("write"))
    }

    fn get(&mut self, key: &[u8], found: ValueVisitor<'_>) -> Result<bool> {
        let read = self.family.get_with(key, |value| found(value));
        Ok(read.map_err(failed("get"))?.is_some())
    }

    fn use_family(&mut self, number: u32) -> Result<()> {
        let index = number as usize;
        if index >= self.families.len() {
            self.families.resize_with(index + 1, || None);
        }
        let family = match &self.families[index] {
            Some(family) => family.clone(),
            None => {
                let name = family_name(number);
                let family = self.engine.database.family(&name).map_err(failed("family"))?;
                self.families[index] = Some(family.clone());
                family
            }
        };
        self.family = family;
        self.scan = None;
        Ok(())
    }

    fn begin(&mut self, isolation: engine::Isolation) -> Result<()> {
        let level = match isolation {
            engine::Isolation::ReadUncommitted => IsolationLevel::ReadUncommitted,
            engine::Isolation::ReadCommitted => IsolationLevel::ReadCommitted,
            engine::Isolation::RepeatableRead => IsolationLevel::RepeatableRead,
            engine::Isolation::Snapshot => IsolationLevel::Snapshot,
            engine::Isolation::Serializable => IsolationLevel::Serializable,
        };
        if let Some(used) = &mut self.transaction {
            return used.reset(level).map_err(failed("reset"));
        }
        self.transaction = Some(self.engine.database.begin(level).map_err(failed("begin"))?);
        Ok(())
    }

    fn get_in_transaction(&mut self, key: &[u8], found: ValueVisitor<'_>) -> Result<bool> {
        let transaction = self.transaction.as_ref().ok_or_else(no_transaction)?;
        let read = transaction.get_with(&self.family, key, |value| found(value));
        Ok(read.map_err(failed("get"))?.is_some())
    }

    fn put_in_transaction(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let transaction = self.transaction.as_mut().ok_or_else(no_transaction)?;
        transaction.put(&self.family, key, value).map_err(failed("put"))
    }

    fn commit(&mut self) -> Result<Commit> {
        let transaction = self.transaction()?;
        match transaction.commit() {
            Ok(_) => Ok(Commit::Done),
            Err(error) if error.kind() == ErrorKind::Conflict => {
                transaction.rollback().map_err(failed("rollback"))?;
                Ok(Commit::Conflict)
            }
            Err(error) => Err(failed("commit")(error)),
        }
    }

    fn rollback(&mut self) -> Result<()> {
        self.transaction()?.rollback().map_err(failed("rollback"))
    }

    fn scan(&mut self, request: ScanRequest<'_>, visit: RowVisitor<'_>) -> Result<()> {
        let scan = self.positioned(request)?;
        while scan.valid() {
            let value = scan.value().map_err(failed("value"))?;
            if !visit(scan.key(), value) {
                break;
            }
            match request.direction {
                Direction::Forward => scan.next(),
                Direction::Reverse => scan.prev(),
            }
            .map_err(failed("next"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The setting was dropped on the way, and `suite btree` skipped its rows for this engine.
    #[test]
    fn tables_are_trees_where_a_test_asks_for_them() {
        for tree_tables in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let parity = EngineOptions::parity(directory.path().to_path_buf());
            let engine = open(&EngineOptions { tree_tables, families: 1, ..parity }).unwrap();
            assert!(engine.capabilities().tree_tables);
            engine.close().unwrap();
            let database = Db::open(directory.path(), DbOptions::default()).unwrap();
            for number in 0..2 {
                let family = database.family(&family_name(number)).unwrap();
                assert_eq!(family.options().use_btree, tree_tables);
            }
            database.close().unwrap();
        }
    }
}
