//! The options of a family, which may be replaced while it is used.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};
use tidesdb_base::options::{FamilyOptions, SyncMode};

/// Options in force. What each commit asks for lies next to them, where it costs a load.
#[derive(Debug)]
pub(crate) struct FamilySettings {
    options: ArcSwap<FamilyOptions>,
    freeze_bytes: AtomicU64,
    /// The most that they may be on this volume.
    most_freeze_bytes: AtomicU64,
    syncs_commits: AtomicBool,
}

// ORDERING: relaxed throughout; settings that take effect soon.
impl FamilySettings {
    pub(super) fn new(options: Arc<FamilyOptions>) -> Self {
        Self {
            freeze_bytes: AtomicU64::new(freeze_bytes(&options)),
            most_freeze_bytes: AtomicU64::new(u64::MAX),
            syncs_commits: AtomicBool::new(options.sync_mode == SyncMode::Full),
            options: ArcSwap::new(options),
        }
    }

    /// All options, for a moment.
    #[inline]
    pub(crate) fn load(&self) -> Guard<Arc<FamilyOptions>> {
        self.options.load()
    }

    /// All options, to keep.
    pub(crate) fn load_full(&self) -> Arc<FamilyOptions> {
        self.options.load_full()
    }

    /// Bytes at which a memtable is frozen.
    #[inline]
    pub(crate) fn freeze_bytes(&self) -> u64 {
        self.freeze_bytes.load(Ordering::Relaxed)
    }

    /// Whether each commit is synced.
    #[inline]
    pub(crate) fn syncs_commits(&self) -> bool {
        self.syncs_commits.load(Ordering::Relaxed)
    }

    /// Bounds the size of memtables, whatever the options say.
    pub(crate) fn limit_freeze_bytes(&self, most: u64) {
        self.most_freeze_bytes.store(most, Ordering::Relaxed);
        self.set_freeze_bytes(&self.options.load());
    }

    fn set_freeze_bytes(&self, options: &FamilyOptions) {
        let most = self.most_freeze_bytes.load(Ordering::Relaxed);
        self.freeze_bytes.store(freeze_bytes(options).min(most), Ordering::Relaxed);
    }

    /// Puts other options in force.
    pub(super) fn replace(&self, options: Arc<FamilyOptions>) {
        self.set_freeze_bytes(&options);
        self.syncs_commits.store(options.sync_mode == SyncMode::Full, Ordering::Relaxed);
        self.options.store(options);
    }
}

/// A memtable is frozen at half of the write buffer. All memtables of a family may take
/// twice that together, so the next one can fill while this one is written out.
pub(super) const fn freeze_bytes(options: &FamilyOptions) -> u64 {
    options.write_buffer_size as u64 / 2
}
