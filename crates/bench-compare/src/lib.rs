//! Adapters that put key-value engines behind one trait, so that a benchmark can drive them alike.
//!
//! [`engine`] defines the trait; each other module is one adapter. RocksDB, and libraries with
//! TidesDB's C interface, are loaded at run time; LMDB, fjall, redb and TidesDB 10 are compiled in
//! behind features of the same names; `null`, `memory` and `dropping` serve the benchmark itself.
//! [`open`] and [`catalogue`] are the two entries the benchmark uses.
//!
//! Adapters state what they cannot match under parity in [`EngineInfo::unequal`].

mod c_functions;
pub mod dropping;
pub mod engine;
#[cfg(feature = "fjall")]
pub mod fjall;
#[cfg(feature = "lmdb")]
pub mod lmdb;
pub mod memory;
pub mod null;
#[cfg(feature = "redb")]
pub mod redb;
pub mod rocksdb;
#[cfg(feature = "tidesdb10")]
pub mod tidesdb10;
pub mod tidesdb_c;

use engine::{Engine, EngineError, EngineOptions, Result};
use memory::{Fault, MemoryEngine};
use std::path::{Path, PathBuf};

/// One engine of the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineInfo {
    /// Name on the command line.
    pub name: &'static str,
    /// Version, as far as it is known before a database is opened.
    pub version: String,
    /// `Err` says why the engine cannot be used.
    pub available: std::result::Result<(), String>,
    /// Where parity is not reached, for the report.
    pub unequal: String,
}

/// Whether a feature of this crate was compiled in, as an availability.
fn compiled(feature: bool) -> std::result::Result<(), String> {
    if feature { Ok(()) } else { Err("not compiled in".to_owned()) }
}

#[cfg(feature = "tidesdb10")]
fn tidesdb10_info() -> EngineInfo {
    tidesdb10::info()
}

#[cfg(not(feature = "tidesdb10"))]
fn tidesdb10_info() -> EngineInfo {
    EngineInfo {
        name: "tidesdb10",
        version: String::new(),
        available: Err("build with --features tidesdb10 (see docs/benchmarks.md)".to_owned()),
        unequal: String::new(),
    }
}

/// Shared libraries named by the user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Libraries {
    /// RocksDB; `None`: look in the usual places.
    pub rocksdb: Option<PathBuf>,
    /// Anything that exports TidesDB's C interface; there are no usual places.
    pub tidesdb: Option<PathBuf>,
}

/// All foreign engines, whether they can be used or not.
pub fn catalogue(libraries: &Libraries) -> Vec<EngineInfo> {
    let rocksdb = rocksdb::find_library(libraries.rocksdb.as_deref());
    let available = rocksdb.as_ref().map(|_| ()).map_err(ToString::to_string);
    let origin = rocksdb.as_ref().map(|path| rocksdb::origin(path)).unwrap_or_default();
    let location = rocksdb.map(|path| path.display().to_string()).unwrap_or_default();
    #[cfg(feature = "lmdb")]
    let lmdb_version = lmdb::version();
    #[cfg(not(feature = "lmdb"))]
    let lmdb_version = String::new();
    let entry = |name, version, available, unequal: &str| EngineInfo {
        name,
        version,
        available,
        unequal: unequal.to_owned(),
    };
    vec![
        entry(
            "rocksdb",
            location.clone(),
            available.clone(),
            &format!("allocates with the C library's malloc{origin}"),
        ),
        entry(
            "rocksdb-tuned",
            location,
            available,
            &format!("parity plus the settings of its guides{origin}"),
        ),
        tidesdb_c::info(libraries.tidesdb.as_deref()),
        entry(
            "lmdb",
            lmdb_version,
            compiled(cfg!(feature = "lmdb")),
            "no log, no block cache, no compression, no checksums, one writer at a time",
        ),
        entry(
            "fjall",
            "3.1".to_owned(),
            compiled(cfg!(feature = "fjall")),
            "opens an iterator per scan; LZ4 by a Rust implementation",
        ),
        entry(
            "redb",
            "4.5".to_owned(),
            compiled(cfg!(feature = "redb")),
            "no log, no compression, one writer at a time; unsynced commits stay in memory",
        ),
        tidesdb10_info(),
        entry("null", "1".to_owned(), Ok(()), "stores nothing: the cost of the benchmark itself"),
    ]
}

/// Refuses a library that cannot be loaded or is none of the named engine, before a benchmark
/// starts.
pub fn check_library(name: &str, libraries: &Libraries) -> Result<()> {
    match name {
        "rocksdb" | "rocksdb-tuned" => {
            rocksdb::check_library(&rocksdb::find_library(libraries.rocksdb.as_deref())?)
        }
        _ => Ok(()),
    }
}

/// Opens a foreign engine by its name.
pub fn open(name: &str, options: &EngineOptions) -> Result<Box<dyn Engine>> {
    match name {
        "rocksdb" => Ok(Box::new(rocksdb::RocksDb::open(options, rocksdb::Profile::Parity)?)),
        "rocksdb-tuned" => Ok(Box::new(rocksdb::RocksDb::open(options, rocksdb::Profile::Tuned)?)),
        tidesdb_c::NAME => Ok(Box::new(tidesdb_c::TidesDbC::open(options)?)),
        #[cfg(feature = "lmdb")]
        "lmdb" => Ok(Box::new(lmdb::Lmdb::open(options)?)),
        #[cfg(feature = "fjall")]
        "fjall" => Ok(Box::new(fjall::Fjall::open(options)?)),
        #[cfg(feature = "redb")]
        "redb" => Ok(Box::new(redb::Redb::open(options)?)),
        #[cfg(feature = "tidesdb10")]
        tidesdb10::NAME => Ok(Box::new(tidesdb10::TidesDb10::open(options)?)),
        "null" => Ok(Box::new(null::NullEngine)),
        "memory" => Ok(Box::new(MemoryEngine::new(Fault::None, options.families))),
        "broken-drops" => Ok(Box::new(MemoryEngine::new(Fault::DropsWrites, options.families))),
        "broken-stale" => Ok(Box::new(MemoryEngine::new(Fault::StaleValues, options.families))),
        "broken-deletes" => {
            Ok(Box::new(MemoryEngine::new(Fault::IgnoresDeletes, options.families)))
        }
        "broken-seek" => Ok(Box::new(MemoryEngine::new(Fault::LateSeek, options.families))),
        "broken-updates" => Ok(Box::new(MemoryEngine::new(Fault::LosesUpdates, options.families))),
        "broken-expiry" => Ok(Box::new(MemoryEngine::new(Fault::NeverExpires, options.families))),
        other => Err(EngineError::new(format!("no engine named {other:?} in this build"))),
    }
}

/// Version of a database that the named engine has opened in `directory`, if it has one.
pub fn version_of(name: &str, directory: &Path) -> Option<String> {
    match name {
        "rocksdb" | "rocksdb-tuned" => rocksdb::RocksDb::version_in(directory),
        _ => None,
    }
}
