//! fjall behind the engine trait: an LSM engine in Rust, one keyspace with parity settings.
//!
//! A single operation uses the keyspace directly, more go through fjall's write batch. Its
//! iterators cannot be re-positioned, so each scan opens one. Settling rotates the memtable and
//! waits until fjall reports neither flushes nor compactions.

use crate::engine::{
    Capabilities, Compression, Direction, Engine, EngineError, EngineOptions, EngineStats, Op,
    Result, RowVisitor, ScanRequest, Session, SessionMode, SyncMode, ValueVisitor,
    wait_until_quiet,
};
use ::fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
};
use ::fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::ops::Bound;

/// An opened fjall database with one keyspace.
pub struct Fjall {
    database: Database,
    keyspace: Keyspace,
    synced: bool,
}

fn failed(call: &str) -> impl FnOnce(::fjall::Error) -> EngineError + '_ {
    move |error| EngineError::from_call(call, error)
}

impl Fjall {
    /// Opens or creates the database.
    pub fn open(options: &EngineOptions) -> Result<Self> {
        let memtables = options.memtable_bytes.saturating_mul(u64::from(options.memtable_count));
        let database = Database::builder(&options.directory)
            .cache_size(options.cache_bytes)
            .worker_threads(options.background_threads.max(1) as usize)
            // The log is what limits queued memtables; fjall refuses less than 64 MiB.
            .max_journaling_size(memtables.max(64 << 20))
            .open()
            .map_err(failed("fjall open"))?;
        let codec = match options.compression {
            Compression::None => CompressionType::None,
            Compression::Lz4 => CompressionType::Lz4,
            other => {
                return Err(EngineError::new(format!("fjall has no codec for {other:?}")));
            }
        };
        let filter = if options.bloom_bits == 0 {
            FilterPolicy::disabled()
        } else {
            let bits = BloomConstructionPolicy::BitsPerKey(options.bloom_bits as f32);
            FilterPolicy::all(FilterPolicyEntry::Bloom(bits))
        };
        let block = u32::try_from(options.block_bytes).unwrap_or(4096);
        let keyspace = database
            .keyspace("default", || {
                KeyspaceCreateOptions::default()
                    .max_memtable_size(options.memtable_bytes)
                    .data_block_size_policy(BlockSizePolicy::all(block))
                    .data_block_compression_policy(CompressionPolicy::all(codec))
                    .filter_policy(filter)
            })
            .map_err(failed("fjall keyspace"))?;
        Ok(Self { database, keyspace, synced: options.sync == SyncMode::Full })
    }
}

impl Engine for Fjall {
    fn session<'a>(&'a self, _mode: SessionMode) -> Result<Box<dyn Session + 'a>> {
        Ok(Box::new(FjallSession { engine: self }))
    }

    fn settle(&self) -> Result<()> {
        self.keyspace.rotate_memtable_and_wait().map_err(failed("fjall rotate_memtable"))?;
        wait_until_quiet(|| {
            Ok(self.database.outstanding_flushes() > 0
                || self.database.active_compactions() > 0
                || self.keyspace.sealed_memtable_count() > 0)
        })
    }

    fn sync_now(&self) -> Result<()> {
        self.database.persist(PersistMode::SyncData).map_err(failed("fjall persist"))
    }

    fn stats(&self) -> Result<EngineStats> {
        Ok(EngineStats::default())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::PLAIN
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.database.persist(PersistMode::Buffer).map_err(failed("fjall persist"))
    }
}

struct FjallSession<'a> {
    engine: &'a Fjall,
}

impl Session for FjallSession<'_> {
    fn write_batch(&mut self, ops: &[Op<'_>]) -> Result<()> {
        let keyspace = &self.engine.keyspace;
        if let ([op], false) = (ops, self.engine.synced) {
            return match *op {
                Op::Put { key, value } => keyspace.insert(key, value),
                Op::Delete { key } => keyspace.remove(key),
                Op::PutExpiring { .. } | Op::DeleteRange { .. } => {
                    return Err(EngineError::unsupported("this operation"));
                }
            }
            .map_err(failed("fjall write"));
        }
        let mode = if self.engine.synced { PersistMode::SyncData } else { PersistMode::Buffer };
        // Without a mode a batch stays in a buffer of the process, and dies with it.
        let mut batch = self.engine.database.batch().durability(Some(mode));
        for op in ops {
            match *op {
                Op::Put { key, value } => batch.insert(keyspace, key, value),
                Op::Delete { key } => batch.remove(keyspace, key),
                Op::PutExpiring { .. } | Op::DeleteRange { .. } => {
                    return Err(EngineError::unsupported("this operation"));
                }
            }
        }
        batch.commit().map_err(failed("fjall commit"))
    }

    fn get(&mut self, key: &[u8], found: ValueVisitor<'_>) -> Result<bool> {
        match self.engine.keyspace.get(key).map_err(failed("fjall get"))? {
            Some(value) => {
                found(&value);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn scan(&mut self, request: ScanRequest<'_>, visit: RowVisitor<'_>) -> Result<()> {
        let start = request.start.map_or(Bound::Unbounded, Bound::Included);
        let keyspace = &self.engine.keyspace;
        match request.direction {
            Direction::Forward => {
                let rows = keyspace.range::<&[u8], _>((start, Bound::Unbounded));
                visit_all(rows, visit)
            }
            Direction::Reverse => {
                let rows = keyspace.range::<&[u8], _>((Bound::Unbounded, start));
                visit_all(rows.rev(), visit)
            }
        }
    }
}

fn visit_all(rows: impl Iterator<Item = ::fjall::Guard>, visit: RowVisitor<'_>) -> Result<()> {
    for row in rows {
        let (key, value) = row.into_inner().map_err(failed("fjall iterator"))?;
        if !visit(&key, &value) {
            break;
        }
    }
    Ok(())
}
