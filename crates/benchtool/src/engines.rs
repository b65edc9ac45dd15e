//! The engines by name: ours and the foreign ones, and how a test's settings reach them.

use crate::ours;
use crate::spec::{Codec, JobSpec, Sync};
use bench_compare::EngineInfo;
use bench_compare::engine::{Compression, Engine, EngineOptions, Result, SyncMode};
use std::path::Path;
use std::time::Duration;

/// All engines of this build, ours first.
pub(crate) fn catalogue(rocksdb_library: Option<&Path>) -> Vec<EngineInfo> {
    let mut engines = vec![ours::info()];
    engines.extend(bench_compare::catalogue(rocksdb_library));
    engines
}

/// Opens the engine of a job in its directory.
pub(crate) fn open(spec: &JobSpec) -> Result<Box<dyn Engine>> {
    let options = options(spec);
    if spec.engine == ours::NAME {
        ours::open(&options)
    } else {
        bench_compare::open(&spec.engine, &options)
    }
}

/// Version of the engine that a job has opened.
pub(crate) fn version(spec: &JobSpec) -> String {
    bench_compare::version_of(&spec.engine, &spec.directory).unwrap_or_else(|| {
        let known = catalogue(spec.setup.rocksdb_library.as_deref());
        let engine = known.into_iter().find(|engine| engine.name == spec.engine);
        engine.map(|engine| engine.version).unwrap_or_default()
    })
}

fn options(spec: &JobSpec) -> EngineOptions {
    let setup = &spec.setup;
    let record_bytes = (spec.shape.key_size + spec.shape.value_size) as u64;
    EngineOptions {
        directory: spec.directory.clone(),
        cache_bytes: setup.cache,
        memtable_bytes: setup.memtable,
        memtable_count: setup.memtable_count,
        block_bytes: setup.block,
        compression: match setup.compression {
            Codec::None => Compression::None,
            Codec::Lz4 => Compression::Lz4,
            Codec::Zstd => Compression::Zstd,
            Codec::Snappy => Compression::Snappy,
        },
        sync: match setup.sync {
            Sync::None => SyncMode::None,
            Sync::Full => SyncMode::Full,
            Sync::Interval => SyncMode::Interval(Duration::from_micros(setup.sync_interval_us)),
        },
        bloom_bits: setup.bloom_bits,
        background_threads: setup.background_threads,
        expected_bytes: spec.shape.num.saturating_mul(record_bytes),
        library: setup.rocksdb_library.clone(),
    }
}
