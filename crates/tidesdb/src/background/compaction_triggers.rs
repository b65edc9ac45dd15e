//! Starts checks for compactions without a write: when snapshots end, and when time passes.
//!
//! Timers are the database's and not of its families. The code that looks for work of a family has
//! one set for when more of it will have expired, unless one goes off before that. It looks at the
//! families whose time has come, some of them by each job. Those which wait cost next to nothing
//! until then, and those without such values nothing at all. Times are rounded up, and so shared.
//! The time comes each hour while anything expires some day: that tries again what has failed, and
//! follows a clock that was put ahead.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidesdb_lockfree::sync::lock;
use tidesdb_sys::sched::Lane;
use tidesdb_sys::sync_points::sync_point;

use crate::compaction::expiry::{ExpiryRules, first_expiry, first_held, next_look};
use crate::core::Core;
use crate::family::FamilyState;
use crate::version::Version;

/// Seconds between two timers at least.
const LEAST_SECONDS: u64 = 10;

/// Seconds until a timer goes off at most, and until a family of which something has expired is
/// looked at again.
const MOST_SECONDS: u64 = 3600;

/// Families that are looked at before others in the lane have their turn.
const FAMILIES_PER_LOOK: usize = 16;

impl Core {
    /// When only snapshots keep versions in the family's tables, has compactions scheduled again as
    /// these snapshots go: without it, what a long reader held would stay until the next write.
    pub(super) fn watch_holders(&self, family: &FamilyState) {
        let version = family.current_version();
        if let Some(expired) = first_held(&version, &self.expiry_rules(family)) {
            family.compactions.await_snapshots();
            self.isolation.watch_snapshot_before(expired);
        }
        if self.has_held_garbage(family, &version) {
            // Each run is held by the last snapshot before its newest version, if by any.
            family.compactions.await_snapshots();
            let newest = version.runs.iter().map(|run| run.totals.counts.newest);
            newest.for_each(|newest| self.isolation.watch_snapshot_before(newest));
        }
        self.watch_range_deletions(family, &version);
        self.watch_time_before(family, first_expiry(&version));
        self.watch_time_before(
            family,
            next_look(&family.compactions.expiry, &version, &self.expiry_rules(family)),
        );
    }

    /// Range deletions that hide something in tables hide nothing for a snapshot that is older:
    /// how much there will be without it is not known before it has gone.
    fn watch_range_deletions(&self, family: &FamilyState, version: &Version) {
        if version.range_tombstones.is_empty() {
            return;
        }
        let snapshots = self.isolation.snapshots.list();
        if snapshots.is_empty() {
            return;
        }
        // A deletion for each snapshot that is the last before one: there may be very many.
        let mut held = BTreeMap::new();
        for tombstone in version.range_tombstones.iter() {
            let older = snapshots.partition_point(|&snapshot| snapshot < tombstone.sequence);
            if older > 0 {
                held.insert(older, tombstone.sequence);
            }
        }
        if !held.is_empty() {
            family.compactions.await_snapshots();
            held.into_values().for_each(|deletion| self.isolation.watch_snapshot_before(deletion));
        }
    }

    /// When snapshots still see what expired at `time`, and the clock has passed that, watches the
    /// oldest of them.
    fn watch_time_before(&self, family: &FamilyState, time: Option<u64>) {
        loop {
            let (oldest, now) = (self.expired_for_all(), self.env.clock.unix_seconds());
            let is_held = time.is_some_and(|time| oldest < time && time <= now);
            if !is_held {
                return;
            }
            family.compactions.await_snapshots();
            if self.isolation.snapshots.watch_time(oldest) {
                return;
            }
        }
    }

    /// Queues another look at the family for when more of it will have expired.
    pub(super) fn await_expiry(&self, family: &FamilyState) {
        sync_point("look for expired");
        // Not by the time of the oldest snapshot, which may be long ago: what has expired since is
        // looked at when that goes (`watch_holders`), and a timer would go off again and again.
        let now = self.env.clock.unix_seconds();
        let rules = ExpiryRules { now, ..self.expiry_rules(family) };
        if let Some(time) = next_look(&family.compactions.expiry, &family.current_version(), &rules)
        {
            let soon = time.min(now.saturating_add(MOST_SECONDS));
            // ORDERING: relaxed; a look too many or an hour late.
            family.compactions.expiry_look.store(soon, Ordering::Relaxed);
            self.set_expiry_timer(time);
        }
    }

    fn set_expiry_timer(&self, time: u64) {
        let now = self.env.clock.unix_seconds();
        let soon = time.clamp(now.saturating_add(1), now.saturating_add(MOST_SECONDS));
        let time = soon.div_ceil(LEAST_SECONDS).saturating_mul(LEAST_SECONDS);
        let mut timers = lock(&self.work.jobs.expiry_timers);
        if self.health.is_closed() || timers.first().is_some_and(|&first| first <= time) {
            return;
        }
        timers.insert(time);
        drop(timers);
        let core = self.this.clone();
        let look = move || {
            let Some(core) = core.upgrade() else { return };
            lock(&core.work.jobs.expiry_timers).remove(&time);
            if !core.health.is_closed() {
                core.look_for_expired();
            }
        };
        let delay = Duration::from_secs(time.saturating_sub(now));
        self.env.scheduler.submit_after(Lane::Housekeeping, delay, Box::new(look));
    }

    fn look_for_expired(&self) {
        let now = self.env.clock.unix_seconds();
        let mut families = self.families.all();
        let times = families.iter().filter_map(|family| expiry_due_at(family, now));
        if let Some(next) = times.filter(|&time| time > now).min() {
            self.set_expiry_timer(next);
        }
        families.retain(|family| is_expiry_due(family, now));
        self.look_at_expired(families);
    }

