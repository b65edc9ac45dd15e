//! The switch of the planted bugs: `scripts/planted-bugs` adds this module to `crates/base` of the
//! copy that it builds, and the patches beside it ask here. One build has all bugs of the engine in
//! it, and each run of it one of them.

use std::sync::OnceLock;

/// Whether this process was started with the bug `name`, which `TIDESDB_PLANTED_BUG` names.
#[must_use]
pub fn is(name: &str) -> bool {
    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var("TIDESDB_PLANTED_BUG").ok()).as_deref() == Some(name)
}
