//! The timer of interval syncs.

use std::sync::Weak;
use std::time::Duration;

use tidesdb_base::options::SyncMode;
use tidesdb_sys::sched::Lane;

use crate::core::Core;

impl Core {
    /// Starts the timer of [`SyncMode::Interval`]: the shortest interval that the database or a
    /// family asks for.
    pub(crate) fn start_interval_sync(&self) {
        if self.env.options.read_only {
            return;
        }
        // Whatever timer there was ends, also when none is asked for any more.
        let timer = self.work.control.next_sync_timer();
        let families = self.families.all();
        let modes = families.iter().map(|family| family.options.load().sync_mode);
        let intervals = modes.chain([self.env.options.sync_mode]).filter_map(|mode| match mode {
            SyncMode::Interval { interval_us } => Some(interval_us),
            _ => None,
        });
        if let Some(interval_us) = intervals.min() {
            let timer = (timer, Duration::from_micros(interval_us));
            schedule_sync(self.this.clone(), self, timer);
        }
    }
}

fn schedule_sync(core: Weak<Core>, now: &Core, timer: (u64, Duration)) {
    let job = move || {
        let Some(strong) = core.upgrade() else { return };
        if strong.health.is_closed() || !strong.work.control.is_sync_timer(timer.0) {
            return;
        }
        let published = strong.storage.log.published();
        if published > strong.storage.log.synced()
            && strong.storage.log.sync_through(published).is_err()
        {
            strong.repair_log_later();
        }
        schedule_sync(core, &strong, timer);
    };
    now.env.scheduler.submit_after(Lane::Sync, timer.1, Box::new(job));
}
