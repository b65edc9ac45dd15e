//! How much log is kept for families that are rarely written.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::core::Core;
use crate::family::FamilyState;

/// Unless the options say how much, one in so many bytes of a volume is kept at most.
const SHARE_OF_VOLUME: u64 = 8;

impl Core {
    /// When the log has grown past its bound, writes out the families that keep it alive though
    /// they are rarely written. One job does it for some of them at a time, concurrently with the
    /// flushes that writers wait for.
    pub(super) fn limit_retained_log(&self) {
        if self.storage.log.retained_file_bytes() <= self.retained_log_bound() {
            return;
        }
        // ORDERING: the swap decides which caller queues the job.
        if !self.work.control.log_is_trimmed.swap(true, Ordering::SeqCst) {
            self.trim_log_later();
        }
    }

    fn retained_log_bound(&self) -> u64 {
        match self.env.options.max_retained_log_bytes {
            0 => {
                let families = self.families.all();
                let sizes = families.iter().map(|f| f.options.load().write_buffer_size as u64);
                let usual = sizes.max().unwrap_or(0).saturating_mul(4).max(256 << 20);
                // The log that an idle family keeps would fill a small volume.
                let volume = self.env.vfs.volume_bytes(&self.env.path).unwrap_or(u64::MAX);
                usual.min(volume / SHARE_OF_VOLUME)
            }
            bytes => bytes,
        }
    }

    /// The families, oldest commit first, whose unflushed commits lie in the older half of the
    /// log that may be kept.
    pub(crate) fn families_pinning_log(&self, most: usize) -> Vec<Arc<FamilyState>> {
        let keep_from = self.storage.log.newest_from(self.retained_log_bound() / 2);
        let families = self.families.all().into_iter();
        let mut pinning: Vec<_> = families
            .map(|family| (family.view.load().first_unflushed(), family))
            .filter(|(first, _)| *first < keep_from)
            .collect();
        pinning.sort_by_key(|(first, _)| *first);
        pinning.into_iter().take(most).map(|(_, family)| family).collect()
    }
}
