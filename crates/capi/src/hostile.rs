//! Hands bytes to each reader of files of the interface: what `fuzz/` and the test of hostile bytes
//! call.
//!
//! A reader may refuse whatever it is given, and must not panic, hang, or take memory out of
//! proportion.

use crate::ini;
use crate::object_store;

/// A reader of bytes from outside.
pub type Reader = fn(&[u8]);

/// All readers, each with the name of its fuzz target.
pub const READERS: &[(&str, Reader)] = &[("c_ini", ini), ("object_records", object_records)];

/// The options of some sections of a file. What is read is written so that it is read as the same.
fn ini(bytes: &[u8]) {
    for section in [&b""[..], b"orders", b"\xff [a]", bytes.get(1..9).unwrap_or_default()] {
        let Ok(config) = ini::from_ini(bytes, section) else { continue };
        // A section may have a name that can't be written.
        let Ok(written) = ini::to_ini(section, &config) else { continue };
        let again = ini::from_ini(&written, section).ok().map(|again| ini::lines(&again));
        let lines = ini::lines(&config);
        assert!(again.as_ref() == Some(&lines), "{lines} became {again:?}");
    }
}

/// Tags and epochs of an object. What is read is written so that it is read as the same.
fn object_records(bytes: &[u8]) {
    object_store::read_hostile_records(&String::from_utf8_lossy(bytes));
}
