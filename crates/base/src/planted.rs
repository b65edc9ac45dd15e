//! Bugs that tests of the tests choose: compiled under `--cfg planted_bugs` alone, never shipped.
//!
//! Each bug is a `cfg!(planted_bug = "name")` in the line that it breaks. A crate with such lines
//! begins with a `cfg!` of its own, which asks here, so that one build has all the bugs and each
//! run of it one of them.

use std::sync::OnceLock;

/// Whether this process was started with the bug `name`, which `TIDESDB_PLANTED_BUG` names.
#[must_use]
pub fn is(name: &str) -> bool {
    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var("TIDESDB_PLANTED_BUG").ok()).as_deref() == Some(name)
}
