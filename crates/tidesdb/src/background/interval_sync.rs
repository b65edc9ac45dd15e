//! The timer of interval syncs.

use std::sync::Weak;
use std::time::Duration;

use tidesdb_base::options::SyncMode;
use tidesdb_lockfree::sync::lock;
use tidesdb_sys::sched::Lane;

use crate::core::{Core, SyncTimer};

impl Core {
    /// Sees to it that the timer of [`SyncMode::Interval`] has the shortest interval that the
    /// database or a family asks for. What was due stays due, however often that changes.
    pub(crate) fn set_interval_sync(&self) {
        if self.env.options.read_only {
            return;
        }
        // Held while the options are looked at: of two changes at once the later sees both.
        let mut timer = lock(&self.work.control.sync_timer);
        let families = self.families.all();
        let modes = families.iter().map(|family| family.options.load().sync_mode);
        let intervals = modes.chain([self.env.options.sync_mode]).filter_map(|mode| match mode {
            SyncMode::Interval { interval_us } => Some(Duration::from_micros(interval_us)),
            _ => None,
        });
        let shortest = intervals.min();
        if timer.interval == shortest {
            return;
        }
        let before = std::mem::replace(&mut timer.interval, shortest);
        timer.number += 1;
        let Some(interval) = shortest else { return };
        let now = self.env.clock.monotonic_nanos();
        let left = before.map(|_| Duration::from_nanos(timer.due_nanos.saturating_sub(now)));
        self.sync_after(&mut timer, left.map_or(interval, |left| left.min(interval)));
    }

    fn sync_after(&self, timer: &mut SyncTimer, delay: Duration) {
        let nanos = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        timer.due_nanos = self.env.clock.monotonic_nanos().saturating_add(nanos);
        let (core, number) = (self.this.clone(), timer.number);
        self.env.scheduler.submit_after(
            Lane::Sync,
            delay,
            Box::new(move || sync_when_due(&core, number)),
        );
    }
}

/// Syncs, and starts the timer again, unless another has taken its place.
fn sync_when_due(core: &Weak<Core>, number: u64) {
    let Some(core) = core.upgrade() else { return };
    if core.health.is_closed() || lock(&core.work.control.sync_timer).number != number {
        return;
    }
    let published = core.storage.log.published();
    if published > core.storage.log.synced() && core.storage.log.sync_through(published).is_err() {
        core.repair_log_later();
    }
    let mut timer = lock(&core.work.control.sync_timer);
    if let Some(interval) = timer.interval.filter(|_| timer.number == number) {
        core.sync_after(&mut timer, interval);
    }
}

#[cfg(test)]
mod tests {
    use tidesdb_base::options::{DbOptions, FamilyOptions};

    use super::*;
    use crate::db::{Components, Db};

    /// The log was synced as often as a family had asked for that was gone.
    #[test]
    fn a_family_that_is_dropped_asks_for_no_sync_any_more() {
        let db = Db::open_with("/db", DbOptions::default(), Components::simulated()).unwrap();
        let every =
            |interval_us| FamilyOptions::default().sync_mode(SyncMode::Interval { interval_us });
        let interval = || lock(&db.core().work.control.sync_timer).interval;
        db.create_family("seldom", every(3_600_000_000)).unwrap();
        db.create_family("often", every(1_000)).unwrap();
        assert_eq!(interval(), Some(Duration::from_millis(1)));
        db.drop_family("often").unwrap();
        assert_eq!(interval(), Some(Duration::from_secs(3600)));
        db.drop_family("seldom").unwrap();
        assert_eq!(interval(), None);
    }
}
