//! The background as lower layers ask it; see `core/requests.rs`.

use crate::core::{BackgroundRequests, Core};

/// Each request is one function of this module.
pub(crate) const BACKGROUND: BackgroundRequests = BackgroundRequests {
    schedule_flush: Core::queue_flush,
    schedule_compaction: Core::queue_compaction,
    look_at_deletions_later: Core::set_deletions_timer,
    trim_log_later: Core::queue_log_trim,
    repair_log_later: Core::queue_log_repair,
    sync_by_repair: Core::repair_and_sync,
    make_room: Core::free_disk_and_retry,
    reclaim_disk: Core::reclaim_disk_now,
};
