//! The engines by name: ours and the foreign ones, and how a test's settings reach them.

use crate::ours;
use crate::spec::{Codec, JobSpec, Setup, Sync, Workload};
use bench_compare::dropping::Dropping;
use bench_compare::engine::{Compression, Engine, EngineError, EngineOptions, Result, SyncMode};
use bench_compare::{EngineInfo, Libraries};
use std::time::Duration;

/// Ours with dropped writes, for the tests of openings and checkpoints.
const BROKEN: &str = "broken-tidesdb";

/// All engines of this build, ours first.
pub(crate) fn catalogue(setup: &Setup) -> Vec<EngineInfo> {
    let mut engines = Vec::from(ours::infos());
    engines.extend(bench_compare::catalogue(&libraries(setup)));
    engines
}

fn libraries(setup: &Setup) -> Libraries {
    Libraries { rocksdb: setup.rocksdb_library.clone(), tidesdb: setup.tidesdb_library.clone() }
}

/// Refuses a library that the named engine cannot use.
pub(crate) fn check_library(setup: &Setup, name: &str) -> std::result::Result<(), String> {
    bench_compare::check_library(name, &libraries(setup)).map_err(|error| error.to_string())
}

/// Opens the engine of a job in its directory.
pub(crate) fn open(spec: &JobSpec) -> Result<Box<dyn Engine>> {
    let options = options(spec);
    if !options.extra.is_empty() && !spec.engine.starts_with("rocksdb") {
        // Ignoring them would report numbers of settings that were never made.
        return Err(EngineError::unsupported("passing settings on (--engine-opt)"));
    }
    match spec.engine.as_str() {
        ours::NAME => ours::open(&options, false),
        ours::TRANSACTIONS => ours::open(&options, true),
        BROKEN => Ok(Box::new(Dropping::new(ours::open(&options, false)?))),
        other => bench_compare::open(other, &options),
    }
}

/// Version of the engine that a job has opened.
pub(crate) fn version(spec: &JobSpec) -> String {
    bench_compare::version_of(&spec.engine, &spec.directory).unwrap_or_else(|| {
        let known = catalogue(&spec.setup);
        let engine = known.into_iter().find(|engine| engine.name == spec.engine);
        engine.map(|engine| engine.version).unwrap_or_default()
    })
}

fn options(spec: &JobSpec) -> EngineOptions {
    let (setup, shape) = (&spec.setup, &spec.shape);
    let record_bytes = (shape.key_size + shape.value_size) as u64;
    let records = shape.num.saturating_add(shape.spare);
    let own = |(engine, name, value): &(String, String, String)| {
        (*engine == spec.engine).then(|| (name.clone(), value.clone()))
    };
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
        expected_bytes: records.saturating_mul(record_bytes),
        library: if spec.engine.starts_with("tidesdb") {
            setup.tidesdb_library.clone()
        } else {
            setup.rocksdb_library.clone()
        },
        families: match shape.workload {
            Workload::Families => 0,
            _ => (shape.families - 1) as u32,
        },
        threads: shape.threads as u32,
        value_bytes: shape.value_size as u64,
        value_separation: setup.value_separation,
        tree_tables: setup.tree_tables,
        transactions: shape.transacts(),
        extra: setup.engine_options.iter().filter_map(own).collect(),
    }
}