    /// Has compactions scheduled of some of the families that are due; another job does what is
    /// left.
    fn look_at_expired(&self, mut families: Vec<Arc<FamilyState>>) {
        let left = families.split_off(families.len().min(FAMILIES_PER_LOOK));
        // Another timer may have gone off meanwhile, and have had them looked at.
        let now = self.env.clock.unix_seconds();
        families.retain(|family| is_expiry_due(family, now));
        families.iter().for_each(|family| self.schedule_compaction(family));
        if !left.is_empty() && !self.health.is_closed() {
            // Behind what else waits in the lane: the next log segment may be among it.
            self.submit(Lane::Housekeeping, move |core| core.look_at_expired(left));
        }
    }
}

/// When the family is to be looked at because of what has expired; `None` when nothing ever will.
fn expiry_due_at(family: &FamilyState, now: u64) -> Option<u64> {
    let first = first_expiry(&family.current_version())?;
    // ORDERING: see `await_expiry`. None was ever noted: that is long ago.
    let noted = family.compactions.expiry_look.load(Ordering::Relaxed);
    Some(if first > now { first } else { noted })
}

fn is_expiry_due(family: &FamilyState, now: u64) -> bool {
    expiry_due_at(family, now).is_some_and(|time| time <= now)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use tidesdb_base::options::{DbOptions, FamilyOptions};
    use tidesdb_sim::{ManualClock, ManualScheduler, SimVfs};
    use tidesdb_sys::clock::Clock;
    use tidesdb_sys::sync_points::on_sync_points;

    use super::*;
    use crate::db::{Components, Db};

    fn open() -> (Db, Arc<ManualScheduler>, Arc<ManualClock>) {
        let (scheduler, clock) =
            (Arc::new(ManualScheduler::new(1)), Arc::new(ManualClock::new(1000)));
        let components = Components {
            vfs: SimVfs::new(1),
            scheduler: Arc::clone(&scheduler) as _,
            clock: Arc::clone(&clock) as _,
        };
        (Db::open_with("/db", DbOptions::default(), components).unwrap(), scheduler, clock)
    }

    /// A timer went off every ten seconds for as long as a snapshot lived.
    #[test]
    fn what_a_snapshot_holds_is_looked_at_when_that_goes() {
        let (db, scheduler, clock) = open();
        let options = FamilyOptions::default().min_disk_space(0);
        let family = db.create_family("family", options).unwrap();
        // The first has expired before the snapshot, the others after it.
        for (n, expires_at) in [(0_u64, 1010_u64), (1, 1200), (2, 1300)] {
            for key in 0..100_u64 {
                let ttl = Duration::from_secs(expires_at - clock.unix_seconds());
                family.put_with_ttl((n << 32 | key).to_be_bytes(), [7; 100], ttl).unwrap();
            }
        }
        family.flush().unwrap();
        clock.advance(Duration::from_secs(100));
        let snapshot = db.snapshot();
        clock.advance(Duration::from_secs(400));
        db.core().schedule_compaction(family.state());
        scheduler.run_until_idle();
        lock(&db.core().work.jobs.expiry_timers).clear();
        db.core().schedule_compaction(family.state());
        scheduler.run_until_idle();
        let next = lock(&db.core().work.jobs.expiry_timers).first().copied();
        assert!(next.is_none_or(|next| next > clock.unix_seconds() + 1000), "{next:?}");
        drop(snapshot);
        scheduler.run_until_idle();
        assert_eq!(family.state().current_version().tables().count(), 0);
    }

    /// One job looked at all families of which something had expired.
    #[test]
    fn families_are_looked_at_when_their_time_comes_and_some_at_once() {
        const FAMILIES: usize = 40;
        let (db, scheduler, clock) = open();
        for n in 0..FAMILIES {
            let options = FamilyOptions::default().min_disk_space(0);
            let family = db.create_family(&n.to_string(), options).unwrap();
            // An eighth of the table expires at 1100, too little for a compaction. Of one family
            // another eighth does at 1200.
            for key in 0..80_u64 {
                let seconds = match key {
                    0..10 => 100,
                    10..20 if n == 7 => 200,
                    _ => 100_000,
                };
                let ttl = Duration::from_secs(seconds);
                family.put_with_ttl(key.to_be_bytes(), [7; 100], ttl).unwrap();
            }
            family.flush().unwrap();
        }
        scheduler.run_until_idle();
        let looks = Rc::new(Cell::new(0));
        let counted = Rc::clone(&looks);
        on_sync_points(Some(Rc::new(move |place| {
            counted.set(counted.get() + usize::from(place == "look for expired"));
        })));
        let mut at_once = Vec::new();
        let mut look = || {
            db.core().look_for_expired();
            at_once.push(looks.take());
            while scheduler.step_lane(Lane::Housekeeping) {
                at_once.push(looks.take());
            }
            std::mem::take(&mut at_once)
        };
        assert_eq!(look(), [0]);
        clock.advance(Duration::from_secs(110));
        assert_eq!(look(), [16, 16, 8]);
        assert_eq!(look(), [0], "all were looked at");
        clock.advance(Duration::from_secs(100));
        let due = look().into_iter().sum::<usize>();
        assert!(due <= 1, "{due} families");
        // What has failed meanwhile is tried again.
        clock.advance(Duration::from_secs(3600));
        assert_eq!(look(), [16, 16, 8]);
        on_sync_points(None);
    }
}
