//! TidesDB: an embeddable, transactional, ordered key-value store on a log-structured merge tree.
//!
//! ```
//! # let directory = tempfile::tempdir()?;
//! use tidesdb::{Db, DbOptions, FamilyOptions, ScanOptions};
//!
//! let db = Db::open(directory.path(), DbOptions::default())?;
//! let fruit = db.open_family("fruit", FamilyOptions::default())?;
//! fruit.put(b"apple", b"red")?;
//! fruit.put(b"banana", b"yellow")?;
//! assert_eq!(fruit.get(b"apple")?, Some(b"red".to_vec()));
//! for entry in fruit.scan(ScanOptions::new())?.entries() {
//!     let (key, value) = entry?;
//!     println!("{} is {}", String::from_utf8_lossy(&key), String::from_utf8_lossy(&value));
//! }
//! db.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

#[cfg(doctest)]
mod guide;
pub mod options_file;

pub use tidesdb_engine::*;

/// What can be done with a database that does not open, and with single files of one: salvage,
/// repair, inspection, restoring a backup.
pub mod rescue {
    pub use tidesdb_rescue::*;
}
